package master

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFailedOpenClosesFiles opens a master with a policy that cannot be built, which comes out
// after the stores are open.
func TestFailedOpenClosesFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m, err := Open(Config{Dir: dir, Policy: "nonsense"})
	if err == nil {
		t.Fatal("a master with an unknown policy has started", m.Close())
	}
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		// The descriptor of Glob's own directory is closed by now.
		if to, err := os.Readlink(l); err == nil && strings.HasPrefix(to, dir) {
			t.Errorf("%s is still open", to)
		}
	}
}
