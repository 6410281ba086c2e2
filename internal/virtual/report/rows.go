package report

import (
	"time"

	"github.com/slotwise/slotwise/internal/virtual/metrics"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// JobRow is a row of the table of jobs. Times are seconds since the start of the run, -1 if
// the event did not happen.
type JobRow struct {
	Policy string `parquet:"policy,dict" csv:"policy"`
	Seed   uint64 `parquet:"seed" csv:"seed"`
	// Index is the job's position in the workload, from 0.
	Index int64  `parquet:"job" csv:"job"`
	Name  string `parquet:"name" csv:"name"`
	Class string `parquet:"class,dict" csv:"class"`
	Pool  string `parquet:"pool,dict" csv:"pool"`
	User  string `parquet:"user,dict" csv:"user"`
	State string `parquet:"state,dict" csv:"state"`

	Maps    int64 `parquet:"maps" csv:"maps"`
	Reduces int64 `parquet:"reduces" csv:"reduces"`

	Submitted float64 `parquet:"submitted_s" csv:"submitted_s"`
	Started   float64 `parquet:"started_s" csv:"started_s"`
	MapsDone  float64 `parquet:"maps_done_s" csv:"maps_done_s"`
	Ended     float64 `parquet:"ended_s" csv:"ended_s"`
	// Response, Alone and Slowdown are as in collect.Report; -1 for a job that
	// has not ended.
	Response float64 `parquet:"response_s" csv:"response_s"`
	Alone    float64 `parquet:"alone_s" csv:"alone_s"`
	Slowdown float64 `parquet:"slowdown" csv:"slowdown"`

	// NodeLocal, RackLocal and OffRack count launched maps.
	NodeLocal int64 `parquet:"node_local" csv:"node_local"`
	RackLocal int64 `parquet:"rack_local" csv:"rack_local"`
	OffRack   int64 `parquet:"off_rack" csv:"off_rack"`
	Attempts  int64 `parquet:"attempts" csv:"attempts"`
	Copies    int64 `parquet:"copies" csv:"copies"`
	// MapSlots and ReduceSlots are slot-seconds of its maps and reduces.
	MapSlots    float64 `parquet:"map_slot_s" csv:"map_slot_s"`
	ReduceSlots float64 `parquet:"reduce_slot_s" csv:"reduce_slot_s"`

	// Program is the version that made the run. Record is the digest of the Record in
	// report.json without its Result.
	Program string `parquet:"program,dict" csv:"program"`
	Record  string `parquet:"record,dict" csv:"record"`
}

// RunRow identifies a simulation run. Program and Record identify its program and settings; see
// JobRow.
type RunRow struct {
	Policy          string
	Seed            uint64
	Program, Record string `json:"-"`
}

// Jobs returns the rows of a run's jobs, by index.
func Jobs(run RunRow, jobs []workload.Job, r *sim.Result, alone []time.Duration, uses []collect.Use) []JobRow {
	rows := make([]JobRow, len(jobs))
	for i := range jobs {
		j, x, u := &jobs[i], &r.Jobs[i], &uses[i]
		row := JobRow{Policy: run.Policy, Seed: run.Seed, Index: int64(i), Name: j.Name, Class: collect.ClassOf(j),
			Pool: collect.PoolOf(j), User: j.User, State: x.State.String(), Maps: int64(j.Count(job.Map)), Reduces: int64(j.Count(job.Reduce)),
			Submitted: at(x.Submitted), Started: at(x.Started), MapsDone: at(x.MapsDone), Ended: at(x.Ended),
			// -1 and not an empty cell or NaN: both tables have the same numbers, and tools read -1 without
			// options.
			Response: -1, Slowdown: -1, Alone: alone[i].Seconds(),
			NodeLocal: int64(x.Maps[cluster.NODE]), RackLocal: int64(x.Maps[cluster.RACK]), OffRack: int64(x.Maps[cluster.ANY]),
			Attempts: int64(u.Attempts), Copies: int64(u.Copies),
			MapSlots: u.Slots[job.Map], ReduceSlots: u.Slots[job.Reduce], Program: run.Program, Record: run.Record}
		if x.Ended >= 0 && x.Submitted >= 0 {
			row.Response = (x.Ended - x.Submitted).Seconds()
			row.Slowdown = metrics.Slowdown(row.Response, row.Alone)
		}
		rows[i] = row
	}
	return rows
}

// at returns a time in seconds, or -1 for no time.
func at(d time.Duration) float64 {
	if d < 0 {
		return -1
	}
	return d.Seconds()
}

// AttemptRow is a row of the table of tasks: one ended attempt. Times are seconds since the
// start of the run.
type AttemptRow struct {
	Job     int64  `parquet:"job" csv:"job"` // position in the workload, from 0
	Attempt string `parquet:"attempt" csv:"attempt"`
	Kind    string `parquet:"kind,dict" csv:"kind"`
	Slot    string `parquet:"slot,dict" csv:"slot"`
	Node    string `parquet:"node,dict" csv:"node"`
	Level   string `parquet:"locality,dict" csv:"locality"`
	Copy    bool   `parquet:"copy" csv:"copy"`
	Outcome string `parquet:"outcome,dict" csv:"outcome"`
	// Started is the launch, Finished the end of the attempt's work, and Left when
	// the tracker learned of the end and freed the slot.
	Started  float64 `parquet:"started_s" csv:"started_s"`
	Finished float64 `parquet:"finished_s" csv:"finished_s"`
	Left     float64 `parquet:"left_s" csv:"left_s"`
	Bytes    int64   `parquet:"bytes" csv:"bytes"`
}

// attemptOf returns the row for an attempt's end.
func attemptOf(e *sim.Event) AttemptRow {
	return AttemptRow{Job: int64(e.Job), Attempt: e.Attempt.String(), Kind: e.Attempt.Kind.String(), Slot: e.Slot.String(),
		Node: e.NodeName, Level: e.Level.String(), Copy: e.Speculative, Outcome: e.Outcome.String(),
		Started: e.Started.Seconds(), Finished: e.Finished.Seconds(), Left: e.At.Seconds(), Bytes: e.Bytes}
}
