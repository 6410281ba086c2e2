package policies

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

var compositions = flag.Int("compositions", 200, "how many different compositions of parts to play lives of clusters under")

// mix is a composition drawn from the registry.
type mix struct{ slots, order, place, speculate string }

func (m mix) String() string {
	return fmt.Sprintf("slots=%s,order=%s,place=%s,speculate=%s", m.slots, m.order, m.place, m.speculate)
}

// untyped says that a slot of the mix is as good for a map as for a reduce.
func (m mix) untyped() bool { return m.slots == "unified" }

// conserves reports whether the mix promises to leave no slot free that a task
// could use: the slots part offers every slot, the order has no limits and the place
// never waits.
func (m mix) conserves(limited bool) bool {
	switch m.order {
	case "fifo", "johnson", "reverse", "utility":
	case "fair":
		if limited {
			return false
		}
	default: // small jobs have slots of their own; capacity gives a heartbeat one far map
		return false
	}
	return (m.slots == "static" || m.untyped()) && m.place == "greedy"
}

// bounded are orders with limits on pools: how to set them, and how many tasks
// of a kind a pool may run on a number of slots, -1 for no limit.
var bounded = map[string]struct {
	set  map[string]string
	most func(pool string, k job.Kind, slots int) int
}{
	"fair": {
		map[string]string{"pools": "pool p1 maxMaps=2 maxReduces=1; pool p2 minMaps=1 maxMaps=3 maxReduces=1"},
		func(pool string, k job.Kind, _ int) int {
			limits, ok := map[string][job.Kinds]int{"p1": {2, 1}, "p2": {3, 1}}[pool]
			if !ok {
				return -1
			}
			return limits[k]
		},
	},
	"modfair": {
		map[string]string{"classify": "off", "max-allocated": "4", "pools": "p1:1/2/1"},
		func(pool string, k job.Kind, _ int) int {
			switch {
			case k == job.Reduce:
				return -1
			case pool == "p1":
				return 2
			}
			return 4
		},
	},
	"capacity": {
		map[string]string{"queues": "p1,capacity=30,maximum-capacity=40;p2,capacity=20,maximum-capacity=20"},
		func(pool string, _ job.Kind, slots int) int {
			percent, ok := map[string]int{"p1": 40, "p2": 20}[pool]
			if !ok {
				return -1
			}
			return max(1, slots*percent/100)
		},
	},
}

// Every composition is built or refused with a reason that tells which part is
// at fault; it names the part, so that a user sees what to replace.
func TestCompositionsAreBuiltOrRefused(t *testing.T) {
	g := Builtin()
	refused := 0
	all := everyMix(g)
	for _, m := range all {
		if p, err := g.Build(m.String(), sched.Options{Seed: 7}); err == nil {
			if p == nil {
				t.Errorf("%v: no policy and no error", m)
			}
		} else {
			refused++
			checkRefusal(t, m, err)
		}
	}
	t.Logf("%d compositions, %d refused", len(all), refused)
	if refused == 0 || refused > len(all)/2 {
		t.Errorf("%d of %d compositions are refused", refused, len(all))
	}
}

func everyMix(g *sched.Registry) (all []mix) {
	for _, s := range g.PartNames("slots") {
		for _, o := range g.PartNames("order") {
			for _, p := range g.PartNames("place") {
				for _, c := range g.PartNames("speculate") {
					all = append(all, mix{s, o, p, c})
				}
			}
		}
	}
	return all
}

func checkRefusal(t interface{ Errorf(string, ...any) }, m mix, err error) {
	base, _, _ := strings.Cut(m.slots, "-")
	for _, part := range []string{"slots=" + base, "order=" + m.order, "place=" + m.place, "speculate=" + m.speculate} {
		if strings.Contains(err.Error(), part) {
			return
		}
	}
	t.Errorf("%v: the reason names none of its parts: %v", m, err)
}

// Any composition that is not refused keeps the promises of trackertest.FakeCluster,
// the limits of its pools and, if it is work-conserving, leaves no slot free. It ends
// every job and makes the same decisions for the same events.
func TestRandomCompositions(t *testing.T) {
	g := Builtin()
	seen := map[mix]bool{}
	conserving, limited := 0, 0
	for round := 0; len(seen) < *compositions && !t.Failed(); round++ {
		rapid.Check(t, func(t *rapid.T) {
			m, bound := playMix(t, g, round)
			seen[m] = true
			if bound {
				limited++
			} else if m.conserves(false) {
				conserving++
			}
		})
	}
	for _, early := range []string{"on", "own", "gate"} {
		if waited[early] == 0 {
			t.Errorf("early-reduces=%s: no reduce waited for maps", early)
		}
	}
	t.Logf("%d compositions; %d lives with limits on pools, %d that kept slots busy", len(seen), limited, conserving)
}

// drawMix draws a composition. The same draws give a different one in each round, because
// all rounds may begin with the same seed.
func drawMix(t *rapid.T, g *sched.Registry, round int) mix {
	turn := round
	draw := func(part string) string {
		names := g.PartNames(part)
		at := rapid.IntRange(0, len(names)-1).Draw(t, part) + turn
		turn /= len(names)
		return names[at%len(names)]
	}
	return mix{draw("slots"), draw("order"), draw("place"), draw("speculate")}
}

// playMix plays one life of a cluster under a random composition and reports
// which it was and whether its pools had limits.
func playMix(t *rapid.T, g *sched.Registry, round int) (m mix, bound bool) {
	m = drawMix(t, g, round)
	limits, can := bounded[m.order]
	bound = can && rapid.Bool().Draw(t, "limits")
	// The round turns this draw too: with one seed for all rounds a value that the seed's few draws
	// do not contain would never be played.
	values := []string{"on", "own", "gate", "off"}
	early := values[(rapid.IntRange(0, len(values)-1).Draw(t, "early")+round)%len(values)]
	opt := sched.Options{Seed: rapid.Uint64Range(0, 3).Draw(t, "seed"), Set: map[string]string{"early-reduces": early}}
	if bound {
		maps.Copy(opt.Set, limits.set)
	}
	p, err := g.Build(m.String(), opt)
	if err != nil {
		t.Skip(err)
	}
	w := trackertest.NewFakeCluster(t, p)
	w.Boundless = strings.HasPrefix(m.slots, "overload")
	w.Also = func(effects []tracker.Effect) error {
		if err := waitsOnly(w.Tracker, effects, early); err != nil || !bound {
			return err
		}
		return withinLimits(w.Tracker, effects, m.untyped(), limits.most)
	}
	w.Join("n1", 2, 1)
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		w.Act()
		if m.conserves(bound) && early == "on" && rapid.IntRange(0, 7).Draw(t, "look") == 0 {
			w.Beat()
			if idle := idleWork(w.Tracker, m.untyped()); idle != "" {
				t.Fatalf("%v: %s", m, idle)
			}
		}
	}
	w.Settle(false)
	again, err := g.Build(m.String(), opt)
	if err != nil {
		t.Fatal(err)
	}
	w.Replay(again)
	return m, bound
}

// waitsOnly checks at each launch of a reduce whose maps are not all done that
// early-reduces permits it to wait in its slot.
func waitsOnly(tr *tracker.Tracker, effects []tracker.Effect, early string) error {
	for _, e := range effects {
		if e.Kind != tracker.Launch || e.Attempt.Kind != job.Reduce {
			continue
		}
		j := tr.Jobs().Get(e.Job)
		if j.MapsDone() {
			continue
		}
		switch a := j.Task(job.Reduce, e.Attempt.Index).Attempt(e.Attempt.Number); {
		case early == "off", early == "gate" && !j.MapsStarted(), early == "own" && a.Slot() == job.Map:
			return fmt.Errorf("%v: with early-reduces=%s the reduce waits in a %v slot for %d maps", e, early, a.Slot(), j.Unfinished(job.Map))
		}
		waited[early]++
	}
	return nil
}

// waited counts, by the value of early-reduces, the reduces that were launched before the maps
// of their job were done.
var waited = map[string]int{}

// withinLimits checks at each launch that the job's pool runs no more than it
// may; slots can vanish under a pool that is full.
func withinLimits(tr *tracker.Tracker, effects []tracker.Effect, untyped bool, most func(string, job.Kind, int) int) error {
	for _, e := range effects {
		if e.Kind != tracker.Launch {
			continue
		}
		pool, kinds := tr.Jobs().Get(e.Job).Pool(), []job.Kind{e.Attempt.Kind}
		if untyped {
			kinds = []job.Kind{job.Map, job.Reduce}
		}
		running, slots := 0, 0
		for _, k := range kinds {
			slots += tr.Nodes().Slots(k)
		}
		// Only a capacity counts both kinds together, on slots without kinds.
		limit := most(pool, e.Attempt.Kind, slots)
		if untyped && limit != most(pool, e.Attempt.Kind, 1000*slots) {
			running = poolRuns(tr, pool, kinds)
		} else {
			running = poolRuns(tr, pool, []job.Kind{e.Attempt.Kind})
		}
		if limit >= 0 && running > limit {
			return fmt.Errorf("%v: pool %q runs %d of at most %d", e, pool, running, limit)
		}
	}
	return nil
}

func poolRuns(tr *tracker.Tracker, pool string, kinds []job.Kind) (running int) {
	for _, j := range tr.Jobs().Live() {
		if j.Pool() == pool {
			for _, k := range kinds {
				running += j.Running(k)
			}
		}
	}
	return running
}

// fitsUntyped reports whether a node has room for a task where slots have no kind. A task
// that occupies several slots looks for slots of its kind.
func fitsUntyped(n *cluster.Node, j *job.Job, k job.Kind) bool {
	fits := func(slot job.Kind) bool {
		other := n.Reserved(slot).Job
		return n.Free(slot) >= n.Width(j) && (other == nil || other == j)
	}
	return fits(k) || n.Width(j) == 1 && fits(k.Other())
}

// idleWork names a task that could run in a free slot, or "". Where slots have no
// kind any will do, but reduces that would wait for maps in it may be held back.
func idleWork(tr *tracker.Tracker, untyped bool) string {
	if !untyped {
		return trackertest.IdleWork(tr, true)
	}
	for _, j := range tr.Jobs().Live() {
		for k := range job.Kind(job.Kinds) {
			if !j.Open(k) || k == job.Reduce && !j.MapsDone() {
				continue
			}
			for i := range j.Total(k) {
				task := j.Task(k, int32(i))
				fits := func(n *cluster.Node) bool {
					return n.Alive() && fitsUntyped(n, j, k) && !tr.View().Barred(j, n, k) && !tr.View().Avoid(task, n, tr.Now())
				}
				if task.State() == job.TaskPending && slices.ContainsFunc(tr.Nodes().All(), fits) {
					return fmt.Sprintf("%v waits while a slot is free", task.ID())
				}
			}
		}
	}
	return ""
}
