package cli

import (
	"context"
	"errors"
	"io"
	"text/tabwriter"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/client"
)

// clusterFlags say which master a command speaks to, and as whom.
type clusterFlags struct {
	peerFlags
	master string
}

// register declares the flags.
func (f *clusterFlags) register(c *cobra.Command) {
	s := c.Flags()
	s.SortFlags = false
	s.StringVar(&f.master, "master", defaultMaster, "`address` of the master: host:port or a URL")
	f.peerFlags.register(c)
}

// client makes a client of the master. Nothing is sent yet.
func (f *clusterFlags) client() (*client.Client, error) {
	address, http, err := f.dial(f.master)
	if err != nil {
		return nil, err
	}
	c, err := client.New(address, client.Options{HTTP: http})
	if err != nil {
		return nil, misuse("--%w", err)
	}
	return c, nil
}

// userCommand is a command that asks a master something.
type userCommand struct {
	clusterFlags
	format string
	cmd    *cobra.Command
	cl     *client.Client
}

// newUserCommand finishes a command that asks a master something: its flags,
// its settings, and the call of run with a client.
func newUserCommand(c *cobra.Command, listing bool, run func(ctx context.Context, u *userCommand, args []string) error) *cobra.Command {
	u := &userCommand{cmd: c}
	u.register(c)
	if listing {
		addFormat(c, &u.format)
	}
	c.Long += masterNote
	addSettings(c, func(c *cobra.Command, args []string) error {
		if listing {
			if err := oneOf("format", u.format, listFormats); err != nil {
				return err
			}
		}
		var err error
		if u.cl, err = u.client(); err != nil {
			return err
		}
		return said(run(c.Context(), u, args))
	})
	return c
}

// said takes the words of the protocol out of what the master said. What the
// master finds wrong with the words of a request is misuse.
func said(err error) error {
	if err == nil || errors.As(err, new(misuseError)) || errors.Is(err, context.Canceled) {
		return err
	}
	text := errors.New(client.Message(err))
	if connect.CodeOf(err) == connect.CodeInvalidArgument {
		return misuseError{text}
	}
	return text
}

// json reports whether the listing is to be JSON.
func (u *userCommand) json() bool { return u.format == "json" }

// out is where results go.
func (u *userCommand) out() io.Writer { return u.cmd.OutOrStdout() }

// table makes a writer of columns.
func table(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }
