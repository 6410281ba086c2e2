// Package worker is the daemon that runs a master's tasks on one machine.
//
// It registers, keeps a heartbeat under way, runs each attempt in a process of
// its own (package attempt), keeps what finished maps put out and serves it to
// reduces, keeps logs, and takes back nothing that it has reported. It decides
// nothing: what runs where is the master's business.
//
//	        launch                      exit or done
//	(none) ────────► running ─────────────────────────► ended ──► (none)
//	                    │ kill, out of memory, drain       report acknowledged
//	                    └► stop, then SIGKILL to all its processes
//
// A worker that can't reach its master goes on with what it runs; it registers
// again, naming what runs and what it holds, when the master is back.
//
// Everything shared is in Worker.mu, which is held for moments only: never
// while something is read, written, sent or waited for.
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
	"strings"
	"sync"
	"time"

	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/nodeload"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// Worker is a running worker.
type Worker struct {
	cfg         Config
	log         *slog.Logger
	home        *home
	rpc         slotwisev1connect.WorkerServiceClient
	files       *cache
	starter     *starter
	executable  string // SHA-256 of cfg.Executable
	incarnation string
	// registrations counts the calls; it belongs to the goroutine that registers.
	registrations int64
	address       string
	server        *http.Server
	listener      net.Listener
	fetch         *slotwisev1.FetchCredentials // of the attempts
	metrics       *metrics
	began         time.Time
	load          struct { // of the heartbeat's goroutine
		sampler *nodeload.Sampler
		at      time.Duration
		last    *slotwisev1.Load
	}
	wake  chan struct{} // has a value when a heartbeat should go out at once
	tasks sync.WaitGroup

	mu struct {
		sync.Mutex
		session   string
		seq       int64 // of the last heartbeat sent
		acted     int64 // number of the last action carried out
		attempts  map[job.AttemptID]*attempt
		complaint []*slotwisev1.FetchFailure // not acknowledged
		jobs      map[job.ID]*jobState
		draining  bool
		full      bool // the disk is
		stopped   bool // nothing is launched any more
		strays    bool // attempts have ended since their strays were looked for
		lastBeat  time.Time
	}
}

// Start makes a worker: its directory is locked and swept, its HTTP server
// listens. Run must be called, or Close.
func Start(cfg Config) (*Worker, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	h, err := openHome(cfg.Dir, cfg.Name)
	if err != nil {
		return nil, err
	}
	w := &Worker{
		cfg: cfg, home: h, log: cfg.Log.With("worker", h.name), incarnation: rand.Text(),
		began: time.Now(), wake: make(chan struct{}, 1), starter: newStarter(),
	}
	w.load.sampler = nodeload.New()
	w.mu.attempts = map[job.AttemptID]*attempt{}
	w.mu.jobs = map[job.ID]*jobState{}
	client := cfg.HTTP
	if client == nil {
		client = &http.Client{Transport: &http.Transport{
			MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Minute,
			DialContext: (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 10 * time.Second}).DialContext,
		}}
	}
	w.rpc = slotwisev1connect.NewWorkerServiceClient(client, cfg.Master)
	w.files = newCache(h.files(), strings.TrimRight(cfg.Master, "/"), client, cfg.CacheSize)
	w.metrics = newMetrics(w)
	if w.executable, err = hashFile(cfg.Executable); err == nil {
		err = w.listen()
	}
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	return w, nil
}

// Name is the worker's name.
func (w *Worker) Name() string { return w.home.name }

// Address is where others reach the worker.
func (w *Worker) Address() string { return w.address }

// Listens returns where the HTTP server listens, host:port.
func (w *Worker) Listens() string { return w.listener.Addr().String() }

// Run works until ctx ends, which kills what runs, or until Drain has been
// called and nothing is left to do. The error says why the master will not
// have this worker.
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
	watchers.Go(func() { w.watch(ctx) })
	watchers.Go(func() { w.finishDraining(ctx, stop) })
	err := w.beat(ctx)
	w.killAll("the worker ends")
	w.tasks.Wait()
	if err == nil {
		w.leave()
	}
	stop(nil)
	watchers.Wait()
	w.server.Close()
	<-served
	w.starter.close()
	return errors.Join(err, w.home.close())
}

// Close gives up a worker that was never run.
func (w *Worker) Close() error {
	w.starter.close()
	return errors.Join(w.listener.Close(), w.home.close())
}

// Drain has the worker take no more work and end by itself: what runs may end
// within Config.DrainTimeout and is handed back then, and map outputs are
// served while they are needed, for Config.ServeTimeout at most. It returns at
// once.
func (w *Worker) Drain() {
	w.mu.Lock()
	first := !w.mu.draining
	w.mu.draining = true
	w.mu.Unlock()
	if first {
		w.log.Info("draining")
	}
	w.beatNow()
}

// Draining reports whether Drain has been called.
func (w *Worker) Draining() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.draining
}

// beatNow has a heartbeat sent at once.
func (w *Worker) beatNow() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// running counts attempts whose processes have not ended.
func (w *Worker) running() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, a := range w.mu.attempts {
		if !a.ended {
			n++
		}
	}
	return n
}

// killAll stops everything that runs; nothing is launched from now on.
func (w *Worker) killAll(why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.stopped = true
	for _, a := range w.mu.attempts {
		a.stop(&killed{why: why})
	}
}

// watch looks at the machine now and then: memory of attempts, the disk.
func (w *Worker) watch(ctx context.Context) {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			w.watchProcesses()
			w.watchDisk()
		}
	}
}

// watchEvery is how often attempts' memory and the disk are looked at.
const watchEvery = 500 * time.Millisecond

// watchDisk notes whether there is room on the disk for more work.
func (w *Worker) watchDisk() {
	free, err := freeBytes(w.home.path)
	full := err != nil || free < w.cfg.MinFree
	w.mu.Lock()
	changed := full != w.mu.full
	w.mu.full = full
	w.mu.Unlock()
	if !changed {
		return
	}
	if full {
		w.log.Warn("the disk is full: no new work", "dir", w.home.path, "free", free, "least", w.cfg.MinFree, "err", err)
	} else {
		w.log.Info("the disk has room again", "dir", w.home.path, "free", free)
	}
	w.beatNow()
}

// finishDraining ends a draining worker, by stop, when it has nothing to do.
func (w *Worker) finishDraining(ctx context.Context, stop context.CancelCauseFunc) {
	t := time.NewTicker(50 * time.Millisecond)
	defer t.Stop()
	var since time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C: // its value may be from before the process was stopped and went on
			if !w.Draining() {
				continue
			}
			if since.IsZero() {
				since = time.Now()
			}
			if w.drained(time.Since(since)) {
				stop(errDrained)
				return
			}
		}
	}
}

// errDrained is the cause with which a drained worker's work ends.
var errDrained = errors.New("drained")

// drained reports whether a worker that has been draining for so long may end.
func (w *Worker) drained(since time.Duration) bool {
	if w.running() > 0 {
		if since >= w.cfg.DrainTimeout {
			w.killAll("the worker is being drained")
		}
		return false
	}
	w.mu.Lock()
	unsaid := len(w.mu.attempts)
	w.mu.Unlock()
	switch {
	case since >= w.cfg.DrainTimeout+w.cfg.ServeTimeout:
		w.log.Warn("leaving with map outputs that may be needed", "after", since)
		return true
	case unsaid > 0:
		return false
	}
	held, err := filepath.Glob(filepath.Join(w.home.outputs(), "*", "*"))
	return err == nil && len(held) == 0
}
