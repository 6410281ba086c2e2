package sim

import (
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// This file models the memory of machines. The model is off unless a job states the memory
// of a running task (workload.Job.Resident) and a node its own memory. Let r be the memory
// that the processes on a machine occupy over the memory of the machine.
// Computation, and tasks of given duration, take longer there by the factor
//
//	1                               r ≤ 0.9
//	1 + 0.1·(r − 0.9)/0.1     0.9 < r ≤ 1:  files are no longer cached
//	1.1 + k·(r − 1)                 r > 1:  pages are on disk; at most 20
//
// The form is ours, because we know no measured curve of paging. Its slope follows from two
// orders of magnitude: a page from disk takes about 10 ms and one in memory about 0.1 µs, so a
// task that touches 100,000 pages a second, 1 % from disk, is about 11 times slower.
// Values of k from 10 to 30 are plausible. A framework that spills in time suffers less:
// reducers with a tenth of their ideal memory take 1.1 to 1.8 times as long (Iorgulescu et
// al., Don't cry over spilled records, arXiv 1702.04323).
//
// A process occupies its memory from the launch of the attempt to the end of its work, also
// while a reduce waits for maps.
const (
	pagingFrom    = 0.9
	pagingFull    = 1.1 // the factor at r = 1
	pagingMost    = 20.
	defaultPaging = 20. // k
)

// pagingFactor returns by which factor tasks take longer on a machine whose memory is
// filled to r. k is ModelConfig.Paging.
func pagingFactor(r, k float64) float64 {
	switch {
	case r <= pagingFrom:
		return 1
	case r <= 1:
		return 1 + float64((pagingFull-1)*(r-pagingFrom)/(1-pagingFrom))
	}
	return min(pagingMost, pagingFull+float64(k*(r-1)))
}

// pages reports whether the model of memory is on: some job states the memory of its
// tasks, and some node its memory.
func pages(cfg *Config) bool {
	nodes, jobs := false, false
	for i := range cfg.Cluster.Groups {
		nodes = nodes || cfg.Cluster.Groups[i].Memory > 0
	}
	for i := range cfg.Jobs {
		jobs = jobs || cfg.Jobs[i].Resident > 0
	}
	return nodes && jobs && cfg.Model.Paging >= 0
}

// machineMemory returns the memory of a machine of a group in bytes.
func machineMemory(g *workload.NodeGroup) int64 {
	if g.Together {
		return g.Memory * int64(g.Count)
	}
	return g.Memory
}

// occupy adds the memory of an attempt's process to its machine.
func (s *sim) occupy(a *attempt) {
	if s.paging && !a.occupies {
		a.occupies = true
		s.changeResident(s.machine(a), float64(a.job.spec.Resident))
	}
}

// vacate removes the memory of an attempt's process from its machine, if it is there.
func (s *sim) vacate(a *attempt) {
	if a.occupies {
		a.occupies = false
		s.changeResident(s.machine(a), -float64(a.job.spec.Resident))
	}
}

// changeResident changes the memory that is in use on a machine, and with it the speed of
// the tasks there.
func (s *sim) changeResident(nd *node, bytes float64) {
	p := &nd.plant
	p.resident += bytes
	if p.memory == 0 {
		return
	}
	f := pagingFactor(p.resident/p.memory, s.model.Paging)
	// Most launches stay below nine tenths of the memory, and no rate changes.
	if f == p.slower {
		return
	}
	p.slower = f
	for _, u := range [...]use{useCPU, useClock} {
		p.station[u].advance(s.now)
		s.touched(nd, u)
	}
}

// layOutPaged adds the stages of an attempt of given duration on a machine with limited
// memory. Its work uses the machine's clock, which runs slower when pages are on disk.
// A reduce first fetches, which ends as in tryGate.
func (s *sim) layOutPaged(a *attempt, span time.Duration) {
	rest := span
	if a.id.Kind == job.Reduce && len(a.job.spec.Maps) > 0 {
		rest -= a.shuffle
		a.add(stage{use: useGate, span: span})
	}
	// At least a nanosecond: progress divides by the amount.
	seconds := max(rest, 1).Seconds()
	a.add(stage{use: useClock, amount: seconds, alone: seconds})
}

// afterGate returns the part of a reduce's given duration that follows its fetches and is
// a part of the same stage.
func (a *attempt) afterGate() time.Duration {
	if a.paged {
		return 0
	}
	return a.span - a.shuffle
}

// pagedProgress returns the progress of an attempt of given duration on a machine with
// limited memory. A reduce reports a third for its fetches, as in gateProgress.
func (s *sim) pagedProgress(nd *node, a *attempt) float64 {
	last := a.count - 1
	switch {
	case a.id.Kind == job.Map:
		return s.staged(nd, a, last)
	case a.current < last && a.stages[a.current].use == useGate:
		return min(float64(a.job.done)/float64(len(a.job.spec.Maps)), fraction(s.now-a.from, a.shuffle)) / 3
	case a.current < last:
		return 0
	}
	return 1./3 + 2./3*s.staged(nd, a, last)
}
