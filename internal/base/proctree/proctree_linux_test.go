package proctree

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary also serve as the subreaper of TestKillChildren.
func TestMain(m *testing.M) {
	if os.Getenv("PROCTREE_TEST") == "" {
		os.Exit(m.Run())
	}
	if err := Adopt(); err != nil {
		panic(err)
	}
	// One process in a new session, whose parent ends, and one in the same session.
	cmd := exec.Command("sh", "-c", "setsid sh -c 'sleep 1000 & echo $!; sleep 1000' & sleep 1000 & echo $!; read x")
	cmd.Stdout, cmd.Stdin = os.Stdout, os.Stdin
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	cmd.Process.Wait()
	KillChildren()
	os.Stdout.WriteString("done\n")
	os.Stdin.Read(make([]byte, 1)) // until the test has read the process table
	os.Exit(0)
}

// TestDoing describes a process that sleeps, and one that does not exist.
func TestDoing(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	state := ""
	// The process is the one that starts it for a moment.
	for deadline := time.Now().Add(4 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if state = Doing(cmd.Process.Pid); strings.HasPrefix(state, "S (sleeping)") && Command(cmd.Process.Pid) == "sleep 1000" {
			break
		}
	}
	if got := Command(cmd.Process.Pid); !strings.HasPrefix(state, "S (sleeping)") || got != "sleep 1000" {
		t.Errorf("%q does %q", got, state)
	}
	const none = 1 << 30
	if state, command := Doing(none), Command(none); state != "gone" || command != "" {
		t.Errorf("no process: %q %q", state, command)
	}
}

// TestKillChildren lets a process start others, some of which detach themselves, and
// verifies that KillChildren kills all these processes.
func TestKillChildren(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PROCTREE_TEST=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	lines := bufio.NewScanner(out)
	var pids []int
	for len(pids) < 2 && lines.Scan() {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatalf("got %q", lines.Text())
		}
		pids = append(pids, pid)
	}
	table, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	below := map[int]bool{}
	for _, p := range table.Below(cmd.Process.Pid) {
		below[p.PID] = true
	}
	for _, pid := range pids {
		if !below[pid] {
			t.Errorf("process %d is not below %d", pid, cmd.Process.Pid)
		}
	}
	if used, _ := table.Use(cmd.Process.Pid); used <= table[cmd.Process.Pid].Resident {
		t.Errorf("%d bytes in all, %d of the first", used, table[cmd.Process.Pid].Resident)
	}
	few, err := Trees([]int{cmd.Process.Pid, 1 << 30})
	for pid := range below { // none of them ends by itself, and more may have started meanwhile
		if few[pid].PID != pid {
			t.Errorf("descendant %d is missing in %v, %v", pid, few, err)
		}
	}
	if len(few.Below(cmd.Process.Pid)) != len(few)-1 {
		t.Errorf("not only descendants: %v", few)
	}
	in.Write([]byte("\n"))
	if !lines.Scan() || lines.Text() != "done" {
		t.Fatalf("got %q", lines.Text())
	}
	for _, pid := range pids {
		if p, alive := Stat(pid); alive && !p.Ended {
			t.Errorf("process %d is alive", pid)
		}
	}
}

// TestMarked finds a process by its environment and kills only that process.
func TestMarked(t *testing.T) {
	mark := "PROCTREE_MARK=" + strings.ReplaceAll(t.TempDir(), "/", "_")
	cmd := exec.Command("sleep", "1000")
	cmd.Env = append(os.Environ(), mark)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var found []Process
	for deadline := time.Now().Add(4 * time.Minute); len(found) == 0 && time.Now().Before(deadline); {
		found = Marked(mark) // the environment is visible shortly after the start
	}
	if len(found) != 1 || found[0].PID != cmd.Process.Pid {
		t.Fatalf("found %v, want %d", found, cmd.Process.Pid)
	}
	other := found[0]
	other.Started++
	if End(other) {
		t.Error("another process of that number was ended")
	}
	if !End(found[0]) {
		t.Error("not ended")
	}
	if cmd.Wait() == nil {
		t.Error("it ended by itself")
	}
	if End(found[0]) {
		t.Error("ended twice")
	}
}

// endless is an environment without an end. It counts the bytes that are read.
type endless struct{ read int64 }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	e.read += int64(len(b))
	return len(b), nil
}

// TestHasVariable searches environments that processes have made up: with strings longer than
// a piece, or without an end.
func TestHasVariable(t *testing.T) {
	const mark = "MARK=1"
	long := strings.Repeat("x", 10_000)
	for env, want := range map[string]bool{
		"":                                   false,
		mark + "\x00":                        true,
		mark:                                 true,
		"A=b\x00" + mark + "\x00C=d\x00":     true,
		long + "\x00" + mark + "\x00":        true,
		"\x00\x00" + mark + "\x00":           true,
		"X" + mark + "\x00":                  false,
		mark + "2\x00":                       false,
		long[:4096] + mark + "\x00":          false, // the mark begins a piece and no string
		long[:4096] + "\x00" + mark + "\x00": true,
	} {
		if got := hasVariable(strings.NewReader(env), mark); got != want {
			t.Errorf("%.20q of %d bytes: %v", env, len(env), got)
		}
	}
	e := &endless{}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	found := hasVariable(e, mark)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; found || e.read > mostEnvironment+1<<16 || used > 64<<10 {
		t.Errorf("found: %v; %d bytes were read into %d bytes of memory", found, e.read, used)
	}
}

// TestCPU compares the clock of this process with its row in /proc.
func TestCPU(t *testing.T) {
	for began := time.Now(); CPU(os.Getpid()) < 50*time.Millisecond; {
		if time.Since(began) > 4*time.Minute {
			t.Fatal("this process uses no processor time")
		}
	}
	before := CPU(os.Getpid())
	p, ok := Stat(os.Getpid())
	after := CPU(os.Getpid())
	// The row counts in hundredths of a second.
	if !ok || before > p.CPU+2*tick || after < p.CPU-2*tick {
		t.Errorf("the clock says %v and %v, /proc in between %v", before, after, p.CPU)
	}
	if n := CPU(1 << 22); n != 0 { // more than any pid
		t.Errorf("a process that does not exist has used %v", n)
	}
}

// BenchmarkTables compares a snapshot of all processes with one of this process.
func BenchmarkTables(b *testing.B) {
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			t, _ := Read()
			b.ReportMetric(float64(len(t)), "processes")
		}
	})
	b.Run("one", func(b *testing.B) {
		for b.Loop() {
			_, _ = Trees([]int{os.Getpid()})
		}
	})
}

// TestParseStat parses the line of a process whose name looks like fields, and lines that end too early.
func TestParseStat(t *testing.T) {
	line := "77 (a) Z 1 ) R 12 77 77 0 -1 4194304 95 0 0 0 250 50 9 9 20 0 3 0 18446744073 1000 25 18446744073709551615 1 1"
	want := Process{PID: 77, Parent: 12, Resident: 25 * pageSize, Started: 18446744073, CPU: 3 * time.Second}
	if p, ok := parseStat(77, []byte(line)); !ok || p != want {
		t.Errorf("got %+v, %v, want %+v", p, ok, want)
	}
	ended := strings.Replace(line, ") R", ") Z", 1)
	if p, ok := parseStat(77, []byte(ended)); !ok || !p.Ended {
		t.Errorf("a zombie: %+v, %v", p, ok)
	}
	for _, bad := range []string{"", "77 a R 12", line[:strings.Index(line, " 25 ")]} {
		if p, ok := parseStat(77, []byte(bad)); ok {
			t.Errorf("%q is parsed as %+v", bad, p)
		}
	}
}
