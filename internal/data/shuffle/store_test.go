package shuffle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/data/kv"
)

// fakeOut is a map output that notices when it is used after its release.
type fakeOut struct {
	parts    [][]string // keys; a key's value is the key twice
	released atomic.Int32
	openErr  error
}

func (o *fakeOut) Partition(p int) (kv.Stream, error) {
	if o.openErr != nil {
		return nil, o.openErr
	}
	return &fakeStream{o: o, keys: o.parts[p]}, nil
}

func (o *fakeOut) Size(p int) (records, bytes int64) {
	for _, k := range o.parts[p] {
		bytes += 3 * int64(len(k))
	}
	return int64(len(o.parts[p])), bytes
}

func (o *fakeOut) Release() { o.released.Add(1) }

type fakeStream struct {
	o    *fakeOut
	keys []string
	cur  string
}

func (s *fakeStream) Next() bool {
	if s.o.released.Load() != 0 {
		panic("output read after its release")
	}
	if len(s.keys) == 0 {
		return false
	}
	s.cur, s.keys = s.keys[0], s.keys[1:]
	return true
}
func (s *fakeStream) Key() []byte   { return []byte(s.cur) }
func (s *fakeStream) Value() []byte { return []byte(s.cur + s.cur) }
func (s *fakeStream) Err() error    { return nil }
func (s *fakeStream) Close() error  { return nil }

func out(keys ...string) *fakeOut { return &fakeOut{parts: [][]string{keys, nil}} }

func read(t *testing.T, s kv.Stream) string {
	t.Helper()
	if s == nil {
		return ""
	}
	var keys []string
	for s.Next() {
		if v := string(s.Value()); v != string(s.Key())+string(s.Key()) {
			t.Errorf("value %q of key %q", v, s.Key())
		}
		keys = append(keys, string(s.Key()))
	}
	if s.Err() != nil {
		t.Error(s.Err())
	}
	return strings.Join(keys, " ")
}

func collect(t *testing.T, f *Fetch) []string {
	t.Helper()
	streams, err := f.Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, s := range streams {
		all = append(all, read(t, s))
	}
	return all
}

func next(f *Fetch) string {
	e, ok := f.Next()
	if !ok {
		return fmt.Sprint("end ", f.Err())
	}
	if e.Lost {
		return fmt.Sprint("lost ", e.Map)
	}
	return fmt.Sprint("ready ", e.Map, " ", e.Records, " ", e.Bytes)
}

func TestFetchFollows(t *testing.T) {
	s := NewStore()
	defer s.Close()
	f := s.NewFetch(t.Context(), 1, 2, 0)
	defer f.Close()
	first := out("a", "b")
	s.Publish(1, 1, first)
	s.Publish(2, 0, out("of another job"))
	var got []string
	step := func() { got = append(got, next(f)) }
	step()
	s.Invalidate(1, 1)
	s.Invalidate(1, 0) // nothing there
	step()
	s.Publish(1, 0, out("x"))
	step()
	s.Publish(1, 1, out("c"))
	step()
	step()
	want := []string{"ready 1 2 6", "lost 1", "ready 0 1 3", "ready 1 1 3", "end <nil>"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if first.released.Load() != 1 {
		t.Error("the lost output is not released")
	}
	if all := collect(t, f); !slices.Equal(all, []string{"x", "c"}) || f.Records() != 2 {
		t.Errorf("collected %q, %d records", all, f.Records())
	}
}

// TestLostBeforeCollect: Collect waits for a map output that is lost after the last Next.
func TestLostBeforeCollect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		defer s.Close()
		f := s.NewFetch(t.Context(), 1, 1, 0)
		defer f.Close()
		s.Publish(1, 0, out("old"))
		for _, ok := f.Next(); ok; _, ok = f.Next() {
		}
		s.Invalidate(1, 0)
		go func() {
			synctest.Wait() // until Collect blocks
			s.Publish(1, 0, out("new"))
		}()
		if all := collect(t, f); !slices.Equal(all, []string{"new"}) {
			t.Errorf("collected %q", all)
		}
	})
}

// TestPinned: a reader that has begun keeps its version through everything.
func TestPinned(t *testing.T) {
	for name, remove := range map[string]func(s *Store){
		"replaced":    func(s *Store) { s.Publish(1, 0, out("new")) },
		"invalidated": func(s *Store) { s.Invalidate(1, 0) },
		"dropped":     func(s *Store) { s.Drop(1) },
		"closed":      func(s *Store) { s.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStore()
			defer s.Close()
			o := out("a")
			s.Publish(1, 0, o)
			f := s.NewFetch(t.Context(), 1, 1, 0)
			streams, err := f.Collect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			remove(s)
			if got := read(t, streams[0]); got != "a" {
				t.Errorf("read %q", got)
			}
			if o.released.Load() != 0 {
				t.Error("released while it was read")
			}
			if err := errors.Join(f.Close(), f.Close()); err != nil {
				t.Error(err)
			}
			if n := o.released.Load(); n != 1 {
				t.Errorf("released %d times", n)
			}
		})
	}
}

// TestWaitEnds: waiting readers end when their context does or the job is
// dropped. The test bubble fails if one stays behind.
func TestWaitEnds(t *testing.T) {
	cause := errors.New("attempt killed")
	for name, tc := range map[string]struct {
		end  func(s *Store, cancel context.CancelCauseFunc)
		want error
	}{
		"cancelled": {func(_ *Store, cancel context.CancelCauseFunc) { cancel(cause) }, cause},
		"dropped":   {func(s *Store, _ context.CancelCauseFunc) { s.Drop(1) }, ErrDropped},
		"closed":    {func(s *Store, _ context.CancelCauseFunc) { s.Close() }, ErrDropped},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				s := NewStore()
				s.Publish(1, 0, out("a"))
				var wg sync.WaitGroup
				for range 5 {
					wg.Go(func() {
						f := s.NewFetch(ctx, 1, 2, 0)
						defer f.Close()
						if _, err := f.Collect(ctx); !errors.Is(err, tc.want) {
							t.Errorf("got %v, want %v", err, tc.want)
						}
					})
				}
				synctest.Wait()
				tc.end(s, cancel)
				wg.Wait()
			})
		})
	}
}

func TestLatePublish(t *testing.T) {
	s := NewStore()
	s.Publish(1, 0, out("a"))
	s.Drop(1)
	late := out("b")
	s.Publish(1, 0, late)
	s.Close()
	later := out("c")
	s.Publish(2, 0, later)
	if late.released.Load() != 1 || later.released.Load() != 1 {
		t.Error("an output published too late is not released")
	}
	f := s.NewFetch(t.Context(), 1, 1, 0)
	if _, err := f.Collect(t.Context()); !errors.Is(err, ErrDropped) {
		t.Errorf("got %v", err)
	}
}

func TestOpenError(t *testing.T) {
	s := NewStore()
	defer s.Close()
	bad := out("x")
	bad.openErr = syscall.EIO
	s.Publish(1, 0, out("a"))
	s.Publish(1, 1, bad)
	f := s.NewFetch(t.Context(), 1, 2, 0)
	for range 2 {
		var me *MapError
		if _, err := f.Collect(t.Context()); !errors.As(err, &me) || me.Map != 1 || !errors.Is(err, syscall.EIO) {
			t.Errorf("got %v", err)
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestConcurrent runs publishers, losses and readers at once. Every
// reader sees exactly one version of each output, and nothing leaks.
func TestConcurrent(t *testing.T) {
	const maps, parts, rounds = 8, 2, 20
	s := NewStore()
	var made sync.Map
	publish := func(job int32, i int) {
		key := fmt.Sprintf("j%dm%d", job, i)
		o := &fakeOut{parts: [][]string{{key + "p0"}, {key + "p1"}}}
		made.Store(o, true)
		s.Publish(job, i, o)
	}
	var wg sync.WaitGroup
	for job := range int32(3) {
		wg.Go(func() {
			for r := range rounds {
				i := r % maps
				publish(job, i)
				if r%3 == 0 {
					s.Invalidate(job, i)
				}
			}
			for i := range maps {
				publish(job, i)
			}
		})
		for p := range parts {
			wg.Go(func() {
				f := s.NewFetch(t.Context(), job, maps, p)
				defer f.Close()
				for i, got := range collect(t, f) {
					if want := fmt.Sprintf("j%dm%dp%d", job, i, p); got != want {
						t.Errorf("got %q, want %q", got, want)
					}
				}
			})
		}
	}
	wg.Wait()
	s.Close()
	made.Range(func(o, _ any) bool {
		if n := o.(*fakeOut).released.Load(); n != 1 {
			t.Errorf("%v released %d times", o.(*fakeOut).parts, n)
		}
		return true
	})
}

// TestFetchModel checks a Fetch against a map of the published outputs.
func TestFetchModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const maps = 4
		s := NewStore()
		defer s.Close()
		model := map[int]string{}
		f := s.NewFetch(t.Context(), 1, maps, 0)
		defer f.Close()
		for n := range rapid.IntRange(0, 30).Draw(rt, "steps") {
			i := rapid.IntRange(0, maps-1).Draw(rt, "map")
			if rapid.Bool().Draw(rt, "publish") {
				model[i] = fmt.Sprint("v", n)
				s.Publish(1, i, out(model[i]))
			} else {
				delete(model, i)
				s.Invalidate(1, i)
			}
		}
		for i := range maps {
			if model[i] == "" {
				model[i] = "last"
				s.Publish(1, i, out("last"))
			}
		}
		for i, got := range collect(t, f) {
			if got != model[i] {
				rt.Fatalf("map %d: got %q, want %q", i, got, model[i])
			}
		}
	})
}
