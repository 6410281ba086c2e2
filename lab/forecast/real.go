package main

import (
	"context"
	"io"
	"math"
	"time"

	"github.com/slotwise/slotwise/internal/live/client"
	"github.com/slotwise/slotwise/lab/harness"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// answer is a forecast that a master gave. Times are milliseconds.
type answer struct {
	asked, end, early, late int64
	known                   bool
}

// idleSeconds is the time without a job after which watch ends.
const idleSeconds = 40

// watch asks a master once a second when its jobs will end, until none has run for a while, and
// compares the answers at 25, 50 and 75 % of the life of each job with the truth.
func watch(ctx context.Context, master, name, policy string, stdout io.Writer) error {
	cl, err := client.New(master, client.Options{})
	if err != nil {
		return err
	}
	answers := map[string][]answer{}
	ended := map[string]*slotwisev1.JobStatus{}
	for seen, idle := false, 0; !seen || idle < idleSeconds; {
		jobs, err := cl.Jobs(ctx, &slotwisev1.JobsRequest{Ended: true})
		if err != nil {
			return err
		}
		idle++
		for _, j := range jobs {
			if j.EndedMs != 0 {
				ended[j.Id] = j
				continue
			}
			seen, idle = true, 0
			if f := j.Forecast; f != nil {
				answers[j.Id] = append(answers[j.Id], answer{f.NowMs, f.EndMs, f.EarlyMs, f.LateMs, f.Known})
			}
		}
		if !harness.Sleep(ctx, time.Second) {
			return context.Cause(ctx)
		}
	}
	t := tally{errors: make([][]float64, len(parts))}
	for id, list := range answers {
		if j := ended[id]; j != nil && j.State == slotwisev1.JobState_JOB_STATE_SUCCEEDED && j.EndedMs-j.SubmittedMs >= shortest.Milliseconds() {
			t.jobs++
			t.judge(j, list)
		}
	}
	table := newTable(stdout)
	t.row(table, name, policy)
	return nil
}

// judge compares the answers about a job with its end.
func (t *tally) judge(j *slotwisev1.JobStatus, list []answer) {
	for k, part := range parts {
		at := j.SubmittedMs + int64(part*float64(j.EndedMs-j.SubmittedMs))
		var a *answer
		for i := range list {
			if list[i].asked <= at {
				a = &list[i]
			}
		}
		if a == nil || !a.known {
			t.unknown++
			continue
		}
		t.known++
		t.errors[k] = append(t.errors[k], math.Abs(float64(a.end-j.EndedMs))/float64(max(1, j.EndedMs-at)))
		if a.early <= j.EndedMs && j.EndedMs <= a.late {
			t.inside++
		}
		if a.end < j.EndedMs {
			t.early++
		}
	}
}
