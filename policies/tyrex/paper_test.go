package tyrex

import (
	"slices"
	"testing"
	"time"

	"github.com/slotwise/slotwise/sched/cluster"
)

// never is a timer that no job of these tests exceeds.
const never = 1 << 30

func node(maps, reduces int) cluster.Spec {
	return cluster.Spec{Name: "n1", MapSlots: maps, ReduceSlots: reduces}
}

func TestTyrex_S1_StrictAndInBatches(t *testing.T) {
	half := shares(.5, .5)
	p := newPlay(t, staticTags(t, half, 100), 4, 0).run(plan{maps: times(5, 30)})
	p.want([]int{90}, []int{2})
	p.wantTask(1, 4, 2, 60, 90)
	p = newPlay(t, staticTags(t, half, 120), 4, 0).run(plan{maps: times(5, 30)})
	p.want([]int{90}, []int{1})
	p.wantTask(1, 4, 1, 60, 90)
}

func TestTyrex_S2_MigrationWhileRunning(t *testing.T) {
	j1, j2 := plan{maps: []int{20, 40, 60, 60, 60, 60}}, plan{at: 1, maps: []int{30, 30}}
	p := newPlay(t, staticTags(t, shares(.6, .4), 50), 5, 0).run(j1, j2)
	for i, want := range [][3]int{{1, 0, 20}, {1, 0, 40}, {1, 0, 60}, {1, 20, 80}, {2, 40, 100}, {2, 40, 100}} {
		p.wantTask(1, int32(i), want[0], want[1], want[2])
	}
	p.wantTask(2, 0, 1, 40, 70)
	p.wantTask(2, 1, 1, 60, 90)
	p.want([]int{100, 90}, []int{2, 1})
	p.wantService(1, 180, 120)
	newPlay(t, fifo(t), 5, 0).run(j1).want([]int{80}, []int{1})
	newPlay(t, fifo(t), 5, 0).run(plan{maps: j2.maps}).want([]int{30}, []int{1})
	newPlay(t, fifo(t), 5, 0).run(j1, j2).want([]int{80, 90}, []int{1, 1})
	newPlay(t, staticTags(t, shares(1)), 5, 0).run(j1, j2).want([]int{80, 90}, []int{1, 1})
}

func TestTyrex_S3_LastTimerIsInfinite(t *testing.T) {
	huge := plan{maps: []int{150, 1_000_000_000, 1}}
	newPlay(t, staticTags(t, shares(.5, .5), 100), 2, 0).run(huge).want([]int{1_000_000_151}, []int{2})
	newPlay(t, staticTags(t, shares(1)), 1, 0).run(huge).want([]int{1_000_000_151}, []int{1})
}

func TestTyrex_S4_CountedPerPartition(t *testing.T) {
	p := newPlay(t, staticTags(t, shares(.333333, .333333, .333334), 100, 300), 3, 0).run(plan{maps: times(12, 50)})
	p.want([]int{600}, []int{3})
	p.wantService(1, 150, 350, 100)
}

func TestTyrex_S5_NoOverhead(t *testing.T) {
	work := plan{maps: times(600, 10), reduces: times(60, 10)}
	p := newPlay(t, staticTags(t, shares(.5, .5), never), 120, 40).run(work)
	p.want([]int{130}, []int{1})
	p = newPlay(t, staticTags(t, shares(.5, .5), 3300), 120, 40).run(work)
	p.want([]int{130}, []int{2})
	p.wantService(1, 3600, 3000)
	if len(p.logs) != 660 {
		t.Errorf("%d tasks ran", len(p.logs))
	}
}

func TestTyrex_S6_WideJob(t *testing.T) {
	wide := plan{maps: times(72, 30)}
	newPlay(t, fifo(t), 120, 0).run(wide).want([]int{30}, []int{1})
	newPlay(t, staticTags(t, shares(.3, .7), 200), 120, 0).run(wide).want([]int{60}, []int{2})
	newPlay(t, staticTags(t, shares(.3, .7), never), 120, 0).run(wide).want([]int{60}, []int{1})
}

// small are the jobs whose sizes make the history of the two tests below.
func small() (plans []plan) {
	for _, size := range []int{20, 25, 30, 30, 40} {
		plans = append(plans, plan{maps: []int{size}})
	}
	return plans
}

func TestTyrex_D6_Play(t *testing.T) {
	d := dynamicTags(t, shares(.6, .4), "departed+zeros")
	p := newPlay(t, d, 5, 0).run(append(small(), plan{at: 200, maps: times(10, 110)})...)
	if p.done[5] != 750 || p.in[5] != 2 {
		t.Errorf("done at %d in partition %d, want 750 in 2", p.done[5], p.in[5])
	}
	p.wantService(6, 330, 770)
	if timer, ok := d.Timer(1); !ok || timer != 40*time.Second {
		t.Errorf("the timer is %v, %v, want 40s", timer, ok)
	}
}

// One after the other, the sizes 110, 220 and 330 show that it takes the third.
func TestTyrex_D6_OneByOne(t *testing.T) {
	d := dynamicTags(t, shares(.5, .5), "departed+zeros")
	p := newPlay(t, d, 2, 0).run(append(small(), plan{at: 200, maps: times(4, 110)})...)
	p.wantService(6, 330, 110)
}

func TestTyrex_D7_ColdStart(t *testing.T) {
	b, c := plan{maps: times(10, 110)}, shares(.6, .4)
	newPlay(t, dynamicTags(t, c, "departed+zeros"), 5, 0).run(b).want([]int{440}, []int{1})
	plans := []plan{b}
	for at := 1; at <= 4; at++ {
		plans = append(plans, plan{at: at, maps: []int{10}})
	}
	newPlay(t, dynamicTags(t, c, "departed+zeros"), 5, 0).run(plans...).
		want([]int{550, 120, 120, 120, 130}, []int{2, 1, 1, 1, 1})
	newPlay(t, dynamicTags(t, c, "departed"), 5, 0).run(plans...).
		want([]int{440, 340, 340, 350, 350}, []int{2, 1, 1, 1, 1})
}

func TestTyrex_F2_FIFO(t *testing.T) {
	p := newPlay(t, fifo(t), 6, 0).run(plan{maps: times(4, 10)}, plan{maps: times(5, 10)})
	got := [3]int{}
	for _, l := range p.logs {
		if l.from == 0 {
			got[l.task.Job]++
		}
	}
	if got != [3]int{0, 4, 2} {
		t.Errorf("slots of the jobs: %v, want 4 and 2", got[1:])
	}
}

// With one partition everything goes as under FIFO, task by task.
func TestTyrex_OnePartitionIsFIFO(t *testing.T) {
	plans := []plan{{maps: []int{5, 9, 3, 3}, reduces: []int{4, 4}}, {at: 2, maps: []int{8}}, {at: 2, maps: times(6, 2), reduces: []int{1}}}
	for slots := 1; slots < 5; slots++ {
		a, b := newPlay(t, staticTags(t, shares(1)), slots, 1).run(plans...), newPlay(t, fifo(t), slots, 1).run(plans...)
		if !slices.EqualFunc(a.logs, b.logs, func(x, y launch) bool { x.part = y.part; return x == y }) {
			t.Errorf("%d slots: %v, under FIFO %v", slots, a.logs, b.logs)
		}
	}
}

// What each partition had at most is all of its slots: with enough work nothing
// is left idle inside a partition, and nothing is lent.
func TestNothingIsLent(t *testing.T) {
	p := newPlay(t, staticTags(t, shares(.3, .7), never), 10, 0).run(plan{maps: times(40, 10)})
	if p.most[0][1] != 3 || p.most[0][2] != 0 {
		t.Errorf("most slots in use: %v", p.most[0])
	}
}
