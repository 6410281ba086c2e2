package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/secure"
	"github.com/slotwise/slotwise/internal/webui"
)

// newUI returns the command that serves the pages of a history.
func newUI() *cobra.Command {
	listen := ""
	c := &cobra.Command{
		Use:   "ui history:DIR",
		Short: "Show the history of a cluster in a browser",
		Long: `Serves the web console's pages about the jobs in a master's history, until an
interrupt: lists to search and filter, timelines, stragglers, times of tasks, and two runs
side by side. DIR is the directory of a master, which need not run, or a copy of it.
Nothing in DIR is changed. The pages of a running master are at the master's own address.`,
		Example: `  slotwise ui history:/var/lib/slotwise
  slotwise ui history:m --listen 127.0.0.1:8080`,
		Args: oneArg("history"),
		RunE: func(c *cobra.Command, args []string) error {
			dir, ok := strings.CutPrefix(args[0], "history:")
			if !ok || dir == "" {
				return misuse("%q: want history:DIR, the directory of a master", args[0])
			}
			archive, err := webui.OpenArchive(dir)
			if err != nil {
				return misuse("history: %w", err)
			}
			defer archive.Close()
			return serveUI(c.Context(), archive, listen, c.ErrOrStderr())
		},
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:7078", "`address` to serve at, on this machine only; port 0 chooses one")
	return c
}

// serveUI serves a console without actions on loopback until ctx ends.
func serveUI(ctx context.Context, source webui.Source, listen string, stderr io.Writer) error {
	guard := &secure.Guard{}
	l, err := secure.Listen(listen, nil, guard)
	if err != nil {
		return misuse("--listen %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", http.RedirectHandler(webui.Root, http.StatusSeeOther))
	mux.Handle(webui.Root, webui.New(ctx, source, nil, version()))
	srv := secure.NewServer(mux, guard)
	fmt.Fprintf(stderr, "slotwise: the pages are at http://%s%s; interrupt to end\n", l.Addr(), webui.Root)
	stop := context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = srv.Shutdown(last) // requests under way may end
		_ = srv.Close()
	})
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
