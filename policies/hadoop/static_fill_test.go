package hadoop

import (
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// fillWorld is a cluster of equal nodes whose slots Static fills.
type fillWorld struct {
	*trackertest.Manual
	static *Static
}

func newFillWorld(cfg StaticConfig, nodes, maps, reduces int) *fillWorld {
	w := &fillWorld{static: NewStatic(cfg)}
	w.Manual = trackertest.NewManual(w.static)
	for i := range nodes {
		w.Join(cluster.Spec{Name: string(rune('a' + i)), MapSlots: maps, ReduceSlots: reduces})
	}
	return w
}

// submit adds a job whose reduces may start at once.
func (w *fillWorld) submit(maps, reduces int) *job.Job {
	return w.Submit(job.Spec{Splits: make([]job.Split, maps), Reduces: reduces, Request: job.Request{SlowStart: -1}})
}

// beat fills a node and returns the kinds of its new tasks, such as "mmr". Maps
// start at the given level.
func (w *fillWorld) beat(node int32, level cluster.Level, jobs ...*job.Job) string {
	n := w.Nodes.List().Node(node)
	w.Nodes.Report(n)
	r := w.Round(n)
	var got []string
	for o, ok := w.static.Next(r); ok; o, ok = w.static.Next(r) {
		i := slices.IndexFunc(jobs, func(j *job.Job) bool { return j.Fresh(o.Kind) != nil })
		if i < 0 || o.HeadOnly && i > 0 {
			return strings.Join(append(got, "-"+o.Kind.String()), "")
		}
		t := jobs[i].Fresh(o.Kind)
		a := sched.Assignment{Task: t, Slot: o.Slot, Level: level}
		w.Launch(n, a)
		w.Rounds.Launched(a)
		got = append(got, o.Kind.String()[:1])
	}
	return strings.Join(got, "")
}

func TestFillLoad(t *testing.T) {
	cfg := StaticConfig{Fill: FillLoad, Padding: 0.01}
	w := newFillWorld(cfg, 3, 4, 2)
	j := w.submit(6, 3)
	// 6 maps on 12 slots fill half of each node; one reduce a heartbeat.
	if got := w.beat(0, cluster.NODE, j); got != "mmr" {
		t.Errorf("half the load: %s", got)
	}
	if got := w.beat(0, cluster.NODE, j); got != "" {
		t.Errorf("one of two reduce slots is the share of half the load: %s", got)
	}
	if got := w.beat(1, cluster.ANY, j); got != "mr" {
		t.Errorf("one map without local data: %s", got)
	}
	if got := w.beat(1, cluster.NONE, j); got != "m" {
		t.Errorf("one map without location: %s", got)
	}
	if got := newFillWorld(cfg, 1, 0, 0).beat(0, cluster.NODE, j); got != "" {
		t.Errorf("no slots at all: %s", got)
	}
}

// With little room left in a cluster of more than three nodes a heartbeat gets
// one map, and only the first job gets reduces. Hadoop forgets map-only jobs.
func TestFillLoadPadding(t *testing.T) {
	for _, reducing := range []bool{false, true} {
		w := newFillWorld(StaticConfig{Fill: FillLoad, Padding: 0.5, PadReducing: reducing}, 4, 2, 2)
		only := w.submit(16, 0)
		want := map[bool]string{false: "m", true: "mm"}[reducing]
		for node := range int32(3) {
			w.beat(node, cluster.NODE, only)
			w.Nodes.Report(w.Nodes.List().Node(node))
		}
		if got := w.beat(3, cluster.NODE, only); got != want {
			t.Errorf("map-only job, forgotten %v: %s, want %s", reducing, got, want)
		}
	}
	w := newFillWorld(StaticConfig{Fill: FillLoad, Padding: 1}, 4, 1, 1)
	first, second := w.submit(0, 4), w.submit(0, 4)
	for node := range int32(3) {
		if got := w.beat(node, 0, first, second); got != "r" {
			t.Errorf("node %d: %s", node, got)
		}
		w.Nodes.Report(w.Nodes.List().Node(node))
	}
	w.Run(w.Nodes.List().Node(0), first, job.Reduce)
	if got := w.beat(3, 0, first, second); got != "-reduce" {
		t.Errorf("the second job got a reduce of a cluster that is nearly full: %s", got)
	}
}

// A drained node does not make a cluster large enough for padding, as its slots are not in the capacity.
func TestFillLoadPaddingOfOpenNodes(t *testing.T) {
	w := newFillWorld(StaticConfig{Fill: FillLoad, Padding: 1}, 4, 2, 0)
	j := w.submit(16, 0)
	w.beat(1, cluster.NODE, j)
	w.beat(2, cluster.NODE, j)
	for node := range int32(3) {
		w.Nodes.Report(w.Nodes.List().Node(node))
	}
	w.Nodes.Drain(w.Nodes.List().Node(3), true, 0)
	if got := w.beat(0, cluster.NODE, j); got != "mm" {
		t.Errorf("one of three open nodes gets %s, want all its slots filled", got)
	}
}

// wish is an order that knows its demand.
type wish [job.Kinds]int

func (w wish) Demand(k job.Kind) int { return w[k] }

func TestFillBalance(t *testing.T) {
	for _, c := range []struct {
		name          string
		cfg           StaticConfig
		demand        wish
		maps, reduces int
		want          string
	}{
		{"the kind with fewer tasks first", StaticConfig{MaxMaps: -1, MaxReduces: -1}, wish{99, 99}, 9, 9, "mrmrmm"},
		{"its part of the load", StaticConfig{MaxMaps: -1, MaxReduces: -1}, wish{4, 0}, 4, 0, "mm"},
		{"may be fuller", StaticConfig{MaxMaps: -1, MaxReduces: -1, MaxDiff: 0.25}, wish{4, 0}, 4, 0, "mmm"},
		{"one a heartbeat", StaticConfig{Single: true}, wish{99, 99}, 9, 9, "m"},
		{"so many a heartbeat", StaticConfig{MaxMaps: 1, MaxReduces: 2}, wish{99, 99}, 9, 9, "mrr"},
		{"all that is wanted runs", StaticConfig{MaxMaps: -1, MaxReduces: -1}, wish{0, 0}, 9, 9, ""},
	} {
		c.cfg.Fill = FillBalance
		w := newFillWorld(c.cfg, 2, 4, 2)
		w.static.Consult([]any{c.demand})
		if got := w.beat(0, cluster.NODE, w.submit(c.maps, c.reduces)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	// Beside an order that does not know, all that waits or runs counts.
	w := newFillWorld(StaticConfig{Fill: FillBalance, MaxMaps: -1, MaxReduces: -1}, 2, 4, 2)
	if got := w.beat(0, cluster.NODE, w.submit(2, 0)); got != "m" {
		t.Errorf("without a word from the order: %s", got)
	}
}

// Where slots may stay free on purpose, the answer to why says so.
func TestFillExplains(t *testing.T) {
	for fill, want := range map[Fill]bool{FillFree: false, FillLoad: true, FillBalance: true} {
		w := newFillWorld(StaticConfig{Fill: fill}, 1, 1, 1)
		j := w.submit(1, 0)
		if got := w.static.Explain(j, job.Map, 0) != ""; got != want {
			t.Errorf("fill %d: explains %v", fill, got)
		}
		if got := w.static.Explain(j, job.Reduce, 0); got != "" {
			t.Errorf("fill %d: no reduce waits, but %q", fill, got)
		}
	}
}

func TestReadStatic(t *testing.T) {
	for name, value := range map[string]string{
		"fill": "slowly", "padding": "2", "pad-jobs": "some", "load-max-diff": "NaN", "assign-multiple": "maybe",
		"assign-maps": "0", "assign-reduces": "x",
	} {
		_, err := ReadStatic(sched.NewKit(sched.Options{Set: map[string]string{name: value}}))
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: error %v", name, value, err)
		}
	}
}
