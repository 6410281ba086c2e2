package cli

import (
	"slices"
	"strings"
	"testing"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// TestForecastCells checks the cell of a list for an answer that is fresh, old, overdue, partly known, or
// years away.
func TestForecastCells(t *testing.T) {
	const now = 1_000_000
	in := func(s int64) int64 { return now + 1000*s }
	for want, f := range map[string]*slotwisev1.JobForecast{
		"60 s (50 s to 70 s)":                 {Known: true, EndMs: in(60), EarlyMs: in(50), LateMs: in(70), AgeMs: 4000},
		"60 s (50 s to 70 s), as of 20 s ago": {Known: true, EndMs: in(60), EarlyMs: in(50), LateMs: in(70), AgeMs: 20_000},
		"overdue by 5 s":                      {Known: true, EndMs: in(-15), EarlyMs: in(-20), LateMs: in(-5)},
		"maps in 12 s (10 s to 14 s)":         {MapsEndMs: in(12), MapsEarlyMs: in(10), MapsLateMs: in(14), Unknown: "no reduce"},
		"unknown":                             {Unknown: "no map"},
		"never":                               {Never: true},
		"over a year":                         {Known: true, EndMs: in(1e9), EarlyMs: in(9e8), LateMs: in(1e9)},
	} {
		f.NowMs = now
		if got := endsIn(&slotwisev1.JobStatus{Forecast: f}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	lines := forecastLines(&slotwisev1.JobForecast{MapsEndMs: in(12), MapsEarlyMs: in(10), MapsLateMs: in(14), Unknown: "no reduce", NowMs: now})
	if len(lines) != 1 || !strings.HasPrefix(lines[0][1], "maps in 12 s, ") || !strings.HasSuffix(lines[0][1], "; then unknown: no reduce") {
		t.Errorf("got %q", lines)
	}
}

// TestPrintWhy: why marks the present reason of a wait, and lists earlier reasons below it.
func TestPrintWhy(t *testing.T) {
	var b strings.Builder
	printWhy(&b, []*slotwisev1.Explanation{
		{Kind: slotwisev1.Kind_KIND_MAP, Words: "all 6 map slots of the cluster are in use", Now: true, HeldMs: 12_000, Advice: "add workers"},
		{Kind: slotwisev1.Kind_KIND_MAP, Words: "waits for a free slot", HeldMs: 3000},
	})
	want := "maps now: all 6 map slots of the cluster are in use (for 12.0 s in all)\n  what would help: add workers\nmaps before: waits for a free slot (for 3.0 s in all)\n"
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}

// Lists of jobs show which jobs are ahead of a job, and leave out what the policy adds.
func TestBrief(t *testing.T) {
	for reason, want := range map[string]string{
		"": "", "all 4 map slots are in use": "all 4 map slots are in use",
		"1 of 2 jobs come first; j2 is just ahead":                                          "1 of 2 jobs come first; j2 is just ahead",
		"1 of 2 jobs come first; j2 is just ahead; pool p runs 4 of 3; 28 slots go to maps": "1 of 2 jobs come first; j2 is just ahead",
	} {
		if got := brief(reason); got != want {
			t.Errorf("%q: got %q, want %q", reason, got, want)
		}
	}
}

// The table of whatif has columns, also the one of deadlines.
func TestPrintWhatIf(t *testing.T) {
	var b strings.Builder
	err := printWhatIf(&b, &slotwisev1.WhatIfResponse{Policy: "fifo", Jobs: []*slotwisev1.WhatIfRow{{Name: "new", DeadlineMs: 5,
		Then: &slotwisev1.JobForecast{Known: true, EndMs: 9}, WouldKeep: []string{"priority high", "2 more workers"}}}})
	head, _, _ := strings.Cut(b.String(), "\n")
	if want := []string{"JOB", "NAME", "ENDS", "IN", "WOULD", "END", "IN", "DIFFERENCE", "DEADLINE"}; err != nil || !slices.Equal(strings.Fields(head), want) {
		t.Errorf("%v, head %q", err, head)
	}
	if want := "new would keep its deadline with priority high or 2 more workers\n"; !strings.Contains(b.String(), want) {
		t.Errorf("no line %q in\n%s", want, b.String())
	}
}
