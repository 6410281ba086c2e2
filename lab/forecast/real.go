package main

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/slotwise/slotwise/internal/live/client"
	"github.com/slotwise/slotwise/lab/harness"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// answer is a forecast that a master gave. Times are milliseconds.
type answer struct {
	asked, age, end, early, late int64
	known                        bool
	maps, reduces, waiting       int32 // done, done, and the job's place in the queue
	basis                        string
}

// idleSeconds is the time without a job after which watch ends.
const idleSeconds = 40

// watch asks a master once a second when its jobs will end, until none has run for a while, and
// compares the answers at 25, 50 and 75 % of the life of each job with the truth. file gets the
// answers unless it is empty. While pending is true, jobs are still to come, and a time without one ends nothing.
func watch(ctx context.Context, master, name, policy, file string, pending *atomic.Bool, stdout io.Writer) (err error) {
	cl, err := client.New(master, client.Options{})
	if err != nil {
		return err
	}
	answers := map[string][]answer{}
	ended := map[string]*slotwisev1.JobStatus{}
	for seen, idle := false, 0; !seen || idle < idleSeconds || pending.Load(); {
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
				answers[j.Id] = append(answers[j.Id], answer{f.NowMs, f.AgeMs, f.EndMs, f.EarlyMs, f.LateMs, f.Known, j.Maps.GetDone(), j.Reduces.GetDone(), f.Position, f.Basis})
			}
		}
		if !harness.Sleep(ctx, time.Second) {
			return context.Cause(ctx)
		}
	}
	details, closeDetails, err := answersFile(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDetails()) }()
	t := tally{details: details}
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
		var a answer
		for i := range list {
			if list[i].asked <= at {
				a = list[i]
			}
		}
		since := func(ms int64) float64 { return float64(ms-at) / 1e3 }
		t.detail(j.Id, j.Name, part, float64(j.EndedMs-j.SubmittedMs)/1e3, since(j.EndedMs),
			since(a.end), since(a.early), since(a.late), float64(a.age)/1e3, a.known, j.Maps.GetTotal(), a.maps, j.Reduces.GetTotal(), a.reduces, a.waiting, a.basis)
		if !a.known {
			t.unknown++
			continue
		}
		t.parts[k].judge(float64(at), float64(a.early), float64(a.end), float64(a.late), float64(j.EndedMs))
	}
}
