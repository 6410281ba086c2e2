package cli

import (
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/testkit/clustertest"
)

// printsNoData are the commands without -o, and why they have none.
var printsNoData = map[string]string{
	"kill": "prints nothing", "priority": "prints nothing", "move": "prints nothing",
	"masters add": "prints a sentence", "masters remove": "prints a sentence", "stack": "prints the text that the attempt's worker sends",
	"logs": "prints the bytes of a log", "man": "writes files",
	"master": "serves", "worker": "serves", "ui": "serves",
	"hadoop":     "prints what Hadoop prints",
	"kubernetes": "prints help", "kubernetes manifest": "prints YAML for kubectl", "kubernetes secrets": "prints YAML for kubectl",
	"yarn": "prints help", "help": "prints help",
	"completion": "prints help", "completion bash": "prints a script", "completion fish": "prints a script",
	"completion powershell": "prints a script", "completion zsh": "prints a script",
}

// TestEveryCommandPrintsJSON requires that each command that prints data has -o json under
// this name and no other visible one, and that TestForeignText reads its JSON.
func TestEveryCommandPrintsJSON(t *testing.T) {
	cases := foreignCases()
	for _, c := range allCommands(newRoot(builtinOnly, io.Discard)) {
		name := strings.TrimPrefix(c.CommandPath(), product+" ")
		f := c.Flags().ShorthandLookup("o")
		why, exempt := printsNoData[name]
		switch {
		case exempt && c.Flags().Lookup("print") != nil:
			t.Errorf("%s has --print, and printsNoData says that it %s", name, why)
			continue
		case exempt:
			continue
		case f == nil || f.Name != "print" || f.Hidden || !isPrintForm(f):
			t.Errorf("%s: -o is not the form of what it prints, and printsNoData does not say why", name)
			continue
		}
		if old := c.Flags().Lookup("json"); old == nil || !old.Hidden {
			t.Errorf("%s: --json is no hidden flag", name)
		}
		tested := slices.ContainsFunc(cases[name], func(x foreignCase) bool {
			i := slices.Index(x.args, "-o")
			return i >= 0 && i+1 < len(x.args) && x.args[i+1] == "json"
		})
		if !tested {
			t.Errorf("%s: no row of foreignCases runs it with -o json", name)
		}
	}
}

// One flag decides, in every spelling, also if the command line is wrong behind or before it.
func TestPrintFlag(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("in", []byte("a b\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("in.json", []byte(`{"a":1}`+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("settings.yaml", []byte("format: json\nprint: text\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for line, wantJSON := range map[string]bool{
		"policies fair": false, "policies fair -o json": true, "policies fair --print json": true, "policies fair --print=json": true,
		"policies fair -ojson": true, "policies fair -o=json": true, "policies fair -o text": false,
		"policies fair --json": true, "policies fair --format json": true, "policies fair --json=false": false,
		"policies nosuch -o json": true, "policies --colour red -o json": true, "policies -o json --colour red": true,
		"run wordcount --input in --output - -q":                                 false,
		"run wordcount --input in --output o1 -q -o json":                        true,
		"run wordcount --input in --output o2 -q --json":                         true,
		"run --mapper cat --format json --input in.json --output - -q":           false,
		"run --mapper cat --format json --input nosuch --output o3 -q":           false,
		"run --mapper cat --colour red --format json --input in.json":            false,
		"run --mapper cat --format json --input in.json --output o4 -q -o json":  true,
		"run wordcount --format=json":                                            false,
		"run wordcount -qo json":                                                 true,
		"jobs --format json --master ftp://x":                                    true,
		"jobs --master ftp://x":                                                  false,
		"jobs --config settings.yaml --master ftp://x":                           false,
		"submit wordcount in --format json --output o5 --master ftp://x":         false,
		"submit wordcount in --format json --output o5 --master ftp://x -o json": true,
		"version -- -o json":                                                     false, "kill j1 -o json": false,
	} {
		var stdout, stderr clustertest.Buffer
		execute(t.Context(), strings.Fields(line), &stdout, &stderr)
		out := stdout.String()
		if got := out != "" && json.Valid([]byte(out)) && strings.ContainsAny(out[:1], "{["); got != wantJSON && !strings.Contains(line, "--input in.json --output -") {
			t.Errorf("%s prints JSON: %t, want %t: %q %q", line, got, wantJSON, out, stderr.String())
		}
	}
}

// A directory behind -o is a mistake of users of other tools, and the message helps.
func TestPrintFlagIsNotTheOutput(t *testing.T) {
	for line, want := range map[string]string{
		"run wordcount --input in -o counts":   `-o "counts": must be text or json, the form of what is printed; --output counts names the output`,
		"calibrate -o world.yaml":              `-o "world.yaml": must be text or json, the form of what is printed; --output world.yaml names the output`,
		"generate text --print words":          `-o "words": must be text or json, the form of what is printed; --output words names the output`,
		"jobs -o yaml":                         `-o "yaml": must be text or json`,
		"jobs --json=maybe":                    `--json "maybe": must be true or false`,
		"submit wordcount --input in --output": `flag needs an argument: --output`,
	} {
		var stdout, stderr clustertest.Buffer
		status := execute(t.Context(), strings.Fields(line), &stdout, &stderr)
		if got := strings.TrimPrefix(strings.TrimSpace(stderr.String()), "slotwise: "); status != exitMisuse || got != want {
			t.Errorf("%s: status %d and %q, want %q", line, status, got, want)
		}
	}
}
