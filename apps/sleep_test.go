package apps

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/mapreduce"
)

// TestSleep runs the app on one slot of each kind: the job takes the sum of the
// maps' times, and the reduces follow. It fails if a task does not sleep, or
// sleeps for another task's time.
func TestSleep(t *testing.T) {
	start := time.Now()
	r, err := mapreduce.RunApp(context.Background(), sleep, mapreduce.Params{"maps": "2x50ms,100ms", "reduces": "150ms"},
		mapreduce.Options{Output: filepath.Join(t.TempDir(), "out"), Cluster: mapreduce.ClusterOptions{Workers: 1, TempDir: t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	if r[0].Maps != 3 || r[0].Reduces != 1 || r[0].SlotTime.Map < 200*time.Millisecond || r[0].SlotTime.Reduce < 150*time.Millisecond {
		t.Errorf("%d maps in %v, %d reduces in %v", r[0].Maps, r[0].SlotTime.Map, r[0].Reduces, r[0].SlotTime.Reduce)
	}
	if took := time.Since(start); took < 200*time.Millisecond {
		t.Errorf("the job took %v", took)
	}
}

// TestSleepProgress: a task that sleeps reports the share of its time that is over. A master predicts the job's
// end from that.
func TestSleepProgress(t *testing.T) {
	seen := 0
	for _, maps := range []string{"1s", "4s", "16s"} { // a machine under load may pause for the whole of a short one
		_, err := mapreduce.RunApp(context.Background(), sleep, mapreduce.Params{"maps": maps},
			mapreduce.Options{Output: filepath.Join(t.TempDir(), "out"), Cluster: mapreduce.ClusterOptions{Workers: 1, TempDir: t.TempDir()},
				Progress: func(p mapreduce.Progress) {
					if p.MapFrac > 0.1 && p.MapFrac < 0.95 {
						seen++
					}
				}})
		if err != nil {
			t.Error(err)
		}
		if seen > 0 {
			return
		}
	}
	t.Error("progress was never between a tenth and the end")
}

// TestSleepStops: a task that sleeps for an hour ends when the job is killed.
func TestSleepStops(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := mapreduce.RunApp(ctx, sleep, mapreduce.Params{"maps": "1h"},
		mapreduce.Options{Output: filepath.Join(t.TempDir(), "out"), Cluster: mapreduce.ClusterOptions{Workers: 1, TempDir: t.TempDir()}})
	if err == nil || time.Since(start) > 4*time.Minute {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}

func TestSleepTimes(t *testing.T) {
	for text, want := range map[string]int{"": 0, "1s": 1, "3x20s,5ms": 4, "0s": 1} {
		if got, err := parseTimes("maps", text); err != nil || len(got) != want {
			t.Errorf("%q: %d times, %v; want %d", text, len(got), err, want)
		}
	}
	for _, text := range []string{"3", "x1s", "0x1s", "-1x1s", "1x-1s", "1s,", "2x", "999999999x1s", "600000x1s,600000x1s"} {
		if got, err := parseTimes("maps", text); err == nil || !strings.Contains(err.Error(), "parameter maps") {
			t.Errorf("%q: %d times, %v", text, len(got), err)
		}
	}
}
