package master

import (
	"math"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// What follows turns messages into the core's types and back. Whatever comes
// from outside is checked here.

func wireKind(k job.Kind) slotwisev1.Kind {
	if k == job.Map {
		return slotwisev1.Kind_KIND_MAP
	}
	return slotwisev1.Kind_KIND_REDUCE
}

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
	case job.Committing, job.Aborting:
		return slotwisev1.JobState_JOB_STATE_COMMITTING
	}
	return slotwisev1.JobState_JOB_STATE_KILLED
}

// stateWord is a job's state in lower case.
func stateWord(s slotwisev1.JobState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "JOB_STATE_"))
}

// nodeSpec reads what a worker says of itself.
func (m *Master) nodeSpec(r *slotwisev1.RegisterRequest) (cluster.Spec, error) {
	spec := cluster.Spec{
		Name: r.Worker, Host: r.Host, Rack: r.Rack, MapSlots: int(r.MapSlots), ReduceSlots: int(r.ReduceSlots),
		Cores: int(r.Cores), Speed: r.Speed, MemoryBytes: r.Memory,
	}
	if err := checkName("worker", r.Worker); err != nil {
		return spec, err
	}
	if math.IsNaN(r.Speed) || math.IsInf(r.Speed, 0) {
		return spec, fault(connect.CodeInvalidArgument, "worker %s: its speed is no number", r.Worker)
	}
	if err := spec.Check(); err != nil {
		return spec, connect.NewError(connect.CodeInvalidArgument, err)
	}
	if limit := m.cfg.Limits.SlotsANode; spec.MapSlots > limit || spec.ReduceSlots > limit {
		return spec, fault(connect.CodeInvalidArgument, "worker %s: more than %d slots of a kind", r.Worker, limit)
	}
	if spec.Rack == "" {
		host := spec.Host
		if host == "" {
			host = spec.Name
		}
		spec.Rack = m.cfg.Rack(host)
	}
	return spec, nil
}

// maxName is the most bytes in a name of a worker, user or pool.
const maxName = 255

// checkName refuses what would not be readable in a list, or not safe in a file
// name.
func checkName(what, name string) error {
	if name == "" || len(name) > maxName {
		return fault(connect.CodeInvalidArgument, "the name of a %s must have 1 to %d bytes", what, maxName)
	}
	for _, c := range name {
		if c <= ' ' || c == '/' || c == '\\' || c == 0x7f || c == '\ufffd' {
			return fault(connect.CodeInvalidArgument, "%s %q: a name has no spaces, slashes or control characters", what, name)
		}
	}
	return nil
}

// coreJoin reads a registration.
func (m *Master) coreJoin(r *slotwisev1.RegisterRequest) (*tracker.Join, error) {
	spec, err := m.nodeSpec(r)
	if err != nil {
		return nil, err
	}
	join := &tracker.Join{Node: spec}
	if join.Running, err = parseAttempts(r.Running); err != nil {
		return nil, err
	}
	for _, o := range r.Outputs {
		id, err := job.ParseAttempt(o.Attempt)
		if err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, err)
		}
		join.Outputs = append(join.Outputs, tracker.Output{Attempt: id, Bytes: max(0, o.Bytes)})
	}
	return join, nil
}

func parseAttempts(names []string) ([]job.AttemptID, error) {
	ids := make([]job.AttemptID, len(names))
	for i, name := range names {
		var err error
		if ids[i], err = job.ParseAttempt(name); err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, err)
		}
	}
	return ids, nil
}

// coreHeartbeat reads a heartbeat's load and reports.
func coreHeartbeat(r *slotwisev1.HeartbeatRequest) (*tracker.Heartbeat, error) {
	hb := &tracker.Heartbeat{}
	if l := r.Load; l.GetKnown() {
		hb.Load = cluster.Load{
			LoadAverage: finite(l.LoadAverage), CPU: fraction(l.Cpu), MemoryFree: 1 - fraction(l.Memory),
			DiskRate: finite(l.DiskRate), NetworkRate: finite(l.NetworkRate),
		}
	}
	for _, w := range r.Reports {
		id, err := job.ParseAttempt(w.Attempt)
		if err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, err)
		}
		report := tracker.Report{
			Attempt: id, Progress: fraction(w.Progress), Ticks: w.Ticks, Error: clip(w.Error), OutputBytes: max(0, w.OutputBytes),
		}
		switch w.State {
		case slotwisev1.AttemptState_ATTEMPT_STATE_RUNNING:
			report.State = job.AttemptRunning
		case slotwisev1.AttemptState_ATTEMPT_STATE_SUCCEEDED:
			report.State = job.AttemptSucceeded
		case slotwisev1.AttemptState_ATTEMPT_STATE_FAILED:
			report.State = job.AttemptFailed
		case slotwisev1.AttemptState_ATTEMPT_STATE_KILLED:
			report.State = job.AttemptKilled
		default:
			return nil, fault(connect.CodeInvalidArgument, "attempt %s: unknown state %v", w.Attempt, w.State)
		}
		hb.Reports = append(hb.Reports, report)
	}
	return hb, nil
}

// fraction reads a number of 0 to 1.
func fraction(f float64) float64 { return min(1, finite(f)) }

// finite reads a number that cannot be negative.
func finite(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return max(0, f)
}

// maxText is how much of an error of an attempt is kept.
const maxText = 4 << 10

// clip shortens the text of an error and makes it one that a message can hold: a
// record with half a letter in it could not be written to the journal.
func clip(s string) string {
	if len(s) > maxText {
		s = s[:maxText] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// coreSpec reads a job as the tracker sees it.
func coreSpec(s *slotwisev1.JobSpec) (job.Spec, error) {
	priority := job.Normal
	if s.Priority != "" {
		var ok bool
		if priority, ok = job.ParsePriority(s.Priority); !ok {
			return job.Spec{}, fault(connect.CodeInvalidArgument, "priority %q: must be one of VERY_LOW, LOW, NORMAL, HIGH and VERY_HIGH", s.Priority)
		}
	}
	spec := job.Spec{
		Name: s.Name, User: s.User, Pool: s.Pool, Priority: priority, Reduces: int(s.Reduces),
		SlowStart: s.SlowStart, MaxAttempts: int(s.MaxAttempts),
		TaskTimeout: time.Duration(s.TaskTimeoutMs) * time.Millisecond, NoSpeculation: s.NoSpeculation,
		Profile: [job.Kinds]job.Profile{coreProfile(s.MapProfile), coreProfile(s.ReduceProfile)},
	}
	switch { // the zero message is the default, the zero spec is at once
	case s.SlowStart == 0:
		spec.SlowStart = -1
	case s.SlowStart < 0:
		spec.SlowStart = 0
	}
	if s.Synthetic > 0 {
		spec.Splits = make([]job.Split, s.Synthetic)
	}
	for _, p := range s.Splits {
		spec.Splits = append(spec.Splits, job.Split{Hosts: p.Hosts, Bytes: p.Bytes})
	}
	return spec, job.Check(&spec)
}

func coreProfile(p *slotwisev1.Profile) job.Profile {
	rate := func(n int32) uint8 { return uint8(min(10, max(0, n))) }
	return job.Profile{CPU: rate(p.GetCpu()), Memory: rate(p.GetMemory()), Disk: rate(p.GetDisk()), Network: rate(p.GetNetwork())}
}
