package cli

import (
	"io"
	"net"
	"testing"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/live/history"
)

// A run whose pages cannot be served gives the history of --history back, so that another
// run can add its jobs.
func TestFailedPagesReleaseHistory(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c := &cobra.Command{}
	c.SetContext(t.Context())
	c.SetErr(io.Discard)
	f := &runFlags{ui: taken.Addr().String(), history: t.TempDir()}
	if _, err := f.watch(c); err == nil {
		t.Fatal("the pages are served at an address that is taken")
	}
	lock, err := history.Lock(f.history)
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
}
