package cli

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/slotwise/slotwise/internal/live/client"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// TestDamagedOutputs damages map outputs, and removes one, before the reduce fetches
// them. The maps of these outputs run again, no others do, and the answer is right.
func TestDamagedOutputs(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	workers := []*clustertest.Worker{c.StartWorker("w1", "--reduce-slots", "-1"), c.StartWorker("w2", "--reduce-slots", "-1")}
	want := c.Words("in/a.txt", 16_000)
	ended := make(chan string, 1)
	go func() {
		_, out := c.Submit("wordcount", "in", "--output", "counts", "--split-size", "20KiB", "--reduces", "1")
		ended <- out
	}()
	outputs := func() (all []string) {
		for _, w := range workers {
			names, _ := filepath.Glob(filepath.Join(w.Dir, "outputs", "*", "*.run"))
			all = append(all, names...)
		}
		return all
	}
	cl, err := client.New(c.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var maps int
	clustertest.Eventually(t, "all maps are done", func() bool {
		jobs, err := cl.RPC().Jobs(t.Context(), &slotwisev1.JobsRequest{})
		if err != nil || len(jobs.Jobs) == 0 {
			return false
		}
		maps = int(jobs.Jobs[0].Maps.Total)
		return jobs.Jobs[0].Maps.Done == jobs.Jobs[0].Maps.Total
	})
	names := outputs()
	if len(names) != maps || maps < 6 {
		t.Fatalf("%d outputs of %d maps", len(names), maps)
	}
	spoilt := spoil(t, names)
	c.StartWorker("w3")
	if out := <-ended; !slices.Equal(c.Lines("counts"), want) {
		t.Errorf("wrong counts: %s", out)
	}
	again := 0
	tasks, err := cl.RPC().Tasks(t.Context(), &slotwisev1.TasksRequest{Job: "j1", Kind: slotwisev1.Kind_KIND_MAP})
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks.Tasks {
		if len(task.Attempts) > 1 {
			again++
		}
	}
	if again != spoilt {
		t.Errorf("%d maps ran again, %d outputs were spoilt", again, spoilt)
	}
}

// TestCutBetweenWorkers has one worker unreachable for the others, though not for
// the master, until a reduce has failed several times. When the line is mended
// the job ends well, and no map has run again.
func TestCutBetweenWorkers(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	w1 := c.StartWorker("w1", "--reduce-slots", "-1", "--advertise", l.Addr().String())
	cut := &brokenLine{to: w1.Logged("listens")}
	go cut.serve(l)
	c.StartWorker("w2", "--map-slots", "-1")
	want := c.Words("in/a.txt", 2_000)
	c.Must("wordcount", "in", "--output", "counts", "--split-size", "10KiB", "--reduces", "1")
	if got := c.Lines("counts"); !slices.Equal(got, want) {
		t.Errorf("%d lines, want %d", len(got), len(want))
	}
	if n := cut.refused.Load(); n < cutFor {
		t.Errorf("the reduce was refused %d times only", n)
	}
	if log := w1.Log.String(); strings.Contains(log, "_1 ") {
		t.Errorf("a map ran again:\n%s", log)
	}
}

// cutFor is the number of connections that the proxy cuts before it forwards data again.
const cutFor = 3

// brokenLine passes connections on once it is mended.
type brokenLine struct {
	to      string
	refused atomic.Int64
}

func (l *brokenLine) serve(from net.Listener) {
	for {
		c, err := from.Accept()
		if err != nil {
			return
		}
		if l.refused.Load() < cutFor {
			l.refused.Add(1)
			c.Close()
			continue
		}
		go func() {
			defer c.Close()
			up, err := net.Dial("tcp", l.to)
			if err != nil {
				return
			}
			defer up.Close()
			go io.Copy(up, c)
			io.Copy(c, up)
		}()
	}
}

// spoil damages two outputs and removes a third.
func spoil(t *testing.T, names []string) int {
	for _, name := range names[:2] {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b[30] ^= 1
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(names[len(names)-1]); err != nil {
		t.Fatal(err)
	}
	return 3
}
