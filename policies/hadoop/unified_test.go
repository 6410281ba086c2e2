package hadoop

import (
	"testing"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// unifiedWorld is one node and its jobs.
type unifiedWorld struct {
	nodes *cluster.Book
	jobs  *job.Book
	node  *cluster.Node
	desk  *sched.RoundWriter
	slots *Unified
}

func newUnifiedWorld(maps, reduces int, rampUp float64) *unifiedWorld {
	w := &unifiedWorld{nodes: cluster.NewBook(), slots: NewUnified(rampUp)}
	w.jobs = job.NewBook(w.nodes, 0)
	w.node, _ = w.nodes.Join(cluster.Spec{Name: "n", MapSlots: maps, ReduceSlots: reduces}, 0)
	view := sched.NewView(w.jobs.List(), w.nodes.List(), 0)
	w.desk = sched.NewRoundWriter(view)
	w.slots.Start(view, 0)
	return w
}

func (w *unifiedWorld) add(maps, reduces int) *job.Job {
	return w.jobs.Add(job.Spec{Splits: make([]job.Split, maps), Reduces: reduces}, 0)
}

func (w *unifiedWorld) open() *sched.Round {
	return w.desk.Open(0, w.node, [job.Kinds]int{w.node.Slots(job.Map), w.node.Slots(job.Reduce)})
}

// launch starts a task where the slots part says.
func (w *unifiedWorld) launch(j *job.Job, k job.Kind) *job.Attempt {
	a := w.jobs.Start(j.Fresh(k), job.Launch{Node: w.node.Index(), Slot: anySlot(w.open(), k)}, 0)
	w.nodes.Start(w.node, a)
	return a
}

func (w *unifiedWorld) want(t *testing.T, name string, want sched.Offer, ok bool) {
	t.Helper()
	if got, more := w.slots.Next(w.open()); got != want && ok || more != ok {
		t.Errorf("%s: %+v %v, want %+v %v", name, got, more, want, ok)
	}
}

// Either kind takes any slot; while maps wait, reduces beyond their share come
// after them.
func TestUnified(t *testing.T) {
	w := newUnifiedWorld(3, 1, 0.5)
	either := sched.Offer{Kind: job.Map, Either: true}
	w.want(t, "empty", either, true)
	j := w.add(4, 4)
	w.want(t, "no reduces yet", either, true)
	w.launch(j, job.Reduce)
	w.want(t, "one reduce", either, true)
	r := w.launch(j, job.Reduce)
	if r.Slot() != job.Map {
		t.Errorf("the second reduce took a %v slot", r.Slot())
	}
	w.want(t, "half are reduces", sched.Offer{Kind: job.Map, Slot: job.Map}, true)
	if got := [...]int{w.slots.Size(job.Map), w.slots.Size(job.Reduce)}; got != [...]int{2, 4} {
		t.Errorf("sizes %v", got)
	}
	w.launch(j, job.Map)
	w.launch(j, job.Map)
	w.want(t, "full", sched.Offer{}, false)
}

// A refused offer is followed by one for the other kind, if that is another one,
// and then by none.
func TestUnifiedRefused(t *testing.T) {
	w := newUnifiedWorld(2, 1, 0)
	j := w.add(1, 1)
	var got []sched.Offer
	p := compose(w.slots, &got)
	r := w.open()
	p.Begin(r)
	p.Next(r)
	if want := []sched.Offer{{Kind: job.Map, Slot: job.Map}, {Kind: job.Reduce, Slot: job.Reduce}}; len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("maps first: %+v", got)
	}
	w.add(1, 2)
	w.launch(w.jobs.List().Get(2), job.Reduce)
	w.launch(w.jobs.List().Get(2), job.Reduce)
	got = nil
	r = w.open()
	p.Begin(r)
	p.Next(r)
	if len(got) != 2 || !got[1].MapsDone {
		t.Errorf("the last slot is not to wait in: %+v", got)
	}
	w.launch(j, job.Map)
	w.jobs.Succeed(w.jobs.List().Get(2).Oldest(job.Reduce), 0, 0)
	w.nodes.Stop(w.node, w.node.Attempts()[0])
	w.jobs.Decide(w.jobs.List().Get(2), job.Killed, nil, "", 0)
	got = nil
	r = w.open()
	p.Begin(r)
	p.Next(r)
	if len(got) != 1 || !got[0].Either {
		t.Errorf("in turn: %+v", got)
	}
}

// compose makes a policy that refuses and writes down every offer.
func compose(s sched.Slots, got *[]sched.Offer) *sched.Composition {
	return sched.Compose(s, refuser{got}, nil, nothing{})
}

type refuser struct{ got *[]sched.Offer }

func (f refuser) Each(_ *sched.Round, o sched.Offer, _ func(sched.Candidate) bool) {
	*f.got = append(*f.got, o)
}

type nothing struct{}

func (nothing) Copy(*sched.Round, sched.Offer, sched.Candidate) *job.Task { return nil }
func (nothing) NeverCopies()                                              {}
