package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/lab/harness"
)

// recordings returns the directory of the recorded runs. It skips the test if there is
// none, which is a failure in continuous integration.
func recordings(t *testing.T) string {
	dir := os.Getenv("SLOTWISE_HADOOP121")
	if _, err := os.Stat(dir); dir == "" || err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("SLOTWISE_HADOOP121 names no directory of recorded runs")
		}
		t.Skip("SLOTWISE_HADOOP121 names no directory of recorded runs")
	}
	return dir
}

// The simulator keeps its goals on the runs that it was not calibrated on: with the
// nominal times of the tasks, and with the tasks of the job history.
func TestGoals(t *testing.T) {
	for _, history := range []bool{false, true} {
		runs, err := readAll(recordings(t), regexp.MustCompile(""), history)
		if err != nil {
			t.Fatal(err)
		}
		if len(runs) < 17 {
			t.Errorf("%d runs, want 17", len(runs))
		}
		var silent, others, beside pool
		for _, r := range runs {
			if slices.Contains(calibration, r.name) {
				continue
			}
			c, err := compare(context.Background(), r, 5)
			if err != nil {
				t.Fatal(err)
			}
			if r.background != nil && !slices.Contains(quiet, r.name) && !history {
				r.model.Background = r.background
				b, err := compare(context.Background(), r, 5)
				if err != nil {
					t.Fatal(err)
				}
				beside.errors = append(beside.errors, absolute(b.errors())...)
			}
			p := &others
			if slices.Contains(quiet, r.name) {
				p = &silent
			}
			p.errors = append(p.errors, absolute(c.errors())...)
		}
		if m := harness.Median(silent.errors); len(silent.errors) != 30 || m > goalQuiet {
			t.Errorf("history %v, quiet runs: median error %s over %d jobs, want at most %s over 30", history, percent(m), len(silent.errors), percent(goalQuiet))
		}
		if m := harness.Median(others.errors); len(others.errors) != 98 || m > goalOthers {
			t.Errorf("history %v, runs beside others: median error %s over %d jobs, want at most %s over 98", history, percent(m), len(others.errors), percent(goalOthers))
		}
		if m := harness.Median(beside.errors); !history && (len(beside.errors) != 98 || m > goalLoaded) {
			t.Errorf("runs beside others with their load: median error %s over %d jobs, want at most %s over 98", percent(m), len(beside.errors), percent(goalLoaded))
		}
	}
}

func TestPage(t *testing.T) {
	dir := recordings(t)
	var out bytes.Buffer
	if err := run(context.Background(), []string{"-runs", dir, "-only", "fair-c$|fifo-kill", "-phases", "2", "-parts"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# Simulated against a real Hadoop", "| fair-c | quiet | 10 |", "| fifo-kill | beside others | 7 |", "Quiet runs that nothing was calibrated on: 10 jobs", "| run | job | recorded |", "first map starts"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestMisuse(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-runs", t.TempDir()}, "no folder in it has a workload.json"},
		{[]string{"-runs", ".", "-only", "("}, "-only:"},
		{[]string{"-runs", ".", "-phases", "0"}, "usage: hadoop121"},
	} {
		if err := run(context.Background(), c.args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}

// TestUnequalTrackers replays a made-up run with all that a record may have: trackers with different
// slots in racks of different sizes, one that is killed and one that is stopped, and every kind of
// scheduler file. Three maps of 2 s fit at once only if the slots are the stated ones.
func TestUnequalTrackers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mixed")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	const workloadText = `{"name": "mixed", "scheduler": "capacity", "schedulerProperties": {"mapred.capacity-scheduler.init-poll-interval": 1000},
 "schedulerFiles": ["capacity-scheduler.xml", "mapred-queues.xml", "mapred-site.xml"], "queues": ["a", "b"], "heartbeatMs": 300, "trackerExpiryMs": 20000, "jvmReuse": -1,
 "trackers": [{"name": "t1", "rack": "/r1", "mapSlots": 3, "reduceSlots": 2}, {"name": "t2", "rack": "/r2", "mapSlots": 1, "reduceSlots": 0}, {"name": "t3", "rack": "/r1", "mapSlots": 0, "reduceSlots": 1}],
 "events": [{"atMs": 100, "event": "stop", "tracker": "t2"}, {"atMs": 4000, "event": "cont", "tracker": "t2"}, {"atMs": 200, "event": "kill", "tracker": "t3"}, {"atMs": 60000, "event": "start", "tracker": "t3"}],
 "jobs": [{"id": "j01", "submitMs": 0, "maps": 3, "reduces": 1, "mapMs": 2000, "reduceMs": 1000, "user": "u", "queue": "a", "slowstart": 1, "splitHosts": [["t1"], ["t2", "t3"]]}]}`
	for name, text := range map[string]string{
		"workload.json": workloadText,
		"result.json":   `{"jobs": [{"id": "j01", "submitMs": 0, "finishMs": 12000}], "attempts": []}`,
		"capacity-scheduler.xml": `<configuration><property><name>mapred.capacity-scheduler.queue.a.capacity</name><value>50</value></property>
<property><name>mapred.capacity-scheduler.queue.b.capacity</name><value>50</value></property></configuration>`,
		"mapred-queues.xml": `<queues><queue><name>a</name></queue></queues>`,
		"mapred-site.xml":   `<configuration><property><name>mapred.job.tracker</name><value>h:1</value></property></configuration>`,
		"cpu.tsv":           "atMs\tbusy\tloadavg1\n" + strings.Repeat("1000\t0.5\t1\n", 5),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	r, err := read(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	if g := r.cluster.Groups; len(g) != 3 || g[0].Rack != 1 || g[1].Rack != 2 || g[2].Rack != 1 || !g[0].Together || !g[1].Beside || g[2].ReduceSlots != 1 {
		t.Errorf("groups %+v", g)
	}
	if len(r.background) != 1 || r.background[0].Share < 0.32 || r.background[0].Share > 0.33 || r.model.Overheads.InitPoll != time.Second {
		t.Errorf("background %+v, poll %v", r.background, r.model.Overheads.InitPoll)
	}
	c, err := compare(context.Background(), r, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range c.response[0] {
		if got < 9 || got > 18 {
			t.Errorf("the job takes %.1f s", got)
		}
	}
	for old, want := range map[string]string{`"tracker": "t3"}, {"atMs": 60000`: "no tracker", `"event": "stop"`: "must be kill, start, stop or cont", `["t1"]`: "splits on"} {
		bad := strings.Replace(workloadText, old, strings.NewReplacer("t3", "t9", "stop", "halt", "t1", "t9").Replace(old), 1)
		if err := os.WriteFile(filepath.Join(dir, "workload.json"), []byte(bad), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := read(dir, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", old, err, want)
		}
	}
}
