package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/internal/proctree"
)

func killWorker(c *cluster, f fault) (func() error, bool, error) {
	w := c.workers[f.worker]
	w.kill()
	return w.start, true, nil
}

func loseWorker(c *cluster, f fault) (func() error, bool, error) {
	w := c.workers[f.worker]
	w.kill()
	// The disk itself stays, as it may be mounted.
	err := emptyDir(w.dir)
	return w.start, true, err
}

func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

func freezeWorker(c *cluster, f fault) (func() error, bool, error) {
	p := c.workers[f.worker].cmd.Process
	return func() error { return p.Signal(syscall.SIGCONT) }, true, p.Signal(syscall.SIGSTOP)
}

// freezeMachine stops the worker first, so that it starts nothing more.
func freezeMachine(c *cluster, f fault) (func() error, bool, error) {
	w := c.workers[f.worker]
	if err := w.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return nil, false, err
	}
	tasks := w.tasks()
	for _, p := range tasks {
		syscall.Kill(p.PID, syscall.SIGSTOP) // those that have just ended do not matter
	}
	return func() error {
		for _, p := range tasks {
			syscall.Kill(p.PID, syscall.SIGCONT)
		}
		return w.cmd.Process.Signal(syscall.SIGCONT)
	}, true, nil
}

func drainWorker(c *cluster, f fault) (func() error, bool, error) {
	w := c.workers[f.worker]
	err := w.cmd.Process.Signal(syscall.SIGTERM)
	return func() error {
		if err := w.ends(time.Minute); err != nil {
			return err
		}
		return w.start()
	}, true, err
}

// tries goes on for as long as the fault waits for something to hit.
func (f fault) tries(yield func() bool) {
	for end := time.Now().Add(f.lasts); yield() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}

func killTask(c *cluster, f fault) (func() error, bool, error) {
	var tasks []proctree.Process
	for range f.tries {
		if tasks = c.workers[f.worker].tasks(); len(tasks) > 0 {
			break
		}
	}
	if len(tasks) == 0 {
		return nil, false, nil
	}
	slices.SortFunc(tasks, func(a, b proctree.Process) int { return a.PID - b.PID })
	return nil, proctree.End(tasks[f.amount%uint64(len(tasks))]), nil
}

func fillDisk(c *cluster, f fault) (func() error, bool, error) {
	name := filepath.Join(c.workers[f.worker].dir, "filler")
	file, err := os.Create(name)
	if err != nil {
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, os.ErrNotExist) {
			return nil, false, nil
		}
		return nil, false, err
	}
	piece := make([]byte, 64<<10)
	for err == nil {
		_, err = file.Write(piece)
	}
	if err = errors.Join(noError(err, syscall.ENOSPC), file.Close()); err != nil {
		return nil, false, err
	}
	return func() error { return noError(os.Remove(name), os.ErrNotExist) }, true, nil
}

// noError drops an error that is what was wanted.
func noError(err, wanted error) error {
	if errors.Is(err, wanted) {
		return nil
	}
	return err
}

// damage does something to one of the outputs that a worker holds.
func damage(c *cluster, f fault, how func(path string) error) (func() error, bool, error) {
	var held []string
	for range f.tries {
		held, _ = filepath.Glob(filepath.Join(c.workers[f.worker].dir, "outputs", "*", "*.run"))
		if len(held) > 0 {
			break
		}
	}
	if len(held) == 0 {
		return nil, false, nil
	}
	err := how(held[f.amount%uint64(len(held))])
	return nil, !errors.Is(err, os.ErrNotExist), noError(err, os.ErrNotExist)
}

func flipOutput(c *cluster, f fault) (func() error, bool, error) {
	return damage(c, f, func(path string) error {
		b, err := os.ReadFile(path)
		if err == nil && len(b) > 0 {
			b[(f.amount>>20)%uint64(len(b))] ^= 1 << (f.amount >> 10 % 8)
			err = os.WriteFile(path, b, 0o600)
		}
		return err
	})
}

func truncateOutput(c *cluster, f fault) (func() error, bool, error) {
	return damage(c, f, func(path string) error {
		info, err := os.Stat(path)
		if err == nil && info.Size() > 0 {
			err = os.Truncate(path, int64((f.amount>>20)%uint64(info.Size())))
		}
		return err
	})
}

func removeOutput(c *cluster, f fault) (func() error, bool, error) { return damage(c, f, os.Remove) }

// Which links a fault harms.
func serving(c *cluster, f fault) *link    { return c.workers[f.worker].serves }
func calling(c *cluster, f fault) *link    { return c.workers[f.worker].calls }
func submitting(c *cluster, _ fault) *link { return c.submits }

// onLink harms a link in a way that is switched on and off.
func onLink(which func(*cluster, fault) *link, way func(*link, bool)) func(*cluster, fault) (func() error, bool, error) {
	return func(c *cluster, f fault) (func() error, bool, error) {
		k := which(c, f)
		way(k, true)
		return func() error { way(k, false); return nil }, true, nil
	}
}

func slowly(k *link, on bool) {
	by := time.Duration(0)
	if on {
		by = 150 * time.Millisecond
	}
	k.slow(by)
}

func resetAll(c *cluster, _ fault) (func() error, bool, error) {
	n := c.submits.reset()
	for _, w := range c.workers {
		n += w.serves.reset() + w.calls.reset()
	}
	return nil, n > 0, nil
}

func killMaster(c *cluster, _ fault) (func() error, bool, error) {
	c.master.kill()
	return c.startMaster, true, nil
}

func stopMaster(c *cluster, _ fault) (func() error, bool, error) {
	err := c.master.cmd.Process.Signal(syscall.SIGTERM)
	return c.startMaster, true, errors.Join(err, c.master.ends(startLimit))
}

func freezeMaster(c *cluster, _ fault) (func() error, bool, error) {
	p := c.master.cmd.Process
	return func() error { return p.Signal(syscall.SIGCONT) }, true, p.Signal(syscall.SIGSTOP)
}

// lastSegment is the end of the master's journal.
func (c *cluster) lastSegment() (string, error) {
	logs, err := filepath.Glob(filepath.Join(c.masterDir(), "journal", "log-*"))
	if err == nil && len(logs) == 0 {
		err = errors.New("the master has no journal")
	}
	if err != nil {
		return "", err
	}
	return slices.Max(logs), nil
}

// segmentHeader is the length of the header of a segment of the journal.
const segmentHeader = 32

// tearJournal puts a part of the journal's first batch at its end: a batch holds
// true at one place only, so that it looks like one that was being written.
func tearJournal(c *cluster, f fault) (func() error, bool, error) {
	c.master.kill()
	name, err := c.lastSegment()
	if err != nil {
		return c.startMaster, true, err
	}
	b, err := os.ReadFile(name)
	if err != nil || len(b) <= segmentHeader {
		return c.startMaster, true, err
	}
	torn := b[segmentHeader:]
	torn = torn[:1+f.amount%min(200, uint64(len(torn)))]
	return c.startMaster, true, os.WriteFile(name, slices.Concat(b, torn), 0o600)
}

// cutJournal takes some of the last bytes of the journal away.
func cutJournal(c *cluster, f fault) (func() error, bool, error) {
	c.master.kill()
	name, err := c.lastSegment()
	if err != nil {
		return c.startMaster, true, err
	}
	info, err := os.Stat(name)
	if err != nil || info.Size() <= segmentHeader {
		return c.startMaster, false, err
	}
	return c.startMaster, true, os.Truncate(name, max(segmentHeader, info.Size()-1-int64(f.amount%100)))
}

// tasks are the processes of the worker's tasks.
func (w *worker) tasks() []proctree.Process {
	origin, err := os.ReadFile(filepath.Join(w.dir, "origin"))
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(proctree.Marked("SLOTWISE_ORIGIN="+string(bytes.TrimSpace(origin))), func(p proctree.Process) bool {
		return p.Ended || strings.TrimSpace(string(origin)) == ""
	})
}
