package worker

import (
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/live/cgroup"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

func TestLimits(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		name         string
		memory, task int64 // of the worker
		usable       int64
		asked        int64
		limit        int64
		buffer       int64
		words        string
	}{
		{"a slot's share", 24 * gib, 0, 0, 0, 6*gib + memorySlack, 3 * gib / 2, "6.2 GiB of memory, the limit on this worker"},
		{"a small share", gib, 0, 0, 0, leastLimit, gib / 16, "1.0 GiB of memory, the limit on this worker"},
		{"more than a map can sort in", 1 << 50, 0, 0, 8 << 40, 8<<40 + memorySlack, engine.MaxMapBuffer, ""},
		{"a tiny share", 16 << 20, 0, 0, 0, leastLimit, minShare, ""},
		{"the worker's own limit", gib, 300 << 20, 0, 0, 300 << 20, gib / 16, "300 MiB of memory, the limit on this worker"},
		{"no limit", gib, -1, 0, 0, 0, gib / 16, ""},
		{"what the job asks for", gib, 300 << 20, 0, 2 * gib, 2*gib + memorySlack, gib / 2, "more than its 2.0 GiB of memory (--task-memory)"},
		{"what the job asks for counts without a limit, too", gib, -1, 0, gib / 2, gib/2 + memorySlack, gib / 8, "more than its 512 MiB of memory (--task-memory)"},
		{"a small container", gib / 4, 0, gib / 2, 0, gib / 2 * 7 / 8, gib / 64, "448 MiB of memory, the limit on this worker"},
		{"a request in a small container", gib / 4, 0, gib / 2, gib / 4, gib / 2 * 7 / 8, gib / 16, "more than its 256 MiB of memory (--task-memory)"},
		{"a large container", 24 * gib, 0, 27 * gib, 0, 6*gib + memorySlack, 3 * gib / 2, ""},
	} {
		cfg := Config{MapSlots: 3, ReduceSlots: 1, Memory: c.memory, TaskMemory: c.task, Usable: c.usable}
		l := cfg.limitsOf(&slotwisev1.JobSpec{TaskMemory: c.asked}, 0)
		if l.memory != c.limit || l.buffer != c.buffer || l.width != 1 {
			t.Errorf("%s: %+v, want a limit of %d and buffers of %d", c.name, l, c.limit, c.buffer)
		}
		if text := (&memoryError{l}).Error(); !strings.Contains(text, c.words) {
			t.Errorf("%s: error %q, want %q", c.name, text, c.words)
		}
	}
}

func TestConfigBounds(t *testing.T) {
	for want, c := range map[string]Config{
		"--cpus":               {CPUs: -1},
		"(--memory) are too m": {Memory: 1 << 60},
		"(--memory) are too l": {Memory: 1},
	} {
		c.Master, c.Dir = "http://localhost:1", t.TempDir()
		if err := c.fill(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}

// GroupsAt makes a worker use the control group in dir, which holds the process pid, without
// controllers.
func (c *Config) GroupsAt(dir string, pid int) {
	c.Cgroups = true
	c.openGroups = func(id string) (*cgroup.Tree, error) { return cgroup.OpenAt(dir, id, pid, nil) }
}
