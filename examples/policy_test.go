package examples

import (
	"os"
	"os/exec"
	"testing"
)

// The module examples/policy stands for any author's module: it is built outside
// this module, against its public packages. TestPolicyPage runs its other tests, which are on the page.
func TestPolicyModule(t *testing.T) {
	for _, args := range [][]string{{"vet", "./..."}, {"test", "-run", "TestStudy", "."}} {
		c := exec.Command("go", args...)
		c.Dir = "policy"
		c.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS="+os.Getenv("GOFLAGS")+" -trimpath") // as TestPolicyPage builds
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("go %s in examples/policy: %v\n%s\nIf go.mod has changed, run: cd examples/policy && go get -t .", args[0], err, out)
		}
	}
}
