package modfair

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched/place"
	"github.com/slotwise/slotwise/internal/sched/speculate"
	"github.com/slotwise/slotwise/sched"
)

// world plays the tracker for an order alone: it keeps the books and tells the
// order what the hooks would.
type world struct {
	t     testing.TB
	o     *Order
	nodes *cluster.Book
	jobs  *job.Book
	view  *sched.View
	desk  *sched.Desk
	now   time.Duration
}

// paper is the configuration of the specification's examples, ties by name.
func paper() Config {
	cfg, err := readConfig(kit(nil))
	if err != nil {
		panic(err)
	}
	cfg.TieByName = true
	return cfg
}

func newWorld(t testing.TB, cfg Config) *world {
	w := &world{t: t, o: New(cfg), nodes: cluster.NewBook()}
	w.jobs = job.NewBook(w.nodes, 100)
	w.view = sched.NewView(w.jobs.List(), w.nodes.List(), 4)
	w.desk = sched.NewDesk(w.view)
	w.o.Start(w.view, 0)
	return w
}

// join adds nodes with so many map slots each, and a reduce slot.
func (w *world) join(maps ...int) *world {
	for _, m := range maps {
		n, _ := w.nodes.Join(cluster.Spec{Name: fmt.Sprint("n", len(w.nodes.List().All())), MapSlots: m, ReduceSlots: 1}, w.now)
		w.o.NodeJoined(n)
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

func (w *world) add(pool string, maps, reduces int) *job.Job {
	return w.submit(job.Spec{Pool: pool, Splits: make([]job.Split, maps), Reduces: reduces, SlowStart: 1})
}

func (w *world) submit(s job.Spec) *job.Job {
	j := w.jobs.Add(s, w.now)
	w.o.JobAdded(j)
	return j
}

// start launches n maps of a job on node 0, which is never asked for its slots.
func (w *world) start(j *job.Job, n int) *world {
	for range n {
		a := w.jobs.Start(j.Fresh(job.Map), job.Launch{Level: cluster.NONE}, w.now)
		w.o.TaskStarted(a, w.now)
	}
	return w
}

func (w *world) launch(t *job.Task, level cluster.Level) {
	w.o.TaskStarted(w.jobs.Start(t, job.Launch{Level: level}, w.now), w.now)
}

// end kills a job with all it runs.
func (w *world) end(j *job.Job) {
	for k := range job.Kind(job.Kinds) {
		for a := j.Oldest(k); a != nil; a = j.Oldest(k) {
			w.jobs.Drop(a, job.AttemptKilled, "", w.now)
			w.o.TaskEnded(a, w.now)
		}
	}
	w.jobs.Decide(j, job.Killed, nil, "", w.now)
	w.o.JobRemoved(j)
}

func (w *world) update() {
	w.now += 500 * time.Millisecond
	w.o.Update(w.now)
}

// where lists the pools of jobs, S for the shared one.
func (w *world) where() string {
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

func (w *world) quotas(k job.Kind) (q []int) {
	for _, p := range w.o.pools {
		q = append(q, p.side[k].quota)
	}
	return q
}

// served lists the jobs that the order yields for maps.
func (w *world) served() string { return w.servedKind(job.Map, false) }

func (w *world) servedKind(k job.Kind, copies bool) string {
	var b []string
	r := w.desk.Open(w.now, w.nodes.List().Node(0), [job.Kinds]int{1, 1})
	if copies {
		sched.Compose(nil, w.o, nil, copier{}).Begin(r)
	}
	w.o.Each(r, sched.Offer{Kind: k, Slot: k}, func(c sched.Candidate) bool {
		b = append(b, fmt.Sprint(c.Job.ID()))
		return true
	})
	return strings.Join(b, " ")
}

// poolOrder lists the pools of the jobs that the order yields, each once.
func (w *world) poolOrder() string {
	var b []string
	for _, p := range w.o.ready[job.Map] {
		b = append(b, p.name)
	}
	return strings.Join(b, " ")
}

// fill sends a heartbeat of each node in turn, rounds times, and lists the pools
// of the maps launched. Each heartbeat gives one map, if one gives any.
func (w *world) fill(rounds int) string {
	var b []string
	c := sched.Compose(oneMap{}, w.o, &place.Greedy{}, &speculate.None{})
	for range rounds {
		for _, n := range w.nodes.List().All() {
			r := w.desk.Open(w.now, n, [job.Kinds]int{n.Slots(job.Map), n.Slots(job.Reduce)})
			c.Begin(r)
			as, ok := c.Next(r)
			if !ok {
				continue
			}
			j := as.Task.Job()
			name := "S"
			if m := w.o.bySeat[j.Seat()]; !m.at.shared {
				name = m.at.name
			}
			b = append(b, name)
			a := w.jobs.Start(as.Task, job.Launch{Node: n.Index(), Level: as.Level}, w.now)
			w.nodes.Start(n, a)
			w.desk.Launched(as)
			w.o.TaskStarted(a, w.now)
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

// expect compares what was printed.
func expect(t testing.TB, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

// kit builds the constructor's argument as the registry does.
func kit(set map[string]string) *sched.Kit { return sched.NewKit(sched.Options{Set: set}) }
