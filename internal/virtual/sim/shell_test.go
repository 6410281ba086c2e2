package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// shell is a live shell in small, with no part of the simulator in it: nodes
// that send heartbeats in turn, and attempts that take a given time. A reduce
// fetches for a third of its time and, should the maps end later, begins its
// other two thirds then.
type shell struct {
	tr   *tracker.Tracker
	now  time.Duration
	log  strings.Builder
	runs map[string][]*try // by node
	done map[job.ID]int    // maps
	jobs []workload.Job
}

type try struct {
	id      job.AttemptID
	began   time.Duration
	ends    time.Duration // 0: waits for maps
	granted bool
}

func (s *shell) step(ev tracker.Event) {
	effects := append([]tracker.Effect(nil), s.tr.Step(s.now, ev)...)
	logStep(&s.log, s.now, ev, effects)
	for _, e := range effects {
		switch e.Kind {
		case tracker.Launch:
			x := &try{id: e.Attempt, began: s.now}
			s.runs[e.Node] = append(s.runs[e.Node], x)
			s.plan(x)
		case tracker.CommitGranted:
			for _, x := range s.runs[e.Node] {
				x.granted = x.granted || x.id == e.Attempt
			}
		case tracker.MapDone:
			s.done[e.Job]++
			for _, tries := range s.runs {
				for _, x := range tries {
					if x.ends == 0 && x.id.Job == e.Job {
						s.plan(x)
					}
				}
			}
		}
	}
}

func (s *shell) spec(x *try) *workload.Job { return &s.jobs[x.id.Job-1] }

// plan sets when an attempt ends, if that is known.
func (s *shell) plan(x *try) {
	j := s.spec(x)
	if x.id.Kind == job.Map {
		x.ends = s.now + j.Maps[x.id.Index].Duration
	} else if s.done[x.id.Job] == len(j.Maps) {
		d := j.Reduces[x.id.Index].Duration
		x.ends = max(x.began+d, s.now+d-time.Duration(float64(d)/3))
	}
}

// heartbeat reports all that runs or has ended on a node.
func (s *shell) heartbeat(node string) {
	hb := &tracker.Heartbeat{Node: node}
	var left []*try
	for _, x := range s.runs[node] {
		mapOfMany := x.id.Kind == job.Map && len(s.spec(x).Reduces) > 0
		if x.ends > 0 && x.ends <= s.now && (x.granted || mapOfMany) {
			hb.Reports = append(hb.Reports, tracker.Report{Attempt: x.id, State: job.AttemptSucceeded, Progress: 1})
		} else {
			left = append(left, x)
		}
	}
	s.runs[node] = left
	s.step(hb)
}

// commits asks for the attempts that end now and must.
func (s *shell) commits(nodes []string) {
	for _, n := range nodes {
		for _, x := range s.runs[n] {
			if x.ends == s.now && !x.granted && (x.id.Kind == job.Reduce || len(s.spec(x).Reduces) == 0) {
				s.step(&tracker.AskCommit{Attempt: x.id})
			}
		}
	}
}

// logStep writes an event and its effects to the log, without reports of progress and
// loads, which are not part of a script.
func logStep(log *strings.Builder, now time.Duration, ev tracker.Event, effects []tracker.Effect) {
	switch ev := ev.(type) {
	case *tracker.Heartbeat:
		fmt.Fprintf(log, "%v heartbeat %s", now, ev.Node)
		for _, r := range ev.Reports {
			if r.State != job.AttemptRunning {
				fmt.Fprintf(log, " %v:%v", r.Attempt, r.State)
			}
		}
	default:
		fmt.Fprintf(log, "%v %s", now, tracker.FormatEvent(ev))
	}
	fmt.Fprintln(log)
	for _, e := range effects {
		fmt.Fprintf(log, "  %v\n", e)
	}
}

// What internal/live/local shows of the real live shell holds for one with data in places
// and heartbeats spread over the interval: a scripted run and the same script in the simulator give the
// same trace of decisions, line for line.
func TestSameDecisionsAsALiveRun(t *testing.T) {
	const beat = 300 * time.Millisecond
	// Nothing ends at the moment of a heartbeat, so that no order is left open.
	jobs := []workload.Job{plain(14, 1730*time.Millisecond, 3, 2490*time.Millisecond), plain(5, 4110*time.Millisecond, 0, 0),
		plain(9, 930*time.Millisecond, 2, 3330*time.Millisecond)}
	for i := range jobs {
		jobs[i].Submit = time.Duration(i) * 1010 * time.Millisecond
		for k := range jobs[i].Maps {
			jobs[i].Maps[k].Hosts = []string{fmt.Sprint("node", 1+(k+i)%3)}
		}
		for k := range jobs[i].Reduces {
			jobs[i].Reduces[k].Duration += time.Duration(k) * 30 * time.Millisecond
		}
	}
	for _, name := range []string{"fifo", "fair", "tumm", "capacity", "modfair"} {
		t.Run(name, func(t *testing.T) {
			live := &shell{tr: tracker.New(tracker.Config{KeepEnded: -1}, policy(t, name)), jobs: jobs,
				runs: map[string][]*try{}, done: map[job.ID]int{}}
			nodes := []string{"node1", "node2", "node3"}
			for _, n := range nodes {
				live.step(&tracker.Join{Node: cluster.Spec{Name: n, Host: n, Rack: "/rack1", MapSlots: 2, ReduceSlots: 1, Cores: 2, Speed: 1}})
			}
			next := 0
			for live.now = 0; next < len(jobs) || len(live.tr.Jobs().Live()) > 0; live.now += 10 * time.Millisecond {
				if next < len(jobs) && jobs[next].Submit == live.now {
					j := &jobs[next]
					s := job.Spec{Name: j.Name, Reduces: len(j.Reduces)}
					for _, m := range j.Maps {
						s.Splits = append(s.Splits, job.Split{Hosts: m.Hosts})
					}
					next++
					live.step(&tracker.Submit{Spec: s})
				}
				live.commits(nodes)
				for i, n := range nodes {
					if live.now%beat == time.Duration(i)*beat/3 && (next > 0) {
						live.heartbeat(n)
					}
				}
			}
			var log strings.Builder
			cfg := Config{Cluster: uniformCluster(3, 2, 1), Jobs: jobs, Policy: policy(t, name)}
			cfg.Model.Heartbeat = "fixed:" + beat.String()
			cfg.Trace = func(now time.Duration, ev tracker.Event, effects []tracker.Effect) {
				logStep(&log, now, ev, effects)
			}
			if _, err := Run(cfg); err != nil {
				t.Fatal(err)
			}
			if got, want := log.String(), live.log.String(); got != want {
				t.Error(firstDifference([]byte(got), []byte(want)))
			} else if strings.Count(got, "launch") < 33 {
				t.Errorf("only %d launches", strings.Count(got, "launch"))
			}
		})
	}
}
