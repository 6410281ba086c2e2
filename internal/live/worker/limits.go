package worker

import (
	"cmp"
	"fmt"
	"math"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/live/cgroup"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

const (
	// memorySlack is the memory that the processes of an attempt may use beyond the job's
	// request: for the program's code, the runtime, and the pages of files.
	memorySlack = 256 << 20
	// leastLimit is the least limit of attempts whose job asks for no memory.
	leastLimit = 1 << 30
	// mostProcesses is the greatest number of processes and threads of an attempt.
	mostProcesses = 1 << 12
	// weightOfSlot is the weight of one slot's share of the processors.
	weightOfSlot = 100
)

// limits bound one attempt.
type limits struct {
	// memory is the limit in bytes above which the attempt is killed; 0 is none. asked
	// is the job's request; 0 if it makes none.
	memory, asked int64
	// buffer is the memory in bytes in which the attempt sorts, merges and fetches: a
	// quarter of its memory. It is outside the Go heap.
	buffer int64
	width  int // slots that the attempt occupies
}

// limitsOf returns the limits of an attempt of a job.
func (c *Config) limitsOf(spec *slotwisev1.JobSpec, width int32) limits {
	l := limits{asked: spec.GetTaskMemory(), width: max(1, int(width))}
	switch {
	case l.asked > 0:
		l.memory = min(l.asked+memorySlack, c.mostMemory())
	// Negative means that jobs without a request have no limit.
	case c.TaskMemory >= 0:
		l.memory = cmp.Or(c.TaskMemory, min(max(leastLimit, c.slotMemory()+memorySlack), c.mostMemory()))
	}
	l.buffer = bufferOf(cmp.Or(l.asked, c.slotMemory()))
	return l
}

// mostMemory returns the greatest limit of an attempt: the memory that the worker and its
// attempts may use, less an eighth. So the worker ends an attempt that alone fills a
// container before the kernel ends the container.
func (c *Config) mostMemory() int64 {
	if c.Usable == 0 {
		return math.MaxInt64
	}
	return c.Usable - c.Usable/8
}

// slotMemory returns one slot's share of the memory. All slots get the same, because a
// policy may run a reduce in a map slot.
func (c *Config) slotMemory() int64 { return c.Memory / int64(c.MapSlots+c.ReduceSlots) }

// bufferOf returns the size of the buffers of a task with that much memory. A map cannot sort
// in more than engine.MaxMapBuffer, which matters on machines with 512 GiB and more.
func bufferOf(memory int64) int64 { return min(max(minShare, memory/4), engine.MaxMapBuffer) }

// A map sorts in its whole buffer. A reduce keeps fetched map outputs in three quarters
// of the buffer and merges run files through the last quarter.
func (l *limits) fetchBuffer() int64 { return l.buffer * 3 / 4 }
func (l *limits) mergeBuffer() int64 { return l.buffer / 4 }

// memoryError is the cause of an attempt that was stopped because its processes used
// more than limits.memory.
type memoryError struct{ limits }

// Error implements error.
func (m *memoryError) Error() string {
	if m.asked > 0 {
		return fmt.Sprintf("the attempt's processes used more than its %s of memory (--task-memory)", terminal.Bytes(m.asked))
	}
	return fmt.Sprintf("the attempt's processes used more than %s of memory, the limit on this worker for tasks whose job asks for none; --task-memory of the job asks for more",
		terminal.Bytes(m.memory))
}

// openGroups prepares the control groups of attempts, if they are wanted and available,
// and says once how attempts are limited.
func (w *Worker) openGroups() {
	if !w.cfg.Cgroups {
		return
	}
	open := w.cfg.openGroups
	if open == nil {
		open = cgroup.Open
	}
	// Without groups the worker runs all the same: a container or a service manager often delegates none.
	tree, err := open(w.home.origin[:8])
	if err != nil {
		w.log.Info("attempts are limited by a watch over their memory", "no control groups because", err)
		return
	}
	w.groups = tree
	w.log.Info("attempts are limited by control groups")
}

// limitedBy names the means by which attempts are limited.
func (w *Worker) limitedBy() string {
	if w.groups != nil {
		return "cgroup"
	}
	return "watch"
}

// newGroup makes the control group of an attempt or driver; nil without control groups.
func (w *Worker) newGroup(name string, lim limits) (*cgroup.Group, error) {
	if w.groups == nil {
		return nil, nil
	}
	// The group of an earlier process of the same name may not be removed yet.
	g, err := w.groups.Create(w.uniqueName(name), cgroup.Limits{Memory: lim.memory, Weight: weightOfSlot * lim.width, Processes: mostProcesses * lim.width})
	if err != nil {
		return nil, fmt.Errorf("the control group: %w", err)
	}
	return g, nil
}

// removeGroup removes the control group of an attempt or driver that has ended, with the
// processes that it left behind.
func (w *Worker) removeGroup(name string, g *cgroup.Group) {
	if g == nil {
		return
	}
	if err := g.Remove(); err != nil {
		w.log.Error("cannot remove a control group; the next start of the worker will", "of", name, "err", err)
	}
}
