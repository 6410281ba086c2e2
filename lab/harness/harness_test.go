package harness

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		values  []float64
		q, want float64
	}{
		{nil, 0.5, 0}, {[]float64{3}, 0.95, 3}, {[]float64{4, 1, 2, 3}, 0.5, 2.5}, {[]float64{5, 1, 3}, 0.5, 3},
		{[]float64{0, 10}, 0.95, 9.5}, {[]float64{2, 1}, 1, 2}, {[]float64{2, 1}, 0, 1},
	} {
		before := slices.Clone(c.values)
		if got := Quantile(c.values, c.q); got != c.want || !slices.Equal(before, c.values) {
			t.Errorf("Quantile(%v, %v) = %v, want %v; values afterwards %v", before, c.q, got, c.want, c.values)
		}
	}
	if got := Median([]time.Duration{4, 1, 3, 2}); got != 2 {
		t.Errorf("median of 1 to 4 ns is %d ns, want 2 after rounding down", got)
	}
}

func TestMeanAndRatios(t *testing.T) {
	if got := Mean([]float64{1, 2, 6}); got != 3 {
		t.Errorf("mean %v, want 3", got)
	}
	if got := Mean[float64](nil); got != 0 {
		t.Errorf("mean of nothing %v, want 0", got)
	}
	if got := Ratios([]time.Duration{6, 5, 9}, []time.Duration{3, 2}); !slices.Equal(got, []float64{2, 2.5}) {
		t.Errorf("ratios %v, want 2 and 2.5", got)
	}
}

func TestSpread(t *testing.T) {
	if got := Spread(nil); got != "none" {
		t.Errorf("spread of nothing: %q", got)
	}
	if got := Spread([]time.Duration{3 * time.Second, time.Second, 2 * time.Second}); got != "2s, 2.98s, 3s" {
		t.Errorf("spread: %q", got)
	}
}

// TestRounds checks that contestants take turns within each round, and that no
// measurement starts after an error or after the context is cancelled.
func TestRounds(t *testing.T) {
	var calls []int
	record := func(round, i int) error { calls = append(calls, 10*round+i); return nil }
	if err := Rounds(t.Context(), 2, 3, record); err != nil || !slices.Equal(calls, []int{0, 1, 2, 10, 11, 12}) {
		t.Errorf("calls %v, error %v", calls, err)
	}
	broken := errors.New("broken")
	calls = nil
	err := Rounds(t.Context(), 2, 3, func(round, i int) error {
		record(round, i)
		if i == 1 {
			return broken
		}
		return nil
	})
	if err != broken || !slices.Equal(calls, []int{0, 1}) {
		t.Errorf("calls %v, error %v", calls, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	calls = nil
	err = Rounds(ctx, 2, 3, func(round, i int) error {
		cancel(broken)
		return record(round, i)
	})
	if err != broken || len(calls) != 1 {
		t.Errorf("after cancelling: calls %v, error %v", calls, err)
	}
}

// A cancelled command takes its children with it.
func TestInGroup(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", "sleep 600 | cat")
	InGroup(cmd)
	start := time.Now()
	if err := cmd.Run(); err == nil {
		t.Error("no error from a command that was killed")
	}
	if took := time.Since(start); took > 4*time.Minute {
		t.Errorf("took %v: a child has outlived its parent", took)
	}
}

func TestSleep(t *testing.T) {
	if !Sleep(t.Context(), time.Millisecond) {
		t.Error("sleep was cut short although nothing was cancelled")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if Sleep(ctx, time.Hour) {
		t.Error("sleep has not noticed that its context is cancelled")
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	table := NewTable(&out, "row", "time", "")
	table.Row("a | b", "1 s\n2 s", "")
	want := "| row | time | |\n|---|---|---|\n| a \\| b | 1 s 2 s | |\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestFormat(t *testing.T) {
	for got, want := range map[string]string{
		Thousands(0): "0", Thousands(999): "999", Thousands(1000): "1,000", Thousands(1234007): "1,234,007",
		FormatSize(64 * KiB): "64 KiB", FormatSize(10*MiB + MiB/4): "10.2 MiB", FormatSize(4 * GiB): "4 GiB",
		Limit(true, "x"): "ok x", Limit(false, "x"): "MISSED x",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestWriteJSON(t *testing.T) {
	name := filepath.Join(t.TempDir(), "new", "results.json")
	if err := WriteJSON(name, map[string]int{"rounds": 3}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(name); err != nil || string(data) != "{\n  \"rounds\": 3\n}\n" {
		t.Errorf("%q, %v", data, err)
	}
	if err := WriteJSON("", nil); err != nil {
		t.Errorf("without a file name: %v", err)
	}
}

// An existing data set is used again.
func TestGenerate(t *testing.T) {
	created, err := Generate(t.Context(), "no-such-binary", "text", 1, t.TempDir())
	if created || err != nil {
		t.Errorf("created %v, error %v", created, err)
	}
	if _, err := Generate(t.Context(), "no-such-binary", "text", 1, filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("no error although the binary does not exist")
	}
}

// TestURLsAreOneASplit checks that each line has the size of a split, whatever the
// port of the server.
func TestURLsAreOneASplit(t *testing.T) {
	for _, server := range []string{"http://127.0.0.1:8080", "http://127.0.0.1:54321"} {
		name := filepath.Join(t.TempDir(), "urls")
		if err := WriteURLs(name, server, 7); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(name)
		if err != nil || len(data) != 7*PageLine {
			t.Errorf("%s: %d bytes, %v", server, len(data), err)
		}
	}
}
