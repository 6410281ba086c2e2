package sim

import (
	"math/rand/v2"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
	"github.com/slotwise/slotwise/sched/portable"
)

// Every use of randomness has its own generator, seeded with the run's seed, the
// name of the use and its subject. A draw therefore does not depend on the draws before
// it, and attempts of a task have the same luck under every policy.
const (
	forPlacement uint64 = iota + 1
	forAttempt
	forCrash
	forLoad
	forOverhead
	forPhase
	forStart
	forCopy
)

// source returns a generator for a use and a subject.
func (s *sim) source(g *rand.PCG, use, a, b uint64) {
	g.Seed(portable.Mix(s.cfg.Seed^portable.Mix(use)), portable.Mix(a)^b)
}

// uniform draws a number from [0, 1).
func uniform(g *rand.PCG) float64 { return float64(g.Uint64()>>11) / (1 << 53) }

// longest bounds all times, so that sums of a few do not overflow: 31 years.
const longest = time.Duration(1e18)

// scale multiplies a time by a factor, up to longest.
func scale(d time.Duration, factor float64) time.Duration {
	return time.Duration(min(float64(longest), float64(float64(d)*factor)))
}

// exponential draws an exponentially distributed time with a mean.
func exponential(g *rand.PCG, mean time.Duration) time.Duration {
	return scale(mean, -portable.Log(1-uniform(g)))
}

// luck is the result of the draws for an attempt.
type luck struct {
	slower float64 // factor of all the attempt's times
	fails  bool
	point  float64 // fraction of the work at which it fails
}

// drawLuck draws whether the attempt fails and how slow it is. The subject of the draw
// has the job's index, because the tracker's number depends on the order of submission.
func (s *sim) drawLuck(a *attempt) luck {
	l := luck{slower: 1}
	outliers := s.model.Outliers && s.model.Straggler.Probability == 0 && a.job.spec.Origin == workload.Computed
	if s.model.FailureRate == 0 && s.model.Straggler.Probability == 0 && !outliers {
		return l
	}
	var g rand.PCG
	s.source(&g, forAttempt, uint64(a.job.index)<<1|uint64(a.id.Kind), uint64(a.id.Index)<<32|uint64(a.id.Number))
	// All four are drawn, whatever the model uses: turning failures on must not change which attempts are
	// slow.
	x, y, z, w := uniform(&g), uniform(&g), uniform(&g), uniform(&g)
	if x < s.model.FailureRate {
		l.fails, l.point = true, y
	}
	if st := &s.model.Straggler; z < st.Probability {
		l.slower = st.Factor
		if st.Alpha > 0 {
			// The inverse of Pareto's distribution. 1 − w is never 0, because w is below 1.
			l.slower = st.Factor * portable.Pow(1-w, -1/st.Alpha)
		}
	}
	if outliers && z < outlierShare {
		l.slower = outlier(w)
	}
	return l
}

// outlierShare is the fraction of attempts that are outliers. Mantri (Ananthanarayanan et al.,
// OSDI 2010, section 3) finds more than 15 % in a quarter of all phases of Bing's cluster; the mean
// is not published. So this is a bad day and not an average one.
const outlierShare = 0.15

// outlier returns how many times as long as the median an outlier takes, from a number that is
// uniform in [0, 1). In the same figure of Mantri 80 % of the outliers are spread evenly over 1.5
// to 2.5, and 10 % take more than 10. The text gives no form between 2.5 and 10, which is even
// here, and no end, so the last ones take 10: the least that the text allows.
func outlier(x float64) float64 {
	switch {
	case x < 0.8:
		return 1.5 + x/0.8
	case x < 0.9:
		return 2.5 + float64(75*(x-0.8))
	}
	return 10
}

// drawSibling draws the duration of a speculative copy: it takes the duration of a random
// task of the same job and kind. A task that was slow by bad luck in a trace is then rarely slow again, so that a
// copy can win, as in a real cluster.
func (s *sim) drawSibling(a *attempt) time.Duration {
	tasks := a.job.spec.Maps
	if a.id.Kind == job.Reduce {
		tasks = a.job.spec.Reduces
	}
	var g rand.PCG
	s.source(&g, forCopy, uint64(a.job.index)<<1|uint64(a.id.Kind), uint64(a.id.Index)<<32|uint64(a.id.Number))
	if d := tasks[pick(&g, len(tasks))].Duration; d > 0 {
		return d
	}
	return a.task().Duration // a mixed job: the sibling goes through stages
}

// coin draws whether an attempt is runnable in a tick of its load.
func (s *sim) coin(a *attempt, tick uint64) bool {
	subject := portable.Mix(uint64(a.job.index)<<1|uint64(a.id.Kind)) ^ uint64(a.id.Index)<<32 ^ uint64(a.id.Number)
	return portable.Mix(portable.Mix(portable.Mix(s.cfg.Seed^forLoad)^subject)^tick)&1 == 1
}

// drawCrash schedules the next random crash of a node that is up.
func (s *sim) drawCrash(n int32) {
	if s.model.MTBF <= 0 {
		return
	}
	var g rand.PCG
	s.source(&g, forCrash, uint64(n), uint64(s.nodes[n].life))
	s.queue.push(s.now+exponential(&g, s.model.MTBF), evCrash, n, s.nodes[n].life)
}

// drawReturn draws when a node that crashes now is back; 0 is never.
func (s *sim) drawReturn(n int32) time.Duration {
	if s.model.MTTR <= 0 {
		return 0
	}
	var g rand.PCG
	s.source(&g, forCrash, uint64(n), uint64(s.nodes[n].life)|1<<32)
	// At least a nanosecond later: crash and return at one time would have no order.
	return s.now + exponential(&g, s.model.MTTR) + 1
}

// splits returns the job's splits. It places the blocks of maps whose hosts the
// workload does not state.
func (s *sim) splits(index int32, j *workload.Job) []job.Split {
	if s.cfg.Start != nil {
		return s.blankSplits(j)
	}
	splits := make([]job.Split, len(j.Maps))
	var g rand.PCG
	s.source(&g, forPlacement, uint64(index), 0)
	copies := min(s.model.Replicas, len(s.nodes))
	// The nodes of one machine read the same files, as the workers of the local shell do.
	asRun := s.model.AsRun && j.Origin == workload.Stated
	// Every node is as close as any other, so splits without hosts say the same and cost no lists.
	if asRun && s.machines == 1 {
		copies = 0
	}
	var hosts []string
	if copies > 0 {
		hosts = make([]string, 0, copies*len(j.Maps))
	}
	for i := range splits {
		t := &j.Maps[i]
		splits[i] = job.Split{Hosts: t.Hosts, Bytes: t.Input}
		if t.Hosts == nil && copies > 0 && (t.Input > 0 || t.Duration > 0) && !(asRun && t.Duration > 0) {
			from := len(hosts)
			hosts = s.placeBlock(&g, hosts, copies)
			// One array for all blocks of a job. The capacity ends with the slice, so no append can write
			// into the next block.
			splits[i].Hosts = hosts[from:len(hosts):len(hosts)]
		}
	}
	return splits
}
