package cli

import (
	"regexp"
	"testing"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Commands describe a deadline by its relation to the expected end.
func TestDeadlineText(t *testing.T) {
	const due, minute = 1_000_000_000, 60_000
	ended := func(at int64, s slotwisev1.JobState) *slotwisev1.JobStatus {
		return &slotwisev1.JobStatus{DeadlineMs: due, EndedMs: at, State: s}
	}
	expected := func(now, end, late int64) *slotwisev1.JobForecast {
		return &slotwisev1.JobForecast{Known: true, NowMs: now, EndMs: end, EarlyMs: now, LateMs: late}
	}
	for _, c := range []struct {
		job   *slotwisev1.JobStatus
		text  string // after the date
		keeps string
	}{
		{&slotwisev1.JobStatus{}, "", ""},
		{ended(due, slotwisev1.JobState_JOB_STATE_SUCCEEDED), ", met with .* to spare$", ""},
		{ended(due+minute, slotwisev1.JobState_JOB_STATE_SUCCEEDED), ", missed by 60 s$", ""},
		{ended(due-minute, slotwisev1.JobState_JOB_STATE_FAILED), "[0-9]$", ""},
		{&slotwisev1.JobStatus{DeadlineMs: due}, "[0-9]$", "unknown"},
		{&slotwisev1.JobStatus{DeadlineMs: due, Forecast: &slotwisev1.JobForecast{Never: true}}, ", cannot be met", "missed"},
		{&slotwisev1.JobStatus{DeadlineMs: due, Forecast: expected(due+1, due+minute, due+minute)}, ", missed; the job continues$", "missed"},
		{&slotwisev1.JobStatus{DeadlineMs: due, Forecast: expected(0, due+minute, due+2*minute)}, ", likely to be missed by 60 s$", "missed"},
		{&slotwisev1.JobStatus{DeadlineMs: due, Forecast: expected(0, due-minute, due+minute)}, ", at risk: the job may end 60 s later$", "at risk"},
		{&slotwisev1.JobStatus{DeadlineMs: due, Forecast: expected(0, due-minute, due)}, ", likely to be met with 60 s to spare$", "met"},
	} {
		got := dueText(c.job)
		if ok, err := regexp.MatchString(c.text, got); !ok || err != nil || (c.text == "") != (got == "") {
			t.Errorf("%v: %q, want %q", c.job, got, c.text)
		}
		if c.keeps == "" {
			continue
		}
		f := c.job.Forecast
		if f == nil {
			f = &slotwisev1.JobForecast{}
		}
		if got := keeps(&slotwisev1.WhatIfRow{DeadlineMs: due, Now: f, Then: f}); got != c.keeps {
			t.Errorf("%v: what-if says %q, want %q", c.job, got, c.keeps)
		}
	}
	good, bad := expected(0, due-minute, due), expected(0, due+minute, due+minute)
	for _, c := range []struct {
		row  *slotwisev1.WhatIfRow
		want string
	}{
		{&slotwisev1.WhatIfRow{Now: good, Then: good}, ""},
		{&slotwisev1.WhatIfRow{DeadlineMs: due, Now: good}, "killed"},
		{&slotwisev1.WhatIfRow{DeadlineMs: due, Then: bad}, "missed"},
		{&slotwisev1.WhatIfRow{DeadlineMs: due, Now: bad, Then: good}, "missed → met"},
	} {
		if got := keeps(c.row); got != c.want {
			t.Errorf("%v: %q, want %q", c.row, got, c.want)
		}
	}
}
