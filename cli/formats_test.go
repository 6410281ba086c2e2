package cli

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/slotwise/slotwise/internal/virtual/workload"
)

// TestFormats checks that the pages are listed with their titles, and that no page that is
// printed has a link or names a file below docs, which installed packages lack.
func TestFormats(t *testing.T) {
	list := mustRun(t, "formats")
	for _, name := range formatPages() {
		if !regexp.MustCompile(`(?m)^` + name + ` +\S`).MatchString(list) {
			t.Errorf("%s is not listed in\n%s", name, list)
		}
		page := mustRun(t, "formats", name)
		if !strings.HasPrefix(page, "# ") || strings.Contains(page, "](") || strings.Contains(page, "<!--") {
			t.Errorf("formats %s prints\n%s", name, page)
		}
		for _, m := range regexp.MustCompile(`slotwise formats (\w+)`).FindAllStringSubmatch(page, -1) {
			if !slices.Contains(formatPages(), m[1]) {
				t.Errorf("formats %s names the page %s, which does not exist", name, m[1])
			}
		}
		for _, m := range regexp.MustCompile(`[\w:/.-]*\.md\b`).FindAllString(page, -1) {
			if !strings.HasPrefix(m, "https://") {
				t.Errorf("formats %s names the file %s", name, m)
			}
		}
	}
}

func TestWithoutLinks(t *testing.T) {
	for page, want := range map[string]string{
		"see [jobmix.md](jobmix.md#keys)":             "see slotwise formats jobmix",
		"see [below](#keys)":                          "see below",
		"see [storage.md](../storage.md#s3)":          "see https://github.com/slotwise/slotwise/blob/main/docs/storage.md#s3",
		"see [a study](../../lab/results/x.md)":       "see a study (https://github.com/slotwise/slotwise/blob/main/lab/results/x.md)",
		"see [SWIM](https://example.org/a)":           "see SWIM (https://example.org/a)",
		"<!-- generated: keys -->\n| `a` | [b](#c) |": "| `a` | b |",
	} {
		if got := withoutLinks(page); got != want {
			t.Errorf("%s: %s, want %s", page, got, want)
		}
	}
}

// TestTraceOptions checks that the page on traces lists the options of --trace-set.
// SLOTWISE_REWRITE=1 writes them.
func TestTraceOptions(t *testing.T) {
	const page, begin, end = "../docs/formats/traces.md", "<!-- options: go test ./cli -run TestTraceOptions with SLOTWISE_REWRITE=1 -->\n", "<!-- /options -->"
	text := readFile(t, page)
	head, rest, ok1 := strings.Cut(text, begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s lacks its marks", page)
	}
	var table strings.Builder
	table.WriteString("| name | value |\n|---|---|\n")
	for _, o := range workload.TraceOptionNames() {
		fmt.Fprintf(&table, "| `%s` | %s |\n", o[0], strings.ReplaceAll(o[1], "|", `\|`))
	}
	switch want := head + begin + table.String() + end + tail; {
	case want == text:
	case os.Getenv("SLOTWISE_REWRITE") == "":
		t.Errorf("%s does not list the options of --trace-set", page)
	default:
		if err := os.WriteFile(page, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadmeFormats checks that the README has the table of formats that the program prints.
// SLOTWISE_REWRITE=1 writes it.
func TestReadmeFormats(t *testing.T) {
	const page, begin, end = "../README.md", "<!-- formats: go test ./cli -run TestReadmeFormats with SLOTWISE_REWRITE=1 -->\n", "<!-- /formats -->"
	text := readFile(t, page)
	head, rest, ok1 := strings.Cut(text, begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s lacks its marks", page)
	}
	switch want := head + begin + formatsTable() + end + tail; {
	case want == text:
	case os.Getenv("SLOTWISE_REWRITE") == "":
		t.Errorf("%s does not have the table of formats", page)
	default:
		if err := os.WriteFile(page, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	// The program can write and read every listed pair of format and codec.
	t.Chdir(t.TempDir())
	if err := os.WriteFile("in.csv", []byte("a,b\nx,1\ny,2\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, f := range fileFormats() {
		for _, codec := range f.Written {
			out := f.Name + "-" + codec
			mustRun(t, "run", "--mapper", "cat", "--input", "in.csv", "--format", "csv", "--output", out, "--output-format", f.Name, "--output-compress", codec, "-q")
			read := []string{"run", "--mapper", "cat", "--input", out, "--format", f.Name, "--output", out + "-again", "-q"}
			if f.Name == "json" {
				read = append(read, "--columns", "key,value")
			}
			mustRun(t, read...)
			if got := partLines(t, out+"-again"); !slices.Equal(got, []string{"x\t1", "y\t2"}) {
				t.Errorf("%s: %q", out, got)
			}
			if name := strings.TrimSuffix(codec, "-hadoop"); !slices.Contains(f.Read, name) {
				t.Errorf("%s is written with %s and not listed as read", f.Name, codec)
			}
		}
	}
}

// formatsTable returns the formats as a table. Formats with the same codecs share a row.
func formatsTable() string {
	table := "| format | is divided among maps | codecs that are read | codecs that are written |\n|---|---|---|---|\n"
	var files, divided []string
	all := fileFormats()
	for i, f := range all {
		if files = append(files, f.Files); !slices.Contains(divided, f.Divided) {
			divided = append(divided, f.Divided)
		}
		if i+1 < len(all) && slices.Equal(f.Read, all[i+1].Read) && slices.Equal(f.Written, all[i+1].Written) {
			continue
		}
		if !f.InParts {
			divided = append(divided, "bzip2 at its blocks")
		}
		codecs := func(list []string) string { return strings.Join(list[1:], ", ") } // all begin with none
		table += fmt.Sprintf("| %s | %s | %s | %s |\n", strings.Join(files, ", "), strings.Join(divided, "; "), codecs(f.Read), codecs(f.Written))
		files, divided = nil, nil
	}
	return table
}

// TestFlagGroups checks that the help of the commands with groups lists every flag once, and
// that no help names a file below docs, which installed packages lack.
func TestFlagGroups(t *testing.T) {
	root := newRoot(builtinOnly, io.Discard)
	for _, name := range []string{"run", "submit", "sim"} {
		c, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		help := mustRun(t, name, "--help")
		if !strings.Contains(help, "\nFlags:\n") || strings.Count(help, ":\n      --") < 4 {
			t.Errorf("%s --help has no groups:\n%s", name, help)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			lines := regexp.MustCompile(`(?m)^ +(-\w, )?--`+f.Name+`[ \[\n]`).FindAllString(help, -1)
			if want := map[bool]int{false: 1, true: 0}[f.Hidden]; len(lines) != want {
				t.Errorf("%s --help lists --%s %d times, want %d", name, f.Name, len(lines), want)
			}
		})
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if m := regexp.MustCompile(`(^|[^/])\bdocs/\S+`).FindString(strings.ReplaceAll(manPage(c), docsURL, "")); m != "" {
			t.Errorf("%s names %s, which installed packages lack", c.CommandPath(), m)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

// mustRun returns what a command line prints on standard output.
func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr strings.Builder
	if code := execute(t.Context(), args, &stdout, &stderr); code != exitOK {
		t.Fatalf("%v: status %d\n%s", args, code, stderr.String())
	}
	return stdout.String()
}
