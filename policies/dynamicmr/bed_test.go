package dynamicmr_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/policies/dynamicmr"
	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/policies/hadoop/fair"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// bed is a cluster in a state that the test makes, under a composition.
type bed struct {
	*trackertest.Manual
	t   testing.TB
	all []*cluster.Node
}

// presched is prescheduling as the examples of Alg 4 have it.
var presched = dynamicmr.PrescheduleConfig{Enabled: true, Max: 100000}

// strict is delay scheduling that never gives in: only local maps, unless the
// offer says otherwise.
type strict struct{ hadoop.Greedy }

func (s *strict) Pick(r *sched.Round, o sched.Offer, c sched.Candidate) (*job.Task, cluster.Level, sched.Reason) {
	if !o.NoWait {
		o.Within = cluster.NODE
	}
	return s.Greedy.Pick(r, o, c)
}

// newBed returns n nodes t0, t1, … of the given slots, where maps wait for their
// data for ever.
func newBed(t testing.TB, n, maps, reduces int, cfg dynamicmr.DHSAConfig, pre dynamicmr.PrescheduleConfig, pools string) *bed {
	a, err := fair.ParseAllocations(pools)
	if err != nil {
		t.Fatal(err)
	}
	return bedOf(t, n, maps, reduces, sched.Compose(dynamicmr.NewDHSA(cfg), fair.New(fair.Config{Pools: a, UpdateInterval: time.Second}),
		dynamicmr.NewPreschedule(&strict{}, pre), &hadoop.None{}))
}

func bedOf(t testing.TB, n, maps, reduces int, c *sched.Composition) *bed {
	b := &bed{t: t, Manual: trackertest.NewManual(c.Parts()...)}
	for i := range n {
		b.all = append(b.all, b.Join(cluster.Spec{Name: fmt.Sprint("t", i), MapSlots: maps, ReduceSlots: reduces, Rack: fmt.Sprint("/r", i)}))
	}
	return b
}

// add submits a job of a pool; each map has its data on the host of the same
// index in hosts, or on the last one.
func (b *bed) add(pool string, maps, reduces int, hosts ...string) *job.Job {
	s := job.Spec{Request: job.Request{Pool: pool, SlowStart: -1}, Splits: make([]job.Split, maps), Reduces: reduces}
	for i := range s.Splits {
		if len(hosts) > 0 {
			s.Splits[i].Hosts = []string{hosts[min(i, len(hosts)-1)]}
		}
	}
	return b.Submit(s)
}

// start runs n tasks of a kind on a node in slots of a kind.
func (b *bed) start(j *job.Job, n int, k, slot job.Kind, node *cluster.Node, label dynamicmr.Label) {
	for range n {
		t := j.Fresh(k)
		if t == nil || node.Free(slot) == 0 {
			b.t.Fatalf("no %v of %v or no %v slot on %s", k, j.ID(), slot, node.Name())
		}
		b.Launch(node, sched.Assignment{Task: t, Slot: slot, Label: int32(label), Level: cluster.NODE})
	}
}

// spread runs n tasks of a kind in slots of a kind on the nodes from the second
// on, as many as each has room for.
func (b *bed) spread(j *job.Job, n int, k, slot job.Kind) {
	for _, node := range b.all[1:] {
		m := min(n, node.Free(slot))
		b.start(j, m, k, slot, node, 0)
		n -= m
	}
	if n > 0 {
		b.t.Fatalf("no room for %d more", n)
	}
}

// heartbeat plays a round of a node and returns its new tasks, each as
// kind@slot and the case, such as "M@R:3".
func (b *bed) heartbeat(n *cluster.Node) string {
	r := b.Round(n)
	var got []string
	for a, ok := b.Policy.Next(r); ok; a, ok = b.Policy.Next(r) {
		if r.Free(a.Slot) == 0 {
			b.t.Fatalf("no free %v slot for %v", a.Slot, a.Task.ID())
		}
		b.Launch(n, a)
		b.Rounds.Launched(a)
		text := fmt.Sprintf("%s@%s:%v", letter(a.Task.Kind()), letter(a.Slot), dynamicmr.Label(a.Label))
		if p := a.Task.Job().Pool(); p != "x" {
			text += "/" + p
		}
		got = append(got, text)
	}
	return strings.Join(got, " ")
}

func letter(k job.Kind) string { return strings.ToUpper(k.String()[:1]) }

// want fails unless the first node gets exactly this.
func (b *bed) want(what string) {
	b.t.Helper()
	if got := b.heartbeat(b.all[0]); got != what {
		b.t.Errorf("got %q, want %q", got, what)
	}
}

// cfgOf returns a configuration with the given percentages.
func cfgOf(t testing.TB, m dynamicmr.Mode, lendMaps, lendReduces string) dynamicmr.DHSAConfig {
	c := defaults(m)
	c.LendMaps, c.LendReduces = fraction(t, lendMaps), fraction(t, lendReduces)
	return c
}

func fraction(t interface{ Fatal(...any) }, s string) dynamicmr.Fraction {
	f, err := dynamicmr.ParseFraction(s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// defaults returns the defaults of a mode, which permit all slots to be lent.
func defaults(m dynamicmr.Mode) dynamicmr.DHSAConfig {
	return dynamicmr.DHSAConfig{Mode: m, LendMaps: dynamicmr.One, LendReduces: dynamicmr.One, FarAtOnce: true, Early: hadoop.EarlyOwn,
		KeepMapSlots: 1}
}
