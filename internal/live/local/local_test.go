package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// gate is a mapper that blocks until the test opens it.
type gate struct {
	open <-chan struct{}
	ctx  context.Context
}

func (g gate) Map(_, _ []byte) error {
	select {
	case <-g.open:
		return nil
	case <-g.ctx.Done():
		return context.Cause(g.ctx)
	}
}

func (gate) Close() error { return nil }

// gated is a job of n maps that end when open is closed.
func gated(t *testing.T, name, pool string, n int, open <-chan struct{}) JobSpec {
	fs, path, err := (*storage.Schemes)(nil).Resolve(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	staging, err := fs.Stage(t.Context(), path, storage.ReplaceNothing)
	if err != nil {
		t.Fatal(err)
	}
	return JobSpec{
		Name: name, Request: job.Request{Pool: pool}, Synthetic: n, Staging: staging,
		Program: &engine.Program{Sources: []engine.Source{{
			NewMapper: func(t *engine.Task, _ engine.Sink) (engine.Mapper, error) { return gate{open, t.Ctx}, nil },
		}}},
	}
}

func startCluster(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	cfg.TempDir = t.TempDir()
	cfg.Load = func(time.Duration) cluster.Load { return cluster.Load{} }
	c, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := os.ReadDir(cfg.TempDir); len(left) > 0 {
			t.Errorf("%v was left behind", left)
		}
	})
	return c
}

// running counts the running maps of a job.
func runningMaps(c *Cluster, h *Handle) (n int) {
	c.do(func() error { n = h.snapshot().MapsRunning; return nil })
	return n
}

// TestReload changes Hadoop's file of pools while jobs wait: a limit that goes
// lets the job's tasks start. A bad file changes nothing and causes a warning.
func TestReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fair.xml")
	write := func(text string) {
		// A rename, so that no half-written file is read.
		if err := errors.Join(os.WriteFile(file+".new", []byte(text), 0o644), os.Rename(file+".new", file)); err != nil {
			t.Fatal(err)
		}
	}
	limited := `<allocations><pool name="a"><maxMaps>1</maxMaps></pool></allocations>`
	write(limited)
	warnings := make(chan string, 100)
	c := startCluster(t, Config{
		Workers: 4, Policy: "fair", FairScheduler: file, Reload: 10 * time.Millisecond,
		Warn: func(s string) { warnings <- s },
	})
	open := make(chan struct{})
	h, err := c.Submit(gated(t, "j", "a", 3, open))
	if err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, "one map runs", func() bool { return runningMaps(c, h) == 1 })
	write(`<allocations><pool name="a"><maxMaps>none at all</maxMaps></pool></allocations>`)
	if w := <-warnings; !strings.Contains(w, file+": line 1") || !strings.Contains(w, "stays as it was") {
		t.Errorf("warning %q", w)
	}
	if n := runningMaps(c, h); n != 1 {
		t.Errorf("after a bad file %d maps run", n)
	}
	write(`<allocations><pool name="a"><maxMaps>3</maxMaps></pool></allocations>`)
	clustertest.Eventually(t, "three maps run", func() bool { return runningMaps(c, h) == 3 })
	close(open)
	if err := h.Wait(t.Context(), c); err != nil {
		t.Error(err)
	}
	if len(warnings) > 0 {
		t.Errorf("told again: %q", <-warnings)
	}
}

// TestHotSwap changes the policy while tasks run and wait: none is lost or run
// twice, whichever policies.
func TestHotSwap(t *testing.T) {
	c := startCluster(t, Config{Workers: 2})
	var handles []*Handle
	var gates []chan struct{}
	for _, pool := range []string{"a", "b"} {
		open := make(chan struct{})
		h, err := c.Submit(gated(t, pool, pool, 5, open))
		if err != nil {
			t.Fatal(err)
		}
		handles, gates = append(handles, h), append(gates, open)
	}
	for i, p := range []string{"fair", "capacity", "tumm", "modfair", "statictags", "fifo"} {
		if err := c.SetPolicy(p, nil); err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			close(gates[0])
		}
	}
	if err := c.SetPolicy("nonsense", nil); err == nil || c.Policy() != "fifo" {
		t.Errorf("policy %s, error %v", c.Policy(), err)
	}
	close(gates[1])
	for _, h := range handles {
		if err := h.Wait(t.Context(), c); err != nil {
			t.Error(err)
		}
		s := h.Summary()
		if s.Account.Failed != [2]int{} || s.Account.Levels[cluster.NONE] != 5 {
			t.Errorf("%s: %+v", s.Name, s.Account)
		}
	}
}

// TestWaits checks that the reasons of a job that waits are gathered, and none of
// one that runs.
func TestWaits(t *testing.T) {
	c := startCluster(t, Config{Workers: 1, Explain: true, Tick: 10 * time.Millisecond})
	waits := func(h *Handle) (out []job.Wait) {
		_ = c.do(func() error { out = h.core.Waits(); return nil })
		return out
	}
	open := make(chan struct{})
	first, err := c.Submit(gated(t, "first", "", 1, open))
	if err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, "the first job runs", func() bool { return runningMaps(c, first) == 1 })
	before := waits(first)
	second, err := c.Submit(gated(t, "second", "", 1, open))
	if err != nil {
		t.Fatal(err)
	}
	full := func(h job.Wait) bool {
		return strings.Contains(h.Words, "all 1 map slots") && h.For >= 50*time.Millisecond
	}
	clustertest.Eventually(t, "the second job has a reason", func() bool { return slices.ContainsFunc(waits(second), full) })
	close(open)
	for _, h := range []*Handle{first, second} {
		if err := h.Wait(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
	if after := first.Summary().Waits; !slices.Equal(after, before) {
		t.Errorf("the first job waited for %+v, then ran, and then for %+v", before, after)
	}
	if after := second.Summary().Waits; !slices.ContainsFunc(after, full) {
		t.Errorf("the second job waited for %+v", after)
	}
}

// TestTooMuchMemory: a cluster in this process refuses more memory than the machine
// has.
func TestTooMuchMemory(t *testing.T) {
	total, known := KnownMemory()
	if !known {
		t.Skip("the size of the memory is unknown")
	}
	cfg := Config{Workers: 1, Memory: total}
	if err := cfg.fill(); err != nil {
		t.Error(err)
	}
	if cfg.Memory++; cfg.fill() == nil {
		t.Errorf("%d of %d bytes are accepted", cfg.Memory, total)
	}
}

// Calls of a closed cluster return at once. The inbox has room for some calls, so each is made
// more than once.
func TestClosedClusterAnswers(t *testing.T) {
	c := startCluster(t, Config{Workers: 1})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := c.Learned(); !errors.Is(err, errClosed) {
			t.Fatalf("Learned: %v", err)
		}
		if _, err := c.Submit(gated(t, "late", "", 1, nil)); !errors.Is(err, errClosed) {
			t.Fatalf("Submit: %v", err)
		}
		if c.Inspect(func(*tracker.Tracker, time.Duration) { t.Error("the loop has ended") }) {
			t.Fatal("Inspect has run its function")
		}
	}
}
