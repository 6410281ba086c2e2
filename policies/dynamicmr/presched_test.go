package dynamicmr_test

import (
	"testing"

	"github.com/slotwise/slotwise/policies/dynamicmr"
	"github.com/slotwise/slotwise/policies/hadoop"
	"github.com/slotwise/slotwise/sched/job"
)

func TestDynamicMR_C1(t *testing.T) {
	b := pdBed(t, pd(t, "1", "1"), presched, "", 2, 1, 27, 3)
	b.local("x", 3, 0)
	b.want("M@M:P1")
	b = pdBed(t, pd(t, "1", "1"), off, "", 2, 1, 27, 3)
	b.local("x", 3, 0)
	b.want("")
	// Without lending the balance line is the maps' own: 18 maps on 36 slots, 2 of 4.
	b = newBed(t, 9, 4, 2, pd(t, "0", "0"), presched, "")
	b.use(2, 1, 16)
	b.local("x", 3, 0)
	b.want("M@M:P1")
}

func TestDynamicMR_C2(t *testing.T) {
	for _, c := range []struct {
		lend string
		max  int
		want string
	}{{"1", 100000, "M@R:P2"}, {"0", 100000, ""}, {"1", 0, ""}} {
		b := pdBed(t, pd(t, c.lend, c.lend), dynamicmr.PrescheduleConfig{Enabled: true, Max: c.max}, "", 4, 0, 27, 3)
		b.local("x", 3, 0)
		b.want(c.want)
	}
}

func TestDynamicMR_C3(t *testing.T) {
	for _, c := range []struct{ data, want string }{
		{"t5", "M@M:P1/b M@M:P1/c"},
		{"t0", "M@M:P1/a M@M:P1/b M@R:P2/c"},
	} {
		b := pdBed(t, pd(t, "1", "1"), presched, "", 2, 1, 27, 6)
		b.add("a", 2, 0, c.data)
		b.local("b", 2, 0)
		b.local("c", 2, 0)
		b.want(c.want)
	}
}

func TestDynamicMR_C4(t *testing.T) {
	for _, c := range []struct {
		pre  dynamicmr.PrescheduleConfig
		want string
	}{
		{presched, "M@R:P2 M@R:P2"},
		{off, "R@R:2 R@R:2"},
		{dynamicmr.PrescheduleConfig{Enabled: true, Max: 1}, "M@R:P2 R@R:2"},
	} {
		b := pdBed(t, pd(t, "1", "1"), c.pre, "", 4, 0, 54, 6)
		b.local("x", 2, 4)
		b.want(c.want)
	}
}

// Reading 22 in README.md: reduces get back the two slots that P2 took, although no map slot may be
// lent; with the paper's condition alone three would start.
func TestDynamicMR_C5(t *testing.T) {
	for pre, want := range map[int]string{2: "R@M:P3 R@M:P3", 0: ""} {
		b := newBed(t, 9, 4, 2, pd(t, "0", "1"), presched, "")
		b.use(0, 0, 48)
		m := b.local("m", 2, 0)
		label := dynamicmr.MapLent
		if pre > 0 {
			label = dynamicmr.WithinLent
		}
		b.start(m, 2, job.Map, job.Reduce, b.all[0], label)
		b.add("x", 0, 3)
		b.want(want)
	}
}

func TestDynamicMR_C6(t *testing.T) {
	b := pdBed(t, pd(t, "1", "1"), presched, "", 1, 0, 18, 3)
	b.local("x", 3, 0)
	b.want("M@M:1")
}

func TestDynamicMR_C7(t *testing.T) {
	b := newBed(t, 9, 4, 2, cfgOf(t, dynamicmr.PI, "1", "1"), presched, "")
	b.use(2, 0, 15)
	b.local("x", 3, 0)
	b.want("M@M:P1")
	b = newBed(t, 9, 4, 2, cfgOf(t, dynamicmr.PI, "1", "1"), presched, "")
	b.use(2, 0, 33)
	b.local("x", 3, 0)
	b.want("M@M:1 M@M:1")
}

// In the pool-independent mode the pass comes after maps and before reduces, and
// lending has the last word.
func TestPrescheduleBeforeReduces(t *testing.T) {
	b := newBed(t, 9, 4, 2, cfgOf(t, dynamicmr.PI, "1", "1"), presched, "")
	b.use(4, 0, 28)
	b.local("x", 2, 20)
	b.want("M@R:P2 R@R:2")
}

// The counts that limit P2 and P3 include attempts that already ran when the policy
// was installed.
func TestPrescheduleCounts(t *testing.T) {
	b := newBed(t, 2, 1, 1, pd(t, "1", "1"), presched, "")
	m := b.local("m", 2, 0)
	b.start(m, 1, job.Map, job.Reduce, b.all[0], dynamicmr.AboveLent)
	p := b.Policy.Place.(*dynamicmr.Preschedule)
	if p.MayReturn() != true {
		t.Error("a reduce slot taken by P2 is not counted")
	}
	later := dynamicmr.NewPreschedule(&hadoop.Greedy{}, dynamicmr.PrescheduleConfig{Enabled: true, Max: 1})
	later.JobAdded(m)
	if later.MayTake() || !later.MayReturn() {
		t.Error("an attempt that ran already is not counted")
	}
	b.finishAll()
	if p.MayReturn() {
		t.Error("the slot is still counted after its attempt's end")
	}
}
