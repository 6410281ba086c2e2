package engine

import (
	"context"
	"sync/atomic"

	"github.com/slotwise/slotwise/internal/data/engine/mem"
	"github.com/slotwise/slotwise/internal/data/engine/runfile"
	"github.com/slotwise/slotwise/internal/data/engine/sortbuf"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/sched/job"
)

// MaxMapBuffer is the greatest buffer in bytes of a map. The sort cannot count more records.
const MaxMapBuffer = sortbuf.MaxLimit

// Env is shared by the attempts of one process. Its limits are fixed shares of one
// memory setting, so attempts never wait for each other's memory:
//
//	Memory ≥ Resident.Limit + map slots · MapBuffer + reduce slots · MergeBuffer
type Env struct {
	Mem         *mem.Pool        // accounts all off-heap memory
	Resident    *mem.Pool        // accounts map outputs that stay in memory
	Schemes     *storage.Schemes // storage of the input
	Scratch     storage.Scratch  // spills, and map outputs for which Resident has no room
	MapBuffer   int64            // bytes that one map attempt may sort or aggregate in, at most MaxMapBuffer
	MergeBuffer int64            // bytes that one reduce attempt may read run files through
	Codec       runfile.Codec    // compresses spills and map outputs on disk
	// Commit returns nil if the attempt may commit its output. It is called at most
	// once, after everything else has succeeded, and blocks until there is an
	// answer.
	Commit func(context.Context, job.AttemptID) error
}

// Meter holds the progress of a running attempt. The attempt writes it and any
// goroutine may read it.
type Meter struct {
	BytesRead atomic.Int64  // of the input
	Done      atomic.Int64  // units of work done
	Total     atomic.Int64  // units of work in all: bytes for a map, records for a reduce
	Ticks     atomic.Uint64 // grows while the attempt is alive, even without progress
}

// Fraction returns the attempt's progress from 0 to 1.
func (m *Meter) Fraction() float64 {
	total := m.Total.Load()
	if total <= 0 {
		return 0
	}
	return min(1, float64(m.Done.Load())/float64(total))
}
