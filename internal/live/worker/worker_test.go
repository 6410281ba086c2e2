package worker_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/live/worker"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

const (
	succeeded = slotwisev1.AttemptState_ATTEMPT_STATE_SUCCEEDED
	failed    = slotwisev1.AttemptState_ATTEMPT_STATE_FAILED
	killed    = slotwisev1.AttemptState_ATTEMPT_STATE_KILLED
)

// gate returns a mapper command that blocks until open is called. runs waits until n
// attempts have started the command.
func gate(t *testing.T) (mapper string, runs func(n int), open func()) {
	dir := t.TempDir()
	runs = func(n int) {
		t.Helper()
		clustertest.Eventually(t, fmt.Sprintf("%d attempts run", n), func() bool {
			found, _ := filepath.Glob(filepath.Join(dir, "j*"))
			return len(found) >= n
		})
	}
	open = func() {
		if err := os.WriteFile(filepath.Join(dir, "open"), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return fmt.Sprintf("touch %s/$SLOTWISE_ATTEMPT; while [ ! -e %[1]s/open ]; do sleep 0.01; done; cat", dir), runs, open
}

func want(t *testing.T, r *slotwisev1.Report, state slotwisev1.AttemptState, text string) {
	t.Helper()
	if r.GetState() != state || !strings.Contains(r.GetError(), text) {
		t.Errorf("%s: %v %q, want %v %q", r.GetAttempt(), r.GetState(), r.GetError(), state, text)
	}
}

// wantLog checks that a failed attempt's report quotes a text of its log, and that the
// error, which more users may see, does not.
func wantLog(t *testing.T, r *slotwisev1.Report, text string) {
	t.Helper()
	if r.GetState() != failed || !strings.Contains(r.GetLogTail(), text) || strings.Contains(r.GetError(), text) {
		t.Errorf("%s: %v, error %q, log %q; want %q in the log alone", r.GetAttempt(), r.GetState(), r.GetError(), r.GetLogTail(), text)
	}
}

// output returns the path at which the worker stores a map's output.
func (w *testWorker) output(job, attempt string) string {
	return filepath.Join(w.dir, "outputs", job, attempt+".run")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestMapAndReduce runs a map and then a reduce that reads its output.
func TestMapAndReduce(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	w := m.worker("")
	m.launch("j1_m_0_0", m.job("j1", "cat", 1, "b\na\n"))
	r := m.ends("j1_m_0_0")
	want(t, r, succeeded, "")
	if r.GetOutputBytes() != 2 || r.GetCounters().GetInputRecords() != 2 || r.GetCounters().GetOutputRecords() != 2 {
		t.Errorf("report: %v", r)
	}
	m.do(func() {
		m.mu.where = append(m.mu.where, &slotwisev1.MapOutput{Attempt: "j1_m_0_0", Worker: w.Name(), Address: w.Address()})
	})
	m.launch("j1_r_0_0", nil)
	want(t, m.ends("j1_r_0_0"), succeeded, "")
	staged, _ := filepath.Glob(filepath.Join(m.dir, ".j1.out*", "data", "part-*"))
	if len(staged) != 1 {
		t.Fatalf("staged: %q", staged)
	}
	if b, _ := os.ReadFile(staged[0]); string(b) != "a\nb\n" {
		t.Errorf("output: %q", b)
	}
	m.order(&slotwisev1.Action{What: &slotwisev1.Action_DropJob{DropJob: "j1"}})
	m.until("the drop is acknowledged", func() bool { return m.mu.acked == 3 })
	if exists(w.output("j1", "j1_m_0_0")) {
		t.Error("the output of a job that has ended is left")
	}
}

// TestCommitDenied verifies that an attempt whose commit is denied fails and leaves
// no part file.
func TestCommitDenied(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	m.worker("")
	split := m.job("j1", "cat", 0, "a\n")
	m.do(func() { m.mu.grants["j1_m_0_0"] = false })
	m.launch("j1_m_0_0", split)
	want(t, m.ends("j1_m_0_0"), failed, "the test says no")
	if staged, _ := filepath.Glob(filepath.Join(m.dir, ".j1.out*", "data", "part-*")); len(staged) != 0 {
		t.Errorf("staged: %q", staged)
	}
}

// TestAskCommitFlood runs a program that repeats its request to commit without waiting for
// the answer. The master gets one request at a time.
func TestAskCommitFlood(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	m.worker("")
	var ask bytes.Buffer
	if _, err := protodelim.MarshalTo(&ask, &slotwisev1.FromAttempt{What: &slotwisev1.FromAttempt_AskCommit{AskCommit: true}}); err != nil {
		t.Fatal(err)
	}
	var octal strings.Builder
	for _, b := range bytes.Repeat(ask.Bytes(), 200) {
		fmt.Fprintf(&octal, "\\%03o", b)
	}
	path := filepath.Join(t.TempDir(), "x")
	asked := filepath.Join(t.TempDir(), "asked")
	script := "#!/bin/sh\nfor i in 1 2 3 4 5 6 7 8 9 10; do printf '" + octal.String() + "' >&4; done\n" +
		"while [ ! -e " + asked + " ]; do sleep 0.01; done\nsleep 0.1\nexit 3\n"
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	split := m.job("j1", "cat", 0, "a\n")
	m.files[hash(t, path)] = script
	m.do(func() { m.mu.jobs["j1"].Spec.Program.Executable = hash(t, path) })
	m.launch("j1_m_0_0", split)
	m.until("the master is asked", func() bool { return m.mu.mostAsked > 0 })
	if err := os.WriteFile(asked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, m.ends("j1_m_0_0"), failed, "exit status 3")
	m.do(func() {
		if m.mu.mostAsked != 1 {
			t.Errorf("%d requests at one time, want 1", m.mu.mostAsked)
		}
	})
}

// TestLostAnswers loses answers to heartbeats. The worker must carry out a repeated
// action once, and must repeat the report of an end until it is acknowledged.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	marks := t.TempDir()
	m.do(func() { m.mu.fail = 5 })
	m.worker("")
	m.launch("j1_m_0_0", m.job("j1", "echo x >>"+marks+"/$SLOTWISE_ATTEMPT; cat", 1, "a\n"))
	want(t, m.ends("j1_m_0_0"), succeeded, "")
	m.until("all failures have happened, and the worker has nothing left to report", func() bool {
		return m.mu.fail == 0 && len(m.mu.beat.GetReports()) == 0
	})
	if b, _ := os.ReadFile(filepath.Join(marks, "j1_m_0_0")); string(b) != "x\n" {
		t.Errorf("it ran %q", b)
	}
}

// TestMasterAway verifies that attempts finish while the master is down and that the
// worker reports their ends when it is back.
func TestMasterAway(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	w := m.worker("")
	mapper, runs, open := gate(t)
	split := m.job("j1", mapper, 1, "a\n")
	m.launch("j1_m_0_0", split)
	m.launch("j1_m_0_1", split)
	runs(2)
	m.stop()
	m.do(func() { m.mu.session = 100 }) // it has forgotten the session
	open()
	clustertest.Eventually(t, "the attempts end while the master is away", func() bool {
		return exists(w.output("j1", "j1_m_0_0")) && exists(w.output("j1", "j1_m_0_1"))
	})
	m.start()
	m.until("it registers again", func() bool { return len(m.mu.registers) >= 2 })
	m.do(func() {
		if r := m.mu.registers[1]; !slices.Equal(r.GetRunning(), []string{"j1_m_0_0", "j1_m_0_1"}) || len(r.GetOutputs()) != 0 {
			t.Errorf("registers with %v", r)
		}
	})
	want(t, m.ends("j1_m_0_0"), succeeded, "")
	want(t, m.ends("j1_m_0_1"), succeeded, "")
}

// TestRegisterAgain verifies that attempts survive a new session, except an attempt
// that the master kills in it.
func TestRegisterAgain(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	m.worker("")
	mapper, runs, open := gate(t)
	split := m.job("j1", mapper, 1, "a\n")
	m.launch("j1_m_0_0", split)
	m.launch("j1_m_0_1", split)
	runs(2)
	m.do(func() { m.mu.again = true })
	m.until("the worker registers again", func() bool { return len(m.mu.registers) > 1 })
	m.order(&slotwisev1.Action{What: &slotwisev1.Action_Kill{Kill: &slotwisev1.Kill{Attempt: "j1_m_0_1", Reason: "not needed"}}})
	want(t, m.ends("j1_m_0_1"), killed, "not needed")
	open()
	want(t, m.ends("j1_m_0_0"), succeeded, "")
}

// TestShortSessions verifies that a worker whose sessions end at once registers less
// and less often. Another worker with the same name causes that.
func TestShortSessions(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	m.worker("")
	registered := func() (n int) {
		m.do(func() { n = len(m.mu.registers) })
		return n
	}
	m.do(func() { m.mu.hostile, m.mu.again = true, true })
	start, first := time.Now(), registered()
	const more = 7
	clustertest.Eventually(t, "the worker continues to register", func() bool { return registered() >= first+more })
	// The pauses are at least 50 ms, 100 ms and so on up to a second.
	if took := time.Since(start); took < 2*time.Second {
		t.Errorf("%d registrations in %v", more, took)
	}
	// An order of an ended session is lost, so the test waits for the
	// next one.
	last := 0
	m.do(func() { m.mu.hostile, m.mu.again, last = false, true, len(m.mu.registers) })
	clustertest.Eventually(t, "a session that lasts", func() bool { return registered() > last })
	m.launch("j1_m_0_0", m.job("j1", "cat", 0, "a\n"))
	want(t, m.ends("j1_m_0_0"), succeeded, "")
}

// TestOtherMaster connects the worker to a master with another journal. Its jobs are
// different jobs even if they have the same ids.
func TestOtherMaster(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	w := m.worker("")
	mapper, runs, _ := gate(t)
	m.launch("j1_m_0_0", m.job("j1", "cat", 1, "a\n"))
	m.ends("j1_m_0_0")
	m.launch("j2_m_0_0", m.job("j2", mapper, 1, "a\n"))
	runs(1)
	m.do(func() { m.mu.id, m.mu.again = "m2", true })
	m.until("it registers twice more", func() bool { return len(m.mu.registers) >= 3 })
	m.do(func() {
		if r := m.mu.registers[1]; len(r.GetOutputs()) != 1 || len(r.GetRunning()) != 1 {
			t.Errorf("first registers with %v", r)
		}
		if r := m.mu.registers[2]; len(r.GetOutputs()) != 0 {
			t.Errorf("then registers with %v", r)
		}
	})
	if exists(w.output("j1", "j1_m_0_0")) {
		t.Error("the output of another master's job is left")
	}
}

// TestRestart restarts a worker in its directory. It must register under the same
// name with the undamaged map outputs of its former process.
func TestRestart(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	dir := t.TempDir()
	w := m.worker(dir)
	split := m.job("j1", "cat", 1, "abc\n")
	for i := range 2 {
		name := fmt.Sprintf("j1_m_0_%d", i)
		m.launch(name, split)
		m.ends(name)
	}
	if _, err := worker.Start(worker.Config{Master: "http://" + m.addr, Dir: dir}); err == nil || !strings.Contains(err.Error(), "another worker uses this directory") {
		t.Errorf("a second worker in the directory: %v", err)
	}
	w.stop()
	if err := os.Truncate(w.output("j1", "j1_m_0_1"), 20); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "outputs", "j9"), 0o700); err != nil {
		t.Fatal(err)
	}
	halfWritten := filepath.Join(dir, "master.new")
	if err := os.WriteFile(halfWritten, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	again := m.worker(dir)
	m.do(func() {
		r := m.mu.registers[1]
		if len(r.GetOutputs()) != 1 || r.GetOutputs()[0].GetAttempt() != "j1_m_0_0" || r.GetOutputs()[0].GetBytes() != 3 {
			t.Errorf("registers with %v", r)
		}
		if r.GetWorker() != w.Name() || r.GetIncarnation() == m.mu.registers[0].GetIncarnation() {
			t.Errorf("registers as %v", r)
		}
	})
	if exists(again.output("j1", "j1_m_0_1")) {
		t.Error("a damaged output is left")
	}
	if exists(filepath.Join(dir, "outputs", "j9")) {
		t.Error("an empty directory is left")
	}
	if exists(halfWritten) {
		t.Error("a file that was being replaced is left")
	}
	m.order(&slotwisev1.Action{What: &slotwisev1.Action_Kill{Kill: &slotwisev1.Kill{Attempt: "j1_m_0_0", Reason: "given up"}}})
	clustertest.Eventually(t, "nothing of the job is left", func() bool { return !exists(filepath.Join(dir, "outputs", "j1")) })
}

// TestForgottenJob plays a master that lost the end of its journal and gives a job's
// id to another job. The worker must drop the first job's outputs.
func TestForgottenJob(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	w := m.worker("")
	m.launch("j1_m_0_0", m.job("j1", "cat", 1, "a\n"))
	want(t, m.ends("j1_m_0_0"), succeeded, "")
	m.launch("j1_m_1_0", m.job("j1", "cat; echo b", 1, "a\n"))
	r := m.ends("j1_m_1_0")
	want(t, r, succeeded, "")
	if n := r.GetCounters().GetOutputRecords(); n != 2 {
		t.Errorf("%d records: the map ran for the forgotten job", n)
	}
	if exists(w.output("j1", "j1_m_0_0")) || !exists(w.output("j1", "j1_m_1_0")) {
		t.Error("the wrong output is held")
	}
}

// TestDropWaitingReduce drops a job while one of its reduces waits for map outputs. The
// goroutines that ask for locations and pass them on must end with the reduce.
func TestDropWaitingReduce(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	m.worker("")
	m.job("j1", "cat", 1, "a\n")
	runs := func(function string) bool {
		all := make([]byte, 1<<20)
		return strings.Contains(string(all[:runtime.Stack(all, true)]), function)
	}
	m.launch("j1_r_0_0", nil)
	clustertest.Eventually(t, "the reduce reads", func() bool { return runs(").sendMapOutputs(") && runs(").pollMapOutputs(") })
	m.order(&slotwisev1.Action{What: &slotwisev1.Action_DropJob{DropJob: "j1"}})
	clustertest.Eventually(t, "both goroutines end", func() bool { return !runs(").sendMapOutputs(") && !runs(").pollMapOutputs(") })
}

// TestKill kills an attempt that ignores signals. Its report must give the reason.
func TestKill(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	m.worker("")
	m.launch("j1_m_0_0", m.job("j1", "trap '' TERM INT; while :; do sleep 0.1; done", 1, "a\n"))
	m.until("it runs", func() bool { return m.mu.acked == 1 })
	m.order(&slotwisev1.Action{What: &slotwisev1.Action_Kill{Kill: &slotwisev1.Kill{Attempt: "j1_m_0_0", Reason: "for a test"}}})
	want(t, m.ends("j1_m_0_0"), killed, "for a test")
	m.order(&slotwisev1.Action{What: &slotwisev1.Action_Kill{Kill: &slotwisev1.Kill{Attempt: "../../x", Reason: "nonsense"}}})
	m.order(&slotwisev1.Action{What: &slotwisev1.Action_DropJob{DropJob: "../.."}})
	m.until("nonsense is passed over", func() bool { return m.mu.acked == 4 })
}

// TestShippedFiles verifies that a job's files are copied to the working directory
// under plain names only, and that a file with a wrong SHA-256 is refused.
func TestShippedFiles(t *testing.T) {
	m := newFakeMaster(t)
	m.worker("")
	tool := "#!/bin/sh\necho shipped\n"
	path := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(path, []byte(tool), 0o600); err != nil {
		t.Fatal(err)
	}
	good, bad, missing := hash(t, path), strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	m.files[good], m.files[bad] = tool, "something else"
	for i, c := range []struct {
		file  *slotwisev1.ShippedFile
		state slotwisev1.AttemptState
		text  string
	}{
		{&slotwisev1.ShippedFile{Name: "tool", Sha256: good, Executable: true}, succeeded, ""},
		{&slotwisev1.ShippedFile{Name: "tool", Sha256: good}, failed, "exit status 126"},
		{&slotwisev1.ShippedFile{Name: "../tool", Sha256: good, Executable: true}, failed, "must be a plain file name"},
		{&slotwisev1.ShippedFile{Name: "..", Sha256: good}, failed, "must be a plain file name"},
		{&slotwisev1.ShippedFile{Name: "tool", Sha256: bad}, failed, "has the SHA-256"},
		{&slotwisev1.ShippedFile{Name: "tool", Sha256: missing}, failed, "404"},
		{&slotwisev1.ShippedFile{Name: "tool", Sha256: "../" + good}, failed, "not a SHA-256"},
	} {
		id := fmt.Sprintf("j%d", i+1)
		m.launch(id+"_m_0_0", m.job(id, "./tool", 0, "a\n", c.file))
		want(t, m.ends(id+"_m_0_0"), c.state, c.text)
	}
}

// TestManyCounters runs maps that count under 450,000 names, as long ones as a line may
// hold, and fail with a long text. Their reports are bounded, and the numbers add up.
func TestManyCounters(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	m.worker("")
	const names = 450_000
	count := fmt.Sprintf(`awk 'BEGIN { for (i = 0; i < %d; i++) printf "reporter:counter:g,%%0300d,1\n", i }' >&2; cat`, names)
	m.launch("j1_m_0_0", m.job("j1", count, 0, "a\n"))
	r := m.ends("j1_m_0_0")
	want(t, r, succeeded, "")
	sum := int64(0)
	for _, n := range r.Counters.User {
		sum += n
	}
	if size := proto.Size(r); size > 100<<10 || len(r.Counters.User) > bounds.Counters+1 || sum < names {
		t.Errorf("a report of %d bytes with %d counters and the sum %d", size, len(r.Counters.User), sum)
	}
}

// TestRefusedForSize runs two maps under a master that takes no large message. The
// worker sends the small report; the attempt whose report is too large alone fails.
func TestRefusedForSize(t *testing.T) {
	t.Parallel()
	m := newFakeMasterWith(t, 8<<10)
	m.worker("")
	count := `awk 'BEGIN { for (i = 0; i < 200; i++) printf "reporter:counter:g,%0150d,1\n", i }' >&2; cat`
	small, large := m.job("j1", "cat", 0, "a\n"), m.job("j2", count, 0, "a\n")
	m.launch("j2_m_0_0", large)
	m.launch("j1_m_0_0", small)
	want(t, m.ends("j1_m_0_0"), succeeded, "")
	want(t, m.ends("j2_m_0_0"), failed, "refused the report of the attempt's end for its size")
}

// TestOddBytes runs tasks that print invalid UTF-8. The worker must still report
// their ends.
func TestOddBytes(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	m.worker("")
	split := m.job("j1", `printf 'reporter:counter:g,\377n,2\n' >&2; cat`, 0, "a\n")
	m.launch("j1_m_0_0", split)
	r := m.ends("j1_m_0_0")
	want(t, r, succeeded, "")
	if !slices.Contains(slices.Collect(maps.Values(r.Counters.User)), 2) {
		t.Errorf("counters %v", r.Counters.User)
	}
	split = m.job("j2", `printf 'the %s is \377\n' end >&2; exit 1`, 0, "a\n")
	m.launch("j2_m_0_0", split)
	wantLog(t, m.ends("j2_m_0_0"), "the end is \uFFFD")
	// The report of a process that exits without a final message quotes its log.
	path := filepath.Join(t.TempDir(), "x")
	script := "#!/bin/sh\nprintf 'odd \\377\\n' >&2\n"
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	split = m.job("j3", "cat", 0, "a\n")
	m.files[hash(t, path)] = script
	m.do(func() { m.mu.jobs["j3"].Spec.Program.Executable = hash(t, path) })
	m.launch("j3_m_0_0", split)
	wantLog(t, m.ends("j3_m_0_0"), "odd \uFFFD")
}

// TestNotAProgram runs an executable that does not speak the protocol. The attempt
// must fail and its report must quote the executable's output.
func TestNotAProgram(t *testing.T) {
	m := newFakeMaster(t)
	w := m.worker("")
	path := filepath.Join(t.TempDir(), "x")
	script := "#!/bin/sh\necho this is no program >&2\n"
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	split := m.job("j1", "cat", 1, "a\n")
	m.files[hash(t, path)] = script
	m.do(func() { m.mu.jobs["j1"].Spec.Program.Executable = hash(t, path) })
	m.launch("j1_m_0_0", split)
	wantLog(t, m.ends("j1_m_0_0"), "this is no program")
	if left, _ := os.ReadDir(filepath.Join(w.dir, "attempts")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	m.launch("j9_m_0_0", split)
	want(t, m.ends("j9_m_0_0"), failed, "no such job")
}

// TestLingeringProgram runs an executable that reports its success and does not exit, as a task
// and as a driver. The worker kills it after the grace period, and both have succeeded.
func TestLingeringProgram(t *testing.T) {
	m := newFakeMaster(t)
	m.worker("")
	var done bytes.Buffer
	if _, err := protodelim.MarshalTo(&done, &slotwisev1.FromAttempt{What: &slotwisev1.FromAttempt_Done{Done: &slotwisev1.Done{Ok: true}}}); err != nil {
		t.Fatal(err)
	}
	var octal strings.Builder
	for _, b := range done.Bytes() {
		fmt.Fprintf(&octal, "\\%03o", b)
	}
	path := filepath.Join(t.TempDir(), "x")
	script := "#!/bin/sh\nprintf '" + octal.String() + "' >&4\nexec sleep 1000\n"
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	split := m.job("j1", "cat", 0, "a\n")
	m.files[hash(t, path)] = script
	m.do(func() { m.mu.jobs["j1"].Spec.Program.Executable = hash(t, path) })
	m.launch("j1_m_0_0", split)
	m.drive(hash(t, path))
	want(t, m.ends("j1_m_0_0"), succeeded, "")
	if d := m.driverEnds(); d.State != succeeded {
		t.Errorf("the driver: %v", d)
	}
}

// TestEscapedProcess runs executables that end and leave a process behind, in a session of
// its own, which holds the pipes to the worker. Attempt and driver end nevertheless, and
// the worker reports the exit status, although no order stops them.
func TestEscapedProcess(t *testing.T) {
	m := newFakeMaster(t)
	m.worker("")
	var done bytes.Buffer
	if _, err := protodelim.MarshalTo(&done, &slotwisev1.FromAttempt{What: &slotwisev1.FromAttempt_Progress{Progress: &slotwisev1.Progress{Ticks: 1}}}); err != nil {
		t.Fatal(err)
	}
	var octal strings.Builder
	for _, b := range done.Bytes() {
		fmt.Fprintf(&octal, "\\%03o", b)
	}
	pids := filepath.Join(t.TempDir(), "pids")
	t.Cleanup(func() {
		b, _ := os.ReadFile(pids)
		for _, f := range strings.Fields(string(b)) {
			pid, _ := strconv.Atoi(f)
			if p, err := os.FindProcess(pid); err == nil && pid > 1 {
				p.Kill()
			}
		}
	})
	path := filepath.Join(t.TempDir(), "x")
	script := "#!/bin/sh\nprintf '" + octal.String() + "' >&4\nsetsid sh -c 'echo $$ >>" + pids + "; exec sleep 1000' &\nwhile [ ! -s " + pids + " ]; do sleep 0.01; done\nexit 3\n"
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	split := m.job("j1", "cat", 0, "a\n")
	m.files[hash(t, path)] = script
	m.do(func() { m.mu.jobs["j1"].Spec.Program.Executable = hash(t, path) })
	m.launch("j1_m_0_0", split)
	m.drive(hash(t, path))
	clustertest.Eventually(t, "both have left a process", func() bool {
		b, _ := os.ReadFile(pids)
		return bytes.Count(b, []byte("\n")) == 2
	})
	// Not sooner: a process that another test starts must not inherit the script while it is open for writing, or the
	// kernel refuses to execute it.
	t.Parallel()
	want(t, m.ends("j1_m_0_0"), failed, "exit status 3")
	if driver := m.driverEnds(); driver.State != failed || !strings.Contains(driver.Error, "exit status 3") {
		t.Errorf("the driver: %v", driver)
	}
}

// TestFullDisk lets a task fail while the disk has less room than MinFree. The report
// blames the node, and the heartbeat with the report refuses work, so the task is not
// tried here again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for minFree, cause := range map[int64]slotwisev1.FailureCause{
		-1:        slotwisev1.FailureCause_FAILURE_CAUSE_TASK,
		1<<63 - 1: slotwisev1.FailureCause_FAILURE_CAUSE_NODE,
	} {
		m := newFakeMaster(t)
		m.worker("", func(c *worker.Config) { c.MinFree = minFree })
		m.launch("j1_m_0_0", m.job("j1", "exit 3", 1, "a\n"))
		r := m.ends("j1_m_0_0")
		want(t, r, failed, "")
		if r.Cause != cause {
			t.Errorf("with %d bytes required the cause is %v, want %v", minFree, r.Cause, cause)
		}
		m.do(func() {
			if full := minFree > 0; m.mu.beat.GetDraining() != full {
				t.Errorf("with %d bytes required the heartbeat refuses work: %v", minFree, !full)
			}
		})
	}
}

// TestDirectoryGone moves the worker's directory away. The worker refuses work, and
// takes it again when the directory is back.
func TestDirectoryGone(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	w := m.worker(filepath.Join(t.TempDir(), "w"))
	refuses := func(want bool) {
		t.Helper()
		m.until(fmt.Sprintf("the heartbeat refuses work: %v", want), func() bool { return m.mu.beat != nil && m.mu.beat.GetDraining() == want })
	}
	refuses(false)
	if err := os.Rename(w.dir, w.dir+"-moved"); err != nil {
		t.Fatal(err)
	}
	refuses(true)
	// An attempt that ends now cannot remove its directory.
	left := filepath.Join("attempts", "j9_m_0_0")
	if err := os.MkdirAll(filepath.Join(w.dir+"-moved", left, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	// A job that ends now cannot remove its map outputs.
	outputs := filepath.Join("outputs", "j9")
	if err := os.MkdirAll(filepath.Join(w.dir+"-moved", outputs), 0o700); err != nil {
		t.Fatal(err)
	}
	m.order(&slotwisev1.Action{What: &slotwisev1.Action_DropJob{DropJob: "j9"}})
	m.until("the order to drop the job is acknowledged", func() bool { return m.mu.beat.GetAcked() == int64(len(m.mu.actions)) })
	if err := os.Rename(w.dir+"-moved", w.dir); err != nil {
		t.Fatal(err)
	}
	refuses(false)
	m.until("the map outputs of a job that has ended are removed", func() bool {
		_, err := os.Stat(filepath.Join(w.dir, outputs))
		return os.IsNotExist(err)
	})
	m.until("the directory of an attempt that has ended is removed", func() bool {
		_, err := os.Stat(filepath.Join(w.dir, left))
		return os.IsNotExist(err)
	})
}

// TestReadyMetric: the gauge is 1 for a worker that has registered and takes work.
func TestReadyMetric(t *testing.T) {
	w := newFakeMaster(t).worker("")
	eventually := time.Now().Add(4 * time.Minute)
	for body := ""; !strings.Contains(body, "\nslotwise_worker_ready 1\n"); time.Sleep(10 * time.Millisecond) {
		resp, err := http.Get("http://" + w.Address() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if body = string(b); err != nil || time.Now().After(eventually) {
			t.Fatalf("never ready: %v\n%s", err, body)
		}
	}
}
