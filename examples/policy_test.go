package examples

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The module examples/policy is one that anybody could write: it is built and
// tested outside this module, against its public packages.
func TestPolicyModule(t *testing.T) {
	goIn(t, "policy", "vet", "./...")
	goIn(t, "policy", "test", "./...")
}

// goIn runs the go command in a directory. The directory's go.mod decides what is
// built, not a workspace around it.
func goIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	c := exec.Command("go", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOWORK=off")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go %s in %s: %v\n%s", strings.Join(args, " "), dir, err, out)
	}
}
