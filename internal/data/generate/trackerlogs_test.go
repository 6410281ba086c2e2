package generate

import (
	"bytes"
	"context"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func writeLogs(t *testing.T, w *trackerWorld, hours, limit int64) string {
	t.Helper()
	var b bytes.Buffer
	if err := w.write(context.Background(), &b, hours, limit); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestTrackerLogs checks the form of each line and that the phenomena are
// there which the reports are about.
func TestTrackerLogs(t *testing.T) {
	logs := writeLogs(t, newTrackerWorld(10, 150, 1), 20*24, 1<<40)
	form := regexp.MustCompile(`^(\d{10})\t(tracker\d{3}\.example:\d{4})\t(?:([0-9a-f]{40})\t(\d+)\t(\d+)\t(\d+)|-\t[a-z ]+)\n$`)
	type place struct{ tracker, hash string }
	downloads, hashes := map[place]int64{}, map[string]bool{}
	var failures, falls int
	byHour, byTracker := map[int64]int64{}, map[string]int{}
	for line := range strings.Lines(logs) {
		m := form.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("line %q", line)
		}
		byTracker[m[2]]++
		if m[3] == "" {
			failures++
			continue
		}
		hashes[m[3]] = true
		at := place{m[2], m[3]}
		d := num(t, m[6])
		if d < downloads[at] {
			falls++
		}
		downloads[at] = d
		byHour[(num(t, m[1])-trackerEpoch)/3600] += num(t, m[4]) + num(t, m[5])
	}
	if len(byTracker) != 10 || len(byHour) != 480 {
		t.Errorf("%d trackers, %d hours", len(byTracker), len(byHour))
	}
	// Each of 150 places changes its file once or twice in 20 days.
	if n := len(hashes); n < 250 || n > 500 {
		t.Errorf("%d infohashes", n)
	}
	if failures < 48 || failures > 480 {
		t.Errorf("%d of 4800 scrapes failed", failures)
	}
	if falls > 0 {
		t.Errorf("downloads fell %d times", falls)
	}
	// The trackers' sizes differ by far.
	counts := slices.Sorted(maps.Values(byTracker))
	if counts[9] < 4*counts[0] {
		t.Errorf("lines by tracker: %v", byTracker)
	}
}

func TestTrackerLogsSize(t *testing.T) {
	w := newTrackerWorld(5, 100, 7)
	whole := writeLogs(t, w, 48, 1<<40)
	for _, limit := range []int64{0, 1, 100, 5000, int64(len(whole)) - 1, int64(len(whole)), 1 << 40} {
		got := writeLogs(t, w, 48, limit)
		if int64(len(got)) > limit || !strings.HasPrefix(whole, got) || got != "" && got[len(got)-1] != '\n' {
			t.Errorf("limit %d: %d bytes, or not whole lines from the start", limit, len(got))
		}
		if limit < int64(len(whole)) && int64(len(got)) < limit-200 {
			t.Errorf("limit %d: only %d bytes", limit, len(got))
		}
	}
	if other := writeLogs(t, newTrackerWorld(5, 100, 8), 48, 1<<40); other == whole {
		t.Error("the seed does not matter")
	}
	if again := writeLogs(t, newTrackerWorld(5, 100, 7), 48, 1<<40); again != whole {
		t.Error("the same seed gives other logs")
	}
}

// TestTrackerLogsDay checks that evenings are busier than mornings: the peers
// of one tracker, whose day is known, follow its local hour.
func TestTrackerLogsDay(t *testing.T) {
	w := newTrackerWorld(1, 500, 3)
	var busy, quiet int64
	for line := range strings.Lines(writeLogs(t, w, 15*24, 1<<40)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 6 {
			continue
		}
		seeders, _ := strconv.ParseInt(f[3], 10, 64)
		hour := float64((num(t, f[0])-trackerEpoch)/3600) - w.trackers[0].timezone
		switch local := int(hour+240) % 24; {
		case local >= 4 && local < 8:
			busy += seeders
		case local >= 16 && local < 20:
			quiet += seeders
		}
	}
	if busy < quiet*14/10 {
		t.Errorf("%d seeders in the busy hours, %d in the quiet ones", busy, quiet)
	}
}

func BenchmarkTrackerLogs(b *testing.B) {
	w := newTrackerWorld(40, 20_000, 1)
	for b.Loop() {
		n := countingWriter(0)
		if err := w.write(context.Background(), &n, 100, 64<<20); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(n))
	}
}
