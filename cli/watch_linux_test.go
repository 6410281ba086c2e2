package cli

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

func TestSparkline(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		top    float64
		want   string
	}{
		{nil, 4, ""},
		{[]float64{0, 0}, 0, "▁▁"},
		{[]float64{0, 1, 1000}, 1000, "▁▂█"}, // one busy slot of many differs from none
		{[]float64{1, 2, 4}, 4, "▃▅█"},
		{[]float64{4, 8}, 4, "▅█"}, // more than all slots
	} {
		if got := sparkline(tt.values, tt.top); got != tt.want {
			t.Errorf("%v of %v: %s, want %s", tt.values, tt.top, got, tt.want)
		}
	}
	var list []float64
	for i := range int32(2 * sparkWidth) {
		list = keep(list, i)
	}
	if len(list) != sparkWidth || list[sparkWidth-1] != 2*sparkWidth-1 {
		t.Errorf("%d values are kept, the last is %v", len(list), list[len(list)-1])
	}
}

// TestWatch watches a cluster and a job on a terminal. The job's picture ends with the job.
func TestWatch(t *testing.T) {
	c := newTestCluster(t)
	c.StartWorker("w1")
	in := c.Write("in.txt", "a\nb\nc\nd\n")
	mapper, _, open := c.gate("m")
	if status, out := c.Run("submit", "--master", c.URL, "--mapper", mapper, "--reducer", "cat", "--input", in, "--split-size", "2B", "--output", "out"); status != exitOK {
		t.Fatalf("status %d: %s", status, out)
	}
	const id = "j1"
	t.Setenv("SLOTWISE_MASTER", c.URL)
	// watch runs a command until it ends, and calls then once the screen shows something.
	watch := func(shows func(text string) bool, then func(cancel func()), args ...string) string {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		p := openTerminal(t)
		go func() {
			for !shows(p.screen.String()) && ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
			}
			then(cancel)
		}()
		if status := execute(ctx, args, p.File, p.File); status != exitOK {
			t.Errorf("%q: status %d", args, status)
		}
		return p.shown()
	}
	draws := func(text string) bool {
		return strings.Contains(text, screenOn) && strings.Contains(text, "waiting  ") && (strings.Contains(text, "▂") || strings.Contains(text, "█"))
	}
	text := watch(draws, func(cancel func()) { cancel() }, "top", "--interval", "100ms")
	if !draws(text) {
		t.Errorf("top shows %q", text)
	}
	// The maps wait until the job is watched.
	text = watch(func(text string) bool { return strings.Contains(text, screenOn) }, func(func()) {
		if err := os.WriteFile(open, nil, 0o666); err != nil {
			t.Error(err)
		}
	}, "job", id, "--watch", "--interval", "100ms")
	_, last, left := strings.Cut(text, screenOff)
	// Not for a bar in the line of ended tasks: the job may end before the second drawing.
	if !left || !strings.Contains(text, "tasks ended ") || !strings.Contains(text, id+" ") || !strings.Contains(last, "succeeded") {
		t.Errorf("job --watch shows %q", text)
	}
	// It has ended, so it is only printed.
	if text := watch(func(string) bool { return true }, func(func()) {}, "job", id, "--watch"); strings.Contains(text, screenOn) || !strings.Contains(text, "succeeded") {
		t.Errorf("job --watch of an ended job shows %q", text)
	}
	for args, want := range map[string]string{
		"job j1 --watch":             "--watch redraws a terminal",
		"job j1 --watch -o json":     "--watch redraws a terminal",
		"top --interval 1ms -o json": "must be at least 100ms",
	} {
		var out strings.Builder
		if status := execute(t.Context(), strings.Fields(args), &out, &out); status != exitMisuse || !strings.Contains(out.String(), want) {
			t.Errorf("%s: status %d: %s", args, status, out.String())
		}
	}
}
