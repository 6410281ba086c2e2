package sweep

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/study"
)

// RunOptions configure Plan.Run.
type RunOptions struct {
	// Memory bounds the memory of all cells that run at the same time, in bytes. It is
	// compared with estimates; 0 is no limit.
	Memory int64
	// Workers bounds the cells that run at the same time; 0 is one for each processor.
	Workers int
	// Progress, if set, follows the runs.
	Progress study.Progress
	// Warn, if set, receives a sentence about each thing that is not as asked.
	Warn func(text string)
}

// Estimated bytes of memory of a run in which all jobs are alive (TestEstimate).
const (
	bytesPerTask = 420
	bytesPerJob  = 1 << 10
	bytesPerNode = 8 << 10
	// bytesDrawn is the memory of a task in the list of jobs, which cells share.
	bytesDrawn = 72
)

// estimate returns the memory that the run of a cell needs beside the list of jobs.
// It counts all jobs as alive at once, whatever the load: the system would kill the whole study for one run
// that was estimated too low.
func (c *Cell) estimate() int64 {
	d := c.draw()
	if c.policy.reference == study.RefBound {
		return int64(d.jobs) * bytesPerJob
	}
	nodes := 0
	for _, g := range c.cluster.cluster.Groups {
		nodes += g.Count
	}
	return int64(d.tasks)*bytesPerTask + int64(d.jobs)*bytesPerJob + int64(nodes)*bytesPerNode
}

// drawn returns the memory of the list of jobs of a cell.
func (c *Cell) drawn() int64 {
	d := c.draw()
	return int64(d.tasks)*bytesDrawn + int64(d.jobs)*bytesPerJob
}

// Missing returns the cells whose results are not in the store, or are damaged.
func (p *Plan) Missing(store *Store) []*Cell {
	var list []*Cell
	for _, c := range p.Cells {
		if !store.Has(c.Key) {
			list = append(list, c)
		}
	}
	return list
}

// Run runs the cells whose results are not in the store. If ctx ends, the results of cells
// that have ended are kept, and a later Run continues.
func (p *Plan) Run(ctx context.Context, store *Store, o RunOptions) error {
	// Each file is read once for this, so a study of thousands of cells that is complete begins with a pause.
	cells := p.Missing(store)
	if len(cells) == 0 {
		return nil
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Memory > 0 {
		// The inner call sets the limit at once, the deferred one restores the old limit.
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(o.Memory))
	}
	jobs, most := 0, int64(0)
	for _, c := range cells {
		// The run is made again in any case. But a store that damages results is worth a look.
		if store.Damaged(c.Key) && o.Warn != nil {
			o.Warn(fmt.Sprintf("%s: the stored result %s is damaged; the run is made again", c.Describe(), store.path(c.Key)))
		}
		// A bound is computed and simulates no jobs.
		if c.policy.reference != study.RefBound {
			jobs += c.draw().jobs
		}
		if p.grounds[c.ground()] == nil {
			p.grounds[c.ground()] = &ground{}
		}
		// The jobs of a ground are freed after the last cell that uses them.
		p.grounds[c.ground()].left++
		most = max(most, c.estimate()+c.drawn())
	}
	if o.Memory > 0 && most > o.Memory && o.Warn != nil {
		o.Warn(fmt.Sprintf("one run is estimated to need %d MiB, more than the memory limit; runs that large are made one at a time", most>>20))
	}
	if o.Progress != nil {
		o.Progress.Phase(fmt.Sprintf("simulating %d runs", len(cells)), jobs)
	}
	r := &runner{plan: p, store: store, options: o, gate: newGate(o.Memory)}
	return r.all(ctx, cells)
}

// runner runs cells in several goroutines.
type runner struct {
	plan    *Plan
	store   *Store
	options RunOptions
	gate    *gate
}

// all runs the cells in order until the first error.
func (r *runner) all(ctx context.Context, cells []*Cell) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan *Cell)
	var wg sync.WaitGroup
	for range min(r.options.Workers, len(cells)) {
		wg.Go(func() {
			for c := range work {
				if err := r.one(ctx, c); err != nil {
					// The first error is the cause; the others of a study that stops are its consequences.
					cancel(err)
				}
				// Also after an error, or the cells that wait at the gate would wait for ever.
				r.gate.leave(c.estimate(), c.drawn(), c.draw())
			}
		})
	}
	stop := context.AfterFunc(ctx, r.gate.wake)
	for _, c := range cells {
		// Here and not in the workers: cells enter in their order, so the cells of one seed follow each other
		// and a large cell is not passed by all small ones.
		if !r.gate.enter(ctx, c.estimate(), c.drawn(), c.draw()) {
			break
		}
		work <- c
	}
	close(work)
	wg.Wait()
	stop()
	return context.Cause(ctx)
}

// one runs a cell and keeps its result.
func (r *runner) one(ctx context.Context, c *Cell) error {
	stop := func() error { return context.Cause(ctx) }
	g := r.plan.grounds[c.ground()]
	defer c.finish(g)
	if err := stop(); err != nil {
		return err
	}
	if err := c.prepare(g, r.store, stop); err != nil {
		return describe(ctx, c, err)
	}
	var progress sim.Observer
	if r.options.Progress != nil {
		progress = r.options.Progress
	}
	out, err := c.run(g, stop, progress)
	if err != nil {
		return describe(ctx, c, err)
	}
	return r.store.save(c.Key, out)
}

// describe adds the cell to an error, unless the error is that the study was stopped.
func describe(ctx context.Context, c *Cell, err error) error {
	// The cell is not at fault, and its name would send the user searching.
	if ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%s: %w", c.Describe(), err)
}

// gate lets cells run while their estimated memory is within a limit. Lists of jobs count
// once, however many cells share them. A cell always enters if no other is running.
type gate struct {
	limit int64 // 0 is no limit
	mu    sync.Mutex
	moved *sync.Cond
	used  int64
	n     int
	draws map[*draw]int // cells by draw
}

func newGate(limit int64) *gate {
	g := &gate{limit: limit, draws: make(map[*draw]int)}
	g.moved = sync.NewCond(&g.mu)
	return g
}

// enter waits until a cell fits. It reports false if ctx ends first.
func (g *gate) enter(ctx context.Context, run, drawn int64, draw *draw) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for ctx.Err() == nil {
		need := run
		// The first cell of a list takes its memory, and the last one gives it back.
		if g.draws[draw] == 0 {
			need += drawn
		}
		if g.limit <= 0 || g.n == 0 || g.used+need <= g.limit {
			g.used += need
			g.n++
			g.draws[draw]++
			return true
		}
		g.moved.Wait()
	}
	return false
}

// leave returns what a cell has taken.
func (g *gate) leave(run, drawn int64, draw *draw) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used -= run
	g.n--
	if g.draws[draw]--; g.draws[draw] == 0 {
		g.used -= drawn
	}
	g.moved.Broadcast()
}

// wake makes enter look at its context again.
func (g *gate) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.moved.Broadcast()
}
