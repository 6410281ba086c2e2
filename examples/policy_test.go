package examples

import (
	"os"
	"os/exec"
	"testing"
)

// The module examples/policy stands for any author's module: it is built outside
// this module, against its public packages. TestPolicyPage runs its tests.
func TestPolicyModule(t *testing.T) {
	c := exec.Command("go", "vet", "./...")
	c.Dir = "policy"
	c.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS="+os.Getenv("GOFLAGS")+" -trimpath") // as TestPolicyPage builds
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go vet in examples/policy: %v\n%s\nIf go.mod has changed, run: cd examples/policy && go get -t .", err, out)
	}
}
