package netshuffle

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/data/engine/mem"
	"github.com/slotwise/slotwise/internal/data/engine/runfile"
	"github.com/slotwise/slotwise/internal/data/kv"
	"github.com/slotwise/slotwise/internal/data/shuffle"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// plan is a shuffle together with its faults.
type plan struct {
	maps, parts, part int
	records           []int
	codec             runfile.Codec
	block             int
	memory            int64
	openFiles         int
	steps             []step
	script            []fault
	deaf              int // failures that the master does not hear
}

// step is an event of a map's output.
type step struct {
	m, worker int
	kind      string // done, lost, broken (its file is damaged), gone (its file is removed)
	after     time.Duration
}

func drawPlan(t *rapid.T) plan {
	p := plan{
		maps:      rapid.IntRange(1, 9).Draw(t, "maps"),
		parts:     rapid.IntRange(1, 3).Draw(t, "parts"),
		codec:     runfile.Codec(rapid.IntRange(0, 3).Draw(t, "codec")),
		block:     rapid.SampledFrom([]int{0, 100, 1000}).Draw(t, "block"),
		memory:    rapid.SampledFrom([]int64{0, mem.Step}).Draw(t, "memory"),
		openFiles: rapid.IntRange(1, 3).Draw(t, "openFiles"),
		deaf:      rapid.IntRange(0, 2).Draw(t, "deaf"),
	}
	p.part = rapid.IntRange(0, p.parts-1).Draw(t, "part")
	for range p.maps {
		p.records = append(p.records, rapid.SampledFrom([]int{0, 1, 30, 300}).Draw(t, "records"))
	}
	p.steps = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			m:      rapid.IntRange(0, p.maps-1).Draw(t, "map"),
			worker: rapid.IntRange(0, 2).Draw(t, "worker"),
			kind:   rapid.SampledFrom([]string{"done", "done", "lost", "broken", "gone"}).Draw(t, "kind"),
			after:  time.Duration(rapid.IntRange(0, 3000).Draw(t, "after")) * time.Millisecond,
		}
	}), 0, 20).Draw(t, "steps")
	p.script = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) fault {
		return fault{
			kind: rapid.SampledFrom([]string{"", "", "refuse", "hang", "busy", "cut", "flip", "slow", "header"}).Draw(t, "kind"),
			at:   rapid.Int64Range(0, 3000).Draw(t, "at"),
		}
	}), 0, 30).Draw(t, "script")
	return p
}

// scene is the cluster around one Fetch. Its master runs a map again when its output is
// reported.
type scene struct {
	plan
	dir   string
	net   *network
	f     *Fetch
	tries []int // of each map
	heard chan Failure
	err   error
}

func (s *scene) workerDir(w int) string { return fmt.Sprintf("%s/w%d", s.dir, w) }

// finish lets a new attempt of a map finish on a worker.
func (s *scene) finish(m, w int) Location {
	p := Location{Map: m, Attempt: attempt(m, s.tries[m]), Worker: fmt.Sprint("w", w), Address: fmt.Sprintf("w%d:1", w)}
	s.tries[m]++
	parts := make([][]record, s.parts)
	for i := range parts {
		parts[i] = recordsOf(m, i, s.records[m], 10)
	}
	err := writeRun(s.workerDir(w), p.Attempt, parts, runfile.Options{Codec: s.codec, BlockSize: s.block})
	if err != nil && s.err == nil {
		s.err = err
	}
	return p
}

// spoil damages or removes an output.
func (s *scene) spoil(p Location, kind string) {
	name := File(s.dir+"/"+p.Worker, testJob, p.Attempt)
	if kind == "gone" {
		_ = os.Remove(name)
		return
	}
	if b, err := os.ReadFile(name); err == nil && len(b) > 200 {
		b[30] ^= 4
		_ = os.WriteFile(name, b, 0o600)
	}
}

// run plays the plan and returns the records that the reduce receives.
func (s *scene) run(cfg Config) ([][]record, error) {
	f, err := New(context.Background(), cfg)
	if err != nil {
		return nil, err
	}
	s.f = f
	defer f.Close()
	done := make(chan struct{})
	go s.master(done)
	defer func() { close(s.heard); <-done }()
	streams, err := f.Collect(context.Background())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(streams)
}

// master plays the steps, then finishes the missing maps and handles reports until the
// Fetch ends.
func (s *scene) master(done chan struct{}) {
	defer close(done)
	now := map[int]Location{}
	for _, st := range s.steps {
		time.Sleep(st.after)
		if st.kind == "lost" {
			delete(now, st.m)
			s.f.Update(false, []Location{{Map: st.m, Lost: true}})
			continue
		}
		now[st.m] = s.finish(st.m, st.worker)
		if st.kind != "done" {
			s.spoil(now[st.m], st.kind)
		}
		s.f.Update(false, []Location{now[st.m]})
	}
	var all []Location
	for m := range s.maps {
		if _, ok := now[m]; !ok {
			now[m] = s.finish(m, m%3)
		}
		all = append(all, now[m])
	}
	s.f.Update(true, all)
	for c := range s.heard {
		if s.deaf > 0 {
			s.deaf--
			continue
		}
		if c.Attempt == now[c.Map].Attempt {
			s.f.Update(false, []Location{{Map: c.Map, Lost: true}})
			time.Sleep(time.Second)
			now[c.Map] = s.finish(c.Map, (c.Map+1)%3)
			s.f.Update(false, []Location{now[c.Map]})
		}
	}
}

// TestEqualsStore plays random maps, losses and faults. The reduce must receive the
// records that shuffle.Store returns.
func TestEqualsStore(t *testing.T) {
	top := t.TempDir()
	warmUp(t, top)
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt)
		dir, err := os.MkdirTemp(top, "")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		s := &scene{plan: p, dir: dir, tries: make([]int, p.maps)}
		var got [][]record
		var failed error
		synctest.Test(t, func(t *testing.T) {
			s.heard = make(chan Failure, 1000)
			s.net = &network{script: p.script, handlers: map[string]http.Handler{}, down: map[string]bool{}}
			for w := range 3 {
				if err := os.Mkdir(s.workerDir(w), 0o700); err != nil {
					t.Error(err)
				}
				s.net.handlers[fmt.Sprintf("w%d:1", w)] = newHandler(s.workerDir(w))
			}
			scratch, err := storage.NewDirScratch(dir)
			if err != nil {
				t.Error(err)
				return
			}
			defer scratch.Close()
			got, failed = s.run(Config{
				Job: testJob, Maps: p.maps, Part: p.part, Secret: testSecret, Transport: s.net,
				Worker: "w0", Dir: s.workerDir(0), OpenFiles: p.openFiles,
				Memory: p.memory, Pool: mem.NewPool(p.memory), Scratch: scratch,
				Report: func(f Failure) { s.heard <- f },
			})
		})
		if failed != nil || s.err != nil {
			rt.Fatal(failed, s.err)
		}
		if want := viaStore(rt, &p, dir); !reflect.DeepEqual(got, want) {
			rt.Fatalf("got %.300v\nwant %.300v", got, want)
		}
	})
}

// warmUp creates the process-wide coders outside any synctest bubble.
func warmUp(t *testing.T, dir string) {
	if err := writeRun(dir, "warm", [][]record{recordsOf(0, 0, 300, 10)}, runfile.Options{Codec: runfile.Zstd}); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(File(dir, testJob, "warm"))
	if err != nil {
		t.Fatal(err)
	}
	run, err := openRun(f)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Release()
	s, err := run.Partition(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read([]kv.Stream{s}); err != nil {
		t.Fatal(err)
	}
}

// viaStore shuffles the same outputs through shuffle.Store.
func viaStore(rt *rapid.T, p *plan, dir string) [][]record {
	s := shuffle.NewStore()
	defer s.Close()
	for m := range p.maps {
		parts := make([][]record, p.parts)
		for i := range parts {
			parts[i] = recordsOf(m, i, p.records[m], 10)
		}
		name := fmt.Sprint("plain", m)
		if err := writeRun(dir, name, parts, runfile.Options{}); err != nil {
			rt.Fatal(err)
		}
		f, err := os.Open(File(dir, testJob, name))
		if err != nil {
			rt.Fatal(err)
		}
		run, err := openRun(f)
		if err != nil {
			rt.Fatal(err)
		}
		s.Publish(1, m, run)
	}
	f := s.NewFetch(context.Background(), 1, p.maps, p.part)
	defer f.Close()
	streams, err := f.Collect(context.Background())
	if err != nil {
		rt.Fatal(err)
	}
	want, err := read(streams)
	if err != nil {
		rt.Fatal(err)
	}
	return want
}
