package capacity

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// fixture is a cluster of one node under a capacity order.
type fixture struct {
	*trackertest.Manual
	node  *cluster.Node
	order *Order
}

// fataler is a test, or a property's.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

func newWorld(t fataler, maps, reduces int, cfg Config) *fixture {
	t.Helper()
	o, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := &fixture{Manual: trackertest.NewManual(o), order: o}
	w.node = w.Join(cluster.Spec{Name: "n", MapSlots: maps, ReduceSlots: reduces})
	return w
}

func (w *fixture) submit(pool, user string, maps, reduces int) *job.Job {
	return w.Submit(job.Spec{Request: job.Request{Pool: pool, User: user, SlowStart: -1}, Splits: make([]job.Split, maps), Reduces: reduces})
}

// launch starts the next task of a job.
func (w *fixture) launch(j *job.Job, k job.Kind) *job.Attempt { return w.Run(w.node, j, k) }

// round opens a round of the node without limits.
func (w *fixture) round() *sched.Round { return w.Round(w.node, [job.Kinds]int{1 << 20, 1 << 20}) }

func (w *fixture) served(r *sched.Round, o sched.Offer) []job.ID { return w.Served(r, o) }

func mapOffer() sched.Offer { return sched.Offer{Kind: job.Map, Slot: job.Map} }

func queues(t testing.TB, s string) Config {
	t.Helper()
	q, err := ParseQueues(s)
	if err != nil {
		t.Fatal(err)
	}
	return Config{Queues: q}
}

// The limits of a queue in a cluster of some slots.
func TestCapacityLimits(t *testing.T) {
	for _, c := range []struct {
		queue                     string
		slots, occupied, users    int
		capacity, maximum, perUse int
	}{
		{"q,capacity=50", 10, 0, 1, 5, -1, 5},
		{"q,capacity=33", 10, 0, 1, 3, -1, 3},                                                       // rounded down
		{"q,capacity=50,minimum-user-limit-percent=25", 100, 10, 2, 50, -1, 25},                     // an even share
		{"q,capacity=50,minimum-user-limit-percent=25", 100, 10, 3, 50, -1, 17},                     // rounded up
		{"q,capacity=50,minimum-user-limit-percent=25", 100, 10, 9, 50, -1, 13},                     // the minimum
		{"q,capacity=50,minimum-user-limit-percent=25,user-limit-factor=2", 100, 80, 1, 50, -1, 81}, // over capacity: one more
		{"q,capacity=50,user-limit-factor=2", 100, 100, 1, 50, -1, 100},                             // the factor
		{"q,capacity=50,user-limit-factor=0.5", 100, 0, 1, 50, -1, 25},
		{"q,capacity=10,maximum-capacity=20", 45, 0, 1, 4, 9, 4},
		{"q,capacity=1,maximum-capacity=2,user-limit-factor=0.5", 10, 0, 1, 0, 1, 1}, // less than a slot is one
		{"q,capacity=0", 10, 0, 0, 0, -1, 1},
	} {
		q := newQueue(queues(t, c.queue).Queues[0])
		q.occupied[job.Map] = c.occupied
		p := slotSet(job.Map)
		if got := [...]int{q.capacity(c.slots), q.maximum(c.slots, false), q.userLimit(p, c.slots, c.users, false)}; got != [...]int{c.capacity, c.maximum, c.perUse} {
			t.Errorf("%s: capacity, maximum, user limit %v, want %d %d %d", c.queue, got, c.capacity, c.maximum, c.perUse)
		}
	}
	tiny := newQueue(queues(t, "q,capacity=1,maximum-capacity=2,user-limit-factor=0.5").Queues[0])
	if m, u := tiny.maximum(10, true), tiny.userLimit(slotSet(job.Map), 10, 1, true); m != -1 || u != 0 {
		t.Errorf("Hadoop's tiny limits: %d %d, want none and 0", m, u)
	}
}

// Every count and every walk equals one made afresh from the jobs.
func TestCapacityAgainstNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 12).Draw(t, "slots")
		cfg := Config{}
		for _, name := range []string{"a", "b", "c"} {
			q := NewQueueConfig(name, float32(rapid.SampledFrom([]int{0, 10, 33}).Draw(t, name)))
			q.MinUserLimit = rapid.SampledFrom([]int{20, 50, 100}).Draw(t, "user")
			q.UserLimitFactor = rapid.SampledFrom([]float32{0.5, 1, 3}).Draw(t, "factor")
			q.MaxCapacity = rapid.SampledFrom([]float32{-1, 40}).Draw(t, "max")
			cfg.Queues = append(cfg.Queues, q)
		}
		w := newWorld(t, slots, slots/2, cfg)
		before := [job.Kinds][]string{{"a", "b", "c", DefaultQueue}, {"a", "b", "c", DefaultQueue}}
		for range 60 {
			capAct(t, w)
			checkLists(t, w)
			for k := range job.Kind(job.Kinds) {
				before[k] = checkWalk(t, w, k, before[k])
			}
			if rapid.IntRange(0, 20).Draw(t, "reload") == 0 {
				if ok, err := w.order.Reconfigure(cfg); !ok || err != nil {
					t.Fatal(ok, err)
				}
			}
		}
	})
}

func capAct(t *rapid.T, w *fixture) {
	live := w.Jobs.List().Live()
	what := rapid.IntRange(0, 5).Draw(t, "what")
	if what == 0 || len(live) == 0 {
		w.submit(rapid.SampledFrom([]string{"a", "b", "c", "elsewhere"}).Draw(t, "pool"),
			rapid.SampledFrom([]string{"ann", "bob", "eve"}).Draw(t, "user"), rapid.IntRange(0, 4).Draw(t, "maps"), rapid.IntRange(1, 3).Draw(t, "reduces"))
		return
	}
	j := rapid.SampledFrom(live).Draw(t, "job")
	k := job.Kind(rapid.IntRange(0, 1).Draw(t, "kind"))
	switch {
	case what == 1 && rapid.Bool().Draw(t, "kill"):
		w.Kill(j)
	case what == 2 && j.Oldest(k) != nil:
		w.End(j.Oldest(k), rapid.Bool().Draw(t, "ok"))
	case j.Launchable(k):
		w.launch(j, k)
	}
}

// checkLists compares which jobs a walk visits, with and without copies, for one
// kind and for both.
func checkLists(t *rapid.T, w *fixture) {
	for _, q := range w.order.queues {
		for p := range slotSet(slotSets) {
			var ready, busy []*job.Job
			for _, j := range q.jobs.Jobs() {
				can, runs := false, false
				for k := range job.Kind(job.Kinds) {
					if p == slotSet(k) || p == allSlots {
						can, runs = can || j.Launchable(k), runs || j.Running(k) > 0
					}
				}
				if can {
					ready = append(ready, j)
				}
				if can || runs {
					busy = append(busy, j)
				}
			}
			if !slices.Equal(q.ready[p].Jobs(), ready) || !slices.Equal(q.busy[p].Jobs(), busy) {
				t.Fatalf("queue %s, slotSet %d: lists differ from the jobs'", q.conf.Name, p)
			}
		}
	}
}

// checkWalk compares a walk with one made by the rules alone, given the order of
// the queues before it, and returns the order after it.
func checkWalk(t *rapid.T, w *fixture, k job.Kind, order []string) []string {
	type tally struct{ occupied, users map[string]int }
	byQueue := map[string]*tally{}
	for _, name := range order {
		byQueue[name] = &tally{map[string]int{}, map[string]int{}}
	}
	pool := func(j *job.Job) string {
		if byQueue[j.Pool()] == nil {
			return DefaultQueue
		}
		return j.Pool()
	}
	total := func(name string) (n int) {
		for _, x := range byQueue[name].occupied {
			n += x
		}
		return n
	}
	for _, j := range w.Jobs.List().Live() {
		q := byQueue[pool(j)]
		q.occupied[j.User()] += j.Running(k)
		if j.Launchable(k) {
			q.users[j.User()]++
		}
	}
	slots := w.Nodes.List().Slots(k)
	conf := func(name string) *queue { return newQueue(w.order.byName[name].conf) }
	ratio := func(name string) float64 {
		if c := conf(name).capacity(slots); c > 0 {
			return float64(total(name)) / float64(c)
		}
		return 1
	}
	order = slices.Clone(order)
	slices.SortStableFunc(order, func(a, b string) int {
		switch {
		case ratio(a) < ratio(b):
			return -1
		case ratio(a) > ratio(b):
			return 1
		}
		return 0
	})
	var want []job.ID
	for _, name := range order {
		q := conf(name)
		q.occupied[k] = total(name)
		if q.full(slotSet(k), slots, false) {
			continue
		}
		limit := q.userLimit(slotSet(k), slots, len(byQueue[name].users), false)
		for _, j := range w.Jobs.List().Live() {
			if pool(j) == name && j.Launchable(k) && byQueue[name].occupied[j.User()] < limit {
				want = append(want, j.ID())
			}
		}
	}
	// A walk for an explanation, before and after, changes nothing.
	aside := sched.NewRoundWriter(sched.NewView(w.Jobs.List(), w.Nodes.List(), 0)).Open(0, w.node, [job.Kinds]int{})
	w.served(aside, sched.Offer{Kind: k, Slot: k})
	if got := w.served(w.round(), sched.Offer{Kind: k, Slot: k}); !slices.Equal(got, want) {
		t.Fatalf("%v: got %v, want %v", k, got, want)
	}
	return order
}

// Queues that use equally much keep the order that they had; the order of
// declaration at first.
func TestCapacityTieKeepsOrder(t *testing.T) {
	w := newWorld(t, 10, 0, queues(t, "a,capacity=50;b,capacity=50"))
	a, b := w.submit("a", "u", 9, 0), w.submit("b", "u", 9, 0)
	serve := func(want ...job.ID) {
		t.Helper()
		if got := w.served(w.round(), mapOffer()); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	serve(a.ID(), b.ID())
	x := w.launch(a, job.Map)
	serve(b.ID(), a.ID())
	w.End(x, true)
	serve(b.ID(), a.ID())
	// Asking while b has more leaves no trace once it has not.
	x = w.launch(b, job.Map)
	aside := sched.NewRoundWriter(sched.NewView(w.Jobs.List(), w.Nodes.List(), 0)).Open(0, w.node, [job.Kinds]int{})
	if got := w.served(aside, mapOffer()); !slices.Equal(got, []job.ID{a.ID(), b.ID()}) {
		t.Errorf("asked: %v", got)
	}
	w.End(x, true)
	serve(b.ID(), a.ID())
	if got := strings.Join(w.order.QueueOrder(job.Map), " "); got != "b a" {
		t.Errorf("order %q", got)
	}
	if got := strings.Join(w.order.QueueOrder(job.Reduce), " "); got != "a b" {
		t.Errorf("order for reduces %q", got)
	}
}

// The limits on the maps of a heartbeat, on those after a far map, and on its reduces.
func TestCapacityPerHeartbeat(t *testing.T) {
	cfg := queues(t, "a,capacity=100")
	cfg.MaxMaps, cfg.AfterOffSwitch, cfg.MaxReduces = 3, 1, 1
	for _, c := range []struct {
		name   string
		levels []cluster.Level // 0 for a reduce
		unloc  bool
		want   [job.Kinds]bool
	}{
		{"nothing yet", nil, false, [job.Kinds]bool{true, true}},
		{"one far", []cluster.Level{cluster.ANY}, false, [job.Kinds]bool{true, true}},
		{"one after it", []cluster.Level{cluster.ANY, cluster.NODE}, false, [job.Kinds]bool{false, true}},
		{"near ones first", []cluster.Level{cluster.RACK, cluster.ANY}, false, [job.Kinds]bool{true, true}},
		{"unlocated", []cluster.Level{cluster.NONE, cluster.NONE}, false, [job.Kinds]bool{true, true}},
		{"unlocated as far", []cluster.Level{cluster.NONE, cluster.NONE}, true, [job.Kinds]bool{false, true}},
		{"three near", []cluster.Level{cluster.NODE, cluster.NODE, cluster.RACK}, false, [job.Kinds]bool{false, true}},
		{"a reduce", []cluster.Level{cluster.NODE, 0}, false, [job.Kinds]bool{true, false}},
	} {
		cfg.UnlocatedFar = c.unloc
		w := newWorld(t, 10, 10, cfg)
		j := w.submit("a", "u", 9, 9)
		r := w.round()
		for _, l := range c.levels {
			k := job.Map
			if l == 0 {
				k = job.Reduce
			}
			a := w.launch(j, k)
			w.Rounds.Launched(sched.Assignment{Task: a.Task(), Slot: k, Level: l})
		}
		for k := range job.Kind(job.Kinds) {
			if got := len(w.served(r, sched.Offer{Kind: k, Slot: k})) > 0; got != c.want[k] {
				t.Errorf("%s: %v served %v", c.name, k, got)
			}
		}
	}
}

// A repeated map may be far without ending the heartbeat's share.
func TestCapacityRepeatedIsNotFar(t *testing.T) {
	w := newWorld(t, 10, 0, queues(t, "a,capacity=100"))
	j := w.submit("a", "u", 2, 0)
	w.End(w.launch(j, job.Map), false)
	r := w.round()
	w.launch(j, job.Map) // the fresh one
	again := w.launch(j, job.Map)
	w.Rounds.Launched(sched.Assignment{Task: again.Task(), Level: cluster.ANY})
	if again.ID().Number != 1 || w.order.spent(r, job.Map) {
		t.Errorf("%v ended the share", again.ID())
	}
}

// Without kinds of slots, maps and reduces share the limits, and an offer for
// either asks a job for both.
func TestCapacityUntyped(t *testing.T) {
	w := newWorld(t, 4, 4, queues(t, "a,capacity=50,maximum-capacity=50;b,capacity=50"))
	w.order.Consult([]any{untyped{}})
	a, b := w.submit("a", "u", 9, 9), w.submit("b", "u", 9, 9)
	o := sched.Offer{Kind: job.Map, Either: true}
	if got := w.served(w.round(), o); !slices.Equal(got, []job.ID{a.ID(), a.ID(), b.ID(), b.ID()}) {
		t.Errorf("both kinds: %v", got)
	}
	for _, k := range []job.Kind{job.Map, job.Map, job.Reduce, job.Reduce} {
		w.launch(a, k)
	}
	if got := w.served(w.round(), o); !slices.Equal(got, []job.ID{b.ID(), b.ID()}) {
		t.Errorf("a at its maximum: %v", got)
	}
	if why, _ := w.Rounds.Ledger().Last(a, job.Map); why.Code != sched.QueueFull || why.Have != 4 || why.Need != 4 {
		t.Errorf("reason %+v", why)
	}
	want := `queue "a" uses 4 of its 4 slots and may use at most 4; the jobs of user "u" use 4 and may use at most 4`
	if got := w.order.Explain(a, job.Map, 0); got != want {
		t.Errorf("explained as\n%s, want\n%s", got, want)
	}
}

type untyped struct{}

func (untyped) Untyped() bool { return true }

// Jobs of a removed queue, with their running tasks, move to the default queue.
func TestCapacityReconfigure(t *testing.T) {
	w := newWorld(t, 10, 0, queues(t, "a,capacity=40;b,capacity=60"))
	a := w.submit("a", "u", 9, 0)
	w.launch(a, job.Map)
	if ok, err := w.order.Reconfigure("a fair scheduler's"); ok || err != nil {
		t.Errorf("foreign: %v %v", ok, err)
	}
	bad := queues(t, "a,capacity=40;b,capacity=70")
	if ok, err := w.order.Reconfigure(bad); !ok || err == nil || !strings.Contains(err.Error(), "110 %") {
		t.Errorf("bad: %v %v", ok, err)
	}
	if got := w.order.Explain(a, job.Map, 0); !strings.HasPrefix(got, `queue "a" uses 1 of its 4 map slots`) {
		t.Errorf("after a bad one: %s", got)
	}
	if ok, err := w.order.Reconfigure(queues(t, "b,capacity=70")); !ok || err != nil {
		t.Errorf("good: %v %v", ok, err)
	}
	want := `queue "a" does not exist, so the job is in queue "default"; queue "default" uses 1 of its 3 map slots; ` +
		`the jobs of user "u" use 1 and may use at most 3`
	if got := w.order.Explain(a, job.Map, 0); got != want {
		t.Errorf("moved: %s", got)
	}
	w.Kill(a)
	for _, q := range w.order.queues {
		if q.occupied != [slotSets]int{} || q.wanting != [slotSets]int{} || len(q.users) != 0 || len(q.jobs.Jobs()) != 0 {
			t.Errorf("%s keeps %v %v", q.conf.Name, q.occupied, q.wanting)
		}
	}
}

func TestParseQueues(t *testing.T) {
	got, err := ParseQueues(" ads,capacity=70,maximum-capacity=80,minimum-user-limit-percent=25; web,capacity=30,user-limit-factor=2,supports-priority=true;")
	want := []QueueConfig{{"ads", 70, 80, 25, 1, false}, {"web", 30, -1, 100, 2, true}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %v", got, err)
	}
	for s, why := range map[string]string{
		"a": "no capacity", "a,capacity=x": `bad value "x"`, "a,capacity=1,colour=red": "unknown setting",
		",capacity=1": "no name", "a,capacity=NaN": "not from 0 to 100", "a,capacity=60;b,capacity=50": "110",
		"a,capacity=1;a,capacity=1": "twice", "a,capacity=50,maximum-capacity=20": "below capacity",
		"a,capacity=5,maximum-capacity=101": "above 100", "a,capacity=5,minimum-user-limit-percent=0": "1 to 100",
		"a,capacity=5,user-limit-factor=0": "not positive", "a,capacity=5,user-limit-factor=nan": "not positive",
	} {
		q, err := ParseQueues(s)
		if err == nil {
			err = (&Config{Queues: q}).Check()
		}
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", s, err, why)
		}
	}
}

// With priorities the more urgent job comes first, also when that changes.
func TestCapacityPriority(t *testing.T) {
	w := newWorld(t, 10, 0, queues(t, "a,capacity=50,supports-priority=true;b,capacity=50"))
	var ids []job.ID
	for _, pool := range []string{"a", "a", "b", "b"} {
		ids = append(ids, w.submit(pool, "u", 1, 0).ID())
	}
	for _, i := range []int{1, 3} {
		j := w.Jobs.List().Get(ids[i])
		w.Jobs.SetPriority(j, 1)
		w.order.JobChanged(j, sched.PriorityChanged)
	}
	if got := w.served(w.round(), mapOffer()); !slices.Equal(got, []job.ID{ids[1], ids[0], ids[2], ids[3]}) {
		t.Errorf("%v", got)
	}
}

// TestCheckQueue: with queues in the configuration, only these and the default queue exist.
func TestCheckQueue(t *testing.T) {
	c, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CheckQueue("any"); err != nil {
		t.Errorf("without queues: %v", err)
	}
	if _, err := c.Reconfigure(Config{Queues: []QueueConfig{NewQueueConfig("a", 60)}}); err != nil {
		t.Fatal(err)
	}
	for name, ok := range map[string]bool{"a": true, DefaultQueue: true, "any": false, "": false} {
		if err := c.CheckQueue(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}
