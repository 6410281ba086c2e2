package mapreduce

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/sched/job"
)

// Result reports how a job ended. Times are since the start of the in-process
// cluster, or since the submission to a remote one.
type Result struct {
	Job       string           `json:"job"`
	ID        string           `json:"id"`
	State     string           `json:"state"` // succeeded, failed or killed
	Output    string           `json:"output,omitempty"`
	Elapsed   time.Duration    `json:"elapsed_ns"`
	Submitted time.Duration    `json:"submitted_ns"`
	Started   time.Duration    `json:"started_ns"` // first task launched; 0 if none
	Ended     time.Duration    `json:"ended_ns"`
	Maps      int              `json:"maps"`
	Reduces   int              `json:"reduces"`
	Failures  int              `json:"failed_attempts"`
	Copies    int              `json:"speculative_attempts,omitempty"`
	Locality  Locality         `json:"locality"`
	SlotTime  SlotTime         `json:"slot_time"`
	Waits     []Wait           `json:"waits,omitempty"` // longest first; only with ClusterOptions.Explain
	Counters  map[string]int64 `json:"counters"`        // built-in counters above 0, as map.input_records
	User      map[string]int64 `json:"user_counters,omitempty"`
}

// RunSummary is the object that --json of a program and --print json of slotwise run print: one
// run, which may have several jobs.
type RunSummary struct {
	Program string        `json:"program"`
	State   string        `json:"state"` // succeeded, failed or killed; accepted if the end is not awaited
	Error   string        `json:"error,omitempty"`
	Exit    int           `json:"exit_status,omitempty"` // of a run that did not succeed
	Output  string        `json:"output,omitempty"`
	Result  *string       `json:"result,omitempty"` // of the command: a small result without --output
	Elapsed time.Duration `json:"elapsed_ns"`
	Jobs    []*Result     `json:"jobs"`
}

// WriteJSON writes the summary as one line.
func (s *RunSummary) WriteJSON(w io.Writer) error {
	if s.Jobs == nil {
		s.Jobs = []*Result{} // readers of the list need no null
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(s)
}

// setError sets the state of a program of [Main] that ended with an error, if there is one.
func (s *RunSummary) setError(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
		s.State, s.Error, s.Exit = "killed", terminal.ErrInterrupted.Error(), ExitInterrupted
	case err != nil:
		s.State, s.Error, s.Exit = "failed", err.Error(), ExitFailed
	}
}

// Locality counts map attempts by the distance between the attempt and its data.
type Locality struct {
	Node int `json:"node"`
	Rack int `json:"rack"`
	Any  int `json:"any"`
	None int `json:"none"` // the data has no location
}

// SlotTime is the total time for which the job's attempts occupied slots.
type SlotTime struct {
	Map    time.Duration `json:"map_ns"`
	Reduce time.Duration `json:"reduce_ns"`
}

// Wait is a reason why tasks of a job waited, and the total time of that.
type Wait struct {
	Tasks  string        `json:"tasks"` // map or reduce
	For    time.Duration `json:"for_ns"`
	Reason string        `json:"reason"`
}

// Summary prints the job's state, time and counters for people to read.
func (r *Result) Summary(w io.Writer) {
	terminal.Summary(w, &terminal.Outcome{
		Job: r.Job, State: r.State, Took: r.Elapsed, Maps: r.Maps, Reduces: r.Reduces, Counters: r.Counters, User: r.User,
	})
}

// newResult makes the result of a job whose user called its output out.
func newResult(o *feature.Outcome, out string) *Result {
	r := &Result{
		Job: o.Name, ID: o.ID, State: o.State, Output: out,
		Elapsed: o.Elapsed, Submitted: o.Submitted, Started: o.Started, Ended: o.Ended,
		Maps: o.Maps, Reduces: o.Reduces, Failures: o.Failures, Copies: o.Copies,
		Locality: Locality{o.Locality[0], o.Locality[1], o.Locality[2], o.Locality[3]},
		SlotTime: SlotTime{o.SlotTime[job.Map], o.SlotTime[job.Reduce]},
		// Never nil, so that JSON has {} for counters and not null.
		Counters: map[string]int64{}, User: map[string]int64{},
	}
	for _, w := range o.Waits {
		r.Waits = append(r.Waits, Wait{w.Kind.String(), w.For, w.Reason})
	}
	for kind := range o.Counters {
		o.Counters[kind].PutJSON(r.Counters, job.Kind(kind).String())
		for name, n := range o.Counters[kind].User() {
			r.User[name] += n
		}
	}
	return r
}
