package protocol

import (
	"iter"
	"time"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/live/wire"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Describer describes a tracker's jobs, attempts and nodes in messages for users. A master
// and a cluster in one process both use it. It reads the tracker, so its methods must be
// called in the tracker's loop.
type Describer struct {
	Epoch time.Time // the tracker's time 0
	Nodes *cluster.List
	// Offset is added to the numbers of jobs. A history of several runs in one process
	// needs numbers that differ, and each run begins with j1.
	Offset job.ID
}

// Millis returns a time of the tracker in ms since the Unix epoch, 0 for 0.
func (d Describer) Millis(t time.Duration) int64 {
	if t == 0 {
		return 0
	}
	return d.Epoch.Add(t).UnixMilli()
}

// Job describes a job without the reason why it waits.
func (d Describer) Job(t *job.Job) *slotwisev1.JobStatus {
	spec := t.Spec()
	s := &slotwisev1.JobStatus{Id: (t.ID() + d.Offset).String(), Name: spec.Name, User: spec.User, State: wireState(t.State()), EndedMs: d.Millis(t.Ended()),
		Locality: make([]int32, cluster.NONE)}
	for i := range spec.Splits {
		s.InputBytes += spec.Splits[i].Bytes
	}
	d.fill(s, t)
	return s
}

// fill writes into s what the tracker knows of a job. s.Locality must have its length.
func (d Describer) fill(s *slotwisev1.JobStatus, t *job.Job) {
	s.Message = t.Message()
	s.Pool, s.Priority = t.Pool(), t.Priority().String()
	// A job of the first step was submitted at 0, which Millis takes for never. 1 ns is the same
	// millisecond.
	s.SubmittedMs, s.StartedMs = d.Millis(max(1, t.Submitted())), d.Millis(t.Started())
	if due, ok := t.Due(); ok {
		s.DeadlineMs = d.Millis(due)
	}
	account := t.Account()
	s.LastError, s.LogTail, s.Copies = account.LastError, account.LogTail, int32(account.Copies)
	for i := range s.Locality { // NODE to NONE
		s.Locality[i] = int32(account.Levels[i+1])
	}
	s.Maps, s.Reduces = taskCounts(t, job.Map, &account), taskCounts(t, job.Reduce, &account)
	// The bytes that running maps have read so far count too.
	maps := &account.Counters[job.Map]
	maps.Add(counters.BytesRead, t.BytesRead()-maps.Get(counters.BytesRead))
	s.MapCounters, s.ReduceCounters = wire.EncodeCounters(maps), wire.EncodeCounters(&account.Counters[job.Reduce])
}

// taskCounts describes the tasks of a kind.
func taskCounts(t *job.Job, k job.Kind, account *job.Account) *slotwisev1.TaskCounts {
	return &slotwisev1.TaskCounts{
		Total: int32(t.Total(k)), Pending: int32(t.Pending(k) + t.Delayed(k)), Running: int32(t.Running(k)),
		Done: int32(t.Done(k)), Failed: int32(account.Failed[k]), Progress: t.Progress(k),
		SlotMs: account.SlotTime[k].Milliseconds(),
	}
}

// Tasks describes a job's tasks of a kind, beginning with an index.
func (d Describer) Tasks(t *job.Job, k job.Kind, from int32) iter.Seq[*slotwisev1.TaskStatus] {
	return func(yield func(*slotwisev1.TaskStatus) bool) {
		for i := max(0, from); int(i) < t.Total(k); i++ {
			task := t.Task(k, i)
			id := task.ID()
			id.Job += d.Offset
			s := &slotwisev1.TaskStatus{Id: id.String(), State: task.State().String(), Hosts: task.Split().Hosts, InputBytes: task.Split().Bytes}
			for a := range task.Tries() {
				s.Attempts = append(s.Attempts, d.attempt(a))
			}
			if !yield(s) {
				return
			}
		}
	}
}

// attempt describes an attempt.
func (d Describer) attempt(a *job.Attempt) *slotwisev1.AttemptStatus {
	id := a.ID()
	id.Job += d.Offset
	s := &slotwisev1.AttemptStatus{
		Id: id.String(), State: a.State().String(), Node: d.nodeOf(a), Speculative: a.Speculative(),
		Progress: a.Progress(), StartedMs: d.Millis(a.Started()), EndedMs: d.Millis(a.Ended()), Error: a.Error(), LogTail: a.LogTail(),
	}
	if a.Level() != 0 {
		s.Level = a.Level().String()
	}
	return s
}

func (d Describer) nodeOf(a *job.Attempt) string { return d.Nodes.Node(a.Node()).Name() }

// Executions appends the attempts of some of a job's tasks to out, beginning with task from;
// maps come before reduces. next is the task to begin with the next time, 0 at the end.
func (d Describer) Executions(t *job.Job, from, tasks int, out []Execution) (list []Execution, next int) {
	mapTasks := t.Total(job.Map)
	all := mapTasks + t.Total(job.Reduce)
	end := min(from+tasks, all)
	for i := max(0, from); i < end; i++ {
		kind, index := job.Map, i
		if i >= mapTasks {
			kind, index = job.Reduce, i-mapTasks
		}
		task := t.Task(kind, int32(index))
		for a := range task.Tries() {
			out = append(out, d.Execution(a))
		}
	}
	if end == all {
		end = 0
	}
	return out, end
}

// Execution describes an attempt.
func (d Describer) Execution(a *job.Attempt) Execution {
	id := a.ID()
	id.Job += d.Offset
	return Execution{
		ID: id, Node: d.nodeOf(a), State: a.State(), Level: a.Level(), Speculative: a.Speculative(), Progress: a.Progress(),
		StartedMs: d.Millis(a.Started()), EndedMs: d.Millis(a.Ended()), OutputBytes: a.OutputBytes(), Error: a.Error(),
	}
}

// Node describes a node without what its session knows.
func (d Describer) Node(n *cluster.Node, now time.Duration) *slotwisev1.NodeStatus {
	spec, load, status := n.Spec(), n.Load(), n.Status()
	st := &slotwisev1.NodeStatus{
		Name: n.Name(), Host: spec.Host, Rack: spec.Rack, State: status.State.String(), Reason: status.Reason,
		SinceMs: (now - status.Since).Milliseconds(), Failures: int32(len(n.Faults())),
		MapSlots: int32(spec.MapSlots), ReduceSlots: int32(spec.ReduceSlots),
		Maps: int32(n.Running(job.Map)), Reduces: int32(n.Running(job.Reduce)),
		SlotMemory: spec.SlotMemory(), Cpus: int32(spec.Cores),
		SeenMs: (now - n.LastSeen()).Milliseconds(), Cpu: load.CPU,
	}
	// 0 means that the worker has not measured it. Memory without any free byte does not occur.
	if load.MemoryFree > 0 {
		st.Memory = 1 - load.MemoryFree
	}
	for k := range job.Kind(job.Kinds) {
		if res := n.Reserved(k); res.Job != nil {
			st.ReservedFor = append(st.ReservedFor, (res.Job.ID() + d.Offset).String())
		}
	}
	return st
}

// PastRequest describes what a job asked of the scheduler, for the job's record in the history.
func PastRequest(r *job.Request) *slotwisev1.JobSpec {
	m := &slotwisev1.JobSpec{}
	wire.EncodeRequest(m, r)
	return m
}

// HeldBack lists a job's wait reasons that pass a filter, longest first.
func HeldBack(t *job.Job, want func(job.Wait) bool) (out []*slotwisev1.Explanation) {
	for _, w := range t.Waits() {
		if code := sched.Code(w.Reason); want(w) {
			out = append(out, &slotwisev1.Explanation{
				Kind: WireKind(w.Kind), Reason: code.Name(), Words: w.Words, HeldMs: w.For.Milliseconds(),
			})
		}
	}
	return out
}
