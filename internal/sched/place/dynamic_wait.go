package place

import (
	"errors"
	"strconv"
	"time"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/sched"
)

// waitList keeps how long jobs have held out for better places, as Hadoop's fair
// scheduler does: a job waits from a round that visited it and launched no map
// of it to the next round of any node, and so on; launching a map ends the wait.
// Only rounds of nodes with a free map slot count, and those of one instant count
// as one: otherwise a node that never visits the job, but always comes just after
// the one that does, would keep the wait at nothing for ever.
type waitList struct {
	waits   []wait     // by seat
	skipped []*job.Job // by the current round, then by the last
	last    time.Duration
	round   int64
}

// wait is a job's.
type wait struct {
	job    job.ID
	waited time.Duration
	// last is the level of the last map launched, NODE before the first.
	last    cluster.Level
	skipped bool  // it is in waitList.skipped
	served  int64 // the last round that launched a map of it
}

// begin starts a round: the jobs that the last one skipped have waited until now.
func (l *waitList) begin(r *sched.Round) {
	if r.Free(job.Map) == 0 || r.Now() == l.last && l.round > 0 {
		return
	}
	l.round++
	for i, j := range l.skipped {
		if w := &l.waits[j.Seat()]; w.job == j.ID() && w.skipped {
			w.waited += r.Now() - l.last
			w.skipped = false
		}
		l.skipped[i] = nil
	}
	l.skipped = l.skipped[:0]
	l.last = r.Now()
}

// of returns the wait of a job. The pointer holds until a job is added.
func (l *waitList) of(j *job.Job) *wait { return &l.waits[j.Seat()] }

func (l *waitList) add(j *job.Job) {
	for j.Seat() >= len(l.waits) {
		l.waits = append(l.waits, wait{})
	}
	l.waits[j.Seat()] = wait{job: j.ID(), last: cluster.NODE, served: -1}
}

// skip notes that the round passes a job by, unless it has served it already.
func (l *waitList) skip(w *wait, j *job.Job) {
	if !w.skipped && w.served != l.round {
		w.skipped = true
		l.skipped = append(l.skipped, j)
	}
}

// launched ends a job's wait and returns how long it was. A split without
// locations says nothing of the levels that the job can get.
func (l *waitList) launched(a *job.Attempt) time.Duration {
	w := l.of(a.Job())
	waited := w.waited
	w.waited, w.skipped, w.served = 0, false, l.round
	if a.Level() != cluster.NONE {
		w.last = a.Level()
	}
	return waited
}

// mean is one of the paper's pairs TimeCount and NumberCount, over all samples
// or over the last of them. The sum is exact.
type mean struct {
	sum    time.Duration
	count  int64
	window int             // 0 is all
	recent []time.Duration // with a window: its samples, a ring once it is full
	next   int
}

func (m *mean) add(d time.Duration) {
	m.sum += d
	if m.window > 0 {
		if len(m.recent) == m.window {
			m.sum -= m.recent[m.next]
			m.recent[m.next] = d
			m.next = (m.next + 1) % m.window
			return
		}
		m.recent = append(m.recent, d)
	}
	m.count++
}

// value is the mean, rounded up so that a wait reaches it exactly when it
// reaches the true mean.
func (m *mean) value() time.Duration {
	n := time.Duration(m.count)
	return m.sum/n + min(1, m.sum%n)
}

func parseWait(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err == nil && d < 0 {
		err = errors.New("must not be negative")
	}
	return d, err
}

func parseSwitch(s string) (bool, error) {
	if s != "on" && s != "off" {
		return false, errors.New("must be on or off")
	}
	return s == "on", nil
}

func parseWindow(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err == nil && (n < 0 || n > maxWindow) {
		err = errors.New("must be from 0 to 1048576")
	}
	return n, err
}
