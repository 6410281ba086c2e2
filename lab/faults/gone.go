package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"
)

// replaceWorkerDir puts an empty directory in the place of a worker's directory and later
// puts the old one back. The worker must say that its directory is gone.
func replaceWorkerDir(c *cluster, f fault) (func() error, bool, error) {
	w := c.workers[f.worker]
	before := count(w.logFile(), directoryGone)
	undo := func() error { return unmountDisk(w.dir) }
	var err error
	if w.disk {
		err = mountDisk(w.dir) // hides the disk below
	} else {
		err = errors.Join(os.Rename(w.dir, w.dir+".moved"), os.Mkdir(w.dir, 0o777))
		undo = func() error { return errors.Join(os.RemoveAll(w.dir), os.Rename(w.dir+".moved", w.dir)) }
	}
	if err != nil {
		return nil, false, err
	}
	return func() error {
		said := eventually(w.name+" says that its directory is gone", func() (bool, error) {
			return count(w.logFile(), directoryGone) > before, w.exited()
		})
		returned := count(w.logFile(), directoryBack)
		if err := errors.Join(said, undo()); err != nil {
			return err
		}
		return eventually(w.name+" uses its directory again", func() (bool, error) {
			return count(w.logFile(), directoryBack) > returned, w.exited()
		})
	}, true, nil
}

// directoryGone and directoryBack are parts of the lines that a worker logs when its
// directory is gone, and when it takes work again.
const (
	directoryGone = "the worker's directory is gone"
	directoryBack = "the disk can be used again"
)

// moveMasterDir moves the master's directory away. The master must exit with an error
// that says so. Then the directory returns, and the master is started again.
func moveMasterDir(c *cluster, _ fault) (func() error, bool, error) {
	dir := c.masterDir()
	if err := os.Rename(dir, dir+".moved"); err != nil {
		return nil, false, err
	}
	select {
	case <-c.master.gone:
	case <-time.After(startLimit):
		return nil, true, fmt.Errorf("the master still runs %v after its directory was moved", startLimit)
	case <-interrupted:
		return nil, true, errInterrupted
	}
	var err error
	if code := c.master.cmd.ProcessState.ExitCode(); code != 1 || count(c.master.logFile(), "removed or replaced") == 0 {
		err = fmt.Errorf("the master ended with status %d, want 1, and must log that its directory was removed or replaced", code)
	}
	return func() error {
		if err := os.Rename(dir+".moved", dir); err != nil {
			return err // the master that has ended must not have created the directory again
		}
		return c.startMaster()
	}, true, err
}

// count returns how often a text is in a file, 0 if there is no file.
func count(file, text string) int {
	b, _ := os.ReadFile(file) // the daemon has not logged yet
	return bytes.Count(b, []byte(text))
}
