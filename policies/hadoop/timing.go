package hadoop

import (
	"math"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Auto is the Timing.Lag that follows the times of finished siblings.
const Auto = time.Duration(-1)

// The rule of Auto.
const (
	// hadoopLag is Hadoop's fixed lag: the lag while no sibling has finished, and the
	// longest one. So tasks of 40 s and more are treated as in Hadoop.
	hadoopLag = time.Minute
	// leastLag keeps tasks of a second from being copied before a few heartbeats have
	// reported their progress.
	leastLag = 5 * time.Second
	// siblingTimes is the multiple of the siblings' mean time after which a task is
	// late. Spark's default (spark.speculation.multiplier) is the same.
	siblingTimes = 1.5
)

// defaultStall is the default of "speculative-stall". It is longer than several
// heartbeats, so that one lost heartbeat copies nothing.
const defaultStall = 10 * time.Second

// Timing holds the parameters that Gap and Late share: for how long an attempt is
// left alone.
type Timing struct {
	// Lag is the least age of an attempt that may be copied for being slow. Auto
	// follows the siblings' times; Hadoop has one minute. Short lags copy tasks that
	// merely start slowly.
	Lag time.Duration
	// LagSinceJob counts the lag from the job's submission and not from the attempt's
	// start. Hadoop 1.2.1 does so, because it starts the clock of a task when it creates
	// the task. It copies healthy tasks that merely began later than others.
	LagSinceJob bool
	// Stall is the least time without a sign of life after which an attempt is copied,
	// however far it is. 0 is never, as in Hadoop. Short times copy tasks that take
	// long for a single record.
	Stall time.Duration
}

// bind declares the parameters of the timing.
func (t *Timing) bind() sched.Bindings {
	return sched.Bindings{
		sched.Bind(&t.Lag, sched.Or("auto", Auto, sched.DurationFrom(0)), sched.Param{Name: "speculative-lag", Default: "auto", Tune: []string{"auto", "30s", "1m0s", "2m0s"},
			Help: "How long an attempt must have run before it may be copied for being slow. auto is 1.5 times the mean time of the job's " +
				"finished tasks of its kind, from 5 s to one minute, and one minute while none has finished. Short times copy tasks that " +
				"merely start slowly."}),
		sched.Bind(&t.Stall, sched.DurationFrom(0), sched.Param{Name: "speculative-stall", Default: defaultStall.String(),
			Help: "After how long without a sign of life (progress, records, fetched bytes) an attempt is copied, however far it is. If " +
				"tasks of its kind have finished, 1.5 times their mean time counts if that is longer, but at most one minute. 0s is " +
				"never. Short times copy tasks that take long for a single record."}),
	}
}

// siblings describes a job's tasks of one kind: above all the run times of the finished ones. A task
// that ran twice, because its output was lost, counts twice.
type siblings struct {
	never   bool     // the job forbids copies
	running int32    // attempts
	copies  int32    // of these, copies
	slow    []uint64 // a bit for each task that has an attempt in watch.late
	// wait is the patience. Each heartbeat reads it for each running attempt, and only the end of
	// a sibling changes it.
	wait  time.Duration
	times spread // seconds
	rates spread // 1/seconds
}

// add adds a successful attempt.
func (s *siblings) add(a *job.Attempt) {
	seconds := (a.Ended() - a.Started()).Seconds()
	s.times.add(seconds)
	// Late compares rates, and the mean of rates is not the inverse of the mean time.
	s.rates.add(1 / math.Max(seconds, leastTime))
	s.wait = min(hadoopLag, time.Duration(siblingTimes*s.times.mean()*float64(time.Second)))
}

// leastTime bounds the rate of a task that took no time, in seconds.
const leastTime = 1e-3

// patience returns how long a task may take in comparison with its finished siblings; 0
// if there are none.
func (s *siblings) patience() time.Duration { return s.wait }

// lag returns the least age of an attempt for a copy, given its finished siblings.
func (t *Timing) lag(s *siblings) time.Duration {
	switch {
	case t.Lag != Auto:
		return t.Lag
	case s.times.n == 0:
		return hadoopLag
	}
	return max(leastLag, s.patience())
}

// youngest is an age below which no attempt is slow or stalled.
func (t *Timing) youngest() time.Duration {
	// The lag counts from the job, so the attempt's own age excludes nothing.
	if t.LagSinceJob {
		return 0
	}
	least := t.Lag
	if t.Lag == Auto {
		least = leastLag
	}
	// A stalled attempt is found before the lag, so the shorter of both is the bound.
	if t.Stall > 0 {
		least = min(least, t.Stall)
	}
	return least
}

// silentFor returns for how long an attempt has shown no sign of life at a time. A reduce
// that waits for maps counts as alive.
func silentFor(a *job.Attempt, at time.Duration) time.Duration {
	since := a.ProgressAt()
	if j := a.Job(); a.Kind() == job.Reduce {
		if !j.MapsDone() {
			return 0
		}
		since = max(since, j.MapsDoneAt())
	}
	return at - since
}

// spread computes mean and standard deviation of a set of numbers.
type spread struct{ n, sum, squares float64 }

func (s *spread) add(x float64) { s.change(1, x) }

// change adds a value if n is 1 and removes one if n is -1.
func (s *spread) change(n, x float64) {
	s.n += n
	s.sum += n * x
	s.squares += n * x * x
}

// merge adds the numbers of another set.
func (s *spread) merge(o spread) {
	s.n += o.n
	s.sum += o.sum
	s.squares += o.squares
}

// mean returns the mean, 0 of no numbers.
func (s *spread) mean() float64 {
	if s.n == 0 {
		return 0
	}
	return s.sum / s.n
}

// std returns the population's standard deviation. Rounding may make the variance negative, which
// counts as 0.
func (s *spread) std() float64 {
	if s.n == 0 {
		return 0
	}
	m := s.mean()
	return math.Sqrt(math.Max(0, s.squares/s.n-m*m))
}

// margin returns how far from the mean a number must be to be an outlier: deviations
// times the standard deviation, or times leastSpread of the mean if that is more. Without
// the floor a set of nearly equal numbers would have outliers.
func (s *spread) margin(deviations float64) float64 {
	return deviations * math.Max(s.std(), leastSpread*s.mean())
}

// leastMargin is margin without the standard deviation, and not above it.
func (s *spread) leastMargin(deviations float64) float64 {
	return deviations * (leastSpread * s.mean())
}

// leastSpread is the share of the mean that counts as a standard deviation at least. It
// equals the default of "speculative-gap".
const leastSpread = 0.2
