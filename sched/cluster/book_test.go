package cluster

import (
	"testing"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

func TestJoinAndLeave(t *testing.T) {
	b := NewBook()
	early := b.Host("h1")
	if b.RackOf(early) != -1 {
		t.Error("a host has a rack before any node joined from it")
	}
	n, placed := b.Join(Spec{Name: "n1", Host: "h1", Rack: "/r1", MapSlots: 2, ReduceSlots: 1}, 5)
	if !placed || n.Host() != early || b.RackOf(early) != n.Rack() || !n.Alive() || n.LastSeen() != 5 {
		t.Errorf("joined as %+v, placed %v", n, placed)
	}
	m, placed := b.Join(Spec{Name: "n2", Host: "h1", Rack: "/r1", MapSlots: 1}, 5)
	if placed || m.Rack() != n.Rack() || m.Index() != 1 {
		t.Errorf("second node of the host: %+v, placed %v", m, placed)
	}
	o, _ := b.Join(Spec{Name: "n3"}, 5)
	if s := o.Spec(); s.Host != "n3" || s.Rack != DefaultRack || s.Speed != 1 {
		t.Errorf("defaults: %+v", s)
	}
	l := b.List()
	if l.Alive() != 3 || l.Slots(job.Map) != 3 || l.With(job.Map) != 2 || l.Slots(job.Reduce) != 1 || l.Racks() != 2 {
		t.Errorf("counts: %+v", l)
	}
	b.Leave(n, "", 0)
	again, _ := b.Join(Spec{Name: "n1", Host: "h1", Rack: "/r2", MapSlots: 7}, 9)
	if again != n || l.Alive() != 3 || l.Slots(job.Map) != 8 || l.With(job.Reduce) != 0 || l.RackName(n.Rack()) != "/r2" {
		t.Errorf("after coming back: %+v in %+v", n, l)
	}
}

func TestCountsFollowAttempts(t *testing.T) {
	b := NewBook()
	jobs := job.NewBook(b, 0)
	n, _ := b.Join(Spec{Name: "n1", MapSlots: 1, ReduceSlots: 2}, 0)
	j := jobs.Add(job.Spec{Splits: make([]job.Split, 2), Reduces: 1, Request: job.Request{SlowStart: -1}}, 0)
	var run []*job.Attempt
	for i, slot := range []job.Kind{job.Map, job.Reduce} {
		a := jobs.Start(j.Task(job.Map, int32(i)), job.Launch{Node: n.Index(), Slot: slot}, time.Second)
		b.Start(n, a)
		run = append(run, a)
	}
	if n.Free(job.Map) != 0 || n.Free(job.Reduce) != 1 || n.Running(job.Map) != 2 || n.RunningOn(job.Map, job.Reduce) != 1 {
		t.Errorf("with a lent slot: %+v", n)
	}
	b.Report(n)
	b.Stop(n, run[0])
	if n.Reported(job.Map) != 2 || b.List().Reported(job.Map) != 2 || len(n.Attempts()) != 1 || n.Attempts()[0] != run[1] {
		t.Errorf("after one has stopped: %+v", n)
	}
	b.Leave(n, "", 0)
	if b.List().Reported(job.Map) != 0 {
		t.Error("a lost node still counts as reporting")
	}
}

func TestLevelOf(t *testing.T) {
	b := NewBook()
	jobs := job.NewBook(b, 0)
	near, _ := b.Join(Spec{Name: "a", Rack: "/r1"}, 0)
	rack, _ := b.Join(Spec{Name: "b", Rack: "/r1"}, 0)
	far, _ := b.Join(Spec{Name: "c", Rack: "/r2"}, 0)
	j := jobs.Add(job.Spec{Splits: []job.Split{{Hosts: []string{"nowhere", "a"}}, {Hosts: []string{"nowhere"}}, {}}, Reduces: 1, Request: job.Request{SlowStart: -1}}, 0)
	for _, c := range []struct {
		kind job.Kind
		task int32
		node *Node
		want Level
	}{{job.Map, 0, near, NODE}, {job.Map, 0, rack, RACK}, {job.Map, 0, far, ANY}, {job.Map, 1, near, ANY},
		{job.Map, 2, near, NONE}, {job.Reduce, 0, near, 0}} {
		if got := b.List().LevelOf(j.Task(c.kind, c.task), c.node); got != c.want {
			t.Errorf("%v %d on %s: %v, want %v", c.kind, c.task, c.node.Name(), got, c.want)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, bad := range []Spec{{}, {Name: "n", MapSlots: -1}, {Name: "n", ReduceSlots: -1}, {Name: "n", Speed: -1}} {
		if bad.Check() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	if err := (&Spec{Name: "n"}).Check(); err != nil {
		t.Error(err)
	}
}

// Find returns an attempt and its index from any start index.
func TestFind(t *testing.T) {
	jobs := job.NewBook(NewBook(), 0)
	j := jobs.Add(job.Spec{Reduces: 3, Request: job.Request{SlowStart: -1}}, 0)
	n := &Node{}
	for i := range int32(3) {
		n.running = append(n.running, jobs.Start(j.Task(job.Reduce, i), job.Launch{}, 0))
	}
	for from := range 5 {
		for want, x := range n.running {
			if a, at := n.Find(x.ID(), from); a != x || at != want {
				t.Errorf("from %d: got %v at %d, want %v at %d", from, a, at, x.ID(), want)
			}
		}
		if a, _ := n.Find(job.AttemptID{}, from); a != nil {
			t.Errorf("from %d: found %v", from, a.ID())
		}
	}
}
