package sched

import (
	"slices"
	"testing"

	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// fixed implements all four parts. It makes a configured offer and takes the first task.
type fixed struct {
	offers []Offer
	jobs   []*job.Job
	before *job.Task
	begun  int
	deny   bool
	asked  []Offer
}

func (f *fixed) Begin(*Round) { f.begun++ }

func (f *fixed) Next(r *Round) (Offer, bool) {
	if i := len(r.Refused()); i < len(f.offers) {
		return f.offers[i], true
	}
	return Offer{}, false
}

func (f *fixed) Each(_ *Round, o Offer, visit func(Candidate) bool) {
	f.asked = append(f.asked, o)
	for _, j := range f.jobs {
		if !visit(Candidate{Job: j, Kind: o.Kind}) {
			return
		}
	}
}

func (f *fixed) Pick(_ *Round, o Offer, c Candidate) (*job.Task, cluster.Level, Reason) {
	if t := c.Job.Fresh(c.Kind); t != nil && !f.deny {
		return t, cluster.ANY, Reason{}
	}
	return nil, 0, Reason{Code: OutOfReach}
}

func (f *fixed) Copy(r *Round, _ Offer, c Candidate) *job.Task {
	for a := c.Job.Oldest(c.Kind); a != nil; a = a.Next() {
		if r.Copyable(a.Task(), r.Node()) {
			return a.Task()
		}
	}
	return nil
}

func (f *fixed) Before(*Round, Offer, Order) *job.Task { return f.before }

// bench is a job of two maps, one of which runs on n1, and a round for n2.
func bench(f *fixed) (*job.Book, *Composition, *RoundWriter, *Round) {
	nodes := cluster.NewBook()
	b := job.NewBook(nodes, 0)
	n1, _ := nodes.Join(cluster.Spec{Name: "n1", MapSlots: 1}, 0)
	n2, _ := nodes.Join(cluster.Spec{Name: "n2", MapSlots: 1, ReduceSlots: 1}, 0)
	j := b.Add(job.Spec{Splits: make([]job.Split, 2), Reduces: 1, Request: job.Request{SlowStart: 1}}, 0)
	nodes.Start(n1, b.Start(j.Task(job.Map, 0), job.Launch{Node: n1.Index()}, 0))
	f.jobs = []*job.Job{j}
	c := Compose(f, f, f, f)
	d := NewRoundWriter(NewView(b.List(), nodes.List(), 4))
	r := d.Open(0, n2, [job.Kinds]int{1, 1})
	c.Begin(r)
	return b, c, d, r
}

func TestOffersAreTriedInTurn(t *testing.T) {
	reduce, maps := Offer{Kind: job.Reduce, Slot: job.Reduce}, Offer{Kind: job.Map, Slot: job.Reduce, Label: 9}
	f := &fixed{offers: []Offer{reduce, maps}}
	_, c, _, r := bench(f)
	a, ok := c.Next(r)
	if !ok || a.Task != f.jobs[0].Task(job.Map, 1) || a.Slot != job.Reduce || a.Label != 9 || a.Speculative {
		t.Errorf("got %+v", a)
	}
	if !slices.Equal(f.asked, []Offer{reduce, maps}) || f.begun != 1 || !slices.Equal(r.Refused(), []Offer{reduce}) {
		t.Errorf("asked %v, begun %d, refused %v", f.asked, f.begun, r.Refused())
	}
	if !r.RefusedKind(job.Reduce, job.Reduce) || r.RefusedKind(job.Map, job.Reduce) {
		t.Error("refused kinds")
	}
}

func TestCopiesComeAfterFreshWork(t *testing.T) {
	f := &fixed{offers: []Offer{{Kind: job.Map}}, deny: true}
	_, c, d, r := bench(f)
	a, ok := c.Next(r)
	if !ok || !a.Speculative || a.Task != f.jobs[0].Task(job.Map, 0) {
		t.Errorf("got %+v", a)
	}
	if why, _ := d.Ledger().Last(f.jobs[0], job.Map); why.Code != OutOfReach {
		t.Errorf("noted %v", why)
	}
	f.offers[0].NoCopies = true
	if a, ok := c.Next(r); ok {
		t.Errorf("a copy in a slot that is not for copies: %+v", a)
	}
}

func TestPrecederGoesFirst(t *testing.T) {
	f := &fixed{offers: []Offer{{Kind: job.Map}}}
	_, c, _, r := bench(f)
	f.before = f.jobs[0].Task(job.Map, 0)
	if a, ok := c.Next(r); !ok || !a.Speculative || len(f.asked) > 0 {
		t.Errorf("got %+v, order asked %v", a, f.asked)
	}
}

func TestEitherTakesTheFreeSlot(t *testing.T) {
	f := &fixed{offers: []Offer{{Kind: job.Map, Either: true}}}
	_, c, d, r := bench(f)
	if a, ok := c.Next(r); !ok || a.Slot != job.Map {
		t.Errorf("own slot free: %+v", a)
	}
	r = d.Open(0, r.Node(), [job.Kinds]int{0, 1})
	if a, ok := c.Next(r); !ok || a.Slot != job.Reduce {
		t.Errorf("own slot taken: %+v", a)
	}
}

// An offer repeated right after its refusal ends the round instead of hanging.
type stubborn struct{ fixed }

func (*stubborn) Next(*Round) (Offer, bool) { return Offer{Kind: job.Reduce, Slot: job.Reduce}, true }

func TestRepeatedOfferEndsTheRound(t *testing.T) {
	f := &fixed{}
	_, _, _, r := bench(f)
	c := Compose(&stubborn{}, f, f, f)
	if a, ok := c.Next(r); ok {
		t.Errorf("got %+v", a)
	}
}

func TestHooksAreFoundOnce(t *testing.T) {
	x := &jobs{}
	h := HooksOf(Compose(x, x, &fixed{}, &fixed{}))
	if len(h.Jobs) != 1 || len(h.Tasks) != 0 || h.Limiter != nil {
		t.Errorf("found %+v", h)
	}
}

type jobs struct{ fixed }

func (*jobs) JobAdded(*job.Job)   {}
func (*jobs) JobRemoved(*job.Job) {}
