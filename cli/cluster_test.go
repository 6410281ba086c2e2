package cli

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/slotwise/slotwise/apps"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
)

// testCluster is a master with its workers, whose processes are this test binary.
type testCluster struct{ *clustertest.Cluster }

// newTestCluster starts a master with flags.
func newTestCluster(t *testing.T, flags ...string) *testCluster {
	return newTestClusterAt(t, clustertest.LoopbackHost(), flags...)
}

// newTestClusterAt is newTestCluster at an address of loopback.
func newTestClusterAt(t *testing.T, host string, flags ...string) *testCluster {
	c := clustertest.New(t, self(t))
	c.Flags = flags
	c.StartMaster(host + ":0")
	return &testCluster{c}
}

// self returns the path of this test binary. TestMain makes it act as slotwise when argument 0 is
// slotwise, as clusters start it.
func self(t *testing.T) string {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCluster runs jobs of each kind on two workers.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.StartWorker("w1")
	c.StartWorker("w2")
	want := c.Words("in/a.txt", 20_000)
	c.Must("wordcount", "in", "--output", "counts", "--split-size", "64KiB", "--reduces", "3")
	if got := c.Lines("counts"); !slices.Equal(got, want) {
		t.Errorf("counts: %d lines, want %d: %.300q", len(got), len(want), got)
	}
	c.Must("--mapper", "./map.sh", "--reducer", "sort -n | tail -n 1", "--file", c.Write("map.sh", "#!/bin/sh\nexec wc -l\n"),
		"--input", "in", "--output", "streamed", "--reduces", "1")
	if got := c.Lines("streamed"); !slices.Equal(got, []string{"20000"}) {
		t.Errorf("streamed: %q", got)
	}
	c.Must("sort", "in", "--output", "sorted", "--reduces", "2", "--compress", "lz4", "--split-size", "100KiB")
	if got := c.Lines("sorted"); len(got) != 20_000 {
		t.Errorf("sorted: %d lines", len(got))
	}
}

// TestSameBytes runs every app that reads text here and on a cluster: with the same relative input
// the outputs are the same. Three apps write the names of their input files.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.StartWorker("w1")
	c.Words("in/a.txt", 60)
	c.Words("in/b.txt", 30)
	compared := map[string]bool{}
	for _, a := range apps.All() {
		if a.Reads == "" {
			continue
		}
		args := []string{a.Name, "in", "--reduces", "2", "--quiet"}
		for _, p := range a.Params {
			if p.Name == "pattern" {
				args = append(args, "--param", "pattern=a")
			}
		}
		// An app for other data fails, or its parameters are missing.
		if status, _ := c.Run(append([]string{"run", "--output", "here-" + a.Name}, args...)...); status != 0 || len(c.Lines("here-"+a.Name)) == 0 {
			continue
		}
		c.Must(append(args, "--output", "there-"+a.Name)...)
		if here, there := c.Lines("here-"+a.Name), c.Lines("there-"+a.Name); !slices.Equal(here, there) {
			t.Errorf("%s: %d and %d lines: %.200q and %.200q", a.Name, len(here), len(there), here, there)
		}
		compared[a.Name] = true
	}
	for _, name := range []string{"wordcount", "sort", "invertedindex", "termvector", "sequencecount"} {
		if !compared[name] {
			t.Errorf("%s was not compared", name)
		}
	}
	t.Logf("compared: %v", slices.Sorted(maps.Keys(compared)))
}
