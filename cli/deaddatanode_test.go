package cli

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	"github.com/slotwise/slotwise/internal/testkit/serverstest"
)

// TestSortsBesideADeadDataNode kills one of four DataNodes during the first of 20 sorts. With
// Hadoop's default times the NameNode offers it to the writers of all files. Each sort must
// succeed with the right output. The test takes minutes and runs if SLOTWISE_LOAD is set.
// TestPipelines of package hdfs tests the same writers in less time.
func TestSortsBesideADeadDataNode(t *testing.T) {
	if os.Getenv("SLOTWISE_LOAD") == "" {
		t.Skip("set SLOTWISE_LOAD to run it")
	}
	h := serverstest.NewHDFS(t, 4, serverstest.SlowToNotice)
	serverstest.Setenv(t, h.Env())
	local := filepath.Join(t.TempDir(), "in")
	slotwise(t, "generate", "records", "--size", "16MiB", "--seed", "3", "--output", local)
	upload(t, local, h.URI("/in"))
	want := sortedRecords(t, local)
	c := newTestCluster(t)
	c.Patience = 5 * time.Minute
	c.StartWorker("w1")
	c.StartWorker("w2")
	for n := range 20 {
		out := h.URI(fmt.Sprint("/out", n))
		began := time.Now()
		end := c.begin("terasort", h.URI("/in"), "--output", out, "--reduces", "4", "--split-size", "2MiB")
		if n == 0 {
			clustertest.Eventually(t, "the sort is accepted", func() bool { return strings.Contains(c.asks("jobs"), "j1") })
			clustertest.Eventually(t, "a map has ended", func() bool { return strings.Contains(c.asks("tasks", "j1"), "succeeded") })
			h.KillDataNode(h.Hosts[0])
		}
		if status, text := end(); status != 0 {
			t.Fatalf("sort %d: exit status %d\n%s", n, status, text)
		}
		parts := fetch(t, out)
		hash := sha256.New()
		for _, name := range slices.Sorted(maps.Keys(parts)) {
			if strings.HasPrefix(name, "_") { // _SUCCESS
				continue
			}
			hash.Write([]byte(parts[name]))
		}
		if !bytes.Equal(hash.Sum(nil), want) {
			t.Errorf("sort %d: %d bytes, not the sorted input", n, totalLength(parts))
		}
		t.Logf("sort %d: %.1f s", n, time.Since(began).Seconds())
	}
}

// sortedRecords returns the SHA-256 of the records of a directory in order.
func sortedRecords(t *testing.T, dir string) []byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "[^_.]*"))
	if err != nil {
		t.Fatal(err)
	}
	var records [][]byte
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		records = slices.AppendSeq(records, slices.Chunk(b, 100))
	}
	slices.SortFunc(records, bytes.Compare)
	hash := sha256.New()
	for _, r := range records {
		hash.Write(r)
	}
	return hash.Sum(nil)
}
