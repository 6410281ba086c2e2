// Package harness has the common parts of the benchmark commands: start-up and
// interrupts, building the slotwise binary and its inputs, rounds in which
// contestants take turns, medians and ranges, and reports.
//
// Every benchmark follows one method. Contestants run in turns, round by round,
// so that a slow minute of the machine slows every contestant. The median over the
// rounds counts. Two contestants are compared by the ratio within each round. Ratios hold on any machine; seconds do not.
package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Main runs a benchmark command until it returns or the user interrupts it. It
// prints an error under the command's name and exits with status 1.
func Main(name string, run func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// module is the path of the product's module.
const module = "github.com/slotwise/slotwise"

// Build compiles this tree's slotwise command into the file binary and creates
// the file's directory if necessary.
func Build(ctx context.Context, binary string) error {
	return BuildPackage(ctx, "cmd/slotwise", binary)
}

// BuildPackage is Build for another command of the product or the lab, by the path of its
// package below the repository.
func BuildPackage(ctx context.Context, pkg, binary string) error {
	if err := os.MkdirAll(filepath.Dir(binary), 0o777); err != nil {
		return err
	}
	binary, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	// The product is built in its own module: the lab's may select newer libraries.
	dir := "."
	if !strings.HasPrefix(pkg, "lab/") {
		if dir, err = root(ctx); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-C", dir, "-ldflags=-s -w", "-o", binary, module+"/"+pkg)
	// As the packages are built. Linked with the C library the program starts 2 ms later.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// root returns the directory of the product's module, as the lab's go.mod names it.
func root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w (run it in the lab's module)", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Generate is GenerateSeed with seed 1.
func Generate(ctx context.Context, binary, kind string, size int64, dir string) (created bool, err error) {
	return GenerateSeed(ctx, binary, kind, size, 1, dir)
}

// GenerateSeed writes a data set of a kind and size in bytes to dir with "slotwise
// generate" from a seed. It reports false, and does nothing, if dir exists.
func GenerateSeed(ctx context.Context, binary, kind string, size int64, seed uint64, dir string) (created bool, err error) {
	if _, err := os.Stat(dir); err == nil {
		return false, nil
	}
	fmt.Fprintf(os.Stderr, "generating %s\n", dir)
	cmd := exec.CommandContext(ctx, binary, "generate", kind, "--size", strconv.FormatInt(size, 10), "--seed", strconv.FormatUint(seed, 10), "--output", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return false, fmt.Errorf("slotwise generate %s: %w\n%s", dir, err, out)
	}
	return true, nil
}

// Rounds calls measure for each contestant in turn, rounds times over. It stops
// at the first error and, with the context's cause, as soon as ctx is cancelled,
// even if measure has returned no error.
func Rounds(ctx context.Context, rounds, contestants int, measure func(round, contestant int) error) error {
	for round := range rounds {
		for i := range contestants {
			err := measure(round, i)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// InGroup puts a command that has not been started into a process group of its
// own. An interrupt typed at the terminal then does not reach it; the benchmark
// decides when it ends. If the command was made with a context, cancelling the
// context kills the whole group, so that no grandchild outlives it.
func InGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if cmd.Cancel != nil {
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	}
}

// Sleep waits for d. It reports false if ctx was cancelled first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Load returns the machine's load averages over the last 1, 5 and 15 minutes,
// or "unknown" on systems without /proc.
func Load() string {
	data, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(data))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], " ")
}

// ProcessorTime returns the processor time that this process has used so far, 0 if it is
// unknown. On a busy machine it says more about a cost than the time that has passed.
func ProcessorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// CPUBusy measures for one second which share of all processors' time is in
// use, from 0 to 1. It returns 0 on systems without /proc.
func CPUBusy() float64 {
	idle1, all1 := cpuTimes()
	time.Sleep(time.Second)
	idle2, all2 := cpuTimes()
	if all2 <= all1 {
		return 0
	}
	return 1 - (idle2-idle1)/(all2-all1)
}

// cpuTimes returns the idle time and the total time of all processors since the
// machine was started, in clock ticks.
func cpuTimes() (idle, all float64) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(data), "\n")
	for i, f := range strings.Fields(line)[1:] {
		var ticks float64
		fmt.Sscan(f, &ticks)
		all += ticks
		if i == 3 || i == 4 { // idle, and idle while a disk is busy
			idle += ticks
		}
	}
	return idle, all
}
