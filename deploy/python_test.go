package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/testkit/clustertest"
)

// pythonVersions are the minor versions of Python 3 that the client package supports.
var pythonVersions = []string{"3.10", "3.11", "3.12", "3.13", "3.14"}

// pythons returns the Python programs at hand by version: from pyenv, else from the PATH.
func pythons(t *testing.T) map[string]string {
	t.Helper()
	root := os.Getenv("PYENV_ROOT")
	if root == "" {
		root = filepath.Join(os.Getenv("HOME"), ".pyenv")
	}
	found := map[string]string{}
	for _, version := range pythonVersions {
		candidates, err := filepath.Glob(filepath.Join(root, "versions", version+"*", "bin", "python3"))
		if err != nil {
			t.Fatal(err)
		}
		for _, program := range append(candidates, "python"+version, "python3") {
			// The shims of pyenv are in the PATH and fail for versions that are not selected.
			out, err := exec.CommandContext(t.Context(), program, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").Output()
			if err == nil && strings.TrimSpace(string(out)) == version {
				found[version] = program
				break
			}
		}
	}
	return found
}

// TestPython runs the tests of the client package on Pythons at hand, on one machine and on a cluster: in CI
// on each, elsewhere on the oldest and the newest. How functions are shipped depends on Python's version, the rest
// hardly does. So all tests run on the oldest, in CI also on the newest, and only those of shipping on the others.
// The variable SLOTWISE_PYTHON names one that has pandas, which runs the tests of frames.
func TestPython(t *testing.T) {
	t.Parallel()
	programs, ci := pythons(t), os.Getenv("CI") == "true"
	tests := map[string][]string{} // by version; none are all
	present := slices.DeleteFunc(slices.Clone(pythonVersions), func(v string) bool { return programs[v] == "" })
	for i, version := range present {
		switch newest := i == len(present)-1; {
		case i == 0 || newest && ci:
			tests[version] = nil
		case newest || ci:
			tests[version] = []string{"test_slotwise.Shipping"}
		}
	}
	if pandas := os.Getenv("SLOTWISE_PYTHON"); pandas != "" {
		programs["pandas"], tests["pandas"] = pandas, []string{"test_slotwise.Frames"}
	}
	if len(tests) == 0 {
		if ci {
			t.Fatal("there is no Python 3.10 or later")
		}
		t.Skip("there is no Python 3.10 or later")
	}
	c := clustertest.New(t, current(t))
	c.StartMaster("127.0.0.1:0")
	c.StartWorker("w1", "--map-slots", "4", "--reduce-slots", "4")
	for version, names := range tests {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), programs[version], append([]string{"-W", "error", "-m", "unittest", "-q"}, names...)...)
			cmd.Dir = filepath.Join("python", "tests")
			cmd.Env = append(os.Environ(), "PYTHONPATH="+absolute(t, "python"), "PYTHONDONTWRITEBYTECODE=1", "SLOTWISE="+current(t), "SLOTWISE_MASTER="+c.URL)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "\nOK") {
				t.Errorf("%v\n%s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}

// TestPythonTypes checks the annotations of the client package with mypy, for the oldest and the newest Python.
func TestPythonTypes(t *testing.T) {
	t.Parallel()
	python := os.Getenv("SLOTWISE_PYTHON_TOOLS")
	if python == "" {
		python = "python3"
	}
	if out, err := exec.CommandContext(t.Context(), python, "-m", "mypy", "--version").CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s has no mypy: %v\n%s", python, err, out)
		}
		t.Skipf("%s has no mypy; set SLOTWISE_PYTHON_TOOLS to a Python that has it", python)
	}
	for _, version := range []string{pythonVersions[0], pythonVersions[len(pythonVersions)-1]} {
		cmd := exec.CommandContext(t.Context(), python, "-m", "mypy", "--strict", "--cache-dir="+os.DevNull, "--python-version="+version, "slotwise")
		cmd.Dir = "python"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", version, err, out)
		}
	}
}

func absolute(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
