package docs

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/apps"
	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/policies"
)

var rewrite = flag.Bool("rewrite", false, "write the tables of apps and of bounds into their pages")

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

const (
	appsBegin = "<!-- apps: go test ./docs -rewrite -->\n"
	appsEnd   = "<!-- /apps -->"
)

// The table of apps in apps.md is the registry's.
func TestApps(t *testing.T) {
	var want strings.Builder
	want.WriteString("| app | what it does | reads | writes |\n|---|---|---|---|\n")
	cell := strings.NewReplacer("|", `\|`, "\n", " ").Replace
	for _, a := range apps.All() {
		reads := a.Reads
		if reads == "" {
			reads = "nothing"
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", a.Name, cell(a.Summary), cell(reads), cell(a.Writes))
	}
	replaceTable(t, "apps.md", appsBegin, appsEnd, want.String())
}

// replaceTable compares the text between two marks of a page with the wanted one, or
// with -rewrite writes it.
func replaceTable(t *testing.T, name, begin, end, want string) {
	t.Helper()
	text := read(t, name)
	before, rest, ok1 := strings.Cut(text, begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no table between %s and %s", name, strings.TrimSpace(begin), end)
	}
	if got == want {
		return
	}
	if !*rewrite {
		t.Fatalf("%s: the table is not the one of the code; run go test ./docs -rewrite", name)
	}
	if err := os.WriteFile(name, []byte(before+begin+want+end+after), 0o666); err != nil {
		t.Fatal(err)
	}
}

const (
	boundsBegin = "<!-- bounds: go test ./docs -rewrite -->\n"
	boundsEnd   = "<!-- /bounds -->"
)

// limits.md has the table of package bounds.
func TestBounds(t *testing.T) {
	var want strings.Builder
	want.WriteString("| what | limit | beyond it |\n|---|---:|---|\n")
	for _, r := range bounds.Table {
		value := fmt.Sprint(r.Value)
		if r.Bytes {
			value = size(r.Value)
		}
		fmt.Fprintf(&want, "| %s | %s | %s |\n", r.What, value, r.Then)
	}
	replaceTable(t, "limits.md", boundsBegin, boundsEnd, want.String())
}

const (
	sharedBegin = "<!-- shared: go test ./docs -rewrite -->\n"
	sharedEnd   = "<!-- /shared -->"
)

// limits.md has the totals of what users share, and the share of a user who is alone.
func TestShared(t *testing.T) {
	var want strings.Builder
	want.WriteString("| what | all users | one user alone | beyond it |\n|---|---:|---:|---|\n")
	for _, r := range bounds.Shared {
		total, alone := fmt.Sprint(r.Value), fmt.Sprint(bounds.Share(r.Value, 0))
		if r.Bytes {
			total, alone = size(r.Value), size(bounds.Share(r.Value, 0))
		}
		fmt.Fprintf(&want, "| %s | %s | %s | %s |\n", r.What, total, alone, r.Then)
	}
	replaceTable(t, "limits.md", sharedBegin, sharedEnd, want.String())
}

// size writes a number of bytes as documents do.
func size(n int64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB"}
	unit := 0
	for n >= 1024 && n%1024 == 0 && unit+1 < len(units) {
		n, unit = n/1024, unit+1
	}
	return fmt.Sprint(n, " ", units[unit])
}

var quotedPath = regexp.MustCompile("`((?:internal|mapreduce|apps|policies|sched|sim|cli|proto|deploy|cmd|lab|examples|docs)(?:/[a-z0-9/.]+)?)`")

// architecture.md names every room, and no folder that is not there.
func TestRooms(t *testing.T) {
	named := make(map[string]bool)
	for _, m := range quotedPath.FindAllStringSubmatch(read(t, "architecture.md"), -1) {
		named[m[1]] = true
		if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
			t.Errorf("architecture.md names %s: %v", m[1], err)
		}
	}
	for _, glob := range []string{"../*/*.go", "../internal/*", "../lab"} {
		paths, err := filepath.Glob(glob)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v", glob, err)
		}
		for _, p := range paths {
			if filepath.Ext(p) == ".go" {
				p = filepath.Dir(p)
			}
			dir := strings.TrimPrefix(filepath.ToSlash(p), "../")
			if !named[dir] && !slices.Contains([]string{"docs", "examples", "tools", "deploy"}, dir) {
				t.Errorf("architecture.md does not say what %s is for", dir)
				named[dir] = true // once is enough
			}
		}
	}
}

// architecture.md names the versions of go.mod and of the lab's.
func TestLibraries(t *testing.T) {
	mod := read(t, "../go.mod") + read(t, "../lab/go.mod")
	versions := regexp.MustCompile(`([A-Za-z][\w./-]+) \|? ?(v\d+\.\d+\.\d+)`).FindAllStringSubmatch(read(t, "architecture.md"), -1)
	if len(versions) < 10 {
		t.Fatalf("only %d libraries found", len(versions))
	}
	for _, v := range versions {
		path := strings.TrimSuffix(v[1], " |")
		if !regexp.MustCompile(`(?m)(^|[\s/])` + regexp.QuoteMeta(path) + ` ` + regexp.QuoteMeta(v[2]) + `\b`).MatchString(mod) {
			t.Errorf("architecture.md has %s %s, go.mod has not", path, v[2])
		}
	}
}

// The table of parts in architecture.md names parts that exist, and at least three
// examples of each. It need not name all, so that a new part is a row of one table.
func TestParts(t *testing.T) {
	registry := policies.Builtin()
	text := read(t, "architecture.md")
	for _, part := range []string{"slots", "order", "place", "speculate"} {
		row := strings.Split(regexp.MustCompile(`(?m)^\| `+part+` \|.*$`).FindString(text), "|")
		if len(row) < 4 {
			t.Fatalf("architecture.md has no row for %s", part)
		}
		names := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[3], -1)
		if len(names) < 3 {
			t.Errorf("architecture.md names %d %s parts", len(names), part)
		}
		for _, name := range names {
			if !slices.Contains(registry.PartNames(part), name[1]) {
				t.Errorf("architecture.md names the %s part %s, which does not exist", part, name[1])
			}
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]*)(#[^)]*)?\)`)

// TestLinks checks that links between the project's own pages lead to a file and, after a
// #, to a heading of that page.
func TestLinks(t *testing.T) {
	headings := make(map[string]map[string]bool)
	err := filepath.WalkDir("..", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(p) != ".md" {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(read(t, p), -1) {
			to := p
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(p), m[1])
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: link to %s: %v", p, m[1], err)
			} else if m[2] != "" {
				if headings[to] == nil {
					headings[to] = anchors(read(t, to))
				}
				if !headings[to][m[2]] {
					t.Errorf("%s: %s has no heading for %s", p, to, m[2])
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

var (
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	linkText = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
	dropped  = regexp.MustCompile(`[^\pL\pN _-]`)
)

// anchors returns the anchors of a page's headings as GitHub makes them: lower case,
// without punctuation, with hyphens for spaces, and a number behind a repeated one.
func anchors(page string) map[string]bool {
	all := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		name := dropped.ReplaceAllString(strings.ToLower(linkText.ReplaceAllString(m[1], "$1")), "")
		name = "#" + strings.ReplaceAll(name, " ", "-")
		unique := name
		for i := 1; all[unique]; i++ {
			unique = fmt.Sprintf("%s-%d", name, i)
		}
		all[unique] = true
	}
	return all
}

// The program in the README compiles.
func TestReadmeProgram(t *testing.T) {
	_, rest, _ := strings.Cut(read(t, "../README.md"), "```go\n")
	program, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the README has no Go program")
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "vet", file).CombinedOutput(); err != nil {
		t.Errorf("go vet: %v\n%s", err, out)
	}
}

// TestIndex checks that docs/README.md links to every page of docs.
func TestIndex(t *testing.T) {
	index := read(t, "README.md")
	for _, glob := range []string{"*.md", "formats/*.md"} {
		pages, err := filepath.Glob(glob)
		if err != nil || len(pages) == 0 {
			t.Fatalf("%s: %v", glob, err)
		}
		for _, p := range pages {
			if p != "README.md" && !strings.Contains(index, "]("+filepath.ToSlash(p)+")") {
				t.Errorf("README.md does not link to %s", p)
			}
		}
	}
}
