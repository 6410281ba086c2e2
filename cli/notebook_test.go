package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// notebookPage is the page about results in pandas.
const notebookPage = "docs/notebook.md"

// pythonVariable names the Python program that has pandas; default python3.
const pythonVariable = "SLOTWISE_PYTHON"

// runBlocks is a Python program that executes the programs on standard input, a JSON
// list, in one namespace, as a notebook does. It writes the list of what each printed.
const runBlocks = `
import contextlib, io, json, sys
names, printed = {}, []
for block in json.load(sys.stdin):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(block, block, "exec"), names)
    printed.append(out.getvalue())
json.dump(printed, sys.stdout)
`

// fence matches a block of code: its language, its file name, its text.
var fence = regexp.MustCompile("(?ms)^```(\\w*) ?(\\S*)\n(.*?)^```$")

// TestNotebookPage runs every block of docs/notebook.md in an empty directory: yaml
// blocks are files, sh blocks are commands of slotwise, python blocks are programs. The
// text block after a python block must equal what the program prints; without one it must
// print nothing. With SLOTWISE_REWRITE=1 the test rewrites the text blocks.
func TestNotebookPage(t *testing.T) {
	python := pandas(t)
	page, err := os.ReadFile("../" + notebookPage)
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	var programs, texts []string // what texts[i] shows, programs[i] prints
	counts := make(map[string]int)
	for _, m := range fence.FindAllStringSubmatch(string(page), -1) {
		kind, file, text := m[1], m[2], m[3]
		counts[kind]++
		switch kind {
		case "yaml":
			if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		case "sh":
			for line := range strings.Lines(text) {
				command, ours := strings.CutPrefix(line, "slotwise ")
				if !ours {
					t.Fatalf("%q is no command of slotwise", line)
				}
				printed(t, command)
			}
		case "python":
			programs, texts = append(programs, text), append(texts, "")
		case "text":
			texts[len(texts)-1] = text
		default:
			t.Fatalf("the test runs no block of the kind %q", kind)
		}
	}
	if counts["yaml"] == 0 || counts["sh"] == 0 || counts["python"] < 5 {
		t.Fatalf("blocks by kind: %v", counts)
	}
	outputs := execBlocks(t, python, programs)
	if os.Getenv("SLOTWISE_REWRITE") != "" {
		rewriteOutputs(t, root+"/../"+notebookPage, string(page), outputs)
		return
	}
	for i, got := range outputs {
		if got != texts[i] {
			t.Errorf("%s\nprints\n%s\nand %s shows\n%s", programs[i], got, notebookPage, texts[i])
		}
	}
}

// rewriteOutputs writes the page with outputs in its text blocks.
func rewriteOutputs(t *testing.T, name, page string, outputs []string) {
	t.Helper()
	i := -1
	page = fence.ReplaceAllStringFunc(page, func(block string) string {
		switch {
		case strings.HasPrefix(block, "```python\n"):
			i++
		case strings.HasPrefix(block, "```text\n"):
			return "```text\n" + outputs[i] + "```"
		}
		return block
	})
	if err := os.WriteFile(name, []byte(page), 0o666); err != nil {
		t.Fatal(err)
	}
}

// execBlocks executes Python programs one after another in one process and returns what
// each printed.
func execBlocks(t *testing.T, python string, programs []string) []string {
	t.Helper()
	in, err := json.Marshal(programs)
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	c := exec.CommandContext(t.Context(), python, "-c", runBlocks)
	c.Stdin, c.Stderr = bytes.NewReader(in), &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var outputs []string
	if err := json.Unmarshal(out, &outputs); err != nil || len(outputs) != len(programs) {
		t.Fatalf("%d programs, %d outputs: %v", len(programs), len(outputs), err)
	}
	return outputs
}

// pandas returns a Python program that can import pandas, pyarrow and further modules. It skips
// the test without one, but in CI it fails the test.
func pandas(t *testing.T, more ...string) string {
	t.Helper()
	python := os.Getenv(pythonVariable)
	if python == "" {
		python = "python3"
	}
	modules := strings.Join(append([]string{"pandas", "pyarrow"}, more...), ", ")
	out, err := exec.CommandContext(t.Context(), python, "-c", "import "+modules).CombinedOutput()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("%s cannot import %s: %v\n%s", python, modules, err, out)
	default:
		t.Skipf("%s cannot import %s; set %s to a Python that can", python, modules, pythonVariable)
	}
	return python
}
