package mapreduce

import (
	"io"
	"time"

	"github.com/slotwise/slotwise/internal/console"
	"github.com/slotwise/slotwise/internal/feature"
	"github.com/slotwise/slotwise/internal/job"
)

// Result is what a finished job leaves to say. Times are since the cluster that
// ran it was started.
type Result struct {
	Job       string           `json:"job"`
	ID        string           `json:"id"`
	State     string           `json:"state"` // succeeded, failed or killed
	Output    string           `json:"output,omitempty"`
	Elapsed   time.Duration    `json:"elapsed_ns"`
	Submitted time.Duration    `json:"submitted_ns"`
	Started   time.Duration    `json:"started_ns"` // first task launched; 0 if none was
	Ended     time.Duration    `json:"ended_ns"`
	Maps      int              `json:"maps"`
	Reduces   int              `json:"reduces"`
	Failures  int              `json:"failed_attempts"`
	Copies    int              `json:"speculative_attempts,omitempty"`
	Locality  Locality         `json:"locality"`
	SlotTime  SlotTime         `json:"slot_time"`
	Waits     []Wait           `json:"waits,omitempty"` // longest first, if asked for
	Counters  map[string]int64 `json:"counters"`        // the engine's, as kind.name
	User      map[string]int64 `json:"user_counters,omitempty"`
}

// Locality counts map attempts by how close they ran to their data.
type Locality struct {
	Node int `json:"node"`
	Rack int `json:"rack"`
	Any  int `json:"any"`
	None int `json:"none"` // the data is nowhere in particular
}

// SlotTime is for how long slots of each kind were occupied.
type SlotTime struct {
	Map    time.Duration `json:"map_ns"`
	Reduce time.Duration `json:"reduce_ns"`
}

// Wait is a reason for which tasks of a job waited, in words, and for how long
// in all.
type Wait struct {
	Tasks  string        `json:"tasks"` // map or reduce
	For    time.Duration `json:"for_ns"`
	Reason string        `json:"reason"`
}

// Summary prints how the job ended and what it counted, for people to read.
func (r *Result) Summary(w io.Writer) {
	console.Summary(w, &console.Outcome{
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
