package wire

import (
	"fmt"
	"math"
	"time"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// EncodeRequest sets the fields of m that r, the job's request to the scheduler, has.
func EncodeRequest(m *slotwisev1.JobSpec, r *job.Request) {
	m.User, m.Pool, m.Priority = r.User, r.Pool, r.Priority.String()
	// The message may have the value of another request: a driver sends each step with the message of the one
	// before.
	m.SlowStart = nil
	if share, stated := r.StartsAfter(); stated {
		m.SlowStart = &share
	}
	// Milliseconds on the wire: a program in another language has no type for nanoseconds, and no policy looks
	// closer.
	m.DeadlineMs = r.Deadline.Milliseconds()
	m.MaxAttempts, m.TaskTimeoutMs = int32(r.MaxAttempts), r.TaskTimeout.Milliseconds()
	// Any negative time means never. One of less than a millisecond would become 0, which is the default.
	if r.TaskTimeout < 0 {
		m.TaskTimeoutMs = -1
	}
	m.NoSpeculation = r.NoSpeculation
	m.TaskMemory, m.TaskCpus = r.TaskMemory, int32(r.TaskCPUs)
	m.MapProfile, m.ReduceProfile = encodeRatings(r.Hints[job.Map]), encodeRatings(r.Hints[job.Reduce])
}

// DecodeRequest is the inverse of EncodeRequest. Of nil, as a client may send it, it is the
// request for the defaults. The error is about a value that no Request
// can express; the caller checks all others by Request.Check.
func DecodeRequest(m *slotwisev1.JobSpec) (job.Request, error) {
	r := job.Request{
		User: m.GetUser(), Pool: m.GetPool(),
		MaxAttempts: int(m.GetMaxAttempts()), TaskTimeout: milliseconds(m.GetTaskTimeoutMs()),
		Deadline:      milliseconds(m.GetDeadlineMs()),
		NoSpeculation: m.GetNoSpeculation(),
		TaskMemory:    m.GetTaskMemory(), TaskCPUs: int(m.GetTaskCpus()),
		Hints: [job.Kinds]job.Ratings{decodeRatings(m.GetMapProfile()), decodeRatings(m.GetReduceProfile())},
	}
	if m != nil && m.SlowStart != nil {
		// A negative share would mean "at once" in a Request, which the client did not say.
		if *m.SlowStart < 0 {
			return r, fmt.Errorf("slow_start is %g, must be from 0 to 1", *m.SlowStart)
		}
		r.SlowStart = job.StartAfter(*m.SlowStart)
	}
	// "" is Normal, so that a client may leave the field out.
	if p := m.GetPriority(); p != "" {
		var ok bool
		if r.Priority, ok = job.ParsePriority(p); !ok {
			return r, fmt.Errorf("priority %q: must be one of VERY_LOW, LOW, NORMAL, HIGH and VERY_HIGH", p)
		}
	}
	return r, nil
}

// milliseconds returns ms as a duration. One that a duration cannot hold becomes the longest: the product would
// wrap around to any other, and Request.Check would accept it.
func milliseconds(ms int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(most, max(-most, ms))) * time.Millisecond
}

func encodeRatings(r job.Ratings) *slotwisev1.Profile {
	return &slotwisev1.Profile{Cpu: int32(r.CPU), Memory: int32(r.Memory), Disk: int32(r.Disk), Network: int32(r.Network)}
}

// decodeRatings limits the ratings to 0 to 10, because a client may send any number.
func decodeRatings(m *slotwisev1.Profile) job.Ratings {
	rate := func(n int32) uint8 { return uint8(min(10, max(0, n))) }
	return job.Ratings{CPU: rate(m.GetCpu()), Memory: rate(m.GetMemory()), Disk: rate(m.GetDisk()), Network: rate(m.GetNetwork())}
}
