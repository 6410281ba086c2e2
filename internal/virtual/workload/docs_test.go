package workload

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// blocks returns the fenced blocks of a kind in a page.
func blocks(t *testing.T, page, kind string) []string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/formats/" + page)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for i, part := range strings.Split("\n"+string(text), "\n```") {
		if body, ok := strings.CutPrefix(part, kind+"\n"); ok && i%2 == 1 {
			list = append(list, body)
		}
	}
	if len(list) == 0 {
		t.Fatalf("%s has no example", page)
	}
	return list
}

// everyKey is a mix with one object of each kind that a file may hold.
const everyKey = `
swap: [{policy: fifo}]
profiles: [{app: a, map-cpu: 3, map-selectivity: 1, reduce-cpu: 1, reduce-selectivity: 1}]
FORM:
  - {name: a, NUMBER: 1, app: a, maps: [{time: 1s}], reduces: [{time: 1s}]}
`

// TestKeys compares the keys in the parser with the tables of jobmix.md, kind
// by kind. It fails for a key without documentation, and for a documented key
// that the parser does not know.
func TestKeys(t *testing.T) {
	read := map[string][]string{}
	for form, number := range map[string]string{"jobs": "repeat", "classes": "count"} {
		r := &reader{file: "f", known: read}
		text := strings.NewReplacer("FORM", form, "NUMBER", number).Replace(everyKey)
		r.mix(r.open(strings.NewReader(text), "job mix"), &Mix{}, nil)
		if err := r.err(); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile("../../../docs/formats/jobmix.md")
	if err != nil {
		t.Fatal(err)
	}
	for title, kind := range map[string]string{"the file": "job mix", "an entry": "entry", "a task": "task", "a swap": "swap", "a profile": "profile"} {
		want := slices.Sorted(slices.Values(read[kind]))
		_, table, _ := strings.Cut(string(page), "| key of "+title+" |")
		table, _, _ = strings.Cut(table, "\n\n")
		var got []string
		for row := range strings.Lines(table) {
			first, _, _ := strings.Cut(strings.TrimPrefix(row, "|"), "|")
			for _, key := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(first, -1) {
				got = append(got, key[1])
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
			t.Errorf("keys of %s (-parsed +documented)\n%s", title, diff)
		}
	}
}

// What the pages show is read without an error.
func TestDocs(t *testing.T) {
	for i, text := range blocks(t, "jobmix.md", "yaml") {
		m := readMix(t, text)
		if jobs, err := m.Draw(1); err != nil || len(jobs) != []int{3, 2, 300}[i] {
			t.Errorf("%d jobs, %v", len(jobs), err)
		}
	}
	for _, text := range blocks(t, "cluster.md", "yaml") {
		if _, err := ReadCluster("cluster.md", strings.NewReader(text)); err != nil {
			t.Error(err)
		}
	}
	for _, text := range blocks(t, "cluster.md", "") {
		if _, err := ParseCluster(strings.TrimSpace(text)); err != nil {
			t.Error(err)
		}
	}
}
