package main

import (
	"bufio"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched/job"
)

// updateEvery is the interval at which Hadoop's Fair Scheduler updated shares and checked
// preemption in the recordings.
const updateEvery = 500 * time.Millisecond

// player plays the commands of a script.
type player struct {
	out     *bufio.Writer
	setup   setup
	tr      *tracker.Tracker
	now     time.Duration
	ids     map[string]job.ID
	names   []string // of the jobs, by number - 1
	reports reports
}

func (p *player) run(f []string) error {
	if p.tr == nil {
		if f[0] == "start" {
			return p.start()
		}
		return p.setup.add(f)
	}
	if len(f) == 1 && f[0] == "show" {
		p.show(true)
		return nil
	}
	if len(f) < 2 {
		return fmt.Errorf("%s: an argument is missing", f[0])
	}
	switch f[0] {
	case "job":
		return p.submit(f[1], parseArgs(f[2:]))
	case "finish", "fail":
		return p.reportEnd(f)
	case "heartbeat":
		p.heartbeat(f[1])
	case "priority":
		return p.setPriority(f)
	case "advance":
		ms, err := strconv.ParseInt(f[1], 10, 64)
		p.advance(time.Duration(ms) * time.Millisecond)
		return err
	default:
		return fmt.Errorf("unknown command %q after start", f[0])
	}
	return nil
}

// start builds the policy and the cluster.
func (p *player) start() error {
	policy, err := p.setup.policy()
	if err != nil {
		return err
	}
	p.tr = tracker.New(tracker.Config{NodeTimeout: -1}, policy)
	for _, n := range p.setup.nodes {
		p.step(&tracker.Join{Node: n})
	}
	p.show(false)
	return nil
}

func (p *player) submit(name string, a *args) error {
	spec := a.spec(name)
	if a.err != nil {
		return a.err
	}
	for _, e := range p.step(&tracker.Submit{Spec: spec}) {
		if e.Kind == tracker.JobRejected {
			return errors.New(e.Text)
		}
	}
	p.names = append(p.names, name)
	p.ids[name] = job.ID(len(p.names))
	return nil
}

func (p *player) setPriority(f []string) error {
	prio, ok := job.ParsePriority(f[len(f)-1])
	if !ok || len(f) != 3 {
		return fmt.Errorf("bad priority %q", strings.Join(f, " "))
	}
	p.step(&tracker.SetPriority{Job: p.ids[f[1]], Priority: prio})
	return nil
}

// advance lets time pass and sends a tick at each update.
func (p *player) advance(d time.Duration) {
	end := p.now + d
	for at := p.now - p.now%updateEvery + updateEvery; at <= end; at += updateEvery {
		p.now = at
		p.step(&tracker.Tick{})
	}
	p.now = end
}

// step passes an event to the tracker and prints preemptions and ended jobs.
func (p *player) step(ev tracker.Event) []tracker.Effect {
	effects := p.tr.Step(p.now, ev)
	for _, e := range effects {
		switch e.Kind {
		case tracker.Kill:
			if a := p.tr.Jobs().Attempt(e.Attempt); a != nil && a.Ended() == p.now && !p.tr.Jobs().Get(e.Job).State().Final() {
				fmt.Fprintf(p.out, "preempt t=%d %s %s\n", millis(p.now), e.Node, p.attempt(e.Attempt))
			}
		case tracker.JobDone:
			fmt.Fprintf(p.out, "done t=%d %s\n", millis(p.now), p.names[e.Job-1])
		}
	}
	return effects
}

// heartbeat sends a node's reports and prints its assignments.
func (p *player) heartbeat(node string) {
	effects := p.step(&tracker.Heartbeat{Node: node, Reports: p.reports.take(p.tr, node)})
	n := p.tr.Nodes().Get(node)
	if n == nil {
		return
	}
	fmt.Fprintf(p.out, "hb t=%d %s maps=%d/%d reduces=%d/%d :", millis(p.now), node,
		n.Reported(job.Map), n.Slots(job.Map), n.Reported(job.Reduce), n.Slots(job.Reduce))
	given := 0
	for _, e := range effects {
		if e.Kind != tracker.Launch {
			continue
		}
		given++
		fmt.Fprintf(p.out, " %s", p.attempt(e.Attempt))
		if e.Level != 0 {
			fmt.Fprintf(p.out, "/%v", e.Level)
		}
	}
	if given == 0 {
		fmt.Fprint(p.out, " -")
	}
	fmt.Fprintln(p.out)
}

// attempt formats an attempt with the job's name in the script.
func (p *player) attempt(id job.AttemptID) string {
	_, rest, _ := strings.Cut(id.String(), "_")
	return p.names[id.Job-1] + "_" + rest
}

// reportEnd queues a node's report about an attempt, which the script names by task or
// by attempt.
func (p *player) reportEnd(f []string) error {
	if len(f) != 3 {
		return fmt.Errorf("%s: a tracker and a task are required", f[0])
	}
	name, rest, _ := strings.Cut(f[2], "_")
	kind, rest, _ := strings.Cut(rest, "_")
	index, _, _ := strings.Cut(rest, "_")
	n, err := strconv.Atoi(index)
	if err != nil || p.ids[name] == 0 || kind != "m" && kind != "r" {
		return fmt.Errorf("bad task %q", f[2])
	}
	id := job.TaskID{Job: p.ids[name], Index: int32(n)}
	if kind == "r" {
		id.Kind = job.Reduce
	}
	state := job.AttemptSucceeded
	if f[0] == "fail" {
		state = job.AttemptFailed
	}
	p.reports.add(f[1], id, state)
	return nil
}
