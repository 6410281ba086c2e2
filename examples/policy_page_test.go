package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// policyPage is the page that TestPolicyPage follows.
const policyPage = "../docs/write-a-policy.md"

// block matches a block of code on a page, with the line of text before it.
var block = regexp.MustCompile("(?s)([^\n]*)\n\n```(\\w+)\n(.*?)```")

// fileName matches the name of the file that a block of code belongs to, at the end
// of the text before the block.
var fileName = regexp.MustCompile("`([a-z_]+\\.(?:go|yaml))`[^`]*:$")

// TestPolicyPage follows docs/write-a-policy.md in a directory beside the
// repository: it writes the files and runs the commands in order. The page must show
// the files of examples/policy and what the commands print. With SLOTWISE_REWRITE=1
// the test rewrites the page.
func TestPolicyPage(t *testing.T) {
	page, err := os.ReadFile(policyPage)
	if err != nil {
		t.Fatal(err)
	}
	dir, printed, commands := beside(t), "", 0
	want := block.ReplaceAllStringFunc(string(page), func(all string) string {
		m := block.FindStringSubmatch(all)
		before, language, code := m[1], m[2], m[3]
		replace := func(by string) string { return strings.Replace(all, code+"```", by+"```", 1) }
		name := fileName.FindStringSubmatch(before)
		switch {
		case language == "sh":
			if printed = shell(t, dir, code); commands == 0 {
				workspace(t, dir, dir+"/sjf")
				dir += "/sjf"
			}
			commands++
		case language == "text":
			tables, _, _ := strings.Cut(printed, "\nmade by slotwise ") // docs/simulator.md explains the record
			return replace(tables)
		case name != nil:
			original, err := os.ReadFile(filepath.Join("policy", name[1]))
			if err != nil && filepath.Ext(name[1]) == ".go" {
				t.Fatal(err)
			}
			if err != nil {
				original = []byte(code)
			}
			if err := os.WriteFile(filepath.Join(dir, name[1]), original, 0o666); err != nil {
				t.Fatal(err)
			}
			return replace(string(original))
		}
		return all
	})
	if commands != 7 {
		t.Errorf("the page has %d blocks of commands, want 7", commands)
	}
	shell(t, dir, "go list -deps -test .") // fails if go get has left go.mod or go.sum incomplete
	if want == string(page) {
		return
	}
	if os.Getenv("SLOTWISE_REWRITE") == "" {
		t.Fatalf("the page differs from examples/policy or from what the commands print; it should be\n%s", want)
	}
	if err := os.WriteFile(policyPage, []byte(want), 0o666); err != nil {
		t.Fatal(err)
	}
}

// beside returns a new directory that has the repository in it as "slotwise". go get
// there uses the modules of the repository. Resolving them reads the go.mod files of
// modules that the repository does not build, so on a new machine Go downloads these.
func beside(t *testing.T) string {
	dir := t.TempDir()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root, filepath.Join(dir, "slotwise")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// compiling makes the commands that compile use the workspace above the directory, if there is one. All
// others, which read or write go.mod and go.sum, see the module alone, as an author's do.
const compiling = `go() { case $1 in (build|test) GOWORK= command go "$@";; (*) command go "$@";; esac; }
`

// shell runs commands and returns their output.
func shell(t *testing.T, dir, commands string) string {
	t.Helper()
	c := exec.Command("bash", "-euo", "pipefail", "-c", compiling+commands)
	c.Dir = dir
	// The commands of the page change go.mod, which -mod=readonly forbids. Other flags stay: with other ones
	// than the tests', Go would compile the whole repository a second time.
	set, err := exec.Command("go", "env", "GOFLAGS").Output()
	if err != nil {
		t.Fatal(err)
	}
	flags := regexp.MustCompile(`-mod=\w+`).ReplaceAllString(strings.TrimSpace(string(set)), "")
	c.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS="+flags+" -ldflags=-s")
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s\n%s", err, commands, out, stderr.String())
	}
	return string(out)
}
