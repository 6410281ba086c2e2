package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The module examples/policy is an example of any author's module: it is built outside
// this module, against its public packages. TestPolicyPage runs its other tests, which are on the page.
func TestPolicyModule(t *testing.T) {
	inModule(t, "policy", []string{"vet", "./..."}, []string{"test", "-run", "TestStudy", "."})
}

// inModule runs go commands in the module of a folder. Its go.mod and go.sum must name all that the
// module's packages and tests need.
func inModule(t *testing.T, module string, commands ...[]string) {
	t.Helper()
	work := workspace(t, t.TempDir(), module)
	for _, args := range append([][]string{{"list", "-deps", "-test", "./..."}}, commands...) {
		c := exec.Command("go", args...)
		c.Dir = module
		c.Env = append(os.Environ(), "GOWORK="+work)
		if args[0] == "list" {
			c.Env = append(c.Env, "GOWORK=off")
		}
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("go %s in examples/%s: %v\n%s\nIf go.mod has changed, run: cd examples/%s && go mod tidy", args[0], module, err, out, module)
		}
	}
}

// workspace writes a file for GOWORK into dir, with the repository and the module in another
// directory, and returns its name. In a workspace Go takes the packages that it has compiled for the
// repository. Outside it would compile all packages again, as a version of a module, which
// takes half a minute of processor time.
func workspace(t *testing.T, dir, module string) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if module, err = filepath.Abs(module); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("go", "work", "init", root, module)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOWORK=") // else it would write the file that GOWORK names
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go work init: %v\n%s", err, out)
	}
	return filepath.Join(dir, "go.work")
}
