package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/slotwise/slotwise/internal/engine/mem"
	"github.com/slotwise/slotwise/internal/engine/runfile"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/storage"
)

// Env is what the attempts of one process share. Its limits are fixed shares
// of one memory setting, so that attempts never wait for each other's memory:
//
//	Memory ≥ Resident.Limit + map slots · MapBuffer + reduce slots · MergeBuffer
type Env struct {
	Mem         *mem.Pool       // accounts all off-heap memory
	Resident    *mem.Pool       // accounts map outputs that stay in memory
	Scratch     storage.Scratch // spills and map outputs that do not
	MapBuffer   int64           // bytes that one map attempt may sort or aggregate in
	MergeBuffer int64           // bytes that one reduce attempt may read run files through
	Codec       runfile.Codec   // of spills and map outputs on disk
	// Commit asks whether the attempt may commit its output and returns nil if
	// it may. It is called once, after everything else has succeeded.
	Commit func(context.Context, job.AttemptID) error
}

// Meter is what an attempt tells of its progress while it runs; all fields may
// be read at any time.
type Meter struct {
	BytesRead atomic.Int64 // of the input
	Done      atomic.Int64 // units of work done, of Total
	Total     atomic.Int64
	Ticks     atomic.Uint64 // signs of life beside progress
}

// Fraction returns the attempt's progress from 0 to 1.
func (m *Meter) Fraction() float64 {
	total := m.Total.Load()
	if total <= 0 {
		return 0
	}
	return min(1, float64(m.Done.Load())/float64(total))
}

// Metrics are what an attempt counted, known when it ends.
type Metrics struct {
	InputRecords   int64 // records read: lines, fixed records, files (0 if blocks were mapped)
	InputBytes     int64
	OutputRecords  int64 // emitted by the map or reduce function
	OutputBytes    int64 // keys and values emitted
	InputGroups    int64 // keys that a reduce was called with
	Spills         int64 // times that a buffer was written out for want of memory
	SpilledRecords int64
	SpilledBytes   int64
	FileBytes      int64 // bytes of committed output files
	CPU            time.Duration
}

// Add adds n's counts to m.
func (m *Metrics) Add(n *Metrics) {
	m.InputRecords += n.InputRecords
	m.InputBytes += n.InputBytes
	m.OutputRecords += n.OutputRecords
	m.OutputBytes += n.OutputBytes
	m.InputGroups += n.InputGroups
	m.Spills += n.Spills
	m.SpilledRecords += n.SpilledRecords
	m.SpilledBytes += n.SpilledBytes
	m.FileBytes += n.FileBytes
	m.CPU += n.CPU
}
