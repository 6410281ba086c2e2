package master

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// portion is one batch of the loop: for so long no other request was answered.
type portion struct {
	cpu  time.Duration // processor time of the loop's thread
	wall time.Duration
	sync time.Duration // part of wall: the fsync of the batch's records
	snap bool          // a snapshot began
}

// loopWatch measures every batch of a running master's loop. It takes the place of the
// histogram of batches, whose Observe the loop calls at the end of each batch.
type loopWatch struct {
	prometheus.Histogram
	m       *Master
	before  time.Duration // of the thread, at the end of the last batch
	snaps   bool          // a snapshot was under way then
	synced  time.Duration // fsync of this batch
	mu      sync.Mutex
	batches []portion
}

// watchLoop binds the loop to one thread and returns its watch.
func watchLoop(t *testing.T, m *Master) *loopWatch {
	t.Helper()
	w := &loopWatch{Histogram: m.stats.batches, m: m}
	_, err := query(t.Context(), m, func() (struct{}, error) {
		runtime.LockOSThread()
		w.before = threadTime()
		m.stats.batches, m.stats.syncs = w, &syncWatch{m.stats.syncs, w}
		return struct{}{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// syncWatch notes the fsync of a batch, of which the loop calls Observe before the batch's.
type syncWatch struct {
	prometheus.Histogram
	of *loopWatch
}

// Observe implements prometheus.Histogram.
func (s *syncWatch) Observe(seconds float64) {
	s.of.synced = time.Duration(seconds * 1e9)
	s.Histogram.Observe(seconds)
}

// threadTime returns the processor time of the calling thread.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// Observe notes the batch that ends.
func (w *loopWatch) Observe(seconds float64) {
	now := threadTime()
	w.mu.Lock()
	w.batches = append(w.batches, portion{now - w.before, time.Duration(seconds * 1e9), w.synced, w.m.replacing && !w.snaps})
	w.mu.Unlock()
	w.before, w.snaps, w.synced = now, w.m.replacing, 0
	w.Histogram.Observe(seconds)
}

// take returns the batches since the last call.
func (w *loopWatch) take() []portion {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.batches
	w.batches = nil
	return all
}

// machineNoise measures until ctx ends for how long a thread that wants to run is kept from
// it: every ten milliseconds it needs one of processor time.
func machineNoise(ctx context.Context) (longest time.Duration) {
	runtime.LockOSThread()
	for ctx.Err() == nil {
		began, cpu := time.Now(), threadTime()
		for threadTime()-cpu < time.Millisecond {
		}
		longest = max(longest, time.Since(began)-(threadTime()-cpu))
		time.Sleep(9 * time.Millisecond)
	}
	return longest
}

// TestLoopPauses measures for how long snapshots and copies for forecasts keep the loop of
// a busy master from other work, in processor time of the loop. Its own work for a snapshot
// and for one portion of a copy must take less than 5 ms, the least of several: other work
// of a batch, collection of garbage and a busy machine only add to it. SLOTWISE_LOAD=1 makes
// it 1,000 jobs with 100,000 tasks and 100 workers.
func TestLoopPauses(t *testing.T) {
	jobs, maps, workers, phase := 100, 100, 10, time.Second
	if os.Getenv("SLOTWISE_LOAD") != "" {
		jobs, workers, phase = 1000, 100, 20*time.Second
	}
	dir := t.TempDir()
	writeLongJournal(t, dir, jobs, maps, maps/2)
	// The worker of the finished maps does not return, and is not given up.
	r := newRig(t, Config{Dir: dir, Policy: "fair", NodeTimeout: time.Hour, SnapshotBytes: 1 << 40})
	w := watchLoop(t, r.m)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	startLoad(ctx, &wg, r, workers, 300*time.Millisecond)
	for _, p := range []struct {
		name string
		turn func()
		own  func(portion) bool // the batch may hold work of the turn
	}{
		{"nothing else", func() { time.Sleep(phase / 10) }, func(portion) bool { return true }},
		{"snapshots", r.snapshotNow, func(b portion) bool { return b.snap }},
		{"copies", func() {
			if _, _, err := r.m.copyState(t.Context(), "ann"); err != nil {
				t.Error(err)
			}
		}, func(portion) bool { return true }},
	} {
		time.Sleep(phase / 4) // until the batches of the phase before are over
		w.take()
		quiet, over := context.WithTimeout(ctx, phase)
		noise := make(chan time.Duration, 1)
		go func() { noise <- machineNoise(quiet) }()
		var longest []time.Duration // processor time of each turn's own longest batch
		var own, all []portion
		for len(longest) < 5 || quiet.Err() == nil {
			p.turn()
			most := time.Duration(0)
			turn := w.take()
			for _, b := range turn {
				if p.own(b) {
					most, own = max(most, b.cpu), append(own, b)
				}
			}
			longest, all = append(longest, most), append(all, turn...)
		}
		over()
		slices.Sort(longest)
		t.Logf("%s: %d turns, the processor time of the longest batch of each is at least %v, median %v, at most %v", p.name, len(longest), longest[0], longest[len(longest)/2], longest[len(longest)-1])
		for _, list := range [][]portion{own, all}[:1+min(1, len(all)-len(own))] {
			t.Logf("  %6d batches: processor time %s; wall %s; wall without fsync %s", len(list), spread(list, func(b portion) time.Duration { return b.cpu }),
				spread(list, func(b portion) time.Duration { return b.wall }), spread(list, func(b portion) time.Duration { return b.wall - b.sync }))
		}
		t.Logf("  the machine kept a thread that wanted to run waiting for up to %v", <-noise)
		if longest[0] > 5*time.Millisecond {
			t.Errorf("%s: each keeps the loop busy for at least %v", p.name, longest[0])
		}
	}
}

// spread describes the distribution of one number of all batches.
func spread(all []portion, of func(portion) time.Duration) string {
	var list []time.Duration
	for _, b := range all {
		list = append(list, of(b).Round(time.Microsecond))
	}
	slices.Sort(list)
	if len(list) == 0 {
		return "none"
	}
	at := func(q float64) time.Duration { return list[int(q*float64(len(list)-1))] }
	return fmt.Sprintf("p50 %v, p99 %v, p99.9 %v, most %v", at(0.5), at(0.99), at(0.999), at(1))
}

// snapshotNow makes the master begin a snapshot and waits until it is written.
func (r *rig) snapshotNow() {
	r.t.Helper()
	in := func(f func()) {
		if _, err := query(r.t.Context(), r.m, func() (struct{}, error) { f(); return struct{}{}, nil }); err != nil {
			r.t.Fatal(err)
		}
	}
	in(func() { r.m.cfg.SnapshotBytes, r.m.snapshotSize, r.m.noSnapshot = 1, 0, time.Time{} })
	in(func() { r.m.cfg.SnapshotBytes = 1 << 40 })
	for under := true; under; time.Sleep(5 * time.Millisecond) {
		in(func() { under = r.m.replacing })
	}
}

// startLoad starts workers of the kind that TestLoad has, until ctx ends. tasks is the mean time of
// an attempt.
func startLoad(ctx context.Context, wg *sync.WaitGroup, r *rig, workers int, tasks time.Duration) *loadStats {
	transport := &http.Transport{MaxIdleConnsPerHost: 2 * workers, DialContext: (&net.Dialer{}).DialContext}
	client, stats := &http.Client{Transport: transport}, &loadStats{}
	for i := range workers {
		w := &loadWorker{
			name: fmt.Sprint("load", i), rpc: slotwisev1connect.NewWorkerServiceClient(client, r.srv.URL), stats: stats,
			tasks: tasks, wake: make(chan struct{}, 1), running: map[string]bool{}, ended: map[string]*slotwisev1.Report{},
		}
		wg.Go(func() { w.run(ctx) })
	}
	return stats
}

// TestForecastShare measures which part of a processor forecasts use while somebody always asks
// for them: the processor time of the whole process between the ends of two forecasts, less what
// it uses in the same time without them. It needs SLOTWISE_LOAD=1, which makes it 1,000 jobs with
// 100,000 tasks and 100 workers whose slots are all in use.
func TestForecastShare(t *testing.T) {
	if os.Getenv("SLOTWISE_LOAD") == "" {
		t.Skip("it takes minutes: set SLOTWISE_LOAD=1")
	}
	dir := t.TempDir()
	writeLongJournal(t, dir, 1000, 100, 50)
	r := newRig(t, Config{Dir: dir, Policy: "fair", NodeTimeout: time.Hour, SnapshotBytes: 1 << 40})
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	startLoad(ctx, &wg, r, 100, time.Hour)
	time.Sleep(20 * time.Second) // until all slots are in use
	began, used := time.Now(), processTime()
	time.Sleep(time.Minute)
	without := float64(processTime()-used) / float64(time.Since(began))
	// ends returns when another forecast has ended.
	ends := func() {
		r.m.forecasts.mu.Lock()
		before := r.m.forecasts.made
		r.m.forecasts.mu.Unlock()
		for {
			r.m.Forecast()
			r.m.forecasts.mu.Lock()
			made := r.m.forecasts.made
			r.m.forecasts.mu.Unlock()
			if made != before {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	ends()
	began, used = time.Now(), processTime()
	ends()
	wall := time.Since(began)
	f, _ := r.m.Forecast()
	share := float64(processTime()-used)/float64(wall) - without
	t.Logf("a forecast of %d jobs with %d futures took %v; it ended %v after the one before; forecasts used %.1f %% of a processor, the rest of the process %.1f %%",
		len(f.Jobs), f.Futures, f.Took.Round(time.Millisecond), wall.Round(time.Second), 100*share, 100*without)
	if share > 0.05 {
		t.Errorf("forecasts used %.1f %% of a processor", 100*share)
	}
}

// processTime returns the processor time of this process.
func processTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}
