package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// simPage is the page whose examples are compared with the output of the
// program.
const simPage = "docs/simulator.md"

// prompt begins a block with a command. The output follows after the last
// continuation line.
const prompt = "```\n$ slotwise "

// TestSimulatorPage runs the commands in docs/simulator.md and compares their
// output with the page. With SLOTWISE_REWRITE=1 it rewrites the page.
func TestSimulatorPage(t *testing.T) {
	t.Chdir("..")
	old, err := os.ReadFile(simPage)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(old), prompt)
	for i, part := range parts[1:] {
		block, after, closed := strings.Cut(part, "\n```\n")
		command := firstCommand(block)
		if !closed || command == "" {
			t.Fatalf("a block is not closed, or has no command: %s", part)
		}
		output := printed(t, command)
		if strings.Contains(command, "--explain") { // the page shows the tables twice before
			_, output, _ = strings.Cut(output, "\n\npolicy ")
			output = "…\npolicy " + output
		}
		// The page shows and explains the record of one command.
		if before, record, ok := strings.Cut(output, "\nmade by slotwise "); ok && i > 0 {
			_, rest, _ := strings.Cut(record, "\n\n")
			output = before + rest
		}
		parts[i+1] = command + output + "```\n" + after
	}
	if len(parts) < 4 {
		t.Errorf("only %d commands", len(parts)-1)
	}
	switch page := strings.Join(parts, prompt); {
	case page == string(old):
	case os.Getenv("SLOTWISE_REWRITE") != "":
		if err := os.WriteFile(simPage, []byte(page), 0o666); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("docs/simulator.md shows what is printed no more; it should be\n%s", page)
	}
}

// A master accepts the settings that the operator's guide shows. The address, which comes after them, ends it.
func TestSettingsOfTheGuide(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "share one file.\n\n```yaml\n")
	settings, _, _ := strings.Cut(rest, "```")
	file := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(file, []byte(settings), 0o666); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	execute(t.Context(), []string{"master", "--dir", t.TempDir(), "--listen", "127.0.0.1:99999", "--config", file}, &out, &out)
	if settings == "" || !strings.Contains(out.String(), "--listen 127.0.0.1:99999") {
		t.Errorf("settings %q: %s", settings, out.String())
	}
}

// firstCommand returns the first line of a block with its continuation lines.
func firstCommand(block string) string {
	command := ""
	for line := range strings.Lines(block + "\n") {
		command += line
		if !strings.HasSuffix(line, "\\\n") {
			return command
		}
	}
	return ""
}

// printed runs a command and returns its output.
func printed(t *testing.T, command string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := execute(t.Context(), strings.Fields(strings.ReplaceAll(command, "\\\n", " ")), &stdout, &stderr); code != exitOK {
		t.Fatalf("%s: status %d\n%s", command, code, stderr.String())
	}
	return stdout.String()
}
