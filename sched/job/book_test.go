package job

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// places is a topology with hosts h0, h1, …; the rack of a host is known once it
// was placed.
type places struct{ racks []int32 }

func (p *places) Host(name string) int32 {
	var h int32
	fmt.Sscanf(name, "h%d", &h)
	return h
}
func (p *places) RackOf(h int32) int32 { return p.racks[h] }

// dumb finds the best fresh map by a search through all maps.
func dumb(j *Job, p *places, host, rack int32, max Level) (*Task, Level) {
	var best *Task
	level := max + 1
	for i := range j.tasks[Map] {
		t := &j.tasks[Map][i]
		if t.state != TaskPending || t.tries > 0 {
			continue
		}
		l := LevelAny
		for _, name := range j.spec.Splits[i].Hosts {
			switch h := p.Host(name); {
			case h == host:
				l = min(l, LevelNode)
			case p.racks[h] == rack:
				l = min(l, LevelRack)
			}
		}
		if l < level {
			best, level = t, l
		}
	}
	if best == nil {
		return nil, 0
	}
	if len(best.Split().Hosts) == 0 {
		return best, LevelNone
	}
	return best, level
}

// The index gives the same task as a search through all tasks, whatever was
// launched, failed and learned of the racks in between.
func TestIndexAgainstDumb(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &places{racks: make([]int32, 6)}
		for i := range p.racks {
			p.racks[i] = int32(rapid.IntRange(-1, 2).Draw(t, "rack"))
		}
		b := NewBook(p, 0)
		s := Spec{Splits: make([]Split, rapid.IntRange(1, 30).Draw(t, "maps"))}
		for i := range s.Splits {
			for range rapid.IntRange(0, 3).Draw(t, "replicas") {
				s.Splits[i].Hosts = append(s.Splits[i].Hosts, fmt.Sprint("h", rapid.IntRange(0, 5).Draw(t, "host")))
			}
		}
		j := b.Add(s, 0)
		for range 60 {
			host := int32(rapid.IntRange(0, 5).Draw(t, "host"))
			if p.racks[host] < 0 {
				p.racks[host] = int32(rapid.IntRange(0, 2).Draw(t, "rack"))
				b.HostPlaced(host, p.racks[host])
			}
			max := Level(rapid.IntRange(1, 3).Draw(t, "max"))
			want, wantLevel := dumb(j, p, host, p.racks[host], max)
			got, level := j.BestFresh(host, p.racks[host], max)
			if got != want || level != wantLevel {
				t.Fatalf("host %d: got %v %v, want %v %v", host, got, level, want, wantLevel)
			}
			if got != nil && rapid.Bool().Draw(t, "take") {
				a := b.Start(got, Launch{Node: host}, 0)
				if rapid.Bool().Draw(t, "fail") {
					b.Fail(a, Failure{Text: "x"}, 0, 0)
				}
			}
		}
		unlocated := 0
		for i := range s.Splits {
			if len(s.Splits[i].Hosts) == 0 && j.tasks[Map][i].tries == 0 {
				unlocated++
			}
		}
		if j.Unlocated() != unlocated {
			t.Fatalf("unlocated %d, want %d", j.Unlocated(), unlocated)
		}
	})
}

// The attempts of a task are found by number, in order, and from the newest back, however many there are.
func TestTries(t *testing.T) {
	b := NewBook(&places{}, 0)
	task := b.Add(Spec{Splits: make([]Split, 1)}, 0).Task(Map, 0)
	for n := range int32(10) {
		if task.Attempts() != int(n) || task.Attempt(n) != nil || n == 0 && task.Last() != nil {
			t.Errorf("%d attempts: %d, %v", n, task.Attempts(), task.Last())
		}
		at := int32(0)
		for a := range task.Tries() {
			if a.ID().Number != at || task.Attempt(at) != a || (at == 0) != (a.Before() == nil) || at > 0 && a.Before() != task.Attempt(at-1) {
				t.Errorf("of %d attempts, attempt %d is %v", n, at, a.ID())
			}
			at++
		}
		if at != n || n > 0 && task.Last() != task.Attempt(n-1) {
			t.Errorf("%d of %d attempts", at, n)
		}
		for a := range task.Tries() {
			if a.ID().Number == 1 {
				break // the rest is not visited
			}
		}
		b.Drop(b.Start(task, Launch{}, 0), AttemptKilled, "", 1)
	}
}

// Tasks to be tried again come with most failures first, then by index.
func TestRetriesInOrder(t *testing.T) {
	b := NewBook(&places{}, 0)
	j := b.Add(Spec{Splits: make([]Split, 4)}, 0)
	var run []*Attempt
	for i := range int32(4) {
		run = append(run, b.Start(j.Task(Map, i), Launch{Node: i}, 0))
	}
	b.Drop(run[2], AttemptLost, "", 1)
	b.Drop(run[0], AttemptKilled, "", 1)
	b.Fail(run[3], Failure{Text: "x"}, 1, 1)
	got := ""
	for _, task := range j.Retries(Map) {
		got += fmt.Sprint(task.ID(), " ")
	}
	if want := "j1_m_3 j1_m_0 j1_m_2 "; got != want {
		t.Errorf("retries %s, want %s", got, want)
	}
	b.Start(j.Task(Map, 0), Launch{}, 2)
	if len(j.Retries(Map)) != 2 || j.Retries(Map)[1] != j.Task(Map, 2) {
		t.Errorf("after a launch: %v", j.Retries(Map))
	}
	if fl := j.Flaky(); len(fl) != 1 || fl[0] != 3 || j.NodeFailures(3) != 1 {
		t.Errorf("flaky %v", fl)
	}
}

func TestEndedJobsAreForgotten(t *testing.T) {
	b := NewBook(&places{}, 2)
	var jobs []*Job
	for range 4 {
		jobs = append(jobs, b.Add(Spec{Reduces: 1, Request: Request{SlowStart: -1}}, 0))
	}
	for _, j := range jobs[:3] {
		b.Decide(j, Killed, nil, "", time.Second)
	}
	l := b.List()
	if len(l.Live()) != 1 || len(l.Finishing()) != 3 || jobs[0].State() != Aborting || l.Get(1) == nil {
		t.Errorf("live %v, finishing %v", l.Live(), l.Finishing())
	}
	for _, j := range jobs[:3] {
		b.End(j, "", 2*time.Second)
	}
	if l.Get(1) != nil || l.Get(2) == nil || l.Get(3) == nil || len(l.Ended()) != 2 || len(l.Live()) != 1 || len(l.Finishing()) != 0 {
		t.Errorf("ended %v, live %v", l.Ended(), l.Live())
	}
	if next := b.Add(Spec{}, 0); next.ID() != 5 || next.Seat() != jobs[2].Seat() || l.Seats() != 4 {
		t.Errorf("job %v got seat %d of %d", next.ID(), next.Seat(), l.Seats())
	}
}

func TestSlowStartGate(t *testing.T) {
	for _, c := range []struct {
		fraction float64
		maps     int
		want     int
	}{{0, 10, 0}, {0.05, 0, 0}, {0.05, 1, 1}, {0.05, 20, 1}, {0.05, 21, 2}, {0.07, 100, 7}, {1, 3, 3}} {
		if got := slowGate(c.fraction, c.maps); got != c.want {
			t.Errorf("slow start %v of %d maps: %d, want %d", c.fraction, c.maps, got, c.want)
		}
	}
}

func TestIDsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := AttemptID{TaskID{ID(rapid.Int32Range(1, 1<<30).Draw(t, "job")), Kind(rapid.IntRange(0, 1).Draw(t, "kind")),
			rapid.Int32Range(0, 1<<30).Draw(t, "index")}, rapid.Int32Range(0, 99).Draw(t, "try")}
		if got, err := ParseAttempt(id.String()); err != nil || got != id {
			t.Fatalf("%v: %v %v", id, got, err)
		}
		if got, err := ParseTask(id.TaskID.String()); err != nil || got != id.TaskID {
			t.Fatalf("%v: %v %v", id.TaskID, got, err)
		}
		if got, err := ParseID(id.Job.String()); err != nil || got != id.Job {
			t.Fatalf("%v: %v %v", id.Job, got, err)
		}
	})
	if got := (AttemptID{TaskID{1, Map, 3}, 0}).String(); got != "j1_m_3_0" {
		t.Errorf("got %s", got)
	}
	for _, bad := range []string{"", "j", "j0", "j-1", "j01", "1", "j1_m", "j1_x_0", "j1_m_-1", "j1_m_0_0_0", "j1_m_+1_0", "j99999999999_m_1_0"} {
		_, e1 := ParseID(bad)
		_, e2 := ParseTask(bad)
		_, e3 := ParseAttempt(bad)
		if e1 == nil || e2 == nil || e3 == nil {
			t.Errorf("%q was accepted: %v %v %v", bad, e1, e2, e3)
		}
	}
}

func TestNamesOfStates(t *testing.T) {
	got := fmt.Sprint(Pending, Killed, TaskRunning, TaskKilled, AttemptLost, State(99), VeryLow, VeryHigh, LevelNone, Level(0), Map, Reduce)
	if want := "pending killed running killed lost 99 VERY_LOW VERY_HIGH NONE - map reduce"; got != want {
		t.Errorf("got %s", got)
	}
	for p := VeryLow; p <= VeryHigh; p++ {
		if got, ok := ParsePriority(p.String()); !ok || got != p {
			t.Errorf("%v: %v", p, got)
		}
	}
}
