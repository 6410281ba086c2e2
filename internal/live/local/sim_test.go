package local

import (
	"bytes"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/virtual/report"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// The script: jobs that come at given times, whose tasks take given times. No two
// tasks end at one moment, and none when workers report.
const (
	scriptBeat    = 300 * time.Millisecond
	scriptWorkers = 3
	mapBytes      = 3 // of a map's output, for each reduce
)

func script() []workload.Job {
	shape := []struct {
		maps    int
		m       time.Duration
		reduces int
		r       time.Duration
		pool    string
	}{{14, 1730, 3, 2490, "a"}, {5, 4110, 0, 0, "b"}, {9, 930, 2, 3330, "b"}, {1, 510, 1, 470, "a"}, {6, 2210, 2, 610, "c"}}
	jobs := make([]workload.Job, len(shape))
	for i, x := range shape {
		j := workload.Job{Name: fmt.Sprint("job", i), Request: job.Request{User: "u", Pool: x.pool},
			Submit: time.Duration(i)*1010*time.Millisecond + 10*time.Millisecond}
		for k := range x.maps {
			j.Maps = append(j.Maps, workload.Task{Output: int64(mapBytes * x.reduces),
				Duration: x.m*time.Millisecond + time.Duration(i*101+k*7+1)*10*time.Microsecond})
		}
		for k := range x.reduces {
			j.Reduces = append(j.Reduces, workload.Task{
				Duration: x.r*time.Millisecond + time.Duration(i*103+k*1700+3)*10*time.Microsecond})
		}
		jobs[i] = j
	}
	return jobs
}

// sleeper is a task that takes the time of the script, and then emits.
type sleeper struct {
	task *engine.Task
	spec *workload.Job
	out  engine.Sink
}

func (s sleeper) sleep(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-s.task.Ctx.Done():
		return s.task.Ctx.Err()
	}
}

func (s sleeper) Map(_, _ []byte) error {
	if err := s.sleep(s.spec.Maps[s.task.Attempt.Index].Duration); err != nil {
		return err
	}
	for r := range s.task.Reduces {
		s.out.Emit([]byte{byte(r)}, []byte("xy"))
	}
	return nil
}

func (s sleeper) Reduce(_ []byte, values iter.Seq[[]byte]) error {
	for range values {
	}
	return s.sleep(s.spec.Reduces[s.task.Attempt.Index].Duration)
}

func (sleeper) Close() error { return nil }

// live runs the script for real, in tasks that sleep, and returns the event log.
// The clock belongs to a test bubble and jumps to the next moment as soon as
// all goroutines wait; everything else is the shell that users run.
func live(t *testing.T, policy string) (log string) {
	var events bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		c, err := Start(Config{Workers: scriptWorkers, MapSlots: 2, ReduceSlots: 1, Policy: policy, Seed: 1, Tick: scriptBeat,
			Heartbeat: scriptBeat, Events: &events, TempDir: t.TempDir(),
			Load: func(time.Duration) cluster.Load { return cluster.Load{} }})
		if err != nil {
			t.Fatal(err)
		}
		jobs := script()
		var handles []*Handle
		for i := range jobs {
			time.Sleep(jobs[i].Submit - c.Now())
			h, err := c.Submit(sleepy(t, &jobs[i]))
			if err != nil {
				t.Fatal(err)
			}
			handles = append(handles, h)
		}
		for _, h := range handles {
			if err := h.Wait(t.Context(), c); err != nil {
				t.Error(err)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return events.String()
}

// sleepy is a job of the script for the live shell.
func sleepy(t *testing.T, j *workload.Job) JobSpec {
	fs, path, err := (*storage.Schemes)(nil).Resolve(filepath.Join(t.TempDir(), j.Name))
	if err != nil {
		t.Fatal(err)
	}
	staging, err := fs.Stage(t.Context(), path, storage.ReplaceNothing)
	if err != nil {
		t.Fatal(err)
	}
	p := &engine.Program{
		Sources: []engine.Source{{NewMapper: func(t *engine.Task, out engine.Sink) (engine.Mapper, error) {
			return sleeper{t, j, out}, nil
		}}},
		Partition: func(key []byte, _ int) int { return int(key[0]) },
	}
	if len(j.Reduces) > 0 {
		p.NewReducer = func(t *engine.Task, out engine.Sink) (engine.Reducer, error) { return sleeper{t, j, out}, nil }
	}
	return JobSpec{Name: j.Name, Request: job.Request{User: j.User, Pool: j.Pool}, Synthetic: len(j.Maps), Reduces: len(j.Reduces),
		Staging: staging, Program: p}
}

// simulated runs the script in the simulator and returns the event log.
func simulated(t *testing.T, policy string) string {
	p, err := policies.Build(policy, sched.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	var events bytes.Buffer
	log := report.NewEventLog("log", &events)
	_, err = sim.Run(sim.Config{
		Cluster: workload.Cluster{Groups: []workload.NodeGroup{{Name: "worker", Count: scriptWorkers, MapSlots: 2, ReduceSlots: 1}}},
		Policy:  p, Jobs: script(), Seed: 1, Trace: log.Write,
		// A reduce has all it fetches at once, and maps have no place.
		Model: sim.ModelConfig{Heartbeat: "fixed:" + scriptBeat.String(), Aligned: true, ShuffleShare: -1, Replicas: -1,
			CommitTime: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return events.String()
}

// decisions returns the lines of an event log from the first job on: submissions,
// reported ends, questions and decisions. What running tasks report is
// left out, because progress is modelled and not measured in the simulator. So is
// the end of each commit: the live shell commits the output of jobs at the same
// time, in any order, so that two jobs that end at one moment are sorted.
func decisions(log string) []string {
	var out []string
	begun := false
	for line := range strings.Lines(log) {
		at, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		words := strings.Fields(text)
		if words[0] == "submit" {
			begun = true
		}
		if words[0] == "heartbeat" {
			words = slices.DeleteFunc(words, func(w string) bool { return strings.Contains(w, ":"+job.AttemptRunning.String()) })
		}
		if begun && words[0] == "output" {
			continue
		}
		reportOfNothing := words[0] == "heartbeat" && len(words) == 2
		if begun && !reportOfNothing {
			out = append(out, at+" "+strings.Join(words, " "))
		}
		if n := len(out); n > 1 && words[0] == "done" && strings.Contains(out[n-2], " done ") {
			slices.Sort(out[n-2:])
		}
	}
	return out
}

// A scripted run by the live shell and the same script in the simulator lead to
// the same decisions at the same moments, under every policy that does not decide
// by how busy the machine is, or by forecasts.
func TestSimulatorDecidesTheSame(t *testing.T) {
	names := policies.Names()
	for _, name := range names {
		_, refused := policies.Build(name, sched.Options{Live: true}) // a reference, which only simulations run
		if strings.HasPrefix(name, "learning") || name == "auto" || refused != nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			got, want := decisions(simulated(t, name)), decisions(live(t, name))
			launches := 0
			for i := range max(len(got), len(want)) {
				if i >= len(got) || i >= len(want) || got[i] != want[i] {
					t.Fatalf("line %d:\nsimulated %q\nlive      %q", i, got[i:min(i+3, len(got))], want[i:min(i+3, len(want))])
				}
				if strings.Contains(got[i], " launch ") {
					launches++
				}
			}
			if launches < 43 { // 35 maps and 8 reduces
				t.Errorf("only %d launches", launches)
			}
		})
	}
}
