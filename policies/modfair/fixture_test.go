package modfair

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// fixture is a cluster under a modfair order.
type fixture struct {
	*trackertest.Manual
	t testing.TB
	o *Order
}

// paper is the configuration of the worked examples, ties by name.
func paper() Config {
	cfg, err := readConfig(kit(map[string]string{"max-allocated": "6"})) // the paper's
	if err != nil {
		panic(err)
	}
	cfg.TieByName = true
	return cfg
}

func newWorld(t testing.TB, cfg Config) *fixture {
	w := &fixture{t: t, o: New(cfg)}
	w.Manual = trackertest.NewManual(oneMap{}, w.o, &hadoop.Greedy{})
	return w
}

// join adds nodes of the given numbers of map slots, and a reduce slot each.
func (w *fixture) join(maps ...int) *fixture {
	for _, m := range maps {
		w.Join(cluster.Spec{Name: fmt.Sprint("n", len(w.Nodes.List().All())), MapSlots: m, ReduceSlots: 1})
	}
	return w
}

// cluster8 is the paper's cluster: 8 nodes of the same size.
func cluster8(slots int) []int { return same(8, slots) }

func same(n, x int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = x
	}
	return list
}

func (w *fixture) add(pool string, maps, reduces int) *job.Job {
	return w.Submit(job.Spec{Request: job.Request{Pool: pool, SlowStart: 1}, Splits: make([]job.Split, maps), Reduces: reduces})
}

// start launches n maps of a job on the first node, however many slots it has.
func (w *fixture) start(j *job.Job, n int) *fixture {
	for range n {
		w.launch(j.Fresh(job.Map), cluster.NONE)
	}
	return w
}

func (w *fixture) launch(t *job.Task, level cluster.Level) {
	w.Launch(w.Nodes.List().Node(0), sched.Assignment{Task: t, Level: level})
}

func (w *fixture) update() {
	w.Now += 500 * time.Millisecond
	w.o.Update(w.Now)
}

// where lists the pools of jobs, S for the shared one.
func (w *fixture) where() string {
	var b []string
	for _, m := range w.o.members {
		if m.at.shared {
			b = append(b, "S")
		} else {
			b = append(b, m.at.name)
		}
	}
	return strings.Join(b, " ")
}

func (w *fixture) quotas(k job.Kind) (q []int) {
	for _, p := range w.o.pools {
		q = append(q, p.side[k].quota)
	}
	return q
}

// served lists the jobs that the order yields for maps.
func (w *fixture) served() string { return w.servedKind(job.Map, false) }

func (w *fixture) servedKind(k job.Kind, copies bool) string {
	var b []string
	r := w.Rounds.Open(w.Now, w.Nodes.List().Node(0), [job.Kinds]int{1, 1})
	if copies {
		sched.Compose(nil, w.o, nil, copier{}).Begin(r)
	}
	for _, id := range w.Served(r, sched.Offer{Kind: k, Slot: k}) {
		b = append(b, fmt.Sprint(id))
	}
	return strings.Join(b, " ")
}

// poolOrder lists the pools of the jobs that the order yields, each once.
func (w *fixture) poolOrder() string {
	var b []string
	for _, p := range w.o.ready[job.Map] {
		b = append(b, p.name)
	}
	return strings.Join(b, " ")
}

// fill sends a heartbeat of each node in turn, for the given number of rounds, and
// lists the pools of the maps launched. Each heartbeat gets at most one map.
func (w *fixture) fill(rounds int) string {
	var b []string
	for range rounds {
		for _, n := range w.Nodes.List().All() {
			for _, as := range w.Assign(n, 1) {
				name := "S"
				if m := w.o.bySeat[as.Task.Job().Seat()]; !m.at.shared {
					name = m.at.name
				}
				b = append(b, name)
			}
		}
	}
	return strings.Join(b, " ")
}

// oneMap offers the map slots of a node one by one.
type oneMap struct{}

func (oneMap) Next(r *sched.Round) (sched.Offer, bool) {
	return sched.Offer{}, r.Free(job.Map) > 0 && !r.RefusedKind(job.Map, job.Map)
}

// copier makes a composition that wants copies.
type copier struct{}

func (copier) Copy(*sched.Round, sched.Offer, sched.Candidate) *job.Task { return nil }

// expect fails unless got and want print alike.
func expect(t testing.TB, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

// kit builds the constructor's argument as the registry does.
func kit(set map[string]string) *sched.Kit { return sched.NewKit(sched.Options{Set: set}) }
