package worker

import (
	"strings"
	"testing"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

func TestLimits(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		name         string
		memory, task int64 // of the worker
		asked        int64
		limit        int64
		buffer       int64
		words        string
	}{
		{"a slot's share", 24 * gib, 0, 0, 6*gib + memorySlack, 3 * gib / 2, "6.2 GiB of memory, the limit on this worker"},
		{"a small share", gib, 0, 0, leastLimit, gib / 16, "1.0 GiB of memory, the limit on this worker"},
		{"a tiny share", 16 << 20, 0, 0, leastLimit, minShare, ""},
		{"the worker's own limit", gib, 300 << 20, 0, 300 << 20, gib / 16, "300 MiB of memory, the limit on this worker"},
		{"no limit", gib, -1, 0, 0, gib / 16, ""},
		{"what the job asks for", gib, 300 << 20, 2 * gib, 2*gib + memorySlack, gib / 2, "more than its 2.0 GiB of memory (--task-memory)"},
		{"what the job asks for counts without a limit, too", gib, -1, gib / 2, gib/2 + memorySlack, gib / 8, "more than its 512 MiB of memory (--task-memory)"},
	} {
		cfg := Config{MapSlots: 3, ReduceSlots: 1, Memory: c.memory, TaskMemory: c.task}
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
