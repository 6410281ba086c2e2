package protocol

import (
	"math"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/live/wire"
	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Everything that comes from outside is checked here, before it reaches the state
// machine. The functions have no state and may be called from any goroutine.

// invalid is an error of what a caller has sent.
func invalid(err error) error { return &Error{InvalidArgument, err.Error()} }

// WireKind returns the message's constant for a kind.
func WireKind(k job.Kind) slotwisev1.Kind {
	if k == job.Map {
		return slotwisev1.Kind_KIND_MAP
	}
	return slotwisev1.Kind_KIND_REDUCE
}

// wireState returns the state that users see. They see one state for everything
// between the last attempt and the end.
func wireState(s job.State) slotwisev1.JobState {
	switch s {
	case job.Pending:
		return slotwisev1.JobState_JOB_STATE_WAITING
	case job.Running:
		return slotwisev1.JobState_JOB_STATE_RUNNING
	case job.Succeeded:
		return slotwisev1.JobState_JOB_STATE_SUCCEEDED
	case job.Failed:
		return slotwisev1.JobState_JOB_STATE_FAILED
	// To users both are the same wait, for the storage. The final state says how the job ended.
	case job.Committing, job.Aborting:
		return slotwisev1.JobState_JOB_STATE_COMMITTING
	}
	return slotwisev1.JobState_JOB_STATE_KILLED
}

// ParseRegister checks a registration. slots limits the slots of one kind. rack
// returns the rack of a host whose worker does not name one, and may block. The
// caller fills in Call and Session.
func ParseRegister(r *slotwisev1.RegisterRequest, slots int, rack func(host string) string) (*Register, error) {
	spec := cluster.Spec{
		Name: r.Worker, Host: r.Host, Rack: r.Rack, MapSlots: int(r.MapSlots), ReduceSlots: int(r.ReduceSlots),
		Cores: int(r.Cores), Speed: r.Speed, MemoryBytes: r.Memory,
	}
	// The lengths come first: the later checks put the texts into errors and logs.
	if err := checkRegister(r); err != nil {
		return nil, err
	}
	// Comparisons with NaN are false, so a check for a range would accept NaN, and no order of
	// nodes by speed would hold.
	if math.IsNaN(r.Speed) || math.IsInf(r.Speed, 0) {
		return nil, errorf(InvalidArgument, "worker %s: its speed is not a number", r.Worker)
	}
	if err := spec.Check(); err != nil {
		return nil, invalid(err)
	}
	// A round asks the policy once for each slot, in the master's only loop: one worker that
	// claims a million slots would hold up all others.
	if spec.MapSlots > slots || spec.ReduceSlots > slots {
		return nil, errorf(InvalidArgument, "worker %s has more than %d slots of a kind, which is the master's limit", r.Worker, slots)
	}
	// A worker that names no host counts as running on a host with the worker's name, as in
	// cluster.Spec.
	if spec.Rack == "" {
		host := spec.Host
		if host == "" {
			host = spec.Name
		}
		spec.Rack = rack(host)
	}
	join := &tracker.Join{Node: spec, Running: make([]job.AttemptID, len(r.Running))}
	for i, name := range r.Running {
		var err error
		if join.Running[i], err = job.ParseAttempt(name); err != nil {
			return nil, invalid(err)
		}
	}
	for _, o := range r.Outputs {
		id, err := job.ParseAttempt(o.Attempt)
		if err != nil {
			return nil, invalid(err)
		}
		// Sizes are facts of the worker's disk. A negative one is clamped, not refused: no output
		// must be lost over it.
		join.Outputs = append(join.Outputs, tracker.Output{Attempt: id, Bytes: max(0, o.Bytes)})
	}
	m := &Register{Request: r, join: join}
	for _, name := range r.Jobs {
		id, err := job.ParseID(name)
		if err != nil {
			return nil, invalid(err)
		}
		m.jobs = append(m.jobs, id)
	}
	return m, nil
}

// attemptStates are the states that workers may report.
var attemptStates = map[slotwisev1.AttemptState]job.AttemptState{
	slotwisev1.AttemptState_ATTEMPT_STATE_RUNNING:   job.AttemptRunning,
	slotwisev1.AttemptState_ATTEMPT_STATE_SUCCEEDED: job.AttemptSucceeded,
	slotwisev1.AttemptState_ATTEMPT_STATE_FAILED:    job.AttemptFailed,
	slotwisev1.AttemptState_ATTEMPT_STATE_KILLED:    job.AttemptKilled,
}

// ParseHeartbeat checks a heartbeat. The caller fills in Call.
func ParseHeartbeat(r *slotwisev1.HeartbeatRequest) (*Heartbeat, error) {
	if err := checkHeartbeat(r); err != nil {
		return nil, err
	}
	hb := &tracker.Heartbeat{}
	// Values are clamped and not refused: a worker whose kernel reports nonsense must still be able to work.
	// Without a measurement the load stays zero, which policies read as unknown.
	if l := r.Load; l.GetKnown() {
		hb.Load = cluster.Load{
			LoadAverage: finite(l.LoadAverage), CPU: fraction(l.Cpu), MemoryFree: 1 - fraction(l.Memory),
			DiskRate: finite(l.DiskRate), NetworkRate: finite(l.NetworkRate),
			Processes: int(max(0, l.Processes)), DiskFree: max(0, l.DiskFree),
			Machine: cluster.Machine{Memory: max(0, l.MachineMemory), Swap: max(0, l.MachineSwap),
				Disks: max(0, int(l.Disks)), Arch: cluster.ArchOf(l.Arch), Kernel: max(0, l.Kernel)},
		}
		// On a machine without swap the used part is 0. The difference to 1 would make policies
		// see free swap.
		if l.MachineSwap > 0 {
			hb.Load.SwapFree = 1 - fraction(l.Swap)
		}
	}
	// One bad report refuses the whole heartbeat. Skipping it would acknowledge an end that was not taken in.
	for _, w := range r.Reports {
		id, err := job.ParseAttempt(w.Attempt)
		if err != nil {
			return nil, invalid(err)
		}
		state, ok := attemptStates[w.State]
		if !ok {
			return nil, errorf(InvalidArgument, "attempt %s has the unknown state %v", w.Attempt, w.State)
		}
		report := tracker.Report{
			Attempt: id, State: state, Progress: fraction(w.Progress), Ticks: w.Ticks, Error: bounds.Cut(w.Error, bounds.Text), OutputBytes: max(0, w.OutputBytes),
		}
		// A worker of a later version may know further causes. Only the tracker decides CauseOutput: it
		// excuses the node, so a worker must not claim it for its own failures.
		if c := job.Cause(w.Cause); slotwisev1.FailureCause(c) == w.Cause && c.Valid() && c != job.CauseOutput {
			report.Cause = c
		}
		// A state keeps only its own fields: the counters of a failed attempt must not enter the
		// job's sums.
		switch state {
		case job.AttemptRunning:
			report.BytesRead = max(0, w.Counters.GetBytesRead())
		case job.AttemptSucceeded:
			report.Counters = decodeCounters(w.Counters)
		case job.AttemptFailed:
			report.LogTail = bounds.Cut(w.LogTail, bounds.Text)
		}
		hb.Reports = append(hb.Reports, report)
	}
	return &Heartbeat{Request: r, event: hb}, nil
}

// fraction limits a number to 0 to 1.
func fraction(f float64) float64 { return min(1, finite(f)) }

// finite returns f, or 0 if it is negative, infinite or not a number.
func finite(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return max(0, f)
}

// CoreSpec returns a job as the tracker sees it, after checking it.
func CoreSpec(s *slotwisev1.JobSpec) (job.Spec, error) {
	request, err := wire.DecodeRequest(s)
	if err != nil {
		return job.Spec{}, err
	}
	spec := job.Spec{Name: s.Name, Request: request, Reduces: int(s.Reduces)}
	if s.Synthetic > 0 {
		spec.Splits = make([]job.Split, s.Synthetic)
	}
	// Only the fields that scheduling reads. The URIs stay in the spec, which the tracker does not see.
	for _, p := range s.Splits {
		spec.Splits = append(spec.Splits, job.Split{Hosts: p.Hosts, Bytes: p.Bytes})
	}
	return spec, job.Check(&spec)
}
