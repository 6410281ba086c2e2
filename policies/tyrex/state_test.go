package tyrex

import (
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/sched"
)

func TestStateIsKept(t *testing.T) {
	c := shares(.6, .4)
	a := dynamicTags(t, c, "departed+zeros")
	newPlay(t, a, 5, 0).run(small()...)
	doc, err := sched.SaveState("dynamictags", []sched.Stateful{a})
	if err != nil {
		t.Fatal(err)
	}
	b := dynamicTags(t, c, "departed+zeros")
	p := newPlay(t, b, 5, 0)
	if err := sched.LoadState(doc, "dynamictags", []sched.Stateful{b}); err != nil {
		t.Fatal(err)
	}
	// With the history of a, the large job moves as it did there.
	p.run(plan{maps: times(10, 110)})
	p.want([]int{550}, []int{2})
	p.wantService(1, 330, 770)
	if want := []int64{20e3, 25e3, 30e3, 30e3, 40e3, 330e3}; !slices.Equal(b.d.parts[0].history, want) {
		t.Errorf("history %v, want %v", b.d.parts[0].history, want)
	}
}

func TestBadStateIsRefused(t *testing.T) {
	d := dynamicTags(t, shares(.6, .4), "departed+zeros")
	newPlay(t, d, 5, 0).run(small()...)
	good, err := d.Save()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ state, why string }{
		{"", "not saved by dynamictags"},
		{string(good[:len(good)-3]), "not saved by dynamictags, or it is damaged"},
		{string(good) + "x", "not saved by dynamictags, or it is damaged"},
		{`{"kind":"tumm","version":1}`, `its kind is "tumm"`},
		{`{"kind":"slotwise-tags","version":2,"departed_ms":[[1]]}`, "version 2; only version 1"},
		{`{"kind":"slotwise-tags","version":1,"departed_ms":[[1],[2]]}`, "with 3 size partitions; the policy has 2"},
		{`{"kind":"slotwise-tags","version":1,"departed_ms":[[1,-5]]}`, "a size of -5 ms"},
		{`{"kind":"slotwise-tags","version":1,"departed_ms":[[1,1e30]]}`, "damaged"},
	} {
		if err := d.Load([]byte(c.state)); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", c.state, err, c.why)
		}
		if after, err := d.Save(); err != nil || string(after) != string(good) {
			t.Errorf("after %s: %s, %v", c.state, after, err)
		}
	}
	if err := d.Load(good); err != nil || len(d.d.parts[0].sample.values) != 5 {
		t.Errorf("%v, sample %v", err, d.d.parts[0].sample.values)
	}
}
