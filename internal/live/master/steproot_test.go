package master

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// The driver of a chain is code of the chain's owner. It names another user in a step, to
// reach that user's storage root: the step still belongs to the owner.
func TestDriverKeepsItsUser(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m, err := Open(Config{Dir: filepath.Join(dir, "m"), Authenticates: true, StorageRoots: []string{"file://" + dir + "/own/{user}"}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ann := secure.Identity{User: "ann", Role: secure.Driver, Chain: "chain-1"}
	for _, x := range []struct{ named, dir, refused string }{
		{"ann", "ann", ""}, {"", "ann", ""}, {"bob", "ann", ""}, {"bob", "bob", "storage root"}, {"ann", "bob", "storage root"},
	} {
		spec := &slotwisev1.JobSpec{User: x.named, Chain: "chain-1", Program: &slotwisev1.Program{App: "x"}, Synthetic: 1, Output: "file://" + dir + "/own/" + x.dir + "/out"}
		err := m.admit(t.Context(), ann, spec)
		switch {
		case x.refused == "" && (err != nil || spec.User != "ann"):
			t.Errorf("as %q into %s: user %s, %v", x.named, x.dir, spec.User, err)
		case x.refused != "" && (err == nil || !strings.Contains(err.Error(), x.refused)):
			t.Errorf("as %q into %s: %v", x.named, x.dir, err)
		}
	}
}
