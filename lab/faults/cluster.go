package main

import (
	"cmp"
	"context"
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

	"github.com/slotwise/slotwise/internal/base/proctree"
)

// startLimit is the longest time that a process may take to be ready. It is long,
// because the machine is busy, and a run that passes never waits for it.
const startLimit = 3 * time.Minute

// daemon is a process of the cluster. It may be started several times; cmd and gone
// belong to the latest start.
type daemon struct {
	busy    sync.Mutex // held while a fault affects the process
	c       *cluster
	name    string
	program string // "" for the settings' binary
	cmd     *exec.Cmd
	gone    chan struct{} // closed when the process has ended
}

// launch starts the process, possibly again, and appends its output to its log.
func (d *daemon) launch(args ...string) error { return d.launchIn((*network)(nil), args...) }

// launchIn is launch in a network.
func (d *daemon) launchIn(n interface{ command(argv ...string) []string }, args ...string) error {
	log, err := os.OpenFile(d.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer log.Close()
	argv := append([]string{cmp.Or(d.program, d.c.binary)}, args...)
	if d == d.c.master && d.c.plan.owners { // the tasks' user must be able to write to what the master has staged
		argv = append([]string{"sh", "-c", `umask 0; exec "$@"`, "sh"}, argv...)
	}
	argv = n.command(argv...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = d.c.dir, log, log
	cmd.Env = d.c.env()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt of the benchmark must not reach it
	if err := cmd.Start(); err != nil {
		return err
	}
	d.cmd, d.gone = cmd, make(chan struct{})
	go func() {
		cmd.Wait() // the error is in cmd.ProcessState, for the readers of gone
		close(d.gone)
	}()
	return nil
}

// logFile is the path of the process's log.
func (d *daemon) logFile() string { return filepath.Join(d.c.dir, d.name+".log") }

// kill kills the process and waits until it has ended.
func (d *daemon) kill() {
	d.cmd.Process.Kill() // fails if the process has already ended
	<-d.gone
}

// awaitExit waits until the process has ended. Any status but 0 is an error.
func (d *daemon) awaitExit(limit time.Duration) error {
	select {
	case <-d.gone:
	case <-time.After(limit):
		return fmt.Errorf("%s has not ended within %v", d.name, limit)
	case <-interrupted:
		return errInterrupted
	}
	if code := d.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s ended: %v", d.name, d.cmd.ProcessState)
	}
	return nil
}

// exited returns an error if the process has ended, and nil while it runs.
func (d *daemon) exited() error {
	select {
	case <-d.gone:
		return fmt.Errorf("%s has ended unexpectedly: %v", d.name, d.cmd.ProcessState)
	default:
		return nil
	}
}

// cluster is a master and workers with links between them.
type cluster struct {
	*settings
	plan    plan
	dir     string
	mark    string // environment variable of all its processes
	store   store
	master  *daemon
	workers []*worker
	submits *link // from clients to the master
}

// worker is a worker process with its links and its disk.
type worker struct {
	daemon
	dir     string
	serves  *link    // from other workers to its map outputs
	calls   *link    // to the master
	network *network // nil if the worker runs in this process's namespace
	disk    bool     // dir is a mounted disk
	starts  int      // number of times that it was started
}

func (c *cluster) masterDir() string { return filepath.Join(c.dir, "master") }
func (c *cluster) temp() string      { return filepath.Join(c.dir, "tmp") }

// env returns the environment of the cluster's processes.
func (c *cluster) env() []string {
	return append(append(os.Environ(), c.mark, "TMPDIR="+c.temp()), c.store.env()...)
}

// client returns a command of a user.
func (c *cluster) client(ctx context.Context, args ...string) *exec.Cmd {
	args = append(args, "--master", c.submits.address())
	cmd := exec.CommandContext(ctx, c.binary, append(args, c.credentials.flags(c.plan.security, "user")...)...)
	cmd.Env = c.env()
	return cmd
}

// newCluster starts a cluster and waits until all workers are registered. The caller
// must close it even if there is an error.
func (s *settings) newCluster(ctx context.Context, p plan, dir string, in *input) (*cluster, error) {
	c := &cluster{settings: s, plan: p, dir: dir, mark: "FAULT_RUN=" + dir}
	c.master = &daemon{c: c, name: "master"}
	if err := os.MkdirAll(c.temp(), 0o777); err != nil {
		return c, err
	}
	var err error
	if c.store, err = s.openStore(ctx, p, dir, in); err != nil {
		return c, err
	}
	if c.submits, err = newLink(loopback); err != nil {
		return c, err
	}
	for i := range p.workers {
		w := &worker{daemon: daemon{c: c, name: fmt.Sprint("w", i)}, dir: filepath.Join(dir, "disks", fmt.Sprint("w", i))}
		c.workers = append(c.workers, w)
		if err := w.prepare(s.machine.disks); err != nil {
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
		err = errors.Join(err, w.awaitLog("msg=registered", 1))
	}
	return c, err
}

// loopback is the address of processes without a network namespace of their own.
const loopback = "127.0.0.1"

// prepare makes the worker's directory or disk, its network, and its links.
func (w *worker) prepare(disk bool) (err error) {
	if disk {
		if err := mountDisk(w.dir); err != nil {
			return err
		}
		w.disk = true
	}
	host := loopback
	if w.c.plan.namespaces {
		if w.network, err = w.c.networks.make(); err != nil {
			return err
		}
		host = w.network.near()
	}
	if w.serves, err = newLink(host); err != nil {
		return err
	}
	// The worker listens on the link's port number, but on a loopback address that
	// only this process uses. So the port stays free between two starts of the
	// worker.
	pid := os.Getpid()
	own := fmt.Sprintf("127.%d.%d.%d", 64+pid>>16&63, pid>>8&255, pid&255)
	if w.network != nil {
		own = w.network.far()
	}
	w.serves.to(own + strings.TrimPrefix(w.serves.address(), host))
	w.calls, err = newLink(host)
	return err
}

// startMaster starts the master, possibly again, and points the links at its address.
func (c *cluster) startMaster() error {
	file := filepath.Join(c.dir, "address")
	if err := ignore(os.Remove(file), os.ErrNotExist); err != nil {
		return err
	}
	args := []string{"master", "--dir", c.masterDir(), "--listen", "127.0.0.1:0", "--address-file", file,
		"--node-timeout", nodeTimeout.String(), "--heartbeat", "300ms"}
	if c.plan.snapshots {
		args = append(args, "--snapshot-size", "2KiB")
	}
	if c.plan.security != openDoors {
		args = append(args, "--storage-root", c.store.uri(""), "--storage-root", c.store.uri("in"))
	}
	if c.plan.security != openDoors {
		for _, name := range []string{"in", "out"} {
			args = append(args, "--storage-root", rootURI(c.store.uri(name)))
		}
	}
	err := c.master.launch(append(args, c.credentials.flags(c.plan.security, "server")...)...)
	if err != nil {
		return err
	}
	err = eventually("the master serves", func() (bool, error) {
		b, err := os.ReadFile(file)
		if err != nil {
			return false, c.master.exited()
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

// rootURI returns the URI of a directory, which may be a local path.
func rootURI(dir string) string {
	if strings.Contains(dir, "://") {
		return dir
	}
	return "file://" + dir
}

// start starts the worker, possibly again, and waits until it has installed its
// signal handlers. A SIGTERM before that would kill it instead of draining it.
func (w *worker) start() error {
	w.starts++
	args := []string{"worker", "--master", w.calls.address(), "--dir", w.dir, "--name", w.name,
		"--listen", w.serves.target(), "--advertise", w.serves.address(), "--map-slots", "2", "--reduce-slots", "1",
		"--memory", "48MiB", "--min-free", "2MiB", "--drain-timeout", "1s", "--serve-timeout", "15s"}
	if w.c.plan.owners {
		args = append(args, "--run-as", "owner")
	}
	err := w.launchIn(w.network, append(args, w.c.credentials.flags(w.c.plan.security, "worker")...)...)
	if err != nil {
		return err
	}
	return w.awaitLog(`msg="worker is up"`, w.starts)
}

// awaitLog waits until the process's log contains a text at least times times.
func (d *daemon) awaitLog(text string, times int) error {
	return eventually(d.name+" has logged "+text, func() (bool, error) {
		b, err := os.ReadFile(d.logFile())
		if err != nil || strings.Count(string(b), text) >= times {
			return err == nil, err
		}
		return false, d.exited()
	})
}

// errInterrupted ends waits when the user has interrupted the command.
var errInterrupted = errors.New("interrupted")

// eventually polls a condition until it is true. It gives up after startLimit, and when the command is
// interrupted.
func eventually(what string, holds func() (bool, error)) error {
	for deadline := time.Now().Add(startLimit); ; time.Sleep(5 * time.Millisecond) {
		if ok, err := holds(); ok || err != nil {
			return err
		}
		select {
		case <-interrupted:
			return errInterrupted
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %v this is still false: %s", startLimit, what)
		}
	}
}

// idle waits until no job runs. A job may still run although its client has seen it
// end, if the master has lost the journal record of the end and runs it again.
func (c *cluster) idle() error {
	return eventually("no job runs", func() (bool, error) {
		out, err := c.client(context.Background(), "jobs", "-o", "json").Output()
		var jobs []json.RawMessage
		if err == nil {
			err = json.Unmarshal(out, &jobs)
		}
		return err == nil && len(jobs) == 0, err
	})
}

// shutdown stops the workers and then the master, each with SIGTERM.
func (c *cluster) shutdown() error {
	var all error
	for _, w := range c.workers {
		all = errors.Join(all, w.cmd.Process.Signal(syscall.SIGTERM))
	}
	for _, w := range c.workers {
		all = errors.Join(all, w.awaitExit(startLimit))
	}
	all = errors.Join(all, c.master.cmd.Process.Signal(syscall.SIGTERM))
	return errors.Join(all, c.master.awaitExit(startLimit))
}

// close kills the processes that still run, closes the links and unmounts the disks.
// It leaves the files.
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
		if w.network != nil {
			all = errors.Join(all, w.network.close())
		}
		if w.disk {
			all = errors.Join(all, unmountDisk(w.dir))
		}
	}
	if c.store != nil {
		all = errors.Join(all, c.store.close())
	}
	return all
}
