package workload

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
)

// jhistMagic is the first line of a history file of Hadoop 2 and 3, which holds JSON as
// Avro writes it. A file in Avro's binary encoding begins with jhistBinary.
const (
	jhistMagic  = "Avro-Json"
	jhistBinary = "Avro-Binary"
)

// jhistEvent is a line of a .jhist file. The event is an object with one field, whose name
// is the event's class.
type jhistEvent struct {
	Type  string               `json:"type"`
	Event map[string]jhistBody `json:"event"`
}

// jhistBody holds the used fields of all classes of events. Times are in ms since the
// epoch.
type jhistBody struct {
	JobID     string    `json:"jobid"`
	JobName   string    `json:"jobName"`
	User      string    `json:"userName"`
	Queue     avroText  `json:"jobQueueName"`
	Priority  string    `json:"priority"`
	Submit    *int64    `json:"submitTime"`
	Maps      *int      `json:"totalMaps"`
	Reduces   *int      `json:"totalReduces"`
	Uber      bool      `json:"uberized"`
	Flow      avroText  `json:"workflowAdjacencies"`
	TaskID    string    `json:"taskid"`
	TaskType  string    `json:"taskType"`
	Splits    string    `json:"splitLocations"`
	AttemptID string    `json:"attemptId"`
	Start     *int64    `json:"startTime"`
	Finish    *int64    `json:"finishTime"`
	Shuffle   *int64    `json:"shuffleFinishTime"`
	Status    string    `json:"taskStatus"` // of an attempt that succeeded
	Outcome   string    `json:"status"`     // of one that did not
	Counters  jhistSums `json:"counters"`
}

// jhistSums holds the counters of an attempt. A missing list is null or Avro's union.
type jhistSums struct {
	Groups []struct {
		Counts []struct {
			Name  string `json:"name"`
			Value int64  `json:"value"`
		} `json:"counts"`
	} `json:"groups"`
}

// avroText is a text, or Avro's union of a text and null: {"string": "x"}.
type avroText string

// UnmarshalJSON implements json.Unmarshaler.
func (t *avroText) UnmarshalJSON(b []byte) error {
	var union struct {
		Text string `json:"string"`
	}
	if len(b) > 0 && b[0] == '{' {
		err := json.Unmarshal(b, &union)
		*t = avroText(union.Text)
		return err
	}
	var text string
	err := json.Unmarshal(b, &text)
	*t = avroText(text)
	return err
}

// jhist reads the lines of a .jhist file after the first one. The second line is Avro's
// schema.
func (h *history) jhist(lines *bufio.Scanner) {
	for number := 2; lines.Scan() && !h.im.full(); number++ {
		text := lines.Bytes()
		if number == 2 || len(text) == 0 {
			continue
		}
		var e jhistEvent
		if err := json.Unmarshal(text, &e); err != nil {
			h.im.fail(number, "is no event such as {\"type\":…,\"event\":{…}}: %s", err)
			return
		}
		for _, body := range e.Event { //house:sorted an event has one class
			h.jhistEvent(number, e.Type, &body)
		}
	}
}

// jhistEvent translates an event into the records of an older log.
// Tasks come in the order of their starts, as in older logs; endJob sorts them.
func (h *history) jhistEvent(line int, kind string, e *jhistBody) {
	switch {
	case kind == "JOB_SUBMITTED":
		h.beginJob(line, &rumenJob{ID: e.JobID, Name: e.JobName, User: e.User, Queue: string(e.Queue), Submit: e.Submit})
		if e.Flow != "" {
			h.im.noteUnused(line, "workflowAdjacencies")
		}
		return
	case h.job == nil:
		return // AM_STARTED, or a job whose beginning is missing
	}
	switch kind {
	// JOB_SUBMITTED comes before the application master has read the splits, so only this one has the numbers
	// of tasks.
	case "JOB_INITED":
		h.counts(e.Maps, e.Reduces)
		if e.Uber {
			// Its tasks ran one after another inside the application master. The replay runs them in slots.
			h.im.noteUnused(line, "uberized")
		}
	case "JOB_PRIORITY_CHANGED":
		h.job.Priority = e.Priority
	case "JOB_QUEUE_CHANGED":
		// A pool of the configuration has replaced the queue at the job's beginning, and stays.
		if h.confs[h.job.ID].pool == "" && e.Queue != "" {
			h.job.Queue = string(e.Queue)
		}
	case "JOB_FINISHED":
		h.job.Outcome, h.job.Finish = "SUCCESS", e.Finish
	// All three leave the job out, unless TraceOptions.All keeps it with the tasks that it had.
	case "JOB_FAILED", "JOB_KILLED", "JOB_ERROR":
		h.job.Outcome, h.job.Finish = "FAILED", e.Finish
	}
	// Events of the job have no type; set-up and clean-up tasks of old versions have their own, and the world
	// of a simulation adds their time.
	if e.TaskType != "MAP" && e.TaskType != "REDUCE" {
		return
	}
	t := h.task(e.TaskID, e.TaskType)
	switch {
	// The only event with the hosts of a split; TASK_FINISHED has none and changes nothing.
	case kind == "TASK_STARTED" && e.Splits != "":
		t.setHosts(e.Splits)
	// Before the next case, whose words are in this name, too: a start has no end to take.
	case strings.HasSuffix(kind, "_ATTEMPT_STARTED"):
		t.attempt(e.AttemptID).Start = e.Start
	case strings.Contains(kind, "_ATTEMPT_"):
		a := t.attempt(e.AttemptID)
		// Failed and killed attempts share a class of event. Its status is FAILED or KILLED, never SUCCESS.
		a.Finish, a.ShuffleFinished, a.Result = e.Finish, e.Shuffle, e.Outcome
		if strings.HasSuffix(kind, "_FINISHED") {
			a.Result = "SUCCESS"
		}
		for _, g := range e.Counters.Groups {
			for _, c := range g.Counts {
				a.count(c.Name, c.Value)
			}
		}
	}
}

// errBinary explains what to do with Avro's binary encoding.
var errBinary = fmt.Errorf("is in Avro's binary encoding, which this importer does not read; "+
	"set mapreduce.jobhistory.jhist.format=json, or convert it with avro-tools tojson and the first line %s", jhistMagic)
