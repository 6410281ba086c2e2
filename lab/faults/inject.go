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

	"github.com/slotwise/slotwise/internal/base/proctree"
)

// The functions below inject one kind of fault each; see kind.inject for their
// results.

// killWorker kills a worker and starts it again in its directory.
func killWorker(c *cluster, f fault) (func() error, bool, error) {
	w := c.workers[f.worker]
	w.kill()
	return w.start, true, nil
}

// loseWorker kills a worker and starts it again with an empty directory.
func loseWorker(c *cluster, f fault) (func() error, bool, error) {
	w := c.workers[f.worker]
	w.kill()
	// The directory itself stays, because a disk may be mounted there.
	err := emptyDir(w.dir)
	return w.start, true, err
}

// emptyDir removes everything in a directory.
func emptyDir(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// freezeWorker stops a worker process with SIGSTOP. Its tasks keep running.
func freezeWorker(c *cluster, f fault) (func() error, bool, error) {
	p := c.workers[f.worker].cmd.Process
	return func() error { return p.Signal(syscall.SIGCONT) }, true, p.Signal(syscall.SIGSTOP)
}

// freezeMachine stops a worker and all its tasks. It stops the worker first, so that
// the worker cannot start another task.
func freezeMachine(c *cluster, f fault) (func() error, bool, error) {
	w := c.workers[f.worker]
	if err := w.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return nil, false, err
	}
	tasks := w.tasks()
	for _, p := range tasks {
		syscall.Kill(p.PID, syscall.SIGSTOP) // fails for tasks that have just ended
	}
	return func() error {
		for _, p := range tasks {
			syscall.Kill(p.PID, syscall.SIGCONT)
		}
		return w.cmd.Process.Signal(syscall.SIGCONT)
	}, true, nil
}

// drainWorker lets a worker drain and end, and starts it again.
func drainWorker(c *cluster, f fault) (func() error, bool, error) {
	w := c.workers[f.worker]
	err := w.cmd.Process.Signal(syscall.SIGTERM)
	return func() error {
		if err := w.awaitExit(startLimit); err != nil {
			return err
		}
		return w.start()
	}, true, err
}

// retry iterates, with short pauses, for as long as the fault waits for a target.
func (f fault) retry(yield func() bool) {
	for end := time.Now().Add(f.lasts); yield() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}

// killTask kills one of the worker's task processes.
func killTask(c *cluster, f fault) (func() error, bool, error) {
	var tasks []proctree.Process
	for range f.retry {
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

// fillDisk fills the worker's disk with one file and removes the file at the end.
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
	if err = errors.Join(ignore(err, syscall.ENOSPC), file.Close()); err != nil {
		return nil, false, err
	}
	return func() error { return ignore(os.Remove(name), os.ErrNotExist) }, true, nil
}

// ignore returns nil if err is the expected error, and err otherwise.
func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// damage calls how with the file of one of the map outputs on a worker.
func damage(c *cluster, f fault, how func(path string) error) (func() error, bool, error) {
	var held []string
	for range f.retry {
		held, _ = filepath.Glob(filepath.Join(c.workers[f.worker].dir, "outputs", "*", "*.run"))
		if len(held) > 0 {
			break
		}
	}
	if len(held) == 0 {
		return nil, false, nil
	}
	err := how(held[f.amount%uint64(len(held))])
	return nil, !errors.Is(err, os.ErrNotExist), ignore(err, os.ErrNotExist)
}

// flipOutput inverts one bit of a map output.
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

// truncateOutput truncates a map output.
func truncateOutput(c *cluster, f fault) (func() error, bool, error) {
	return damage(c, f, func(path string) error {
		info, err := os.Stat(path)
		if err == nil && info.Size() > 0 {
			err = os.Truncate(path, int64((f.amount>>20)%uint64(info.Size())))
		}
		return err
	})
}

// removeOutput removes a map output.
func removeOutput(c *cluster, f fault) (func() error, bool, error) { return damage(c, f, os.Remove) }

// The link that a fault affects.
func serving(c *cluster, f fault) *link    { return c.workers[f.worker].serves }
func calling(c *cluster, f fault) *link    { return c.workers[f.worker].calls }
func submitting(c *cluster, _ fault) *link { return c.submits }

// onLink returns an inject function that switches an effect on a link on, and an
// undo function that switches it off.
func onLink(which func(*cluster, fault) *link, way func(*link, bool)) func(*cluster, fault) (func() error, bool, error) {
	return func(c *cluster, f fault) (func() error, bool, error) {
		k := which(c, f)
		way(k, true)
		return func() error { way(k, false); return nil }, true, nil
	}
}

// slowly switches a delay of 150 ms on and off.
func slowly(k *link, on bool) {
	by := time.Duration(0)
	if on {
		by = 150 * time.Millisecond
	}
	k.slow(by)
}

// resetAll resets all connections of all links once.
func resetAll(c *cluster, _ fault) (func() error, bool, error) {
	n := c.submits.reset()
	for _, w := range c.workers {
		n += w.serves.reset() + w.calls.reset()
	}
	return nil, n > 0, nil
}

// killMaster kills the master and starts it again.
func killMaster(c *cluster, _ fault) (func() error, bool, error) {
	c.master.kill()
	return c.startMaster, true, nil
}

// stopMaster lets the master shut down and starts it again.
func stopMaster(c *cluster, _ fault) (func() error, bool, error) {
	err := c.master.cmd.Process.Signal(syscall.SIGTERM)
	return c.startMaster, true, errors.Join(err, c.master.awaitExit(startLimit))
}

// freezeMaster stops the master with SIGSTOP.
func freezeMaster(c *cluster, _ fault) (func() error, bool, error) {
	p := c.master.cmd.Process
	return func() error { return p.Signal(syscall.SIGCONT) }, true, p.Signal(syscall.SIGSTOP)
}

// lastSegment returns the path of the newest segment of the master's journal.
func (c *cluster) lastSegment() (string, error) {
	logs, err := filepath.Glob(filepath.Join(c.masterDir(), "journal", "log-*"))
	if err == nil && len(logs) == 0 {
		err = errors.New("the master has not written a journal")
	}
	if err != nil {
		return "", err
	}
	return slices.Max(logs), nil
}

// segmentHeader is the length of a journal segment's header in bytes.
const segmentHeader = 32

// tearJournal kills the master and appends the beginning of the segment's first
// batch to the segment. Checksums cover a batch's offset, so the copy is invalid
// there and looks like a batch whose write was interrupted.
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

// cutJournal kills the master and removes up to 100 bytes from the end of its
// journal, although they were synced.
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

// tasks returns the running processes of the worker's tasks. It finds them by the
// worker's mark in their environment.
func (w *worker) tasks() []proctree.Process {
	origin, err := os.ReadFile(filepath.Join(w.dir, "origin"))
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(proctree.Marked("SLOTWISE_ORIGIN="+string(bytes.TrimSpace(origin))), func(p proctree.Process) bool {
		return p.Ended || strings.TrimSpace(string(origin)) == ""
	})
}
