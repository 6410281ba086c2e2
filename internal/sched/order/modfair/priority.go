package modfair

import (
	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
)

// launched is §3.8 for a map of the job that has just been launched. Only maps
// that wait for their place count: a copy goes where a slot is free, and a split
// without locations is equally far from everywhere.
func (o *Order) launched(m *member, a *job.Attempt) {
	if a.Kind() != job.Map || a.Speculative() || a.Level() == cluster.NONE {
		return
	}
	before := m.level
	m.level = a.Level()
	if before != 0 && o.cfg.Table != TableOff {
		o.prioritize(m, adjust(m.priority, before, m.level, o.cfg.Table))
	}
}

// adjust is Table 3: the priority moves up or down by as many levels as the
// locality of two successive maps does, and does not stay at an extreme. As
// printed, the table lets priorities stay there while locality does not change,
// and has the row from None to Node go one level down.
func adjust(p job.Priority, before, now job.Level, table Table) job.Priority {
	step := int(before) - int(now) // levels count from the best on
	if table == TablePrint {
		switch {
		case step == 0:
			return p
		case before == cluster.ANY && now == cluster.NODE:
			step = -1
		}
	}
	q := job.Priority(min(max(int(p)+step, int(job.VeryLow)), int(job.VeryHigh)))
	switch {
	case p != q:
		return q
	case q == job.VeryHigh:
		return job.High
	case q == job.VeryLow:
		return job.Low
	}
	return q
}
