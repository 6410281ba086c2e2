package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var (
	// namedCommand matches a command line in a sentence, such as "slotwise nodes drain --undo".
	namedCommand = regexp.MustCompile(`\bslotwise ([a-z][a-z-]*(?: (?:--)?[a-zA-Z][a-zA-Z-]*)*)`)
	namedFlag    = regexp.MustCompile(`(?:^|[\s("])--([a-z][a-z-]+)`)
)

// TestAdviceNamesWhatExists parses the commands and flags that texts of the scheduler and of
// the master's explanations name, with the real command line. TestAdviceBringsJobsForward
// checks under each policy that following the advice has an effect.
func TestAdviceNamesWhatExists(t *testing.T) {
	root := newRoot(builtinOnly, io.Discard)
	flags := map[string]bool{}
	var collect func(c *cobra.Command)
	collect = func(c *cobra.Command) {
		for _, f := range strings.Fields(c.Flags().FlagUsages() + c.PersistentFlags().FlagUsages()) {
			if name, ok := strings.CutPrefix(f, "--"); ok {
				name, _, _ = strings.Cut(name, "[")
				flags[name] = true
			}
		}
		for _, sub := range c.Commands() {
			collect(sub)
		}
	}
	collect(root)
	commands, bare := 0, 0
	for where, text := range texts(t, "../internal/live/master", "../internal/tracker", "../internal/virtual/forecast", "../policies", "../sched") {
		if strings.HasPrefix(text, "slotwise ") && strings.HasSuffix(text, "\n") {
			continue // the first line of a file format
		}
		for _, m := range namedCommand.FindAllStringSubmatch(text, -1) {
			commands++
			checkCommand(t, root, where, strings.Fields(m[1]))
		}
		for _, m := range namedFlag.FindAllStringSubmatch(text, -1) {
			if bare++; !flags[m[1]] {
				t.Errorf("%s: no command has the flag --%s: %q", where, m[1], text)
			}
		}
	}
	if commands < 15 || bare < 5 {
		t.Errorf("found %d commands and %d flags, so the test does not find the texts", commands, bare)
	}
}

// checkCommand fails the test unless a command and the flags behind it exist. Other words
// after the command are arguments or the rest of the sentence.
func checkCommand(t *testing.T, root *cobra.Command, where string, words []string) {
	t.Helper()
	c, rest, err := root.Find(words)
	if err != nil || c == root {
		t.Errorf("%s: no command %q: %v", where, words, err)
		return
	}
	for _, w := range rest {
		if name, isFlag := strings.CutPrefix(w, "--"); isFlag && c.Flags().Lookup(name) == nil && c.InheritedFlags().Lookup(name) == nil {
			t.Errorf("%s: %s has no flag %s", where, c.CommandPath(), w)
		}
	}
}

// texts returns the string literals of the Go files below some folders, without tests, by
// their positions.
func texts(t *testing.T, folders ...string) map[string]string {
	t.Helper()
	found, files := map[string]string{}, token.NewFileSet()
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					if text, err := strconv.Unquote(l.Value); err == nil && (strings.Contains(text, "slotwise ") || strings.Contains(text, "--")) {
						found[files.Position(l.Pos()).String()] = text
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}
