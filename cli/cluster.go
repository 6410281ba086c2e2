package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"text/tabwriter"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/live/client"
	"github.com/slotwise/slotwise/internal/live/secure"
)

// clusterFlags select the master of a command, and the identity that the
// command presents to it.
type clusterFlags struct {
	peerFlags
	master string
}

// register declares the flags.
func (f *clusterFlags) register(c *cobra.Command) {
	s := c.Flags()
	s.SortFlags = false
	s.StringVar(&f.master, "master", defaultMaster, "`address` of the master: host:port or a URL; of several masters a list with commas")
	f.peerFlags.register(c)
}

// client returns a client of the master. It sends nothing yet. notify receives what calls
// wait for; it may be nil.
func (f *clusterFlags) client(notify func(text string)) (*client.Client, error) {
	address, http, err := f.dial(f.master)
	if err != nil {
		return nil, err
	}
	c, err := client.New(address, client.Options{HTTP: http, Notify: notify})
	if err != nil {
		return nil, misuse("--master: %w", err)
	}
	return c, nil
}

// userCommand is a command that makes requests to a master. cl is set before run is called, and
// asJSON when the flags are parsed.
type userCommand struct {
	clusterFlags
	asJSON bool
	cmd    *cobra.Command
	cl     *client.Client
}

// asking is the key of the annotation of commands that ask about jobs, nodes or masters. Their
// failure says nothing about a job.
const asking = "asks"

// newUserCommand completes a command that makes requests to a master: it adds
// flags and settings, and calls run with a client. listing adds the flag -o.
func newUserCommand(c *cobra.Command, listing bool, run func(ctx context.Context, u *userCommand, args []string) error) *cobra.Command {
	u := &userCommand{cmd: c}
	u.register(c)
	if listing {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[asking] = "a master"
		addListingPrint(c, &u.asJSON)
	}
	c.Long += masterNote
	addSettings(c, func(c *cobra.Command, args []string) error {
		var err error
		// Waiting for the master is said on standard error even by commands that print JSON: there is no
		// --quiet, and a script's log should show why it took so long.
		if u.cl, err = u.client(notifyOn(c.ErrOrStderr(), c.Root().Name())); err != nil {
			return err
		}
		return userError(run(c.Context(), u, args))
	})
	return c
}

// userError turns an error of a request into one for the user, without the words of the protocol.
// An invalid argument counts as misuse: the master has checked what this command cannot, such as
// the name of a pool. A cancelled context passes, for report to recognise the interrupt.
func userError(err error) error {
	// A command's own misuse has its text already.
	if err == nil || errors.As(err, new(misuseError)) || errors.Is(err, context.Canceled) {
		return err
	}
	text := errors.New(client.Message(err))
	if connect.CodeOf(err) == connect.CodeInvalidArgument {
		return misuseError{text}
	}
	return text
}

// json reports whether -o asks for JSON.
func (u *userCommand) json() bool { return u.asJSON }

// out returns the writer of results, which escapes. Logs go around it; see newLogs.
func (u *userCommand) out() io.Writer { return u.cmd.OutOrStdout() }

// table returns a writer that aligns columns separated by tabs. It holds all rows until Flush,
// since a column is as wide as its longest cell. Cells are written by terminal.Fprintf: a tab or a
// line end in a job's name would begin another cell or row.
func table(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// tlsFlags name the certificate files of a process. Servers and clients have the same three flags:
// each side proves its role with its certificate and verifies the other's with the authority's.
type tlsFlags struct{ files secure.Files }

// register declares the flags. peers names the processes that the authority
// certifies.
func (f *tlsFlags) register(c *cobra.Command, peers string) {
	s := c.Flags()
	s.StringVar(&f.files.CA, "tls-ca", "", "`file` with the certificate of the authority that certifies "+peers)
	s.StringVar(&f.files.Cert, "tls-cert", "", "`file` with this process's certificate")
	s.StringVar(&f.files.Key, "tls-key", "", "`file` with the key of that certificate")
}

// serverFlags configure how a server authenticates its clients: by certificates, by tokens, or by
// both, of which a client needs one. With neither it serves this machine only.
type serverFlags struct {
	tlsFlags
	tokens string
}

// register declares the flags.
func (f *serverFlags) register(c *cobra.Command) {
	f.tlsFlags.register(c, "others")
	c.Flags().StringVar(&f.tokens, "tokens", "", "`file` with the tokens of clients and workers; see slotwise token")
}

// serve listens at the address. It returns the listener and the guard that authenticates requests.
// Without certificates and tokens the guard lets only requests pass that are addressed to localhost
// or an IP address, and secure.Listen decides whether the address needs more.
func (f *serverFlags) serve(address string, log *slog.Logger) (net.Listener, *secure.Guard, error) {
	// Probes of Kubernetes and load balancers have no identity.
	g := &secure.Guard{Public: []string{"/healthz", "/readyz"}, Log: log}
	var config *tls.Config
	var err error
	if f.files != (secure.Files{}) {
		if config, err = secure.ServerTLS(f.files, secure.Master); err != nil {
			return nil, nil, misuseError{err}
		}
		g.Certificates = f.files.CA != ""
	}
	if f.tokens != "" {
		if g.Tokens, err = secure.OpenTokens(f.tokens, log); err != nil {
			return nil, nil, misuse("--tokens: %w", err)
		}
	}
	l, err := secure.Listen(address, config, g)
	if err != nil {
		return nil, nil, misuse("--listen %w", err)
	}
	return l, g, nil
}

// workers returns the HTTP client and the URL scheme for a master's requests to
// its workers. A worker proves its role by a certificate; without an authority
// the client is nil.
func (f *serverFlags) workers() (*http.Client, string, error) {
	if f.files.CA == "" {
		return nil, "", nil
	}
	config, err := secure.WorkerTLS(f.files)
	if err != nil {
		return nil, "", misuseError{err}
	}
	return secure.Client(config, ""), "https", nil
}

// peerFlags configure the identity of a command towards the master: a certificate or a token. The
// token is in a file, because other users see the arguments of a process.
type peerFlags struct {
	tlsFlags
	tokenFile string
}

// register declares the flags.
func (f *peerFlags) register(c *cobra.Command) {
	f.tlsFlags.register(c, "masters")
	c.Flags().StringVar(&f.tokenFile, "token-file", "", "`file` with the token that identifies you")
}

// dial returns the master's URL and an HTTP client for requests. It sends
// nothing yet.
func (f *peerFlags) dial(master string) (string, *http.Client, error) {
	url, cl, err := secure.Dial(master, f.files, f.tokenFile)
	if err != nil {
		return "", nil, misuseError{err}
	}
	return url, cl, nil
}
