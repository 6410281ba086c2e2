package study

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/virtual/workload"
)

// TestMissingInputs refuses workloads that need an input which the caller has not set, instead
// of simulating jobs without tasks.
func TestMissingInputs(t *testing.T) {
	mix := write(t, "mix.yaml", "jobs: [{app: wordcount, input: book.txt}]")
	for spec, want := range map[string]string{
		mix:                      `mix.yaml:1: job "wordcount": its tasks or costs are unknown`,
		"history:" + t.TempDir(): "cannot read slotwise's history",
	} {
		if _, err := ReadWorkload(t.Context(), spec, &workload.Cluster{}, WorkloadOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", spec, err, want)
		}
	}
}

// A cluster may be a file with changes for all of its nodes.
func TestReadClusterWithChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nodes.json")
	if err := os.WriteFile(file, []byte(`{"rack":"r1","nodes":[{"node":"n1"},{"node":"n2"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := ReadCluster(file + ",maps=4,reduces=2")
	if maps, reduces := c.Slots(); err != nil || maps != 8 || reduces != 4 {
		t.Errorf("%d maps, %d reduces, %v", maps, reduces, err)
	}
	for spec, want := range map[string]string{
		file:                      "states no slots; write " + file + ",maps=4,reduces=2",
		file + ",maps=x":          "maps: \"x\" is not a whole number",
		file + "x,maps=4":         "no such file",
		file + ",nodes=3":         "nodes: the file states the nodes and racks",
		"nodes=2,maps=1,colour=1": "colour: unknown",
	} {
		if _, err := ReadCluster(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", spec, err, want)
		}
	}
}
