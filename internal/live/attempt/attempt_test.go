package attempt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/engine/merge"
	"github.com/slotwise/slotwise/internal/data/engine/runfile"
	"github.com/slotwise/slotwise/internal/data/shuffle/netshuffle"
	"github.com/slotwise/slotwise/internal/data/storage"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// TestMain makes the test binary the executable of attempts.
func TestMain(m *testing.M) {
	if os.Getenv(Env) == "1" {
		schemes, err := (&storage.Schemes{}).With("down", storage.Opener(func(rest string) (storage.FS, string, error) {
			return storage.Local{}, "", storage.Unavailable(errors.New("the storage does not answer"))
		}))
		if err != nil {
			panic(err)
		}
		os.Exit(Main(schemes, build))
	}
	os.Exit(m.Run())
}

// build makes the programs of the tests. The app's name chooses the mapper.
func build(p *slotwisev1.Program) (*engine.Program, error) {
	mappers := map[string]func(*testMapper, []byte) error{
		"lines": func(m *testMapper, line []byte) error {
			m.task.Counters.Add("lines", 1)
			m.out.Emit(line, nil)
			return nil
		},
		"wait": func(m *testMapper, _ []byte) error {
			<-m.task.Ctx.Done()
			return context.Cause(m.task.Ctx)
		},
		// soil fails unless its process is as the first attempt found it, and then changes it.
		"soil": func(m *testMapper, line []byte) error {
			wd, err := os.Getwd()
			umask := syscall.Umask(0o111)
			if err != nil || os.Getenv("SOILED") != "" || os.Getenv("PATH") == "" || umask == 0o111 || wd == "/" {
				return fmt.Errorf("soiled: %q, %q, umask %o, %s, %v", os.Getenv("SOILED"), os.Getenv("PATH"), umask, wd, err)
			}
			if err := exec.Command("setsid", "sleep", "1000").Start(); err != nil {
				return err
			}
			m.task.Counters.Add("lines", 1)
			return errors.Join(os.Setenv("SOILED", "1"), os.Unsetenv("PATH"), os.Chdir(os.TempDir()))
		},
		"panic":  func(*testMapper, []byte) error { panic("boom \xff") },
		"goexit": func(*testMapper, []byte) error { runtime.Goexit(); return nil },
		// orphan starts a process that detaches itself, and writes its id.
		"orphan": func(m *testMapper, line []byte) error {
			c := exec.Command("sleep", "1000")
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := c.Start(); err != nil {
				return err
			}
			if err := os.WriteFile(string(line), []byte(strconv.Itoa(c.Process.Pid)), 0o666); err != nil {
				return err
			}
			<-m.task.Ctx.Done()
			return nil
		},
	}
	f := mappers[p.GetApp()]
	if f == nil {
		return nil, errors.New("no app " + p.GetApp())
	}
	out := &engine.Program{Sources: []engine.Source{{NewMapper: func(t *engine.Task, s engine.Sink) (engine.Mapper, error) {
		return &testMapper{t, s, f}, nil
	}}}}
	out.NoOutput = p.GetStep() == "silent"
	if p.GetStep() != "map-only" {
		out.NewReducer = func(_ *engine.Task, s engine.Sink) (engine.Reducer, error) { return keyWriter{s}, nil }
	}
	return out, nil
}

type testMapper struct {
	task *engine.Task
	out  engine.Sink
	f    func(*testMapper, []byte) error
}

func (m *testMapper) Map(_, line []byte) error { return m.f(m, line) }
func (m *testMapper) Close() error             { return nil }

// keyWriter emits each key once.
type keyWriter struct{ out engine.Sink }

func (w keyWriter) Reduce(key []byte, _ iter.Seq[[]byte]) error { w.out.Emit(key, nil); return nil }
func (w keyWriter) Close() error                                { return nil }

// fakeWorker is the worker's side of one attempt process.
type fakeWorker struct {
	t       *testing.T
	cmd     *exec.Cmd
	log     strings.Builder
	orders  *os.File
	reports *bufio.Reader
}

// startAttempt starts an attempt process.
func startAttempt(t *testing.T) *fakeWorker {
	t.Helper()
	ordersIn, orders, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reports, reportsOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w := &fakeWorker{t: t, cmd: exec.Command(os.Args[0]), orders: orders, reports: bufio.NewReader(reports)}
	w.cmd.Env = append(os.Environ(), Env+"=1")
	w.cmd.ExtraFiles = []*os.File{ordersIn, reportsOut}
	w.cmd.Stdout, w.cmd.Stderr = &w.log, &w.log
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the process kills its group
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ordersIn.Close()
	reportsOut.Close()
	t.Cleanup(func() {
		orders.Close()
		w.cmd.Process.Kill()
		w.cmd.Wait()
		reports.Close()
		if t.Failed() {
			t.Logf("log of the attempt: %s", &w.log)
		}
	})
	return w
}

func (w *fakeWorker) send(m *slotwisev1.ToAttempt) {
	w.t.Helper()
	if _, err := protodelim.MarshalTo(w.orders, m); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fakeWorker) order(o *slotwisev1.Order) {
	w.t.Helper()
	w.send(&slotwisev1.ToAttempt{What: &slotwisev1.ToAttempt_Order{Order: o}})
}

// next returns the next message that is not progress.
func (w *fakeWorker) next() *slotwisev1.FromAttempt {
	w.t.Helper()
	for {
		m := &slotwisev1.FromAttempt{}
		if err := protodelim.UnmarshalFrom(w.reports, m); err != nil {
			w.t.Fatalf("no further message: %v", err)
		}
		if m.GetProgress() == nil {
			return m
		}
	}
}

// done waits for the last message and for the end of the process.
func (w *fakeWorker) done() *slotwisev1.Done {
	w.t.Helper()
	m := w.next()
	if m.GetDone() == nil {
		w.t.Fatalf("got %v, want the end", m)
	}
	if err := w.cmd.Wait(); err != nil {
		w.t.Errorf("the process ended with %v", err)
	}
	return m.GetDone()
}

// mapOrder returns the order for a map over lines, in a new directory.
func mapOrder(t *testing.T, app, lines string) *slotwisev1.Order {
	t.Helper()
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	if err := os.WriteFile(in, []byte(lines), 0o666); err != nil {
		t.Fatal(err)
	}
	size := int64(len(lines))
	return &slotwisev1.Order{
		Attempt: "j1_m_0_0", Dir: dir, MapBuffer: 8 << 20, MergeBuffer: 8 << 20, FetchBuffer: 8 << 20, TickMs: 10,
		Job: &slotwisev1.JobForWorkerResponse{Maps: 1, Spec: &slotwisev1.JobSpec{
			Name: "test", Reduces: 2, Program: &slotwisev1.Program{App: app}, Output: filepath.Join(dir, "out"),
		}},
		Split: &slotwisev1.Split{Bytes: size, Pieces: []*slotwisev1.Piece{{Uri: in, Length: size, FileSize: size}}},
	}
}

// A map stores its output as a run file and reports its counters.
func TestMap(t *testing.T) {
	o := mapOrder(t, "lines", "b\na\nc\na\n")
	w := startAttempt(t)
	w.order(o)
	d := w.done()
	c := d.GetCounters()
	if !d.Ok || d.Output != OutputName || d.OutputBytes != 4 || c.InputRecords != 4 || c.OutputRecords != 4 || c.BytesRead != 8 || c.User["lines"] != 4 {
		t.Fatalf("outcome %v", d)
	}
	f, err := os.Open(filepath.Join(o.Dir, OutputName))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	run, err := runfile.Open(f, info.Size(), "test")
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for part := range 2 {
		s, err := run.Partition(part)
		if err != nil {
			t.Fatal(err)
		}
		for s.Next() {
			keys = append(keys, string(s.Key()))
		}
		if err := errors.Join(s.Err(), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if len(keys) != 4 {
		t.Errorf("the run file has the keys %q", keys)
	}
}

// An attempt that writes output asks to commit once, when all else has
// succeeded; its part file is in the job's output only if that was granted.
func TestCommit(t *testing.T) {
	for name, answer := range map[string]*slotwisev1.AskCommitResponse{
		"granted": {Granted: true}, "denied": {}, "denied for a reason": {Reason: "the job was killed"},
	} {
		t.Run(name, func(t *testing.T) {
			o := mapOrder(t, "lines", "x\ny\n")
			out := filepath.Join(t.TempDir(), "out")
			o.Job.Spec.Reduces, o.Job.Spec.Output, o.Job.Staging = 0, out, storage.NewToken()
			o.Job.Spec.Program.Step = "map-only"
			staging, err := storage.Local{}.StageShared(t.Context(), out, o.Job.Staging, storage.ReplaceNothing)
			if err != nil {
				t.Fatal(err)
			}
			w := startAttempt(t)
			w.order(o)
			if m := w.next(); !m.GetAskCommit() {
				t.Fatalf("got %v, want a request to commit", m)
			}
			w.send(&slotwisev1.ToAttempt{What: &slotwisev1.ToAttempt_Commit{Commit: answer}})
			d := w.done()
			if d.Ok != answer.Granted || d.Output != "" {
				t.Errorf("outcome %v", d)
			}
			if want := map[bool]string{true: "another attempt commits", false: answer.Reason}[answer.Reason == ""]; !d.Ok && !strings.Contains(d.Error, want) {
				t.Errorf("error %q, want %q", d.Error, want)
			}
			if err := staging.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(out, "part-m-00000"))
			if answer.Granted && string(text) != "x\ny\n" || !answer.Granted && !os.IsNotExist(err) {
				t.Errorf("the output has %q, %v", text, err)
			}
		})
	}
}

// Errors in the order or in the job's code are the attempt's outcome, not the
// end of the process without a word.
func TestFailures(t *testing.T) {
	for want, change := range map[string]func(*slotwisev1.Order){
		"no app unknown":                              func(o *slotwisev1.Order) { o.Job.Spec.Program.App = "unknown" },
		`unknown codec "zip"`:                         func(o *slotwisev1.Order) { o.Job.Spec.ShuffleCodec = "zip" },
		"this program has no zstd compression":        func(o *slotwisev1.Order) { o.Job.Spec.ShuffleCodec = "zstd" },
		`unknown output compression "rar"`:            func(o *slotwisev1.Order) { o.Job.Spec.OutputCodec = "rar" },
		"j1_x":                                        func(o *slotwisev1.Order) { o.Attempt = "j1_x" },
		"belongs to source 3, but the job has 1":      func(o *slotwisev1.Order) { o.Split.Source = 3 },
		"this program has no storage scheme \"hdfs\"": func(o *slotwisev1.Order) { o.Split.Pieces[0].Uri = "hdfs://nn/x" },
		"panic: boom \uFFFD":                          func(o *slotwisev1.Order) { o.Job.Spec.Program.App = "panic" },
		"the job's code called runtime.Goexit":        func(o *slotwisev1.Order) { o.Job.Spec.Program.App = "goexit" },
		"writes records and names no output":          func(o *slotwisev1.Order) { o.Job.Spec.Output = "" },
	} {
		o := mapOrder(t, "lines", "x\n")
		change(o)
		w := startAttempt(t)
		w.order(o)
		if d := w.done(); d.Ok || !strings.Contains(d.Error, want) {
			t.Errorf("outcome %v, want the error %q", d, want)
		}
	}
}

// The worker learns what made an attempt fail.
func TestCauses(t *testing.T) {
	for want, change := range map[slotwisev1.FailureCause]func(*slotwisev1.Order){
		slotwisev1.FailureCause_FAILURE_CAUSE_TASK: func(o *slotwisev1.Order) { o.Split.Pieces[0].Uri += "-missing" },
		slotwisev1.FailureCause_FAILURE_CAUSE_STORAGE: func(o *slotwisev1.Order) {
			o.Split.Pieces[0].Uri = "down://x/y"
		},
		slotwisev1.FailureCause_FAILURE_CAUSE_PERMANENT: func(o *slotwisev1.Order) { o.Job.Spec.OutputCodec = "rot13" },
		slotwisev1.FailureCause_FAILURE_CAUSE_NODE: func(o *slotwisev1.Order) {
			if err := os.Symlink("/dev/full", filepath.Join(o.Dir, OutputName)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		o := mapOrder(t, "lines", "x\n")
		change(o)
		w := startAttempt(t)
		w.order(o)
		if d := w.done(); d.Ok || d.Cause != want {
			t.Errorf("outcome %v, want the cause %v", d, want)
		}
	}
}

// A job without an output directory runs only if it writes no records. For others the
// records would be dropped, and no retry could help.
func TestNoOutput(t *testing.T) {
	for _, step := range []string{"", "map-only", "silent"} {
		o := mapOrder(t, "lines", "x\n")
		o.Job.Spec.Output, o.Job.Spec.Program.Step = "", step
		if step == "map-only" {
			o.Job.Spec.Reduces = 0
		}
		w := startAttempt(t)
		w.order(o)
		if d := w.done(); d.Ok != (step == "silent") || !d.Ok && d.Cause != slotwisev1.FailureCause_FAILURE_CAUSE_PERMANENT {
			t.Errorf("step %q: %v", step, d)
		}
	}
}

// A process whose first message is not an order ends with a special exit status.
func TestNoOrder(t *testing.T) {
	for name, begin := range map[string]func(*fakeWorker){
		"another message": func(w *fakeWorker) { w.send(&slotwisev1.ToAttempt{What: &slotwisev1.ToAttempt_Stop{Stop: "x"}}) },
		"end of the pipe": func(w *fakeWorker) { w.orders.Close() },
	} {
		w := startAttempt(t)
		begin(w)
		var exit *exec.ExitError
		if err := w.cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(w.log.String(), "no order") {
			t.Errorf("%s: %v, log %s", name, err, &w.log)
		}
	}
}

// A running attempt sends progress at the interval ordered, and ends with the
// worker's reason when it is stopped.
func TestStop(t *testing.T) {
	w := startAttempt(t)
	w.order(mapOrder(t, "wait", "x\n"))
	for range 3 {
		m := &slotwisev1.FromAttempt{}
		if err := protodelim.UnmarshalFrom(w.reports, m); err != nil || m.GetProgress() == nil {
			t.Fatalf("got %v, %v, want progress", m, err)
		}
	}
	w.send(&slotwisev1.ToAttempt{What: &slotwisev1.ToAttempt_Stop{Stop: "the user wants it"}})
	if d := w.done(); d.Ok || d.Error != "stopped: the user wants it" {
		t.Errorf("outcome %v", d)
	}
}

// When the worker is gone the process dies, and so do processes that have
// detached themselves from it.
func TestWorkerGone(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux can adopt orphans")
	}
	pidFile := filepath.Join(t.TempDir(), "pid")
	w := startAttempt(t)
	w.order(mapOrder(t, "orphan", pidFile+"\n"))
	var pid int
	for pid == 0 {
		time.Sleep(10 * time.Millisecond)
		text, _ := os.ReadFile(pidFile)
		pid, _ = strconv.Atoi(string(text))
	}
	w.orders.Close()
	var exit *exec.ExitError
	if err := w.cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the process ended with %v, not killed", err)
	}
	for deadline := time.Now().Add(4 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if !running(pid) {
			return
		}
	}
	syscall.Kill(pid, syscall.SIGKILL)
	t.Error("a detached process outlived the worker")
}

// running reports whether a process runs. One that has ended and whose parent
// has not asked for its status does not.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// A map output that was fetched and then cannot be read is reported with the
// location that it was fetched from: without the report the map is not run again.
func TestReportUnreadable(t *testing.T) {
	var sent []*slotwisev1.FetchFailure
	in := &inputs{send: func(m *slotwisev1.FromAttempt) error {
		sent = append(sent, m.GetFetchFailure())
		return nil
	}}
	in.mu.locations = map[int]netshuffle.Location{1: {Map: 1, Attempt: "j1_m_1_0", Worker: "w2"}}
	in.reportUnreadable(errors.New("the reducer's own"))
	in.reportUnreadable(&merge.StreamError{Index: 0, Err: io.ErrUnexpectedEOF}) // from nowhere known
	in.reportUnreadable(fmt.Errorf("reducing: %w", &merge.StreamError{Index: 1, Err: errors.New("bad \xff")}))
	if len(sent) != 1 || sent[0].Map != "j1_m_1_0" || sent[0].Worker != "w2" || !sent[0].Corrupt || !strings.Contains(sent[0].Error, "bad \uFFFD") {
		t.Errorf("sent %v", sent)
	}
}

// TestKeep runs several attempts in one process. Each one answers with began and done, and
// finds the process as the first one did. What the worker sends between two attempts is
// for none.
func TestKeep(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells whether an attempt has left processes")
	}
	w := startAttempt(t)
	run := func(app string, change ...func(*slotwisev1.Order)) *slotwisev1.Done {
		t.Helper()
		o := mapOrder(t, app, "x\n")
		o.Keep, o.Work = true, t.TempDir()
		for _, f := range change {
			f(o)
		}
		w.order(o)
		if m := w.next(); !m.GetBegan() {
			t.Fatalf("got %v, want began", m)
		}
		m := w.next()
		if m.GetDone() == nil {
			t.Fatalf("got %v, want the end", m)
		}
		return m.GetDone()
	}
	for i := range 3 {
		d := run("soil")
		if !d.Ok || !d.Ready || d.Counters.User["lines"] != 1 {
			t.Fatalf("attempt %d: %v", i, d)
		}
		w.send(&slotwisev1.ToAttempt{What: &slotwisev1.ToAttempt_Stop{Stop: "too late"}})
		w.send(&slotwisev1.ToAttempt{What: &slotwisev1.ToAttempt_Commit{Commit: &slotwisev1.AskCommitResponse{}}})
		w.send(&slotwisev1.ToAttempt{What: &slotwisev1.ToAttempt_MapOutputs{MapOutputs: &slotwisev1.MapOutputsResponse{Reset_: true}}})
	}
	if d := run("soil", func(o *slotwisev1.Order) { o.Work = filepath.Join(o.Work, "missing") }); d.Ok || d.Ready {
		t.Errorf("without a working directory: %v", d)
	}
	if err := w.cmd.Wait(); err != nil {
		t.Errorf("the process ended with %v", err)
	}
}

// An attempt that fails ends its process, although the worker wanted to keep it.
func TestKeepFailed(t *testing.T) {
	w := startAttempt(t)
	o := mapOrder(t, "panic", "x\n")
	o.Keep = true
	w.order(o)
	if m := w.next(); !m.GetBegan() {
		t.Fatalf("got %v, want began", m)
	}
	if d := w.done(); d.Ok || d.Ready {
		t.Errorf("outcome %v", d)
	}
}
