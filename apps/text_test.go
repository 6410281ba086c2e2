package apps

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/mapreduce"
)

func TestWordCount(t *testing.T) {
	files := hardFiles()
	counts := map[string]int{}
	for _, text := range files {
		for _, w := range plainWords([]byte(text)) {
			counts[w]++
		}
	}
	appTest{app: "wordcount", files: files, want: counted(counts)}.run(t)
}

func TestSort(t *testing.T) {
	files := hardFiles()
	lines := textLines(files)
	slices.Sort(lines)
	appTest{app: "sort", files: files, want: joinLines(lines), ordered: true}.run(t)
}

func TestGrep(t *testing.T) {
	for _, expr := range []string{`z[aeiou]z[aeiou]zu`, `^the`, `\bof\b.*日本`, `nothing like it`, `the|日本|zu`, `(?i)THE$`, `[a-z]+of|^$`} {
		files := hardFiles()
		re := regexp.MustCompile(expr)
		var lines []string
		counts := map[string]int{}
		for _, l := range textLines(files) {
			if re.MatchString(l) {
				lines = append(lines, l)
				counts[l]++
			}
		}
		appTest{app: "grep", params: mapreduce.Params{"regex": expr}, files: files, want: joinLines(lines), ordered: true}.run(t)
		if expr == "^the" {
			appTest{app: "grep", params: mapreduce.Params{"regex": expr, "count": "true"}, files: files, want: counted(counts)}.run(t)
		}
	}
}

// TestGrepCountsLines: the lines of the input are counted once each, whichever method searches
// them, although grep counts most itself.
func TestGrepCountsLines(t *testing.T) {
	const lines = 100_001
	text := strings.Repeat("the quick brown fox, or so\n", lines-1) + "no LF behind zu"
	dir := t.TempDir()
	in := writeFiles(t, dir, map[string]string{"a": text})
	for i, expr := range []string{`zu$`, `quick.*zebra`, `zu|zebra|zoo`, `z`, `[a-z]{5}`, `\bzu\b`, `the`} {
		app, err := Lookup("grep")
		if err != nil {
			t.Fatal(err)
		}
		r, err := mapreduce.RunApp(t.Context(), app, mapreduce.Params{"regex": expr},
			mapreduce.Options{Inputs: in, Output: filepath.Join(dir, strconv.Itoa(i))})
		if err != nil {
			t.Fatal(err)
		}
		if got := r[0].Counters["map.input_records"]; got != lines {
			t.Errorf("%s: %d input records, want %d", expr, got, lines)
		}
	}
}

// TestCoreutils compares with the programs that users would have taken.
func TestCoreutils(t *testing.T) {
	text := strings.NewReplacer("\x00", "").Replace(hardText(9, 400)) + "\n"
	for _, c := range []struct {
		app     string
		params  mapreduce.Params
		command []string
	}{
		{"sort", nil, []string{"sort"}},
		{"grep", mapreduce.Params{"regex": "z[aeiou]z[aeiou]zu"}, []string{"grep", "-aE", "z[aeiou]z[aeiou]zu"}},
		{"grep", mapreduce.Params{"regex": "^(the|of) .*(x|a[|]b)|and$"}, []string{"grep", "-aE", "^(the|of) .*(x|a[|]b)|and$"}},
	} {
		if _, err := exec.LookPath(c.command[0]); err != nil {
			t.Skip(err)
		}
		path := filepath.Join(t.TempDir(), "input")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(c.command[0], append(c.command[1:], path)...)
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		want, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		appTest{app: c.app, params: c.params, files: map[string]string{"f": text}, want: string(want), ordered: true}.run(t)
	}
}
