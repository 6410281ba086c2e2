// Package worker is the daemon that runs a master's tasks on one machine.
//
// A worker registers with the master, sends heartbeats, runs each attempt in its
// own process (package attempt), stores the outputs of finished maps and
// serves them to reduces, and keeps logs. It decides nothing about scheduling:
// the master says which attempt runs here.
//
//	         launch                      process ends
//	(none) ────────► running ─────────────────────────► ended ──► (none)
//	                    │ kill, out of memory, drain       report acknowledged
//	                    └► asked to stop, then SIGKILL to all its processes
//
// A worker that cannot reach its master keeps running its attempts. When the
// master answers again, the worker registers with the attempts that run and the
// map outputs that it holds.
//
// Package agent, which has no clock and no I/O, composes the messages to the master
// and decides when their content is acknowledged. This package is the shell around it:
// processes, files, RPC and timers. Worker.mu guards the agent and everything
// else that goroutines share. It is never held during I/O or while waiting.
//
// session.go registers and sends heartbeats. attempts.go, run.go and child.go run an attempt's process, pool.go
// keeps it for the next attempt, limits.go bounds it and owner*.go gives it to the job's user; driver.go does the
// same for a chain's program. jobs.go knows what the master says of a job, files.go its files, home.go the
// directories. logs.go writes logs, keptlogs.go sends their ends to the master, and http.go serves them, outputs,
// metrics and stacks.
package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/internal/data/storage/roots"
	"github.com/slotwise/slotwise/internal/live/cgroup"
	"github.com/slotwise/slotwise/internal/live/frames"
	"github.com/slotwise/slotwise/internal/live/nodeload"
	"github.com/slotwise/slotwise/internal/live/secure"
	"github.com/slotwise/slotwise/internal/live/worker/agent"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
	"github.com/slotwise/slotwise/sched/job"
)

// Worker is a running worker.
type Worker struct {
	cfg     Config
	log     *slog.Logger
	home    *home
	rpc     slotwisev1connect.WorkerServiceClient
	frames  *frames.Client // is rpc, but in tests
	files   *cache
	starter *starter
	groups  *cgroup.Tree // of attempts; nil without control groups
	roots   *roots.Rules // which files attempts may name
	// executable is the SHA-256 of cfg.Executable: attempts of jobs that name it
	// need no download.
	executable string
	// incarnation is a random id of this process, by which the master
	// distinguishes a restarted worker from a repeated registration.
	incarnation string
	address     string
	server      *http.Server
	listener    net.Listener
	sessionKey  secure.SessionKey            // with which the master signs its requests
	fetch       *slotwisev1.FetchCredentials // with which reduces fetch map outputs
	metrics     *metrics
	began       time.Time
	load        struct { // used by the heartbeat goroutine alone
		sampler *nodeload.Sampler
		at      time.Duration
		last    *slotwisev1.Load
	}
	logs   logSender
	wake   chan struct{}  // holds a value when a heartbeat must be sent at once
	tasks  sync.WaitGroup // attempts whose goroutines have not ended
	ending sync.WaitGroup // idle processes that are being ended
	// lastName is the number in the last name of uniqueName.
	lastName atomic.Int64

	mu struct {
		sync.Mutex
		agent     *agent.Agent
		processes map[job.AttemptID]*process // of attempts that run
		drivers   map[agent.DriverID]*driverProcess
		idle      []*child // processes without an attempt, in the order of their last one; see pool.go
		jobs      map[job.ID]*jobState
		draining  bool
		// disk is DISK_FULL or DISK_GONE while the disk cannot be used, and diskWhy says
		// why.
		disk    slotwisev1.NodeCondition
		diskWhy string
		// notRemoved lists ended jobs whose map outputs could not be removed, because the
		// directory was gone. checkDisk removes them when the disk can be used again.
		notRemoved []job.ID
		// checkOrphans is set when an attempt has ended, because its processes may
		// have left children behind.
		checkOrphans bool
		lastAnswer   time.Time // of the master to a registration or heartbeat
		masters      int       // number of times that another master has replaced the one before
	}
}

// Start prepares a worker: it locks the worker's directory, removes what a crash
// left there, and opens the HTTP listener. The caller must call Run or Close.
func Start(cfg Config) (*Worker, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	h, err := openHome(cfg.Dir, cfg.Name, cfg.RunAs == RunAsOwner)
	if err != nil {
		return nil, err
	}
	// Before any process is started: other users must reach their own directories and no
	// others, and inherit no open file of root's.
	if cfg.RunAs == RunAsOwner {
		if err := errors.Join(h.openToUsers(), closeInherited()); err != nil {
			return nil, errors.Join(err, h.close())
		}
	}
	w := &Worker{
		cfg: cfg, home: h, log: cfg.Log.With("worker", h.name), incarnation: rand.Text(),
		began: time.Now(), wake: make(chan struct{}, 1), logs: logSender{wake: make(chan struct{}, 1)},
	}
	if h.leftovers != nil {
		w.log.Warn("what attempts of an earlier worker have left cannot be removed", "dir", h.attempts(), "err", h.leftovers)
	}
	if w.starter, err = newStarter(cfg.RunAs == RunAsOwner); err != nil {
		return nil, errors.Join(err, h.close())
	}
	w.load.sampler = nodeload.New(h.path)
	w.mu.agent = agent.New()
	w.mu.processes = map[job.AttemptID]*process{}
	w.mu.drivers = map[agent.DriverID]*driverProcess{}
	w.mu.jobs = map[job.ID]*jobState{}
	client := cfg.HTTP
	if client == nil {
		client = &http.Client{Transport: &http.Transport{
			MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Minute,
			DialContext: (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 10 * time.Second}).DialContext,
		}}
	}
	// A worker of a single master gains nothing by probes: it has no other one to turn to.
	client = secure.ToLeader(client, cfg.masterURL, cfg.masterHosts, len(cfg.masterHosts) > 1)
	w.frames = frames.NewClient(client, cfg.masterURL)
	w.rpc = w.frames
	w.files = newCache(h.files(), cfg.masterURL, client, cfg.CacheSize)
	if len(cfg.masterHosts) > 1 {
		w.files.missing = missingFile
	}
	w.metrics = newMetrics(w)
	w.openGroups()
	// Jobs of the worker's own program name it by this hash and need no download.
	if w.executable, err = hashFile(cfg.Executable); err == nil {
		w.roots, err = roots.New(nil, nil, append([]string{h.path, cfg.TLS.Cert, cfg.TLS.Key}, cfg.OwnFiles...))
	}
	if err == nil {
		err = w.listen()
	}
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	return w, nil
}

// missingFile is the time for which a file that none of several masters has is requested again. It is
// longer than an election and the restart of a master's process take.
const missingFile = 30 * time.Second

// Name returns the worker's name.
func (w *Worker) Name() string { return w.home.name }

// Address returns the address, host:port, under which the master, other workers and
// clients reach the HTTP server.
func (w *Worker) Address() string { return w.address }

// Listens returns the address, host:port, on which the HTTP server listens.
func (w *Worker) Listens() string { return w.listener.Addr().String() }

// Run registers and runs attempts until ctx is cancelled, which kills them, or
// until the worker has drained after a call of Drain. It returns an error if the
// master refuses the worker or the HTTP server fails.
func (w *Worker) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := w.server.Serve(w.listener); !errors.Is(err, http.ErrServerClosed) {
			stop(fmt.Errorf("serving %s: %w", w.address, err))
		}
	}()
	var watchers sync.WaitGroup
	watchers.Go(func() { w.watchMachine(ctx) })
	watchers.Go(func() { w.watchDrain(ctx, stop) })
	// Not cancelled with ctx: the logs of the attempts that are killed below are still to be
	// sent.
	sending, stopSending := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSending()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		w.sendLogs(sending)
	}()
	err := w.runSessions(ctx)
	// The order matters: attempts end first, then their logs leave, then idle processes end,
	// and only then is the master told that the worker has left. Earlier it would start the
	// tasks elsewhere while they still run here.
	w.killAll("the worker is shutting down")
	w.tasks.Wait()
	stopSending()
	<-sent
	w.endIdle(func(*child) bool { return true })
	w.ending.Wait()
	// After a refusal there is no session to leave.
	if err == nil {
		w.sendLeaving()
	}
	w.frames.Close()
	stop(nil)
	watchers.Wait()
	w.server.Close()
	<-served
	w.starter.close()
	return errors.Join(err, w.home.close())
}

// Close releases the directory and the listener of a worker that was never run.
func (w *Worker) Close() error {
	w.starter.close()
	return errors.Join(w.listener.Close(), w.home.close())
}

// Drain makes the worker take no new work and end once it has nothing left to do.
// Attempts may run for Config.DrainTimeout. Then the worker kills them, and the
// master runs their tasks on other nodes. Map outputs are served while a job
// needs them, for at most Config.ServeTimeout after that. Drain returns at once.
func (w *Worker) Drain() {
	w.mu.Lock()
	first := !w.mu.draining
	w.mu.draining = true
	// A draining worker gets no new attempts, so nothing would take these processes.
	w.endIdleLocked(func(*child) bool { return true })
	w.refuseWorkLocked()
	w.mu.Unlock()
	if first {
		w.log.Info("draining")
	}
	w.heartbeatNow()
}

// refuseWorkLocked makes heartbeats refuse new work while there is a reason to.
func (w *Worker) refuseWorkLocked() {
	// A drain hides the state of the disk: the disk may recover, and the worker leaves all the
	// same.
	if w.mu.draining {
		w.mu.agent.SetCondition(slotwisev1.NodeCondition_NODE_CONDITION_LEAVING, "")
		return
	}
	w.mu.agent.SetCondition(w.mu.disk, w.mu.diskWhy)
}

// Draining reports whether Drain has been called.
func (w *Worker) Draining() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.draining
}

// heartbeatNow asks the session's goroutine to send a heartbeat without delay.
// Several calls before it does so cause one heartbeat.
func (w *Worker) heartbeatNow() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// running returns how many attempts and drivers run.
func (w *Worker) running() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, _ := w.mu.agent.Count()
	drivers, _ := w.mu.agent.Drivers()
	return n + drivers
}

// killAll stops every attempt. Attempts that the master launches from now on are
// stopped at once.
func (w *Worker) killAll(reason string) {
	w.mu.Lock()
	orders := w.mu.agent.StopAll(reason)
	w.mu.Unlock()
	w.carryOut(orders)
}

// watchEvery is the interval at which attempts' memory and the disk are measured.
const watchEvery = 500 * time.Millisecond

// watchMachine measures the memory of attempts and the free space of the disk
// until ctx is cancelled.
func (w *Worker) watchMachine(ctx context.Context) {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			w.watchProcesses()
			w.checkDisk(false)
		}
	}
}

// checkDisk refuses new work while less than Config.MinFree bytes are free, the disk
// cannot be written, or the directory is gone (errDiskGone), and reports whether that is so. With probe it writes a small file,
// because a disk that is broken or read-only may have room. It also does so while the
// disk counts as full, so a broken disk does not look usable again.
func (w *Worker) checkDisk(probe bool) bool {
	free, err := freeBytes(w.home.path)
	w.mu.Lock()
	unusable := w.mu.disk != slotwisev1.NodeCondition_NODE_CONDITION_UNSPECIFIED
	w.mu.Unlock()
	// The path may lead to another directory with much free space, such as the mount point of
	// a disk that was unmounted.
	if gone := w.home.gone(); gone != nil {
		err = gone
	}
	if err == nil && (probe || unusable) {
		err = w.home.probe()
	}
	disk, why := diskCondition(err, free, w.cfg.MinFree)
	w.mu.Lock()
	changed := disk != w.mu.disk
	usable := disk == slotwisev1.NodeCondition_NODE_CONDITION_UNSPECIFIED
	var ended []job.ID
	// Read under the lock together with the new state, so that a job that ends at this moment
	// is removed now or noted for the next time.
	if usable {
		ended, w.mu.notRemoved = w.mu.notRemoved, nil
	}
	w.mu.disk, w.mu.diskWhy = disk, why
	w.refuseWorkLocked()
	w.mu.Unlock()
	for _, id := range ended {
		w.dropJob(id)
	}
	// Only a change is logged and reported at once. A full disk would otherwise send a
	// heartbeat twice a second.
	if !changed {
		return !usable
	}
	if usable {
		if err := w.home.removeEndedAttempts(w.isRunning); err != nil {
			w.log.Warn("the directories of ended attempts cannot be removed", "dir", w.home.attempts(), "err", err)
		}
		w.log.Info("the disk can be used again: the worker takes new work", "dir", w.home.path, "free", free)
	} else {
		w.log.Warn("the worker takes no new work", "why", why, "dir", w.home.path)
	}
	w.heartbeatNow()
	return !usable
}

// diskCondition judges a disk by the error of using it and its free bytes.
func diskCondition(err error, free, least int64) (slotwisev1.NodeCondition, string) {
	switch {
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return slotwisev1.NodeCondition_NODE_CONDITION_DISK_FULL, "the disk is full: " + err.Error()
	case err != nil:
		return slotwisev1.NodeCondition_NODE_CONDITION_DISK_GONE, "the disk cannot be used: " + err.Error()
	case free < least:
		return slotwisev1.NodeCondition_NODE_CONDITION_DISK_FULL, fmt.Sprintf("the disk is full: %d MiB are free, less than the %d MiB of --min-free",
			free>>20, least>>20)
	}
	return slotwisev1.NodeCondition_NODE_CONDITION_UNSPECIFIED, ""
}

// errDrained is the cause with which a drained worker's context is cancelled.
var errDrained = errors.New("drained")

// watchDrain calls stop with errDrained once a draining worker has nothing left
// to do.
//
// The time since Drain is measured from the first tick that sees it. The value
// that a ticker delivers is not used: after a SIGSTOP it may be from before the
// process was stopped.
func (w *Worker) watchDrain(ctx context.Context, stop context.CancelCauseFunc) {
	t := time.NewTicker(50 * time.Millisecond)
	defer t.Stop()
	var since time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if !w.Draining() {
				continue
			}
			if since.IsZero() {
				since = time.Now()
			}
			if w.isDrained(time.Since(since)) {
				stop(errDrained)
				return
			}
		}
	}
}

// isDrained reports whether a worker that has drained for the given time may end.
// After DrainTimeout it kills the attempts that still run.
func (w *Worker) isDrained(after time.Duration) bool {
	w.mu.Lock()
	running, listed := w.mu.agent.Count()
	drivers, listedDrivers := w.mu.agent.Drivers()
	running, listed = running+drivers, listed+listedDrivers
	w.mu.Unlock()
	if running > 0 {
		if after >= w.cfg.DrainTimeout {
			w.killAll("the worker is being drained")
		}
		return false
	}
	// A job may wait for a slot for days. The machine cannot be kept that long for the job's
	// map outputs, which can be made again.
	if after >= w.cfg.DrainTimeout+w.cfg.ServeTimeout {
		w.log.Warn("the drain timeout has passed: leaving, although jobs may need map outputs of this worker", "after", after)
		return true
	}
	// The master has not acknowledged how these attempts ended, or has not kept their logs. Both would be lost
	// with the machine.
	if listed > 0 || w.logs.left() > 0 {
		return false
	}
	// Jobs that still need outputs have them here: the master orders the removal when a job has
	// ended.
	outputs, err := filepath.Glob(filepath.Join(w.home.outputs(), "*", "*"))
	return err == nil && len(outputs) == 0
}
