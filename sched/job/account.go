package job

import (
	"cmp"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/base/counters"
)

// Account holds sums over all attempts of a job, for status displays, the history and
// results. The Book updates it with each change of an attempt, so replaying the changes
// after a restart gives the same sums. If a task runs again, all its attempts count.
type Account struct {
	Launched  [Kinds]int           // attempts, speculative copies included
	Copies    int                  // speculative attempts of both kinds
	Levels    [LevelNone + 1]int   // launched maps by locality level
	Failed    [Kinds]int           // failed attempts; killed and lost ones do not count
	LastError string               // the latest failure, such as "j1_m_0_0: exit status 1"; "" if none
	LogTail   string               // the end of that attempt's log; "" if unknown
	SlotTime  [Kinds]time.Duration // time for which ended attempts occupied slots, summed over their slots, by kind of slot
	Counters  [Kinds]counters.Set  // sums over the attempts that succeeded, by kind of task
}

// clone returns a copy that shares nothing with a.
func (a *Account) clone() Account {
	c := *a
	for k := range c.Counters {
		c.Counters[k] = a.Counters[k].Clone()
	}
	return c
}

// launched counts a new attempt.
func (a *Account) launched(x *Attempt) {
	a.Launched[x.id.Kind]++
	if x.speculative {
		a.Copies++
	}
	if x.id.Kind == Map {
		// Of launches and not of tasks: a map that runs again reads its input again, from wherever it runs
		// then.
		a.Levels[x.level]++
	}
}

// failed counts a failed attempt.
func (a *Account) failed(x *Attempt) {
	a.Failed[x.id.Kind]++
	a.LastError, a.LogTail = x.id.String()+": "+x.Error(), x.LogTail()
}

// Wait is one reason for which tasks of a kind were not launched, and for how long
// in all.
type Wait struct {
	Kind   Kind
	Reason uint8 // a sched.Code, which this package cannot name
	For    time.Duration
	Words  string // the latest reason as a sentence
}

// waits sums up wait reasons. The zero value has none.
type waits struct {
	list []Wait
	upTo time.Duration // until when they were collected
}

// Waits returns why the job's tasks waited, the longest wait first. It is empty
// unless the tracker collects wait reasons. The slice is the caller's.
func (j *Job) Waits() []Wait {
	// Kind and reason break ties, so the list does not depend on the order in which the reasons first
	// occurred.
	return slices.SortedFunc(slices.Values(j.waits.list), func(a, b Wait) int {
		return cmp.Or(cmp.Compare(b.For, a.For), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Reason, b.Reason))
	})
}

// WaitsUpTo returns until when wait reasons were collected: the job's submission if
// never.
func (j *Job) WaitsUpTo() time.Duration { return max(j.waits.upTo, j.submitted) }

// AddWait adds to a wait reason of the job.
func (b *Book) AddWait(j *Job, w Wait) {
	// A search of the list: a job has a few reasons, of some twenty that exist.
	i := slices.IndexFunc(j.waits.list, func(x Wait) bool { return x.Kind == w.Kind && x.Reason == w.Reason })
	if i < 0 {
		j.waits.list = append(j.waits.list, w)
		return
	}
	j.waits.list[i].For += w.For
	// The numbers of the latest time; a sum of sentences would say nothing.
	j.waits.list[i].Words = w.Words
}

// SetWaitsUpTo records until when the job's wait reasons were collected.
func (b *Book) SetWaitsUpTo(j *Job, at time.Duration) { j.waits.upTo = at }
