package proctree

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Adopt makes this process a subreaper: the parent of its descendants' orphans.
func Adopt() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

var pageSize = int64(os.Getpagesize())

// Read takes a snapshot.
func Read() (Table, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	t := Table{}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		// A process that has ended since the directory was read is left out.
		if p, ok := Stat(pid); ok {
			t[pid] = p
		}
	}
	return t, nil
}

// Trees takes a snapshot of some processes and their descendants. It reads a few files for each, where Read
// reads one for each process of the machine. A process whose sibling ends meanwhile may be missing, so
// Trees is for measurements that are repeated.
func Trees(pids []int) (Table, error) {
	t := Table{}
	for todo := slices.Clone(pids); len(todo) > 0; todo = todo[1:] {
		pid := todo[0]
		// The trees may overlap, or a pid be used again while they are read.
		if _, known := t[pid]; known {
			continue
		}
		p, ok := Stat(pid)
		if !ok {
			continue
		}
		t[pid] = p
		children, err := childrenOf(pid)
		if err != nil {
			return Read() // a kernel without CONFIG_PROC_CHILDREN
		}
		todo = append(todo, children...)
	}
	return t, nil
}

// childrenOf returns the children of all threads of a process, none if it has ended.
func childrenOf(pid int) (children []int, err error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	f, err := os.Open(dir)
	if err != nil {
		return nil, nil // it has ended
	}
	// Each thread has a list of the children that it started itself, and any thread may start some.
	threads, _ := f.Readdirnames(-1)
	f.Close()
	for _, thread := range threads {
		b, err := os.ReadFile(dir + thread + "/children")
		// Without the file the kernel cannot say it. The thread may also have ended.
		if errors.Is(err, os.ErrNotExist) {
			if _, gone := os.Lstat(dir + thread); gone == nil {
				return nil, err
			}
		}
		for word := range strings.FieldsSeq(string(b)) {
			if child, err := strconv.Atoi(word); err == nil {
				children = append(children, child)
			}
		}
	}
	return children, nil
}

// tick is the unit of processor time in /proc: USER_HZ is 100 everywhere.
const tick = 10 * time.Millisecond

// cpuClock is the kind of a process's clock in the kernel's numbers of clocks.
const cpuClock = 2

// CPU returns the processor time of one process, without its children, 0 if it does not exist.
// It takes a tenth of the time of Stat.
func CPU(pid int) time.Duration {
	var t unix.Timespec
	// As clock_getcpuclockid of the C library does it.
	// The clock's number is the complement of the pid, shifted, and the kind of the clock.
	if err := unix.ClockGettime(int32(^pid<<3|cpuClock), &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// statSize is enough for the fields of /proc/PID/stat that parseStat needs: a name of 64 bytes and 23 numbers.
const statSize = 1 << 10

// Stat returns one process, and false if it does not exist. It makes the system calls itself: package os would make
// twice as many for each of the machine's processes.
func Stat(pid int) (Process, bool) {
	fd, err := again(func() (int, error) {
		return unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return Process{}, false
	}
	defer unix.Close(fd)
	var text [statSize]byte
	n, err := again(func() (int, error) { return unix.Read(fd, text[:]) })
	if err != nil {
		return Process{}, false
	}
	return parseStat(pid, text[:n])
}

// again repeats a system call that a signal has interrupted.
func again(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// parseStat parses the content of /proc/PID/stat.
func parseStat(pid int, text []byte) (Process, bool) {
	// The name in parentheses may contain any byte, so the last ')' ends it.
	i := bytes.LastIndexByte(text, ')')
	if i < 0 {
		return Process{}, false
	}
	const state, ppid, utime, stime, start, rss = 0, 1, 11, 12, 19, 21
	p := Process{PID: pid}
	n := 0
	for field := range bytes.FieldsSeq(text[i+1:]) {
		value := int64(0) // of a field that is not negative, as all of these are
		for _, digit := range field {
			value = 10*value + int64(digit-'0')
		}
		switch n {
		case state:
			p.Ended = string(field) == "Z" || string(field) == "X"
		case ppid:
			p.Parent = int(value)
		// Without the times of waited-for children, which are in the next two fields: Use adds the
		// children's own.
		case utime, stime:
			p.CPU += time.Duration(value) * tick
		case start:
			p.Started = uint64(value)
		case rss:
			p.Resident = value * pageSize
			return p, true
		}
		n++
	}
	return Process{}, false
}

// Doing returns what the kernel says that a process does: its state, such as "S (sleeping)", and the function of
// the kernel in which it waits, if that is known. It returns "gone" if there is no such process.
func Doing(pid int) string {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return "gone"
	}
	state := "unknown"
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "State:"); ok {
			state = strings.TrimSpace(rest)
		}
	}
	// Without the right to trace the process the kernel says 0.
	if in, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/wchan"); err == nil && len(in) > 1 {
		state += " " + string(in)
	}
	return state
}

// maxCommand bounds the bytes of a command line that Command returns.
const maxCommand = 200

// Command returns the beginning of the command line of a process, with spaces between the words; "" if there is none.
func Command(pid int) string {
	file, err := os.Open("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return ""
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxCommand))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " ")), "\uFFFD")
}

// KillChildren kills all descendants of this process and reports whether none is left. It
// gives up after a second, because a process can be stuck in the kernel. No other goroutine
// may wait for these processes.
func KillChildren() (none bool) {
	kill(nil)
	return childless()
}

// KillStrays kills the children that this process has adopted, with their descendants:
// all children for which mine returns false. It returns the number of killed processes.
func KillStrays(mine func(pid int) bool) int {
	return kill(func(p Process) bool { return !mine(p.PID) })
}

// kill kills the children of this process for which wanted returns true (all if it is
// nil), with their descendants, and reaps the orphans among them. It repeats this,
// because each round may create orphans. It kills parents first, so that they cannot
// react to the end of their children.
func kill(wanted func(child Process) bool) (killed int) {
	if childless() {
		return 0
	}
	self := os.Getpid()
	// A program that forks without a pause could keep this busy for ever.
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		t, err := Read()
		if err != nil {
			return killed
		}
		found := 0
		for _, p := range t {
			// Only children: the descendants of one that is wanted are killed with it, and orphans become
			// children, which the next round sees.
			if p.Parent != self || wanted != nil && !wanted(p) {
				continue
			}
			// childless would count the process until it is reaped.
			if p.Ended {
				reap(p.PID)
				continue
			}
			found++
			for _, q := range append([]Process{p}, t.Below(p.PID)...) {
				// A pid may belong to another process by now. End compares the time of its start first.
				if End(q) {
					killed++
				}
			}
		}
		// With wanted other children may stay, so the kernel's answer about all children would never be
		// none.
		if found == 0 && (wanted != nil || childless()) {
			break // a table is not an atomic snapshot; the absence of children is
		}
	}
	return killed
}

// childless reports whether this process has no children. It is much faster than Read.
func childless() bool {
	// WNOWAIT leaves an ended child to the goroutine that calls wait.
	return errors.Is(unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil), unix.ECHILD)
}

// End kills a process unless another process has reused its pid.
func End(p Process) bool {
	now, ok := Stat(p.PID)
	return ok && !now.Ended && now.Started == p.Started && syscall.Kill(p.PID, syscall.SIGKILL) == nil
}

// reap waits for a child if it has ended.
func reap(pid int) {
	var status syscall.WaitStatus
	_, _ = again(func() (int, error) { return syscall.Wait4(pid, &status, syscall.WNOHANG, nil) })
}

// Marked returns the processes that were started with an environment variable, given as
// name=value.
func Marked(variable string) []Process {
	t, err := Read()
	if err != nil {
		return nil
	}
	var out []Process
	for pid, p := range t {
		f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/environ")
		// another user's process, or one that has ended
		if err != nil {
			continue
		}
		if hasVariable(f, variable) {
			out = append(out, p)
		}
		f.Close()
	}
	return out
}

// mostEnvironment is the number of bytes of an environment that are searched, more than the
// kernel passes to a new process.
const mostEnvironment = 8 << 20

// hasVariable reports whether an environment of strings that end in a zero byte contains one. A
// process can make any part of its memory its environment, so hasVariable reads it in pieces
// and to a limit.
func hasVariable(r io.Reader, variable string) bool {
	in := bufio.NewReader(io.LimitReader(r, mostEnvironment))
	whole := true // the piece begins a string
	for {
		piece, err := in.ReadSlice(0)
		// The last string may lack its zero byte.
		if whole && string(bytes.TrimSuffix(piece, []byte{0})) == variable {
			return true
		}
		// A full buffer ends in the middle of a string.
		if whole = err == nil; err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return false
		}
	}
}
