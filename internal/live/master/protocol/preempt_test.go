package protocol

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/policies"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// impatient is fair, but preempts every running map at each multiple of 10 s.
type impatient struct {
	sched.Policy
	view *sched.View
	due  bool
}

// Start implements sched.Starter.
func (p *impatient) Start(v *sched.View, _ time.Duration) { p.view = v }

// Interval implements sched.Periodic.
func (p *impatient) Interval() time.Duration { return 10 * time.Second }

// Update implements sched.Periodic.
func (p *impatient) Update(time.Duration) { p.due = true }

// Parts implements sched.Parted.
func (p *impatient) Parts() []any { return []any{p.Policy} }

// Preempt implements sched.Preempter.
func (p *impatient) Preempt(time.Duration) (kill []sched.Victim) {
	if !p.due {
		return nil
	}
	p.due = false
	for _, j := range p.view.Jobs().Live() {
		for a := j.Oldest(job.Map); a != nil; a = a.Next() {
			kill = append(kill, sched.Victim{Attempt: a})
		}
	}
	return kill
}

// TestSubmitDuringPreemption submits a job in a step in which a preemption is due. The
// kills precede the acceptance among the tracker's effects. The job must be accepted all
// the same, and the journal must be readable.
func TestSubmitDuringPreemption(t *testing.T) {
	fair, err := policies.Builtin().Build("fair", sched.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	c := populated(t)
	c.Handle(time.Second, &SetPolicy{Call: 7, Name: "fair", Policy: &impatient{Policy: fair}})
	running := c.tracker.Jobs().Get(1).Running(job.Map)
	if running == 0 {
		t.Fatal("no map runs")
	}
	spec := &slotwisev1.JobSpec{User: "u", Synthetic: 1, SlowStart: proto.Float64(1)}
	core, err := CoreSpec(spec)
	if err != nil {
		t.Fatal(err)
	}
	out := c.Handle(11*time.Second, &Submit{Call: 8, Request: "second", Spec: spec, Core: core})
	if got := c.tracker.Stats().Preempted; got != int64(running) {
		t.Fatalf("%d maps were preempted, want %d", got, running)
	}
	i := slices.IndexFunc(out.Replies, func(r Reply) bool { return r.Call == 8 })
	if i < 0 || out.Replies[i].Err != nil || out.Replies[i].Message.(*slotwisev1.SubmitResponse).Job != "j2" {
		t.Fatalf("the submit was answered with %+v, want job j2", out.Replies)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, r := range out.Records {
		if r.GetJob() != nil || r.GetAccepted() != nil {
			seen = append(seen, formatRecord(r))
		}
	}
	if len(seen) != 2 || out.Records[0].GetJob() == nil {
		t.Errorf("the records of the job are %q, want its details first and then its acceptance", seen)
	}
}
