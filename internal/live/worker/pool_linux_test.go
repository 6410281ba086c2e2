package worker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/live/worker"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// pidJob sets up a job whose attempts write the id of their process to a file, and then
// run a command. pid waits for the end of an attempt and returns the process's id.
func (m *fakeMaster) pidJob(id, command string, files ...*slotwisev1.ShippedFile) (run func(attempt string), pid func(attempt string) int) {
	dir := m.t.TempDir()
	split := m.job(id, fmt.Sprintf("echo $PPID >%s/$SLOTWISE_ATTEMPT; %s; cat", dir, command), 1, "a\n", files...)
	run = func(attempt string) { m.launch(attempt, split) }
	return run, func(attempt string) int {
		m.t.Helper()
		m.ends(attempt)
		b, err := os.ReadFile(filepath.Join(dir, attempt))
		n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil || n == 0 {
			m.t.Fatalf("the process of %s: %q, %v", attempt, b, err)
		}
		return n
	}
}

// ended reports whether a process has ended.
func ended(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }

// stopped reports whether all threads of a process are stopped.
func stopped(t *testing.T, pid int) bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, stat := range stats {
		b, err := os.ReadFile(stat)
		if _, state, found := strings.Cut(string(b), ") "); err == nil && (!found || state[0] != 'T') {
			return false
		}
	}
	return len(stats) > 0
}

// patientWorker gives idle processes minutes to begin an attempt: one that takes longer than ten times KillGrace, for
// example because the machine is busy, is killed.
func patientWorker(c *worker.Config) { c.KillGrace = time.Minute }

// TestReuse verifies that the attempts of a job share a process, and nothing else: each has
// its own log, working directory, files and processes.
func TestReuse(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	program := "fresh\n"
	sha := m.file(program)
	w := m.worker("", patientWorker)
	run, pid := m.pidJob("j1", "pwd >&2; cat f >&2; echo changed >f; setsid sleep 1000 >/dev/null 2>&1 & echo $! >&2; echo end of $SLOTWISE_ATTEMPT >&2",
		&slotwisev1.ShippedFile{Name: "f", Sha256: sha})
	first := 0
	for i := range 3 {
		attempt := fmt.Sprint("j1_m_0_", i)
		run(attempt)
		got := pid(attempt)
		want(t, m.ends(attempt), succeeded, "")
		if first == 0 {
			first = got
		}
		if got != first {
			t.Errorf("%s ran in process %d, the first attempt in %d", attempt, got, first)
		}
		b, err := os.ReadFile(filepath.Join(w.dir, "logs", attempt+".log"))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		if len(lines) != 4 || lines[0] != filepath.Join(w.dir, "attempts", attempt, "work") || lines[1]+"\n" != program || lines[3] != "end of "+attempt {
			t.Fatalf("log of %s: %q", attempt, lines)
		}
		if child, _ := strconv.Atoi(lines[2]); child == 0 || !ended(child) {
			t.Errorf("process %d of %s is left", child, attempt)
		}
		if r := m.ends(attempt); r.GetCounters().GetInputRecords() != 1 {
			t.Errorf("counters of %s: %v", attempt, r.GetCounters())
		}
	}
	run, pid = m.pidJob("j2", "true")
	m.do(func() { m.mu.jobs["j2"].Spec.User = "other" })
	run("j2_m_0_0")
	second := pid("j2_m_0_0")
	if second == first {
		t.Error("attempts of two users shared a process")
	}
	m.order(&slotwisev1.Action{What: &slotwisev1.Action_DropJob{DropJob: "j1"}})
	run, pid = m.pidJob("j3", "pwd >&2; test ! -e f")
	run("j3_m_0_0")
	if got := pid("j3_m_0_0"); got != first {
		t.Error("a job of the same user did not get the idle process")
	}
	want(t, m.ends("j3_m_0_0"), succeeded, "")
	b, err := os.ReadFile(filepath.Join(w.dir, "logs", "j3_m_0_0.log"))
	if err != nil || strings.TrimSpace(string(b)) != filepath.Join(w.dir, "attempts", "j3_m_0_0", "work") {
		t.Errorf("log of the second job %q, error %v", b, err)
	}
	run, pid = m.pidJob("j4", "cat f >&2", &slotwisev1.ShippedFile{Name: "f", Sha256: sha})
	run("j4_m_0_0")
	if got := pid("j4_m_0_0"); got != first {
		t.Error("a job with files did not get the idle process of one without")
	}
	want(t, m.ends("j4_m_0_0"), succeeded, "")
	if b, err := os.ReadFile(filepath.Join(w.dir, "logs", "j4_m_0_0.log")); err != nil || string(b) != program {
		t.Errorf("log of the job with files %q, error %v", b, err)
	}
	w.stop()
	if !ended(first) || !ended(second) {
		t.Error("an idle process has outlived its worker")
	}
}

// TestReuseUploaded verifies that a process of an uploaded program serves one job only, and ends
// with it.
func TestReuseUploaded(t *testing.T) {
	m := newFakeMaster(t)
	m.worker("", patientWorker, func(c *worker.Config) {
		c.Reuse = worker.ReuseAll
		// The jobs name another program than the worker's.
		c.Executable = filepath.Join(t.TempDir(), "own")
		if err := os.WriteFile(c.Executable, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	})
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	m.file(string(program))
	var jobs []map[int]bool // the processes of each
	for _, id := range []string{"j1", "j2"} {
		run, pid := m.pidJob(id, "true")
		pids := map[int]bool{}
		jobs = append(jobs, pids)
		for n := 0; len(pids) == n && n < 20; n++ { // until one is used again: an idle one ends after five seconds
			attempt := fmt.Sprint(id, "_m_0_", n)
			run(attempt)
			pids[pid(attempt)] = true
			m.ends(attempt)
		}
		if len(pids) == 20 {
			t.Errorf("each attempt of %s had a process of its own", id)
		}
	}
	for pid := range jobs[0] {
		if jobs[1][pid] {
			t.Error("attempts of two jobs shared the process of an uploaded program")
		}
	}
	m.order(&slotwisev1.Action{What: &slotwisev1.Action_DropJob{DropJob: "j1"}})
	for pid := range jobs[0] {
		clustertest.Eventually(t, "the process of a job that has ended ends", func() bool { return ended(pid) })
	}
}

// TestNoReuse verifies that no attempt gets the process of one that failed or was killed,
// and none at all if that is switched off.
func TestNoReuse(t *testing.T) {
	for name, c := range map[string]struct {
		first, reuse string
		state        slotwisev1.AttemptState
	}{
		"failed":       {"[ $SLOTWISE_ATTEMPT != j1_m_0_0 ] || exit 1", worker.ReuseOwn, failed},
		"killed":       {"[ $SLOTWISE_ATTEMPT != j1_m_0_0 ] || sleep 1000", worker.ReuseOwn, killed},
		"switched off": {"true", worker.ReuseOff, succeeded},
	} {
		t.Run(name, func(t *testing.T) {
			m := newFakeMaster(t)
			m.worker("", func(c2 *worker.Config) { c2.Reuse = c.reuse })
			run, pid := m.pidJob("j1", c.first)
			run("j1_m_0_0")
			if c.state == killed {
				m.until("it runs", func() bool { return m.mu.reports["j1_m_0_0"] != nil })
				m.order(&slotwisev1.Action{What: &slotwisev1.Action_Kill{Kill: &slotwisev1.Kill{Attempt: "j1_m_0_0", Reason: "not needed"}}})
			}
			want(t, m.ends("j1_m_0_0"), c.state, "")
			run("j1_m_0_1")
			want(t, m.ends("j1_m_0_1"), succeeded, "")
			if c.state != killed && pid("j1_m_0_0") == pid("j1_m_0_1") {
				t.Error("the second attempt got the process of the first")
			}
		})
	}
}

// TestIdleProcessFaults kills and stops an idle process. The next attempt must not notice.
func TestIdleProcessFaults(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	m.worker("", func(c *worker.Config) { c.KillGrace = 2 * time.Second }) // the stopped process is given up after ten times that
	run, pid := m.pidJob("j1", "true")
	for i, signal := range []syscall.Signal{0, syscall.SIGKILL, syscall.SIGSTOP, 0} {
		attempt := fmt.Sprint("j1_m_0_", i)
		run(attempt)
		want(t, m.ends(attempt), succeeded, "")
		if err := syscall.Kill(pid(attempt), signal); err != nil {
			t.Fatal(err)
		}
		if signal == syscall.SIGSTOP { // some threads stop later, and could still begin the next attempt
			clustertest.Eventually(t, "all threads have stopped", func() bool { return stopped(t, pid(attempt)) })
		}
	}
	pids := map[int]bool{}
	for i := range 4 {
		pids[pid(fmt.Sprint("j1_m_0_", i))] = true
	}
	if len(pids) != 3 {
		t.Errorf("the processes were %v, want three: two were killed or stopped", pids)
	}
}

// TestReusedProcessDies kills a process while it runs its second attempt, which then fails
// with the log of that attempt alone.
func TestReusedProcessDies(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	m.worker("", patientWorker)
	run, pid := m.pidJob("j1", "echo log of $SLOTWISE_ATTEMPT >&2; [ $SLOTWISE_ATTEMPT != j1_m_0_1 ] || kill -9 $PPID")
	run("j1_m_0_0")
	want(t, m.ends("j1_m_0_0"), succeeded, "")
	run("j1_m_0_1")
	r := m.ends("j1_m_0_1")
	want(t, r, failed, "signal: killed")
	if strings.Contains(r.GetLogTail(), "j1_m_0_0") {
		t.Errorf("the log of a later attempt has text of an earlier one: %q", r.GetLogTail())
	}
	run("j1_m_0_2")
	want(t, m.ends("j1_m_0_2"), succeeded, "")
	if pid("j1_m_0_0") != pid("j1_m_0_1") || pid("j1_m_0_1") == pid("j1_m_0_2") {
		t.Error("the second attempt must get the process of the first, the third must not")
	}
}

// TestMakeRoom starts a process while each slot has an idle one. The process that has been
// idle longest ends.
func TestMakeRoom(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	m.worker("", patientWorker, func(c *worker.Config) { c.MapSlots, c.ReduceSlots = 1, 1 })
	both := filepath.Join(t.TempDir(), "both")
	run, pid := m.pidJob("j1", "echo >>"+both+"; while [ $(wc -l <"+both+") -lt 2 ]; do sleep 0.01; done")
	run("j1_m_0_0")
	run("j1_m_1_0")
	idle := []int{pid("j1_m_0_0"), pid("j1_m_1_0")}
	run, pid = m.pidJob("j2", "true")
	m.do(func() { m.mu.jobs["j2"].Spec.User = "other" })
	run("j2_m_0_0")
	last := pid("j2_m_0_0")
	clustertest.Eventually(t, "one idle process ends", func() bool { return ended(idle[0]) != ended(idle[1]) })
	if ended(last) {
		t.Error("the process of the running job has ended")
	}
}

// TestLargeIdleProcessEnds runs an attempt that is over before its memory is measured. Its process, which is idle then
// and takes more than the limit, ends long before idle processes do.
func TestLargeIdleProcessEnds(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	m.worker("", func(c *worker.Config) { c.TaskMemory = 12 << 20 })
	run, pid := m.pidJob("j1", "true")
	slow := 0
	for i := range 100 {
		attempt := fmt.Sprint("j1_m_0_", i)
		if run(attempt); m.ends(attempt).GetState() != succeeded {
			continue // it was measured: the machine is slow
		}
		began := time.Now()
		clustertest.Eventually(t, "a large idle process ends", func() bool { return ended(pid(attempt)) })
		if took := time.Since(began); took <= 30*time.Second {
			return
		}
		slow++ // the machine, or the process ended as one that is idle for a minute
		if slow == 3 {
			t.Error("the processes have ended as ones that are idle for a minute")
			return
		}
	}
	t.Skip("on this machine no attempt is over before its memory is measured, twice a second")
}

// TestOtherMasterTakesIDs replaces the master while a process is idle and does not end at
// once. The new master uses the id of the process's attempt again, and the end of the process
// leaves the new attempt's directory alone.
func TestOtherMasterTakesIDs(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	m.worker("", func(c *worker.Config) { c.KillGrace = time.Second })
	run, pid := m.pidJob("j1", "true")
	run("j1_m_0_0")
	old := pid("j1_m_0_0")
	if err := syscall.Kill(old, syscall.SIGSTOP); err != nil { // so that it is killed after KillGrace
		t.Fatal(err)
	}
	// The attempt outlives the old process, and then uses its directory.
	run, pid = m.pidJob("j1", fmt.Sprintf("while kill -0 %d; do sleep 0.01; done; sleep 0.3; touch file && ls ../work/file >&2", old))
	m.do(func() { m.mu.id, m.mu.again = "m2", true })
	m.until("it registers twice more", func() bool { return len(m.mu.registers) >= 3 })
	m.do(func() { clear(m.mu.reports) })
	run("j1_m_0_0")
	want(t, m.ends("j1_m_0_0"), succeeded, "")
	if got := pid("j1_m_0_0"); got == old {
		t.Error("the attempt ran in the process of another master's job")
	}
}

// TestOtherMasterTakesDriver replaces the master while a driver runs that ends only when it is
// killed. The new master's driver has the same id. It runs in another directory, and the
// worker reports no end of the old driver.
func TestOtherMasterTakesDriver(t *testing.T) {
	t.Parallel()
	m := newFakeMaster(t)
	w := m.worker("", func(c *worker.Config) { c.KillGrace = time.Second })
	dir := t.TempDir()
	script := "#!/bin/sh\necho >>" + dir + "/started\nwhile ! [ -e " + dir + "/go ]; do sleep 0.01; done\nls " + w.dir + "/attempts/chain-1_1/work >" + dir + "/seen && exit 3\n"
	path := filepath.Join(dir, "x")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	m.files[hash(t, path)] = script
	started := func(n int) {
		t.Helper()
		clustertest.Eventually(t, fmt.Sprint(n, " drivers have started"), func() bool {
			b, _ := os.ReadFile(filepath.Join(dir, "started"))
			return len(b) >= n
		})
	}
	drive := func() {
		m.order(&slotwisev1.Action{What: &slotwisev1.Action_Drive{Drive: &slotwisev1.Drive{
			Driver: &slotwisev1.DriverRef{Chain: "chain-1", Try: 1},
			Spec:   &slotwisev1.ChainSpec{Job: &slotwisev1.JobSpec{Program: &slotwisev1.Program{Executable: hash(t, path)}}},
		}}})
	}
	drive()
	started(1)
	m.do(func() { m.mu.id, m.mu.again = "m2", true })
	m.until("it registers twice more", func() bool { return len(m.mu.registers) >= 3 })
	drive()
	started(2)
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var driver *slotwisev1.DriverReport
	m.until("the driver ends", func() bool {
		driver = nil
		for _, d := range m.mu.beat.GetDrivers() {
			driver = d
		}
		return driver != nil && driver.State > slotwisev1.AttemptState_ATTEMPT_STATE_RUNNING
	})
	if driver.State != failed || !strings.Contains(driver.Error, "exit status 3") || !exists(filepath.Join(dir, "seen")) {
		t.Errorf("the driver: %v", driver)
	}
}
