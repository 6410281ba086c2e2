package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/internal/proctree"
)

// startLimit is for how long a process may take to be ready, on a busy machine.
const startLimit = time.Minute

// daemon is a process of the cluster, or who submits.
type daemon struct {
	busy sync.Mutex // held while a fault lasts, and at shutdown
	c    *cluster
	name string
	cmd  *exec.Cmd
	gone chan struct{} // closed when the process has ended
}

// launch starts a process, perhaps again. What it says is appended to its log.
func (d *daemon) launch(args ...string) error {
	log, err := os.OpenFile(d.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(d.c.binary, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = d.c.dir, log, log
	cmd.Env = append(os.Environ(), d.c.mark, "TMPDIR="+d.c.temp())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt is ours
	if err := cmd.Start(); err != nil {
		return err
	}
	d.cmd, d.gone = cmd, make(chan struct{})
	go func() {
		cmd.Wait() // the state is looked at by who wants to know
		close(d.gone)
	}()
	return nil
}

func (d *daemon) logFile() string { return filepath.Join(d.c.dir, d.name+".log") }

// kill ends the process by SIGKILL.
func (d *daemon) kill() {
	d.cmd.Process.Kill() // what has ended already is as good
	<-d.gone
}

// ends waits until the process has ended by itself, with status 0.
func (d *daemon) ends(limit time.Duration) error {
	select {
	case <-d.gone:
	case <-time.After(limit):
		return fmt.Errorf("%s does not end", d.name)
	}
	if code := d.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s ended: %v", d.name, d.cmd.ProcessState)
	}
	return nil
}

// dead is the error of a process that has ended although nothing told it to.
func (d *daemon) dead() error {
	select {
	case <-d.gone:
		return fmt.Errorf("%s ended by itself: %v", d.name, d.cmd.ProcessState)
	default:
		return nil
	}
}

// cluster is a master and workers with links between them.
type cluster struct {
	dir, binary string
	mark        string // in the environment of all its processes
	disks       bool
	master      *daemon
	workers     []*worker
	submits     *link // from who submits to the master
}

// worker is a worker's process.
type worker struct {
	daemon
	dir    string
	serves *link // to its outputs
	calls  *link // from it to the master
	disk   bool  // dir is mounted
	ups    int   // how often it was started
}

func (c *cluster) masterDir() string { return filepath.Join(c.dir, "master") }
func (c *cluster) temp() string      { return filepath.Join(c.dir, "tmp") }
func (c *cluster) out() string       { return filepath.Join(c.dir, "out") }

// newCluster starts a cluster. It is to be closed even if there is an error.
func newCluster(dir, binary string, workers int, disks bool) (*cluster, error) {
	c := &cluster{dir: dir, binary: binary, disks: disks, mark: "FAULT_RUN=" + dir}
	c.master = &daemon{c: c, name: "master"}
	for _, d := range []string{c.temp(), c.out()} {
		if err := os.MkdirAll(d, 0o777); err != nil {
			return c, err
		}
	}
	var err error
	if c.submits, err = newLink(); err != nil {
		return c, err
	}
	for i := range workers {
		w := &worker{daemon: daemon{c: c, name: fmt.Sprint("w", i)}, dir: filepath.Join(dir, "disks", fmt.Sprint("w", i))}
		c.workers = append(c.workers, w)
		if err := w.prepare(disks); err != nil {
			return c, err
		}
	}
	if err := c.startMaster(); err != nil {
		return c, err
	}
	for _, w := range c.workers {
		err = errors.Join(err, w.start())
	}
	for _, w := range c.workers {
		err = errors.Join(err, w.says("msg=registered", 1))
	}
	return c, err
}

// prepare makes the worker's directory and links.
func (w *worker) prepare(disk bool) (err error) {
	if disk {
		if err := mountDisk(w.dir); err != nil {
			return err
		}
		w.disk = true
	}
	if w.serves, err = newLink(); err != nil {
		return err
	}
	// The same port on an address of this machine that is this process's alone:
	// it stays free for the worker, however often it is started.
	pid := os.Getpid()
	own := fmt.Sprintf("127.%d.%d.%d", 64+pid>>16&63, pid>>8&255, pid&255)
	w.serves.to(own + strings.TrimPrefix(w.serves.address(), "127.0.0.1"))
	w.calls, err = newLink()
	return err
}

// startMaster starts the master, perhaps again, and leads the links to it.
func (c *cluster) startMaster() error {
	file := filepath.Join(c.dir, "address")
	if err := noError(os.Remove(file), os.ErrNotExist); err != nil {
		return err
	}
	err := c.master.launch("master", "--dir", c.masterDir(), "--listen", "127.0.0.1:0", "--address-file", file,
		"--node-timeout", nodeTimeout.String(), "--heartbeat", "300ms")
	if err != nil {
		return err
	}
	err = eventually("the master serves", func() (bool, error) {
		b, err := os.ReadFile(file)
		if err != nil {
			return false, c.master.dead()
		}
		address := strings.TrimSpace(string(b))
		c.submits.to(address)
		for _, w := range c.workers {
			w.calls.to(address)
		}
		return true, nil
	})
	return err
}

// start starts the worker, perhaps again, and waits until it is up: before, a
// signal would end it as any process.
func (w *worker) start() error {
	w.ups++
	err := w.launch("worker", "--master", w.calls.address(), "--dir", w.dir, "--name", w.name,
		"--listen", w.serves.target(), "--advertise", w.serves.address(), "--map-slots", "2", "--reduce-slots", "1",
		"--memory", "48MiB", "--min-free", "2MiB", "--drain-timeout", "1s", "--serve-timeout", "15s")
	if err != nil {
		return err
	}
	return w.says(`msg="worker is up"`, w.ups)
}

// says waits until the process's log has a text so many times.
func (d *daemon) says(text string, times int) error {
	return eventually(d.name+" says "+text, func() (bool, error) {
		b, err := os.ReadFile(d.logFile())
		if err != nil || strings.Count(string(b), text) >= times {
			return err == nil, err
		}
		return false, d.dead()
	})
}

// eventually waits until something holds.
func eventually(what string, holds func() (bool, error)) error {
	for deadline := time.Now().Add(startLimit); ; time.Sleep(5 * time.Millisecond) {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %v still not: %s", startLimit, what)
		}
	}
}

// settled waits until no job runs: none does once all jobs have ended, unless a
// master has forgotten that.
func (c *cluster) settled() error {
	return eventually("no job runs", func() (bool, error) {
		cmd := exec.Command(c.binary, "jobs", "--master", c.submits.address(), "-o", "json")
		cmd.Env = append(os.Environ(), c.mark)
		out, err := cmd.Output()
		var jobs []json.RawMessage
		if err == nil {
			err = json.Unmarshal(out, &jobs)
		}
		return err == nil && len(jobs) == 0, err
	})
}

// shutdown ends the workers and then the master in peace.
func (c *cluster) shutdown() error {
	var all error
	for _, w := range c.workers {
		all = errors.Join(all, w.cmd.Process.Signal(syscall.SIGTERM))
	}
	for _, w := range c.workers {
		all = errors.Join(all, w.ends(startLimit))
	}
	all = errors.Join(all, c.master.cmd.Process.Signal(syscall.SIGTERM))
	return errors.Join(all, c.master.ends(startLimit))
}

// close kills what still runs and gives everything back but the files.
func (c *cluster) close() error {
	var all error
	for _, w := range c.workers {
		if w.cmd != nil {
			w.kill()
		}
	}
	if c.master.cmd != nil {
		c.master.kill()
	}
	for _, p := range proctree.Marked(c.mark) {
		proctree.End(p)
	}
	if c.submits != nil {
		c.submits.close()
	}
	for _, w := range c.workers {
		if w.serves != nil {
			w.serves.close()
		}
		if w.calls != nil {
			w.calls.close()
		}
		if w.disk {
			all = errors.Join(all, unmountDisk(w.dir))
		}
	}
	return all
}
