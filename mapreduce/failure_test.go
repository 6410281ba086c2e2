package mapreduce_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slotwise/slotwise/mapreduce"
)

// fixture is a directory with an input file and a place for the output.
type fixture struct {
	t            *testing.T
	dir, in, out string
}

func newFixture(t *testing.T, text string) *fixture {
	dir := t.TempDir()
	f := &fixture{t: t, dir: dir, in: filepath.Join(dir, "in"), out: filepath.Join(dir, "out")}
	if err := os.WriteFile(f.in, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) options() mapreduce.Options {
	return mapreduce.Options{
		Inputs: []string{f.in}, Output: f.out, SplitSize: 1000,
		Cluster: mapreduce.ClusterOptions{Workers: 2, Memory: 32 << 20, TempDir: f.dir},
	}
}

// fails runs a job that must fail with an error that says all of want, and
// leave nothing behind.
func (f *fixture) fails(ctx context.Context, j *mapreduce.Job, o mapreduce.Options, want ...string) *mapreduce.Result {
	f.t.Helper()
	r, err := mapreduce.Run(ctx, j, o)
	if err == nil {
		f.t.Fatal("the job succeeded")
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			f.t.Errorf("error %q does not say %q", err, w)
		}
	}
	if _, err := os.Stat(f.out); !errors.Is(err, os.ErrNotExist) {
		f.t.Errorf("the output directory exists: %v", err)
	}
	checkClean(f.t, f.dir)
	return r
}

// lines is a job whose mapper is f.
func lines(f mapreduce.MapperFunc) *mapreduce.Job {
	return &mapreduce.Job{Name: "lines", Mapper: func() mapreduce.Mapper { return f }, Reducer: mapreduce.SumText}
}

const numbers = "one\ntwo\nthree\nfour\n"

func TestMapperFails(t *testing.T) {
	var tries atomic.Int64
	job := lines(func(_, line []byte, out *mapreduce.Emitter) error {
		tries.Add(1)
		return errors.New("I don't like " + string(line))
	})
	f := newFixture(t, numbers)
	r := f.fails(context.Background(), job, f.options(), "I don't like one", "job lines failed")
	if tries.Load() != 4 || r.Failures != 4 || r.State != "failed" {
		t.Errorf("%d tries, result %+v", tries.Load(), r)
	}
}

// TestPanics runs a mapper that panics always at one place, and one that panics at another
// place on each try. The first is tried twice, the second as often as other failures.
func TestPanics(t *testing.T) {
	f := newFixture(t, numbers)
	r := f.fails(context.Background(), lines(func(_, line []byte, out *mapreduce.Emitter) error {
		_ = line[100]
		return nil
	}), f.options(), "failed twice in the same way", "panic", "index out of range", "failure_test.go")
	if r.Failures != 2 {
		t.Errorf("%d failures, want 2", r.Failures)
	}
	f = newFixture(t, numbers)
	r = f.fails(context.Background(), lines(func(_, line []byte, out *mapreduce.Emitter) error {
		panic(out.Task().Try())
	}), f.options(), "failed 4 times", "panic: 3")
	if r.Failures != 4 {
		t.Errorf("%d failures, want 4", r.Failures)
	}
}

// TestGoexit: a job whose code ends the attempt's goroutine, as t.FailNow does, fails and does not hang.
func TestGoexit(t *testing.T) {
	for _, kind := range []string{"map", "reduce"} {
		t.Run(kind, func(t *testing.T) {
			f := newFixture(t, numbers)
			job := lines(func(_, line []byte, out *mapreduce.Emitter) error {
				if kind == "map" {
					runtime.Goexit()
				}
				out.Add(line, 1)
				return nil
			})
			if kind == "reduce" {
				job.Reducer = func() mapreduce.Reducer {
					return mapreduce.ReducerFunc(func([]byte, iter.Seq[[]byte], *mapreduce.Emitter) error { runtime.Goexit(); return nil })
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			f.fails(ctx, job, f.options(), "not tried again: the job's code called runtime.Goexit")
		})
	}
}

// TestNilPointerError: an error that is not nil but holds a nil pointer, whose methods panic, fails the job and not the
// process.
func TestNilPointerError(t *testing.T) {
	f := newFixture(t, numbers)
	f.fails(t.Context(), lines(func(_, _ []byte, _ *mapreduce.Emitter) error {
		var none *os.PathError
		return none
	}), f.options(), "not tried again: the job's code returned an error of type *fs.PathError, and its methods panic")
}

func TestRetrySucceeds(t *testing.T) {
	f := newFixture(t, strings.Repeat(numbers, 1000))
	count := func(_, line []byte, out *mapreduce.Emitter) error {
		if out.Task().Try() < 2 && out.Task().Index() == 3 {
			return errors.New("not yet")
		}
		out.Add(line, 1)
		return nil
	}
	r, err := mapreduce.Run(context.Background(), lines(count), f.options())
	if err != nil {
		t.Fatal(err)
	}
	if got := sortedLines(readParts(t, f.out)); got != "four\t1000\none\t1000\nthree\t1000\ntwo\t1000\n" || r.Failures != 2 {
		t.Errorf("got %q with %d failures", got, r.Failures)
	}
	checkClean(t, f.dir)
}

func TestReducerFails(t *testing.T) {
	f := newFixture(t, numbers)
	job := lines(func(_, line []byte, out *mapreduce.Emitter) error { out.Emit(line, line); return nil })
	f.fails(context.Background(), job, f.options(), "panic") // SumText of a value that is not an integer
}

func TestBadPartitioner(t *testing.T) {
	f := newFixture(t, numbers)
	job := lines(func(_, line []byte, out *mapreduce.Emitter) error { out.Add(line, 1); return nil })
	job.Partitioner = func(key []byte, n int) int { return n }
	f.fails(context.Background(), job, f.options(), "Partitioner returned 2, but there are only 2 reduces")
}

func TestTruncatedGzip(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write([]byte(strings.Repeat(numbers, 10_000)))
	w.Close()
	f := newFixture(t, "")
	f.in += ".gz"
	if err := os.WriteFile(f.in, z.Bytes()[:z.Len()-10], 0o644); err != nil {
		t.Fatal(err)
	}
	f.fails(context.Background(), lines(func(_, line []byte, out *mapreduce.Emitter) error { return nil }), f.options(), "in.gz")
}

func TestMissingInput(t *testing.T) {
	f := newFixture(t, "")
	f.in += "-not-there"
	f.fails(context.Background(), lines(nil), f.options(), "in-not-there", "no such file")
}

// TestOutputExists: the error for an output directory that is not empty names the option
// that replaces it, and the directory stays unchanged.
func TestOutputExists(t *testing.T) {
	f := newFixture(t, numbers)
	o := f.options()
	o.Output = t.TempDir()
	if err := os.WriteFile(filepath.Join(o.Output, "mine"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := mapreduce.Run(context.Background(), lines(nil), o)
	if err == nil || !strings.Contains(err.Error(), "exists and is not empty: name another, or set Options.Overwrite (--overwrite)") {
		t.Errorf("error %v", err)
	}
	if after, err := os.ReadDir(o.Output); err != nil || len(after) != 1 {
		t.Errorf("the output directory holds %v, %v", after, err)
	}
}

func TestOutputOverInput(t *testing.T) {
	f := newFixture(t, numbers)
	o := f.options()
	o.Output, o.Overwrite = f.dir, true
	if _, err := mapreduce.Run(context.Background(), lines(nil), o); err == nil || !strings.Contains(err.Error(), "holds the input file") {
		t.Errorf("error %v", err)
	}
	if b, err := os.ReadFile(f.in); err != nil || string(b) != numbers {
		t.Errorf("the input is %q, %v", b, err)
	}
}

// TestOutputOverInputByLinks: links must not hide that the output directory
// holds the input.
func TestOutputOverInputByLinks(t *testing.T) {
	f := newFixture(t, numbers)
	link, elsewhere := filepath.Join(f.dir, "link"), t.TempDir()
	data := filepath.Join(f.dir, "data")
	inside := filepath.Join(data, "in")
	for _, err := range []error{
		os.Mkdir(data, 0o755), os.Rename(f.in, inside), os.Symlink(data, link),
		os.Symlink(inside, filepath.Join(elsewhere, "linked")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ in, out string }{
		{inside, link}, {filepath.Join(link, "in"), data}, {filepath.Join(elsewhere, "linked"), data}, {elsewhere, link},
	} {
		o := f.options()
		o.Inputs, o.Output, o.Overwrite = []string{c.in}, c.out, true
		if _, err := mapreduce.Run(context.Background(), lines(nil), o); err == nil || !strings.Contains(err.Error(), "holds the input file") {
			t.Errorf("%s into %s: error %v", c.in, c.out, err)
		}
		if b, err := os.ReadFile(inside); err != nil || string(b) != numbers {
			t.Fatalf("the input is %q, %v", b, err)
		}
	}
}

func TestTooManyTasks(t *testing.T) {
	f := newFixture(t, "")
	if err := os.Truncate(f.in, 1<<30); err != nil { // a hole: no disk is used
		t.Fatal(err)
	}
	o := f.options()
	o.SplitSize = 1
	f.fails(context.Background(), lines(nil), o, "split size of 1 B", "map tasks")
	o.SplitSize, o.Reduces = 1<<30, 1<<40
	f.fails(context.Background(), lines(nil), o, "reduce tasks")
	o.Reduces, o.Cluster.Workers = 1, 1<<50
	f.fails(context.Background(), lines(nil), o, "workers")
}

func TestExistingOutput(t *testing.T) {
	f := newFixture(t, numbers)
	job := lines(func(_, line []byte, out *mapreduce.Emitter) error { out.Add(line, 1); return nil })
	if _, err := mapreduce.Run(context.Background(), job, f.options()); err != nil {
		t.Fatal(err)
	}
	before := readParts(t, f.out)
	o := f.options()
	if _, err := mapreduce.Run(context.Background(), job, o); err == nil || !strings.Contains(err.Error(), f.out) {
		t.Errorf("overwrote without being asked: %v", err)
	}
	o.Overwrite = true
	bad := lines(func(_, line []byte, out *mapreduce.Emitter) error { return errors.New("no") })
	if _, err := mapreduce.Run(context.Background(), bad, o); err == nil {
		t.Error("a failing job succeeded")
	}
	if readParts(t, f.out) != before {
		t.Error("a failed job changed the old output")
	}
	other := lines(func(_, line []byte, out *mapreduce.Emitter) error { out.Add([]byte("x"), 1); return nil })
	if _, err := mapreduce.Run(context.Background(), other, o); err != nil {
		t.Fatal(err)
	}
	if got := readParts(t, f.out); got != "x\t4\n" {
		t.Errorf("overwritten output is %q", got)
	}
	checkClean(t, f.dir)
}

func TestCancel(t *testing.T) {
	f := newFixture(t, strings.Repeat(numbers, 100_000))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var n atomic.Int64
	r := f.fails(ctx, lines(func(_, line []byte, out *mapreduce.Emitter) error {
		if n.Add(1) == 1000 {
			cancel()
		}
		out.Add(line, 1)
		return nil
	}), f.options(), "interrupted")
	if r.State != "killed" {
		t.Errorf("state %s", r.State)
	}
}

// An interrupt of the user stands once in the error of the job that it kills.
func TestInterruptOnce(t *testing.T) {
	f := newFixture(t, strings.Repeat(numbers, 100_000))
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("interrupted")
	defer cancel(nil)
	_, err := mapreduce.Run(ctx, lines(func(_, _ []byte, _ *mapreduce.Emitter) error {
		cancel(why)
		return nil
	}), f.options())
	if !errors.Is(err, why) || !strings.HasSuffix(err.Error(), "killed: interrupted") {
		t.Errorf("error %v", err)
	}
}

func TestStreamingFailures(t *testing.T) {
	for _, c := range []struct {
		name, mapper, reducer string
		want                  []string
	}{
		{"mapper status", "cat >/dev/null; echo oh no >&2; exit 3", "cat", []string{"exit status 3", "oh no"}},
		{"no such mapper", "no-such-thing", "cat", []string{"not found"}},
		{"reducer status", "cat", "exit 4", []string{"exit status 4", "reducer"}},
		{"hanging mapper", "cat; sleep 1000", "cat", []string{"progress"}},
		{"hanging reducer", "cat", "sleep 1000", []string{"progress"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, numbers)
			job, err := mapreduce.Streaming(mapreduce.StreamingOptions{Mapper: c.mapper, Reducer: c.reducer})
			if err != nil {
				t.Fatal(err)
			}
			o := f.options()
			o.Stderr = &bytes.Buffer{}
			if strings.HasPrefix(c.name, "hanging") { // others would exceed it on a busy machine
				o.TaskTimeout = 300 * time.Millisecond
			}
			o.MaxAttempts = 2
			f.fails(context.Background(), job, o, c.want...)
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// corrupter is a reducer whose first attempt damages the map outputs on disk
// before it reads them.
type corrupter struct {
	mapreduce.Reducer
	dir string
}

func (c *corrupter) Start(t *mapreduce.Task) error {
	if t.Try() > 0 || t.Index() > 0 {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(c.dir, "slotwise-*", "*spill*"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no map outputs in %s: %v", c.dir, err)
	}
	for _, name := range files[:1] {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		for i := 30; i < len(b)-100; i += 16 {
			f.WriteAt([]byte{b[i] ^ 1}, int64(i))
		}
		f.Close()
	}
	return nil
}

// TestDamagedMapOutput checks that a map whose output can't be read any more is
// run again, and the reduce with it.
func TestDamagedMapOutput(t *testing.T) {
	f := newFixture(t, strings.Repeat(numbers, 1000))
	job := lines(func(_, line []byte, out *mapreduce.Emitter) error { out.Add(line, 1); return nil })
	job.Combiner = sumUp // combined records go to disk
	job.Reducer = func() mapreduce.Reducer { return &corrupter{mapreduce.SumText(), f.dir} }
	o := f.options()
	o.Reduces = 1
	r, err := mapreduce.Run(context.Background(), job, o)
	if err != nil {
		t.Fatal(err)
	}
	if got := sortedLines(readParts(t, f.out)); got != "four\t1000\none\t1000\nthree\t1000\ntwo\t1000\n" {
		t.Errorf("got %q", got)
	}
	if r.Failures == 0 {
		t.Error("nothing failed: the test damaged nothing")
	}
	checkClean(t, f.dir)
}

// TestSlowRecords checks that a task that takes long over each record is not
// taken for one that hangs.
func TestSlowRecords(t *testing.T) {
	t.Parallel()
	f := newFixture(t, strings.Repeat(numbers, 9))
	o := f.options()
	// A task that takes more than three seconds, with pauses that are a thirtieth of that.
	o.TaskTimeout = 3 * time.Second
	slow := lines(func(_, line []byte, out *mapreduce.Emitter) error {
		time.Sleep(100 * time.Millisecond)
		out.Add(line, 1)
		return nil
	})
	o.SplitSize = 1 << 20
	if _, err := mapreduce.Run(context.Background(), slow, o); err != nil {
		t.Error(err)
	}
	o.Overwrite = true
	slower := lines(func(_, line []byte, out *mapreduce.Emitter) error {
		if bytes.Equal(line, []byte("one")) {
			for range 35 {
				time.Sleep(100 * time.Millisecond)
				out.Task().KeepAlive()
			}
		}
		return nil
	})
	o.Inputs = []string{newFixture(t, numbers).in}
	if _, err := mapreduce.Run(context.Background(), slower, o); err != nil {
		t.Error(err)
	}
	quiet, err := mapreduce.Streaming(mapreduce.StreamingOptions{Mapper: "i=0; while [ $i -lt 35 ]; do i=$((i+1)); sleep 0.1; echo busy >&2; done; cat"})
	if err != nil {
		t.Fatal(err)
	}
	o.Stderr = &bytes.Buffer{}
	if _, err := mapreduce.Run(context.Background(), quiet, o); err != nil {
		t.Error(err)
	}
}

// TestChildCPU checks that the processor time of commands is the attempts'.
func TestChildCPU(t *testing.T) {
	f := newFixture(t, numbers)
	busy, err := mapreduce.Streaming(mapreduce.StreamingOptions{Mapper: "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; cat"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := mapreduce.Run(context.Background(), busy, f.options())
	if err != nil {
		t.Fatal(err)
	}
	if ms := r.Counters["map.cpu_ms"]; ms < 20 {
		t.Errorf("%d ms of processor time", ms)
	}
}

// TestPermanentErrors: an error that every retry would repeat fails the job after one attempt,
// wherever it comes from: the author's code, or the engine's own checks.
func TestPermanentErrors(t *testing.T) {
	wrong := errors.New("line without a key")
	permanent := func(_, _ []byte, _ *mapreduce.Emitter) error {
		return fmt.Errorf("part: %w", mapreduce.Permanent(wrong))
	}
	emit := func(_, line []byte, out *mapreduce.Emitter) error {
		out.Emit(line, []byte("x"))
		return nil
	}
	reduce := func([]byte, iter.Seq[[]byte], *mapreduce.Emitter) error { return mapreduce.Permanent(wrong) }
	reducer, partitioner, aggregate := lines(emit), lines(emit), lines(emit)
	reducer.Reducer = func() mapreduce.Reducer { return mapreduce.ReducerFunc(reduce) }
	partitioner.Partitioner = func([]byte, int) int { return 7 }
	aggregate.Aggregate = mapreduce.Sum
	for name, c := range map[string]struct {
		job  *mapreduce.Job
		want string
	}{
		"mapper":      {lines(permanent), "m_0 failed and is not tried again: part: line without a key"},
		"panic":       {lines(func(_, _ []byte, _ *mapreduce.Emitter) error { panic(mapreduce.Permanent(wrong)) }), "not tried again: line without a key"},
		"reducer":     {reducer, "failed and is not tried again: line without a key"},
		"partitioner": {partitioner, "not tried again: the job's Partitioner returned 7"},
		"aggregate":   {aggregate, "not tried again: a job with Aggregate must emit integers"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, numbers)
			o := f.options()
			o.Reduces = 2
			if r := f.fails(context.Background(), c.job, o, c.want); r.Failures != 1 {
				t.Errorf("%d attempts failed, want 1", r.Failures)
			}
		})
	}
}

// shrinker is a mapper that cuts its input off before it reads the block.
type shrinker struct {
	file string
	lfs  int
}

func (s *shrinker) Map(_, _ []byte, _ *mapreduce.Emitter) error { return errors.New("not a block") }

func (s *shrinker) MapBlock(block []byte, _ *mapreduce.Emitter) error {
	err := os.Truncate(s.file, 1)
	s.lfs += bytes.Count(block, []byte("\n")) // in mapped memory, this is a fault
	return err
}

// TestInputShrinks: a file that becomes shorter while it is mapped fails the job, and not the process.
func TestInputShrinks(t *testing.T) {
	f := newFixture(t, strings.Repeat(numbers, 1<<17))
	job := &mapreduce.Job{Name: "shrink", Mapper: func() mapreduce.Mapper { return &shrinker{file: f.in} }, Reducer: mapreduce.SumText}
	o := f.options()
	o.SplitSize = 1 << 30
	f.fails(context.Background(), job, o, "it shrank from 2490368 to 1 bytes since the job was planned")
}
