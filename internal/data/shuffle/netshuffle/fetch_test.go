package netshuffle

import (
	"context"
	"errors"
	"os"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slotwise/slotwise/internal/data/engine/mem"
	"github.com/slotwise/slotwise/internal/data/engine/runfile"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// collect verifies that the Fetch returns the records that oneWorker wrote.
func collect(t *testing.T, f *Fetch, maps, n, size int) {
	t.Helper()
	streams, err := f.Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := read(streams)
	if err != nil {
		t.Fatal(err)
	}
	records := 0
	for m := range maps {
		want := recordsOf(m, 0, n, size)
		records += n
		if n == 0 {
			want = nil
		}
		if !reflect.DeepEqual(got[m], want) {
			t.Errorf("map %d: %d records of %d, or wrong ones", m, len(got[m]), n)
		}
	}
	if f.Records() != int64(records) || f.Held() != maps {
		t.Errorf("%d records, %d held; want %d, %d", f.Records(), f.Held(), records, maps)
	}
}

// reports collects calls of Config.Report.
type failures struct {
	mu  sync.Mutex
	all []Failure
}

func (c *failures) add(f Failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, f)
}

func (c *failures) list() []Failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all
}

func TestFetchesAsMapsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, _, places := oneWorker(t, 10, 20, 10)
		f := mustStart(t, newConfig(t, 10, net))
		for i, p := range places[:9] {
			f.Update(false, []Location{p, p})
			synctest.Wait()
			if f.Held() != i+1 {
				t.Errorf("%d held after %d maps", f.Held(), i+1)
			}
		}
		time.Sleep(time.Hour) // a map may take that long; no fetch is stuck
		f.Update(true, places)
		collect(t, f, 10, 20, 10)
		if n := net.requests(); n != 10 {
			t.Errorf("%d requests for 10 outputs", n)
		}
	})
}

func TestEmptyOutputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, _, places := oneWorker(t, 2, 0, 0)
		f := mustStart(t, newConfig(t, 2, net))
		f.Update(false, places)
		streams, err := f.Collect(t.Context())
		if err != nil || streams[0] != nil || streams[1] != nil {
			t.Errorf("%v, %v", streams, err)
		}
	})
}

// A broken connection is resumed at once, at the byte where it broke.
func TestResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, _, places := oneWorker(t, 1, 100, 100)
		net.script = []fault{{"cut", 1000}, {"cut", 500}, {"cut", 17}}
		began := time.Now()
		f := mustStart(t, newConfig(t, 1, net))
		f.Update(false, places)
		collect(t, f, 1, 100, 100)
		if d := time.Since(began); d != 0 {
			t.Errorf("it took %v", d)
		}
		if last := net.seen[len(net.seen)-1]; len(net.seen) != 4 || !strings.HasSuffix(last, "bytes=1517-") {
			t.Errorf("requests %q", net.seen)
		}
	})
}

// Data damaged on the network is fetched again. Data damaged on disk is reported at
// once and fetched from its new location.
func TestDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, dir, places := oneWorker(t, 2, 100, 100)
		net.script = []fault{{"flip", 1000}}
		var c failures
		cfg := newConfig(t, 2, net)
		cfg.Report = c.add
		f := mustStart(t, cfg)
		f.Update(false, places[:1])
		synctest.Wait()
		if f.Held() != 1 || len(c.list()) != 0 {
			t.Fatalf("%d held, reports %v", f.Held(), c.list())
		}
		damage(t, File(dir, testJob, attempt(1, 0)))
		f.Update(false, places[1:])
		synctest.Wait()
		got := c.list()
		if len(got) != 1 || !got[0].Certain || got[0].Attempt != attempt(1, 0) || !errors.Is(got[0].Err, runfile.ErrChecksum) {
			t.Fatalf("reports %v", got)
		}
		f.Update(false, []Location{{Map: 1, Lost: true}})
		if err := writeRun(dir, attempt(1, 1), [][]record{recordsOf(1, 0, 100, 100)}, runfile.Options{}); err != nil {
			t.Fatal(err)
		}
		f.Update(false, []Location{{Map: 1, Attempt: attempt(1, 1), Worker: "w1", Address: "w1:1"}})
		collect(t, f, 2, 100, 100)
	})
}

// A dead worker is retried less and less often. Its outputs are reported repeatedly
// until it is back.
func TestUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, _, places := oneWorker(t, 6, 10, 10)
		net.down["w1:1"] = true
		var c failures
		cfg := newConfig(t, 6, net)
		cfg.Report, cfg.Patience = c.add, time.Hour
		f := mustStart(t, cfg)
		f.Update(false, places)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := net.requests(); n < 15 || n > 60 {
			t.Errorf("%d requests in 5 minutes", n)
		}
		byMap := map[int]int{}
		for _, r := range c.list() {
			byMap[r.Map]++
			if r.Certain || r.Worker != "w1" {
				t.Errorf("report %+v", r)
			}
		}
		for m := range 6 {
			if byMap[m] < 2 {
				t.Errorf("map %d is reported %d times", m, byMap[m])
			}
		}
		net.mu.Lock()
		net.down["w1:1"] = false
		net.mu.Unlock()
		collect(t, f, 6, 10, 10)
	})
}

// A hanging worker does not delay an output that has a new location.
func TestReplacedWhileItHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, dir, places := oneWorker(t, 1, 10, 10)
		net.handlers["w2:1"] = newHandler(dir)
		net.script = []fault{{kind: "hang"}}
		f := mustStart(t, newConfig(t, 1, net))
		f.Update(false, places)
		synctest.Wait()
		began := time.Now()
		f.Update(false, []Location{{Map: 0, Attempt: attempt(0, 0), Worker: "w2", Address: "w2:1"}})
		collect(t, f, 1, 10, 10)
		if d := time.Since(began); d > 0 {
			t.Errorf("it took %v", d)
		}
	})
}

func TestSilenceIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, _, places := oneWorker(t, 1, 10, 10)
		net.script = []fault{{kind: "hang"}}
		cfg := newConfig(t, 1, net)
		began := time.Now()
		f := mustStart(t, cfg)
		f.Update(false, places)
		collect(t, f, 1, 10, 10)
		if d := time.Since(began); d < 30*time.Second || d > 31*time.Second {
			t.Errorf("it took %v", d)
		}
	})
}

func TestStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, _, places := oneWorker(t, 2, 10, 10)
		cfg := newConfig(t, 2, net)
		cfg.Patience = 2 * time.Minute
		f := mustStart(t, cfg)
		f.Update(false, places[:1])
		time.Sleep(time.Hour)
		net.mu.Lock()
		net.down["w1:1"] = true
		net.mu.Unlock()
		began := time.Now()
		f.Update(false, places[1:])
		_, err := f.Collect(t.Context())
		if !errors.Is(err, ErrStalled) || !strings.Contains(err.Error(), attempt(1, 0)) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("got %v", err)
		}
		if d := time.Since(began); d < 2*time.Minute || d > 5*time.Minute {
			t.Errorf("it took %v", d)
		}
	})
}

// TestDamagedOwnOutputs reads more damaged outputs of the local worker than may stay open. They use up no open files: the
// next good output is read from its file.
func TestDamagedOwnOutputs(t *testing.T) {
	net, dir, places := oneWorker(t, 4, 30, 50)
	cfg := newConfig(t, 4, net)
	cfg.Worker, cfg.Dir, cfg.OpenFiles = "w1", dir, 1
	g := &getter{f: mustStart(t, cfg)}
	for m := range 3 {
		damage(t, File(dir, testJob, attempt(m, 0)))
		if _, err := g.getLocal(places[m]); !errors.As(err, new(*badOutputError)) {
			t.Fatalf("map %d: %v", m, err)
		}
	}
	h, err := g.getLocal(places[3])
	if err != nil {
		t.Fatal(err)
	}
	defer h.release()
	if h.run == nil {
		t.Error("the good output was copied")
	}
}

// Outputs of the local worker cause no requests.
func TestOwnOutputs(t *testing.T) {
	for _, open := range []int{1, 100} {
		synctest.Test(t, func(t *testing.T) {
			net, dir, places := oneWorker(t, 4, 30, 50)
			var c failures
			cfg := newConfig(t, 4, net)
			cfg.Worker, cfg.Dir, cfg.OpenFiles, cfg.Report = "w1", dir, open, c.add
			f := mustStart(t, cfg)
			f.Update(false, places[:3])
			damage(t, File(dir, testJob, attempt(3, 0)))
			f.Update(false, places[3:])
			synctest.Wait()
			if got := c.list(); len(got) != 1 || !got[0].Certain || got[0].Map != 3 {
				t.Errorf("reports %v", got)
			}
			if err := writeRun(dir, attempt(3, 1), [][]record{recordsOf(3, 0, 30, 50)}, runfile.Options{}); err != nil {
				t.Fatal(err)
			}
			f.Update(false, []Location{{Map: 3, Attempt: attempt(3, 1), Worker: "w1", Address: "w1:1"}})
			synctest.Wait()
			for m := range 4 { // they may be removed now
				_ = os.Remove(File(dir, testJob, attempt(m, 0)))
			}
			collect(t, f, 4, 30, 50)
			if net.requests() != 0 {
				t.Errorf("requests %q", net.seen)
			}
		})
	}
}

// Memory stays within its limit; the other outputs are written to few files.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const maps = 40
		net, _, places := oneWorker(t, maps, 100, 300)
		cfg := newConfig(t, maps, net)
		cfg.Memory = mem.Step
		cfg.Pool = mem.NewPool(cfg.Memory)
		files := &countingScratch{Scratch: cfg.Scratch}
		cfg.Scratch = files
		f := mustStart(t, cfg)
		f.Update(false, places)
		collect(t, f, maps, 100, 300)
		if peak := cfg.Pool.Peak(); peak == 0 || peak > cfg.Memory {
			t.Errorf("%d bytes in memory, limit %d", peak, cfg.Memory)
		}
		if files.n == 0 || files.n > 5 {
			t.Errorf("%d scratch files", files.n)
		}
		if err := f.Close(); err != nil || cfg.Pool.Used() != 0 {
			t.Errorf("%d bytes are left, %v", cfg.Pool.Used(), err)
		}
	})
}

// The time and the number of files grow at most linearly with the number of maps.
func TestManyMaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const maps = 5000
		net, _, places := oneWorker(t, 1, 2, 10)
		cfg := newConfig(t, maps, net)
		files := &countingScratch{Scratch: cfg.Scratch}
		cfg.Memory, cfg.Scratch = 0, files
		f := mustStart(t, cfg)
		for m := range maps {
			p := places[0]
			p.Map = m
			f.Update(false, []Location{p})
		}
		streams, err := f.Collect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err := read(streams)
		if err != nil || f.Records() != 2*maps || !reflect.DeepEqual(got[maps-1], recordsOf(0, 0, 2, 10)) {
			t.Errorf("%d records, %v", f.Records(), err)
		}
		if files.n > 5 {
			t.Errorf("%d scratch files", files.n)
		}
	})
}

type countingScratch struct {
	storage.Scratch
	mu   sync.Mutex
	n    int
	fail error
}

func (s *countingScratch) Create(name string) (storage.ScratchFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	if s.fail != nil {
		return nil, s.fail
	}
	return s.Scratch.Create(name)
}

// A full local disk ends the Fetch and causes no reports.
func TestScratchFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, _, places := oneWorker(t, 3, 100, 100)
		var c failures
		cfg := newConfig(t, 3, net)
		cfg.Memory, cfg.Report = 0, c.add
		cfg.Scratch = &countingScratch{Scratch: cfg.Scratch, fail: syscall.ENOSPC}
		f := mustStart(t, cfg)
		f.Update(false, places)
		if _, err := f.Collect(t.Context()); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("got %v", err)
		}
		if len(c.list()) != 0 {
			t.Errorf("reports %v", c.list())
		}
	})
}

func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, _, places := oneWorker(t, 2, 10, 10)
		net.script = []fault{{kind: "hang"}}
		f := mustStart(t, newConfig(t, 2, net))
		f.Update(false, places[:1])
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("killed")
		time.AfterFunc(time.Second, func() { cancel(why) })
		if _, err := f.Collect(ctx); !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
	})
}
