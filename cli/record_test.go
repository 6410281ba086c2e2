package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/virtual/report"
)

// outsideTrace is a SWIM trace of 40 jobs: name, submission in seconds, gap, and bytes of input, shuffle and
// output.
func outsideTrace() string {
	var b strings.Builder
	for i := range 40 {
		maps := int64(1 + i%7*i%11)
		b.WriteString(strings.Join([]string{"job" + string(rune('a'+i%26)) + strings.Repeat("x", i/26), number64(int64(20 * i)), "20",
			number64(maps << 26), number64(maps << 24), number64(maps << 22)}, "\t") + "\n")
	}
	return b.String()
}

func number64(n int64) string { b, _ := json.Marshal(n); return string(b) }

// written writes files into a new directory and makes it the working directory.
func written(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// ran runs a command line as a shell would and returns its output.
func ran(t *testing.T, command string, more ...string) string {
	t.Helper()
	if strings.ContainsAny(command, `'"\`) {
		t.Fatalf("this test has no shell for %s", command)
	}
	words := strings.Fields(command)
	if words[0] != "slotwise" {
		t.Fatalf("%s is no command of slotwise", command)
	}
	var stdout, stderr bytes.Buffer
	if code := execute(t.Context(), append(append(words[1:], "--quiet"), more...), &stdout, &stderr); code != exitOK {
		t.Fatalf("%s: status %d: %s", command, code, stderr.String())
	}
	return stdout.String()
}

const outsideStudy = `workload: swim:day.tsv
data-scale: [0.5, 1]
trace-set: {pools: "hash:3", reduce-bytes: [512MiB, 1GiB]}
clusters: ["small.yaml,maps=2,reduces=1"]
policies: [fifo, fair]
worlds: [slotwise, mine.yaml]
seeds: 2
`

// An outside reader has the page of a study and nothing else. The files in it and its command give the
// same numbers, by their digest.
func TestStudyAgainFromItsPage(t *testing.T) {
	written(t, map[string]string{"day.tsv": outsideTrace(), "study.yaml": outsideStudy, "mine.yaml": "heartbeat: fixed:3s\n",
		"small.yaml": "racks: 2\nnodes: [{count: 4, maps: 1, reduces: 1}]\n"})
	ran(t, "slotwise study study.yaml")
	page := readFile(t, "study.study/report.html")
	rows, err := csv.NewReader(strings.NewReader(readFile(t, "study.study/runs.csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}

	find := func(pattern string) string {
		m := regexp.MustCompile(pattern).FindStringSubmatch(page)
		if m == nil {
			t.Fatalf("no %s in the page", pattern)
		}
		return html.UnescapeString(m[1])
	}
	command, digest := find(`(?s)<pre id="command">(.*?)</pre>`), find(`digest ([0-9a-f]{16}) from`)
	files := map[string]string{}
	for _, m := range regexp.MustCompile(`(?s)<details><summary>(?:study|workload|clusters|worlds) ([^<]*)</summary><pre>(.*?)</pre>`).FindAllStringSubmatch(page, -1) {
		files[m[1]] = html.UnescapeString(m[2])
	}
	if len(files) != 4 {
		t.Fatalf("the page has %d files", len(files))
	}
	written(t, files)
	ran(t, command)
	page = readFile(t, "study.study/report.html")
	if again := find(`digest ([0-9a-f]{16}) from`); again != digest {
		t.Errorf("the result of %s again is %s, not %s", command, again, digest)
	}

	// All rows name the program and the record; another scale of the data is another result.
	program, record := len(rows[0])-2, len(rows[0])-1
	if rows[0][program] != "program" || rows[0][record] != "record" || len(rows) != 1+2*2*2*2*(2+3) {
		t.Errorf("%d rows of %v", len(rows), rows[0])
	}
	for _, row := range rows[1:] {
		if !strings.HasPrefix(row[program], "slotwise ") || len(row[record]) != 16 || row[record] != rows[1][record] {
			t.Errorf("a row of %q with record %q", row[program], row[record])
		}
	}
	files["study.yaml"] = strings.Replace(outsideStudy, "0.5, 1", "0.6, 1", 1)
	written(t, files)
	ran(t, command)
	page = readFile(t, "study.study/report.html")
	if other := find(`digest ([0-9a-f]{16}) from`); other == digest {
		t.Errorf("another data-scale has the same digest %s", other)
	}
	for _, want := range []string{"Sensitivity to the import and the world", "data-scale=0.6 reduce-bytes=512MiB, world mine.yaml", "heartbeat: fixed:3s"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
}

// The output of sim, tune and size has a record, as text and as JSON, and its command gives the
// same result.
func TestResultsAgainFromTheirRecords(t *testing.T) {
	inputs := map[string]string{"day.tsv": outsideTrace()}
	for _, command := range []string{
		"slotwise sim --workload swim:day.tsv --cluster nodes=4,maps=2,reduces=1 --policy fair,fifo --policy-set speculative-gap=0.3 --data-scale 0.5 --trace-set pools=hash:3 --trace-set rate=2MiB --seeds 2 --seed 7 --set model.failure-rate=0.01 --reference ideal",
		"slotwise tune --policy dynamictags --workload swim:day.tsv --cluster nodes=4,maps=2,reduces=1 --budget 17 --minimise response.mean --data-scale 0.5",
		"slotwise size --policy fair --goal response.mean<200 --workload swim:day.tsv --cluster nodes=1,maps=2,reduces=1 --max-nodes 64",
	} {
		written(t, inputs)
		text := ran(t, command)
		m := regexp.MustCompile(`(?s)made by slotwise \S+; result ([0-9a-f]{16})\nagain: ([^\n]*)\n`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("%s: no record in\n%s", command, text)
		}
		var result struct{ Record report.Record }
		again := strings.ReplaceAll(m[2], "'", "") // of the goal, whose < means something to a shell
		if err := json.Unmarshal([]byte(ran(t, again, "-o", "json")), &result); err != nil {
			t.Fatal(err)
		}
		r := result.Record
		if r.Result != m[1] || r.Command != m[2] {
			t.Errorf("%s again: result %s, not %s; command %s", m[2], r.Result, m[1], r.Command)
		}
		if len(r.Jobs) != 1 || len(r.Clusters) != 1 || len(r.Worlds) != 1 || len(r.Files) != 1 || r.Files[0].Text != inputs["day.tsv"] {
			t.Errorf("%s: %+v", command, r)
		}
		settings := map[string]string{}
		for _, s := range r.Settings {
			settings[s.Name] = s.Value
		}
		if settings["world"] != "slotwise" || settings["time-scale"] != "1" || strings.Contains(command, "--data-scale 0.5") != (settings["data-scale"] == "0.5") {
			t.Errorf("%s: settings %v", command, settings)
		}
	}
}

func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{"a=b:c/d,e": "a=b:c/d,e", "response.mean<120": "'response.mean<120'", "it's": `'it'\''s'`, "": "''"} {
		if got := shellWord(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}
