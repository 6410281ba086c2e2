package engine

import (
	"context"
	"sync/atomic"

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
	Mem         *mem.Pool        // accounts all off-heap memory
	Resident    *mem.Pool        // accounts map outputs that stay in memory
	Schemes     *storage.Schemes // storage of the input
	Scratch     storage.Scratch  // spills and map outputs that do not
	MapBuffer   int64            // bytes that one map attempt may sort or aggregate in
	MergeBuffer int64            // bytes that one reduce attempt may read run files through
	Codec       runfile.Codec    // of spills and map outputs on disk
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
