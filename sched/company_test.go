package sched

import (
	"errors"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/sched/job"
)

// wrapped is a part over another one, which has hooks and a say in the company.
type wrapped struct {
	fixed
	below *picky
}

func (w *wrapped) Parts() []any { return []any{w.below} }

// picky is the part below.
type picky struct {
	jobs
	consulted int
	complains bool
}

func (p *picky) Consult(parts []any) { p.consulted = len(parts) }

func (p *picky) Fit(parts []any) error {
	if p.complains {
		return errors.New("does not fit")
	}
	return nil
}

// What a part is made of has its hooks found, is consulted and begun as well.
func TestPartsOfParts(t *testing.T) {
	w := &wrapped{below: &picky{}}
	c := Compose(&fixed{}, &fixed{}, w, &fixed{})
	if h := HooksOf(c); len(h.Jobs) != 1 || h.Jobs[0] != JobWatcher(w.below) {
		t.Errorf("found %+v", h.Jobs)
	}
	if w.below.consulted != 4 {
		t.Errorf("consulted with %d parts", w.below.consulted)
	}
	c.Begin(NewRoundWriter(nil).Open(0, nil, [job.Kinds]int{}))
	if w.begun != 1 || w.below.begun != 1 {
		t.Errorf("begun %d and %d times", w.begun, w.below.begun)
	}
	if err := fit(c); err != nil {
		t.Error(err)
	}
	w.below.complains = true
	if err := fit(c); err == nil {
		t.Error("the company of a part below was not asked for")
	}
}

func TestAliases(t *testing.T) {
	info := Info{Parts: []PartInfo{{Params: []Param{{Name: "a", Aliases: []string{"old.a", "paper.a"}}, {Name: "b"}}},
		{Params: []Param{{Name: "a", Aliases: []string{"old.a", "paper.a"}}}}}}
	given := map[string]string{"paper.a": "1", "b": "2"}
	got, err := unalias(info, given)
	if err != nil || len(got) != 2 || got["a"] != "1" || got["b"] != "2" {
		t.Errorf("became %v, %v", got, err)
	}
	if given["paper.a"] != "1" {
		t.Error("the caller's settings were changed")
	}
	for _, twice := range []map[string]string{{"a": "1", "old.a": "1"}, {"old.a": "1", "paper.a": "2"}} {
		if _, err := unalias(info, twice); err == nil || !strings.Contains(err.Error(), "set twice") {
			t.Errorf("%v: %v", twice, err)
		}
	}
}

// A slot that is kept from reduces that would wait in it goes to one that would
// not, and the other job gets the reason.
func TestMapsDone(t *testing.T) {
	f := &fixed{offers: []Offer{{Kind: job.Reduce, Slot: job.Map, MapsDone: true}}}
	b, c, d, r := bench(f)
	waits := b.Add(job.Spec{Splits: make([]job.Split, 2), Reduces: 1, Request: job.Request{SlowStart: -1}}, 0)
	f.jobs = []*job.Job{waits, b.Add(job.Spec{Reduces: 1, Request: job.Request{SlowStart: -1}}, 0)}
	if a, ok := c.Next(r); !ok || a.Task.Job() != f.jobs[1] || a.Slot != job.Map {
		t.Errorf("got %+v, %v", a, ok)
	}
	why, _ := d.Ledger().Last(waits, job.Reduce)
	if why.Code != MapsFirst || why.Have != 2 || !strings.Contains(why.Words(job.Reduce), "2 of them are not done") {
		t.Errorf("told %+v: %s", why, why.Words(job.Reduce))
	}
}
