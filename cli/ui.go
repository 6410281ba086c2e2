package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/console"
	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/internal/live/history"
	"github.com/slotwise/slotwise/internal/live/pages"
	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/mapreduce"
)

// newUI returns the command that serves the pages of a history.
func newUI() *cobra.Command {
	listen := ""
	c := &cobra.Command{
		Use:   "ui history:DIR | RESULTS",
		Short: "Show the history of a cluster, or results of simulations, in a browser",
		Long: `Serves the web console's pages about the jobs in a master's history, until an
interrupt: lists to search and filter, timelines, stragglers, times of tasks, and two runs
side by side. DIR is the directory of a master, which need not run, or a copy of it.
Nothing in DIR is changed. The pages of a running master are at the master's own address.

With RESULTS, the directory of sim --out, it shows how the policies compare, the figures,
and the jobs and attempts of each run, also two runs of a job side by side. With the
directory of a study it shows the means, comparisons, runs and plots of the study.`,
		Example: `  slotwise ui history:/var/lib/slotwise
  slotwise ui history:m --listen 127.0.0.1:8080
  slotwise ui results
  slotwise ui study.study`,
		Args: oneArg("history:DIR or a directory of results"),
		RunE: func(c *cobra.Command, args []string) error {
			dir, ok := strings.CutPrefix(args[0], "history:")
			switch {
			case dir == "":
				return misuse("%q: want history:DIR, the directory of a master, or the directory of sim --out or of a study", args[0])
			case !ok:
				// Without the prefix the directory is one of results, which has no lock and no database.
				results, err := console.OpenResults(dir)
				if err != nil {
					return misuse("%s: no results of sim --out or of a study: %w; for a master's history write history:DIR", dir, err)
				}
				return serveUI(c.Context(), results, listen, c.ErrOrStderr())
			}
			// It only reads, so the master that owns the directory may run.
			archive, err := pages.OpenArchive(dir)
			if err != nil {
				return misuse("history: %w", err)
			}
			defer archive.Close()
			return serveUI(c.Context(), archive, listen, c.ErrOrStderr())
		},
	}
	// Another port than the master's, so that both can run on one machine.
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:7078", "`address` to serve at, on this machine only; port 0 chooses one")
	return c
}

// serveUI serves a console without actions on loopback until ctx ends.
func serveUI(ctx context.Context, from source.Source, listen string, stderr io.Writer) error {
	served, err := startUI(ctx, "--listen", from, listen)
	if err != nil {
		return err
	}
	terminal.Fprintf(stderr, "slotwise: the pages are at %s; interrupt to end\n", served.url)
	select {
	case err := <-served.ended:
		return err
	case <-ctx.Done():
		served.stop()
		return nil
	}
}

// uiServer serves a console until stop is called. ended gets the server's error, or nil's
// equivalent http.ErrServerClosed after stop, which no command reads.
type uiServer struct {
	url   string
	ended chan error
	stop  func() // returns when requests under way have ended, or after a second
}

// startUI starts to serve a console without actions on loopback. Errors name the flag. There are no
// tokens: the guard accepts requests from this machine, addressed to localhost or an address, so
// that a page of a foreign site cannot read the history through the user's browser.
func startUI(ctx context.Context, flag string, from source.Source, listen string) (*uiServer, error) {
	// secure.Listen would ask for flags that these commands lack.
	if at, err := net.ResolveTCPAddr("tcp", listen); err == nil && !at.IP.IsLoopback() {
		return nil, misuse("%s %s: the pages are for this machine only; listen on 127.0.0.1", flag, listen)
	}
	guard := &secure.Guard{}
	l, err := secure.Listen(listen, nil, guard)
	if err != nil {
		return nil, misuse("%s %w", flag, err)
	}
	// Ends the streams of open pages, for which Shutdown would wait.
	ctx, cancel := context.WithCancel(ctx)
	shown := console.New(ctx, from, nil, pages.Visitor, version())
	if _, past := from.(source.Past); !past { // else nothing happens there
		go shown.Follow()
	}
	mux := http.NewServeMux()
	// The pages are below the same path as a master's, so links between them work in both.
	mux.Handle("GET /{$}", http.RedirectHandler(source.Root, http.StatusSeeOther))
	mux.Handle(source.Root, shown)
	srv := secure.NewServer(mux, guard)
	u := &uiServer{url: fmt.Sprintf("http://%s%s", l.Addr(), source.Root), ended: make(chan error, 1)}
	go func() { u.ended <- srv.Serve(l) }()
	u.stop = func() {
		cancel()
		last, done := context.WithTimeout(context.Background(), time.Second)
		defer done()
		_ = srv.Shutdown(last) // requests under way may end
		_ = srv.Close()
	}
	return u, nil
}

// watching holds the observer of a run with --ui or --history, and the function that ends it.
// features is empty without either flag, so a run without them has no observer to call.
type watching struct {
	features []mapreduce.Feature
	end      func() error // ends the pages, and waits until the history is durable
}

// watch starts the pages of --ui and opens the history of --history. The history is closed
// again if a later step fails.
func (f *runFlags) watch(c *cobra.Command) (*watching, error) {
	w := &watching{end: func() error { return nil }}
	if f.ui == "" && f.history == "" {
		return w, nil
	}
	var store *history.Store
	var lock io.Closer
	if f.history != "" {
		// Entries are named by the job's number: the run's j1 would replace the master's.
		if master := masterOf(f.history); master != "" {
			return nil, misuse("--history %s: %s is the directory of a master, whose jobs have the same numbers; name another directory", f.history, master)
		}
		damaged := func(aside string, err error) {
			terminal.Fprintf(c.ErrOrStderr(), "slotwise: --history: the history in %s was damaged and begins anew: %v; the damaged database is kept as %s\n", f.history, err, aside)
		}
		var err error
		// Two runs would give the same numbers to their jobs, each from the last one in the
		// history.
		if lock, err = history.Lock(f.history); err != nil {
			if errors.Is(err, history.ErrInUse) {
				err = fmt.Errorf("%w; wait for its end, or name another directory", history.ErrInUse)
			}
			return nil, misuse("--history %s: %w", f.history, reason(err))
		}
		if store, err = history.Open(f.history, history.Limits{}, damaged); err != nil {
			return nil, misuse("--history %w", errors.Join(err, lock.Close()))
		}
	}
	closeHistory := func() error {
		if store == nil {
			return nil
		}
		// The lock goes last: another run may then open the history, whole.
		return errors.Join(store.Close(), lock.Close())
	}
	view, err := pages.NewView(c.Context(), store)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--history: %w", err), closeHistory())
	}
	w.features = []mapreduce.Feature{feature.Feature{Observer: view}}
	stop := func() {}
	if f.ui != "" {
		served, err := startUI(c.Context(), "--ui", view, f.ui)
		if err != nil {
			return nil, errors.Join(err, closeHistory())
		}
		terminal.Fprintf(c.ErrOrStderr(), "slotwise: the pages of this run are at %s\n", served.url)
		stop = served.stop
	}
	w.end = func() error {
		// The pages end first: they read the history.
		stop()
		if err := errors.Join(view.Wait(), closeHistory()); err != nil {
			return fmt.Errorf("--history: %w", err)
		}
		return nil
	}
	return w, nil
}

// masterOf returns the directory of the master to which a directory belongs: the directory
// itself, or its parent if the directory is the master's history. It returns "" if there is
// no such master.
func masterOf(dir string) string {
	for _, d := range []string{dir, filepath.Dir(filepath.Clean(dir))} {
		// Any error but "not found" is reported when the history is opened.
		if st, err := os.Stat(filepath.Join(d, "journal")); err == nil && st.IsDir() && (d == dir || filepath.Base(filepath.Clean(dir)) == "history") {
			return d
		}
	}
	return ""
}
