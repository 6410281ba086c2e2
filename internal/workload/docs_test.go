package workload

import (
	"os"
	"strings"
	"testing"
)

// blocks returns the fenced blocks of a kind in a page.
func blocks(t *testing.T, page, kind string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/formats/" + page)
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

// What the pages show is read without an error.
func TestDocs(t *testing.T) {
	for _, text := range blocks(t, "jobmix.md", "yaml") {
		if jobs := jobsOf(t, readMix(t, text), 1); len(jobs) != 300 && len(jobs) != 2 {
			t.Errorf("%d jobs", len(jobs))
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
