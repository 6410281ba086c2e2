package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/internal/storage"
	"github.com/slotwise/slotwise/internal/storage/serverstest"
)

// TestClusterStorage counts words on a master and four workers, from HDFS to
// HDFS, each worker beside a DataNode, and from S3 to S3. The answers are those
// of the same text in local files, and on HDFS most maps run where their data
// are.
func TestClusterStorage(t *testing.T) {
	local := t.TempDir()
	in, out := filepath.Join(local, "in"), filepath.Join(local, "out")
	slotwise(t, "generate", "text", "--size", "64MiB", "--seed", "1", "--output", in)
	slotwise(t, "run", "wordcount", "--input", in, "--output", out, "--reduces", "3")
	want := fetch(t, out)
	t.Run("hdfs", func(t *testing.T) {
		cluster := serverstest.HDFS(t)
		serverstest.Setenv(t, cluster.Env())
		c := countOnCluster(t, in, cluster.URI("/cluster-"+storage.NewToken()), cluster.Hosts, want)
		node, all := c.locality()
		t.Logf("%d of %d maps were launched on a node that has their data", node, all)
		if all != 16 || node*2 < all {
			t.Errorf("%d of %d maps were node-local, want at least half of 16", node, all)
		}
	})
	t.Run("s3", func(t *testing.T) {
		server := serverstest.S3(t)
		serverstest.Setenv(t, server.Env())
		countOnCluster(t, in, server.URI("cluster-"+storage.NewToken()), []string{"a", "b", "c", "d"}, want)
	})
}

// countOnCluster submits a word count of a copy of in to a cluster with a worker
// on each host.
func countOnCluster(t *testing.T, in, base string, hosts []string, want map[string]string) *testCluster {
	t.Helper()
	upload(t, in, base+"/in")
	t.Cleanup(func() { removeAll(t, base) })
	c := newTestCluster(t)
	for i, host := range hosts {
		c.worker(fmt.Sprint("w", i), "--host", host)
	}
	for _, more := range [][]string{nil, {"--overwrite"}} {
		c.must(append([]string{"wordcount", base + "/in", "--output", base + "/out", "--reduces", "3", "--split-size", "8MiB"}, more...)...)
		got := fetch(t, base+"/out")
		for _, files := range []map[string]string{got, want} {
			delete(files, storage.SuccessFile) // names the job's staging
		}
		if !maps.Equal(got, want) {
			t.Errorf("the counts differ: got %d files, want %d\n%.2000s", len(got), len(want), cmp.Diff(want, got))
		}
	}
	if status, out := c.submit("wordcount", base+"/in", "--output", base+"/out"); status == 0 {
		t.Errorf("an existing output was accepted:\n%s", out)
	}
	return c
}

// locality sums up where the maps of all jobs were launched.
func (c *testCluster) locality() (node, all int) {
	c.t.Helper()
	cmd := c.command("jobs", "--master", c.url, "--all", "-o", "json")
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if err != nil {
		c.t.Fatal(err)
	}
	var jobs []struct {
		Locality []int `json:"locality"`
	}
	if err := json.Unmarshal(b, &jobs); err != nil {
		c.t.Fatalf("%v: %s", err, b)
	}
	for _, j := range jobs {
		for level, n := range j.Locality {
			all += n
			if level == 0 {
				node += n
			}
		}
	}
	return node, all
}
