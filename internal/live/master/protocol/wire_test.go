package protocol

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// isInvalid reports whether err is the sender's fault and names the value.
func isInvalid(err error, text string) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == InvalidArgument && strings.Contains(e.Text, text)
}

func TestParseRegister(t *testing.T) {
	good := slotwisev1.RegisterRequest{
		Worker: "w1", Host: "h", MapSlots: 2, ReduceSlots: 1, Cores: 4, Speed: 1.5, Memory: 100,
		Running: []string{"j1_m_0_0"}, Outputs: []*slotwisev1.HeldOutput{{Attempt: "j1_m_1_0", Bytes: -5}},
	}
	rack := func(host string) string { return "/of-" + host }
	m, err := ParseRegister(&good, 2, rack)
	if err != nil {
		t.Fatal(err)
	}
	want := &tracker.Join{
		Node:    cluster.Spec{Name: "w1", Host: "h", Rack: "/of-h", MapSlots: 2, ReduceSlots: 1, Cores: 4, Speed: 1.5, MemoryBytes: 100},
		Running: []job.AttemptID{{TaskID: job.TaskID{Job: 1}}},
		Outputs: []tracker.Output{{Attempt: job.AttemptID{TaskID: job.TaskID{Job: 1, Index: 1}}}},
	}
	if diff := cmp.Diff(want, m.join); diff != "" {
		t.Error(diff)
	}
	for name, tt := range map[string]struct {
		change func(r *slotwisev1.RegisterRequest)
		want   string
	}{
		"no name":          {func(r *slotwisev1.RegisterRequest) { r.Worker = "" }, "1 to 255 bytes"},
		"a path as name":   {func(r *slotwisev1.RegisterRequest) { r.Worker = "../x" }, "slashes"},
		"a line break":     {func(r *slotwisev1.RegisterRequest) { r.Worker = "a\nb" }, "control characters"},
		"too many slots":   {func(r *slotwisev1.RegisterRequest) { r.MapSlots = 3 }, "more than 2 slots"},
		"negative slots":   {func(r *slotwisev1.RegisterRequest) { r.ReduceSlots = -1 }, "slots"},
		"no speed":         {func(r *slotwisev1.RegisterRequest) { r.Speed = math.NaN() }, "not a number"},
		"a strange name":   {func(r *slotwisev1.RegisterRequest) { r.Running = []string{"j1"} }, "j1"},
		"a strange output": {func(r *slotwisev1.RegisterRequest) { r.Outputs = []*slotwisev1.HeldOutput{{Attempt: "x"}} }, "x"},
	} {
		r := proto.CloneOf(&good)
		tt.change(r)
		if _, err := ParseRegister(r, 2, rack); !isInvalid(err, tt.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tt.want)
		}
	}
	// Without a host the worker's name finds the rack; a rack that it names is kept.
	noHost := proto.CloneOf(&good)
	noHost.Host = ""
	if m, err := ParseRegister(noHost, 2, rack); err != nil || m.join.Node.Rack != "/of-w1" {
		t.Errorf("rack %q, error %v", m.join.Node.Rack, err)
	}
	noHost.Rack = "/own"
	if m, err := ParseRegister(noHost, 2, rack); err != nil || m.join.Node.Rack != "/own" {
		t.Errorf("rack %q, error %v", m.join.Node.Rack, err)
	}
}

func TestParseHeartbeat(t *testing.T) {
	m, err := ParseHeartbeat(&slotwisev1.HeartbeatRequest{
		Load: &slotwisev1.Load{Known: true, Cpu: 2, Memory: 0.25, LoadAverage: math.Inf(1), DiskRate: -1, NetworkRate: 7,
			Processes: -3, Swap: 0.5, MachineSwap: 9, MachineMemory: -1, DiskFree: 4, Disks: 2, Arch: "arm64", Kernel: 6008},
		Reports: []*slotwisev1.Report{
			{Attempt: "j1_m_0_0", State: slotwisev1.AttemptState_ATTEMPT_STATE_RUNNING, Progress: math.NaN(), Ticks: 3,
				Counters: &slotwisev1.Counters{BytesRead: 9}},
			{Attempt: "j1_r_2_1", State: slotwisev1.AttemptState_ATTEMPT_STATE_FAILED, Error: strings.Repeat("€", bounds.Text)},
			{Attempt: "j1_r_3_0", State: slotwisev1.AttemptState_ATTEMPT_STATE_FAILED, Cause: slotwisev1.FailureCause_FAILURE_CAUSE_STORAGE},
			{Attempt: "j1_r_3_1", State: slotwisev1.AttemptState_ATTEMPT_STATE_FAILED, Cause: 99},
			{Attempt: "j1_r_4_0", State: slotwisev1.AttemptState_ATTEMPT_STATE_FAILED, Cause: slotwisev1.FailureCause_FAILURE_CAUSE_PERMANENT},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := (cluster.Load{CPU: 1, MemoryFree: 0.75, NetworkRate: 7, SwapFree: 0.5, DiskFree: 4,
		Machine: cluster.Machine{Swap: 9, Disks: 2, Arch: cluster.ArchOf("arm64"), Kernel: 6008}}); m.event.Load != want {
		t.Errorf("load %+v, want %+v", m.event.Load, want)
	}
	running, failed := m.event.Reports[0], m.event.Reports[1]
	if running.Progress != 0 || running.Ticks != 3 || running.BytesRead != 9 || running.State != job.AttemptRunning {
		t.Errorf("running: %+v", running)
	}
	if failed.State != job.AttemptFailed || !utf8.ValidString(failed.Error) || len(failed.Error) > bounds.Text+10 {
		t.Errorf("failed: %d bytes of error, state %v", len(failed.Error), failed.State)
	}
	for i, want := range map[int]job.Cause{2: job.CauseStorage, 3: job.CauseTask, 4: job.CausePermanent} {
		if got := m.event.Reports[i].Cause; got != want {
			t.Errorf("report %d has the cause %v, want %v", i, got, want)
		}
	}
	// Longer lists would hold the loop up: the orders to stop drivers that the core does not know are compared with
	// each other.
	for want, r := range map[string]*slotwisev1.HeartbeatRequest{
		"attempts":       {Reports: slices.Repeat([]*slotwisev1.Report{{Attempt: "j1_m_0_0", State: slotwisev1.AttemptState_ATTEMPT_STATE_RUNNING}}, listedAttempts+1)},
		"failed fetches": {FetchFailures: slices.Repeat([]*slotwisev1.FetchFailure{{}}, bounds.Complaints+1)},
		"drivers":        {Drivers: slices.Repeat([]*slotwisev1.DriverReport{{}}, listedDrivers+1)},
	} {
		if _, err := ParseHeartbeat(r); !isInvalid(err, want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
		r.Reports, r.FetchFailures, r.Drivers = oneLess(r.Reports), oneLess(r.FetchFailures), oneLess(r.Drivers)
		if _, err := ParseHeartbeat(r); err != nil {
			t.Errorf("%s at the bound: %v", want, err)
		}
	}
	for want, r := range map[string]*slotwisev1.Report{
		"unknown state": {Attempt: "j1_m_0_0"},
		"x_y":           {Attempt: "x_y", State: slotwisev1.AttemptState_ATTEMPT_STATE_RUNNING},
	} {
		if _, err := ParseHeartbeat(&slotwisev1.HeartbeatRequest{Reports: []*slotwisev1.Report{r}}); !isInvalid(err, want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	// A load that the worker could not measure is no load.
	if m, err := ParseHeartbeat(&slotwisev1.HeartbeatRequest{Load: &slotwisev1.Load{Cpu: 1}}); err != nil || m.event.Load != (cluster.Load{}) {
		t.Errorf("load %+v, error %v", m.event.Load, err)
	}
}

// oneLess returns a list without its last element.
func oneLess[T any](list []T) []T { return list[:max(0, len(list)-1)] }

func TestCoreSpec(t *testing.T) {
	spec, err := CoreSpec(&slotwisev1.JobSpec{
		Name: "n", User: "u", Priority: "HIGH", Reduces: 2, TaskTimeoutMs: 1500, MaxAttempts: 3, NoSpeculation: true,
		Splits: []*slotwisev1.Split{{Hosts: []string{"h"}, Bytes: 9}}, MapProfile: &slotwisev1.Profile{Cpu: 99, Disk: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	if spec.Priority != job.High || spec.TaskTimeout != 1500*time.Millisecond || len(spec.Splits) != 1 || spec.Splits[0].Bytes != 9 || !spec.NoSpeculation {
		t.Errorf("spec %+v", spec)
	}
	for _, slow := range []float64{-1, math.NaN(), 1.5} {
		if _, err := CoreSpec(&slotwisev1.JobSpec{User: "u", Synthetic: 1, SlowStart: &slow}); err == nil {
			t.Errorf("a slow start of %v is accepted", slow)
		}
	}
	if synthetic, err := CoreSpec(&slotwisev1.JobSpec{Synthetic: 4}); err != nil || len(synthetic.Splits) != 4 {
		t.Errorf("%d splits, error %v", len(synthetic.Splits), err)
	}
	for _, bad := range []*slotwisev1.JobSpec{{Priority: "HIGHEST"}, {Reduces: -1}} {
		if _, err := CoreSpec(bad); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}

func TestWireStates(t *testing.T) {
	for s := job.Pending; s <= job.Aborting; s++ {
		if word := StateWord(wireState(s)); word == "unspecified" || word == "" {
			t.Errorf("%v is %q on the wire", s, word)
		}
		if got := wireState(s); s.Final() != (got == slotwisev1.JobState_JOB_STATE_SUCCEEDED ||
			got == slotwisev1.JobState_JOB_STATE_FAILED || got == slotwisev1.JobState_JOB_STATE_KILLED) {
			t.Errorf("%v is %v on the wire", s, got)
		}
	}
	for c := InvalidArgument; c <= Unauthenticated; c++ {
		if c.String() == "" {
			t.Errorf("code %d has no name", c)
		}
	}
}
