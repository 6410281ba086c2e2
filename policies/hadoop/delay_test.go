package hadoop

import (
	"math"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// starved is an order whose pools starve, or not.
type starved bool

func (s starved) Starving(*job.Job, time.Duration) bool { return bool(s) }

// delayWorld is a cluster of the nodes home, near (in home's rack) and far, with
// a job all of whose data is at home.
type delayWorld struct {
	*trackertest.Manual
	t     *testing.T
	delay *Delay
	j     *job.Job
}

func newDelayWorld(t *testing.T, cfg DelayConfig, spec job.Spec) *delayWorld {
	w := &delayWorld{t: t, delay: NewDelay(cfg)}
	w.Manual = trackertest.NewManual(w.delay)
	for _, n := range [][2]string{{"home", "/r1"}, {"near", "/r1"}, {"far", "/r2"}} {
		w.Join(cluster.Spec{Name: n[0], Rack: n[1], MapSlots: 9, ReduceSlots: 9})
	}
	w.j = w.Submit(spec)
	return w
}

func atHome(maps int) job.Spec {
	s := job.Spec{Splits: make([]job.Split, maps), Reduces: 1, Request: job.Request{SlowStart: -1}}
	for i := range s.Splits {
		s.Splits[i].Hosts = []string{"home"}
	}
	return s
}

// beat asks for a map on a node at a time and launches what comes.
func (w *delayWorld) beat(seconds float64, node string, o sched.Offer) (cluster.Level, sched.Reason) {
	w.Now = time.Duration(seconds * float64(time.Second))
	r := w.Round(w.Nodes.List().Get(node), [job.Kinds]int{99, 99})
	t, level, why := w.delay.Pick(r, o, sched.Candidate{Job: w.j, Kind: o.Kind})
	if t != nil {
		w.Launch(r.Node(), sched.Assignment{Task: t, Slot: o.Kind, Level: level})
	}
	return level, why
}

// want calls beat and compares the level; 0 means that the job waits.
func (w *delayWorld) want(seconds float64, node string, level cluster.Level) {
	w.t.Helper()
	got, why := w.beat(seconds, node, sched.Offer{})
	if got != level || level == 0 && why.Code != sched.WaitLocality {
		w.t.Errorf("at %v on %s: got %v (%+v), want %v", seconds, node, got, why, level)
	}
}

const second = time.Second

// A wait for the rack that is near the longest time does not become none when the wait for the node is added.
func TestDelayForEver(t *testing.T) {
	w := newDelayWorld(t, DelayConfig{NodeWait: second, RackWait: math.MaxInt64}, atHome(1))
	w.delay.Wait(w.j).Waited = 2 * second
	if level, limit := w.delay.Allowed(nil, sched.Offer{}, w.j); level != cluster.RACK || limit != math.MaxInt64 {
		t.Errorf("after the wait for the node the job takes %v, and anything after %v", level, limit)
	}
}

func TestDelayLevels(t *testing.T) {
	w := newDelayWorld(t, DelayConfig{NodeWait: 2 * second, RackWait: 3 * second}, atHome(9))
	w.want(0, "far", 0)
	w.want(0.5, "home", cluster.NODE)
	w.want(1, "far", 0) // the wait begins
	w.want(2, "far", 0)
	w.want(2.9, "far", 0)
	w.want(3, "far", 0)
	w.want(3, "near", cluster.RACK) // 2 s: the rack will do, and now 3 s count
	w.want(4, "far", 0)
	w.want(5, "far", 0)
	w.want(6, "far", 0)
	w.want(7, "far", cluster.ANY)
	w.want(7, "far", cluster.ANY) // the last one was anywhere
	w.want(7, "home", cluster.NODE)
	w.want(7, "far", 0) // and now it waits again
}

// The reason states the wait so far and its limit.
func TestDelayReason(t *testing.T) {
	w := newDelayWorld(t, DelayConfig{NodeWait: 2 * second, RackWait: 3 * second}, atHome(9))
	w.beat(0, "far", sched.Offer{})
	w.beat(1, "far", sched.Offer{})
	_, why := w.beat(2, "far", sched.Offer{})
	if want := (sched.Reason{Code: sched.WaitLocality, Level: cluster.RACK, Waited: 2 * second, Limit: 5 * second}); why != want {
		t.Errorf("%+v, want %+v", why, want)
	}
}

func TestDelayBypasses(t *testing.T) {
	cfg := DelayConfig{NodeWait: time.Hour, RackWait: time.Hour}
	w := newDelayWorld(t, cfg, atHome(9))
	if level, _ := w.beat(0, "far", sched.Offer{NoWait: true}); level != cluster.ANY {
		t.Errorf("an offer that must not wait: %v", level)
	}
	w = newDelayWorld(t, cfg, job.Spec{Splits: []job.Split{{Hosts: []string{"home"}}, {}}})
	w.want(0, "far", cluster.ANY) // a split is nowhere, so none waits
	w = newDelayWorld(t, cfg, atHome(9))
	w.delay.Consult([]any{starved(true)})
	w.want(0, "far", cluster.ANY)
	w = newDelayWorld(t, cfg, atHome(9))
	w.delay.Consult([]any{starved(false), w.delay})
	w.want(0, "far", 0)
	if _, why := w.beat(0, "far", sched.Offer{Within: cluster.NODE}); why.Code != sched.OutOfReach {
		t.Errorf("an offer for near data only: %+v", why)
	}
	if level, why := w.beat(0, "far", sched.Offer{Kind: job.Reduce}); level != 0 || why.Code != sched.NoReason {
		t.Errorf("reduces do not wait: %+v", why)
	}
}

// A turn that does not come for long does not count as waiting for long, and
// with Hadoop's clock only the time to the next heartbeat does.
func TestDelayClock(t *testing.T) {
	for _, hadoop := range []bool{false, true} {
		w := newDelayWorld(t, DelayConfig{NodeWait: 5 * second, RackWait: time.Hour, AnyHeartbeat: hadoop}, atHome(9))
		for s := range 4 {
			w.want(float64(s), "far", 0)
			w.Now = time.Duration(s) * second
			w.Round(w.Nodes.List().Get("home"), [job.Kinds]int{}) // full: no job is offered a slot
		}
		w.want(100, "far", 0)
		if waited := w.delay.waits[w.j.Seat()].Waited; hadoop && waited != 0 || !hadoop && (waited < 3*second || waited > 5*second+second) {
			t.Errorf("by any heartbeat %v: waited %v", hadoop, waited)
		}
	}
}

// A job that launches a map in a heartbeat and then declines that node's next slot is not
// skipped in Hadoop: its wait begins with the next heartbeat in which it launches nothing.
// By default the wait begins with the slot that it declined.
func TestDelayAfterLaunch(t *testing.T) {
	for _, hadoop := range []bool{false, true} {
		spec := atHome(9)
		spec.Splits[0].Hosts = []string{"near"}
		w := newDelayWorld(t, DelayConfig{NodeWait: second, RackWait: time.Hour, AnyHeartbeat: hadoop}, spec)
		w.want(0, "home", cluster.NODE)
		w.Now = second
		r := w.Round(w.Nodes.List().Get("near"), [job.Kinds]int{99, 99})
		for i, want := range []cluster.Level{cluster.NODE, 0} {
			task, level, _ := w.delay.Pick(r, sched.Offer{}, sched.Candidate{Job: w.j})
			if level != want {
				t.Fatalf("slot %d: got %v, want %v", i, level, want)
			}
			if task != nil {
				w.Launch(r.Node(), sched.Assignment{Task: task, Level: level})
			}
		}
		if hadoop {
			w.want(2, "near", 0)
		}
		w.want(3, "near", cluster.RACK)
	}
}

// The automatic wait is one and a half times between heartbeats, within limits.
func TestDelayAutoWait(t *testing.T) {
	var v interval
	if v.wait() != 0 {
		t.Error("waits before it knows for how long")
	}
	for s := range 20 {
		v.heard(3, time.Duration(s)*2*second)
		v.heard(1, time.Duration(s)*2*second)
	}
	if got := v.wait(); got != 3*second {
		t.Errorf("2 s between heartbeats: waits %v", got)
	}
	v.heard(1, time.Hour)
	if got := v.wait(); got > 4*second {
		t.Errorf("after an hour's silence of one node: waits %v", got)
	}
	for s := range 100 {
		v.heard(2, time.Duration(s)*30*second)
	}
	if got := v.wait(); got != maxAutoWait {
		t.Errorf("30 s between heartbeats: waits %v", got)
	}
}

// A job that takes the seat of one that waited has waited for nothing.
func TestDelaySeatIsClean(t *testing.T) {
	for _, hadoop := range []bool{false, true} {
		w := newDelayWorld(t, DelayConfig{NodeWait: 2 * second, RackWait: second, AnyHeartbeat: hadoop}, atHome(9))
		w.want(0, "far", 0)
		w.want(1, "far", 0)
		seat := w.j.Seat()
		w.Kill(w.j)
		w.j = w.Submit(atHome(9))
		if w.j.Seat() != seat {
			t.Fatal("another seat")
		}
		w.want(5, "far", 0)
		if waited := w.delay.waits[seat].Waited; waited != 0 {
			t.Errorf("waited %v", waited)
		}
	}
}

func TestFarMapsByRack(t *testing.T) {
	book := cluster.NewBook()
	jobs := job.NewBook(book, 0)
	var n *cluster.Node
	for _, name := range []string{"me", "z", "b"} {
		x, _ := book.Join(cluster.Spec{Name: name, Rack: "/" + name, MapSlots: 1}, 0)
		if name == "me" {
			n = x
		}
	}
	j := jobs.Add(job.Spec{Splits: []job.Split{{}, {Hosts: []string{"z"}}, {Hosts: []string{"b"}}}}, 0)
	desk := sched.NewRoundWriter(sched.NewView(jobs.List(), book.List(), 4))
	g := NewGreedy(true)
	for _, want := range []string{"j1_m_2", "j1_m_1", "j1_m_0"} {
		r := desk.Open(0, n, [job.Kinds]int{1, 1})
		task, _, _ := g.Pick(r, sched.Offer{}, sched.Candidate{Job: j})
		if task.ID().String() != want {
			t.Fatalf("got %v, want %s", task.ID(), want)
		}
		jobs.Start(task, job.Launch{}, 0)
	}
}
