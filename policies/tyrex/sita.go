package tyrex

import (
	"fmt"
	"math"
	"time"

	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// SITA assigns jobs to size partitions by their known size (size interval task assignment;
// Harchol-Balter, Crovella, Murta: On Choosing a Task Assignment Policy for a Distributed
// Server System, 1999). STATICTAGS and DYNAMICTAGS find a job's partition while it runs. SITA
// knows it in advance, so it is a reference for simulations: how much is lost by not knowing
// the sizes.
//
// The size of a job is the time of all its tasks. A job whose size is not known stays in the
// first partition. No job moves later.
type SITA struct {
	*Tags
	cutoffs []time.Duration // between the partitions; nil to follow the load
	loads   [loadBuckets]float64
	total   float64 // Σ loads
}

var (
	_ sched.Order      = (*SITA)(nil)
	_ sched.SizeReader = (*SITA)(nil)
	_ sched.Explainer  = (*SITA)(nil)
)

// SITAConfig holds the parameters of SITA.
type SITAConfig struct {
	Config
	// Cutoffs are the sizes between the partitions, rising. Without any, they follow the jobs
	// that have been submitted so far: the jobs below the k-th cut-off point have the same part
	// of the work as the first k partitions have of the slots (SITA-E, for equal capacities).
	Cutoffs []time.Duration
}

func (c *SITAConfig) bind(given *capacities) sched.Bindings {
	return append(c.Config.bind(given),
		sched.Bind(&c.Cutoffs, sched.List("durations", sched.PositiveDuration()), sched.Param{Name: "cutoffs", Default: "",
			Help: "The sizes of jobs, in task time, between the size partitions, rising, such as 100s,300s. If empty, they give each " +
				"partition the part of the submitted work that it has of the slots."}))
}

// SITAParams documents the parameters of SITA.
func SITAParams() []sched.Param { return new(SITAConfig).bind(new(capacities)).Params() }

// ReadSITA returns SITA with the parameters that the user has set.
func ReadSITA(k *sched.Kit) (sched.Order, error) {
	var c SITAConfig
	var given capacities
	if err := k.Read(c.bind(&given)); err != nil {
		return nil, err
	}
	c.setCapacities(given)
	if err := c.check(); err != nil {
		return nil, err
	}
	return &SITA{Tags: newTags(c.Config, fixedRule{}), cutoffs: c.Cutoffs}, nil
}

// check returns the first mistake in the parameters, or nil.
func (c *SITAConfig) check() error {
	if err := c.Config.check(); err != nil {
		return err
	}
	if k := len(c.Capacities[job.Map]); len(c.Cutoffs) != 0 && len(c.Cutoffs) != k-1 {
		return fmt.Errorf("cutoffs: %d given, but %d partitions have %d between them", len(c.Cutoffs), k, k-1)
	}
	for i := 1; i < len(c.Cutoffs); i++ {
		if c.Cutoffs[i] <= c.Cutoffs[i-1] {
			return fmt.Errorf("cutoffs: %v does not rise above %v", c.Cutoffs[i], c.Cutoffs[i-1])
		}
	}
	return nil
}

// Know implements sched.SizeReader. It moves the job to its partition.
func (s *SITA) Know(j *job.Job, work [job.Kinds]time.Duration) {
	s.startIn(s.members[j.Seat()], s.partitionOf(work[job.Map]+work[job.Reduce]))
}

// startIn moves a job that has just been added to a later partition. It does not call the
// rule, so the job's size enters no sample.
func (t *Tags) startIn(r *member, part int) {
	if part <= r.part {
		return
	}
	t.dequeue(r)
	for ; r.part < part; r.part++ {
		// partOf needs an entry for each partition that the job has skipped. No launch of the job can be
		// older.
		r.since = append(r.since, t.lastSeq+1)
	}
	t.enqueue(r)
}

// partitionOf returns the partition for a job of a given size, which counts as submitted from
// now on.
func (s *SITA) partitionOf(size time.Duration) int {
	last := len(s.parts) - 1
	if s.cutoffs != nil {
		for k, x := range s.cutoffs {
			if size <= x {
				return k
			}
		}
		return last
	}
	// Buckets, because SITA-E needs the distribution of all jobs so far, and a sorted list of sizes would
	// grow for ever.
	at := bucketOf(size.Seconds())
	s.loads[at] += size.Seconds()
	s.total += size.Seconds()
	smaller := 0.0
	for _, x := range s.loads[:at] {
		smaller += x
	}
	// The smallest jobs seen so far belong to the first partition, even if they alone are more work
	// than its share.
	if smaller == 0 {
		return 0
	}
	// Half of the jobs of equal size: a size whose work lies across a boundary goes to the side
	// where most work is.
	share, middle := 0.0, smaller+s.loads[at]/2
	// The shares of map slots count for both kinds: a size does not say which part is reduces.
	for k, c := range s.cfg.Capacities[job.Map][:last] {
		if share += c; middle < share*s.total {
			return k
		}
	}
	return last
}

// The buckets of SITA.loads hold the work of jobs by size. Sizes within an eighth of a power
// of two share a bucket; buckets begin at 2^-16 s and end at 2^48 s.
const (
	leastExponent = -16
	loadBuckets   = 8 * 64
)

// bucketOf returns the bucket of a size in seconds.
func bucketOf(seconds float64) int {
	part, exponent := math.Frexp(seconds) // part is in [0.5, 1), or 0
	return min(max(0, 8*(exponent-leastExponent)+int(16*part)-8), loadBuckets-1)
}

// Explain implements sched.Explainer. It names the job's partition.
func (s *SITA) Explain(j *job.Job, _ job.Kind, _ time.Duration) string {
	if len(s.parts) == 1 || j.Seat() >= len(s.members) || s.members[j.Seat()] == nil || s.members[j.Seat()].job != j {
		return ""
	}
	return fmt.Sprintf("size partition %s, the job's, follows from its known size", s.parts[s.members[j.Seat()].part].name)
}

// fixedRule is the rule of SITA: no job moves.
type fixedRule struct{}

func (fixedRule) enter(*member)                            {}
func (fixedRule) grow(*member, time.Duration)              {}
func (fixedRule) leave(*member, bool)                      {}
func (fixedRule) repositioned(*job.Job)                    {}
func (fixedRule) due(_ *Tags, list []*member) []*member    { return list }
func (fixedRule) timer(int) (limit time.Duration, ok bool) { return 0, false }
