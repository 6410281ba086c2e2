package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/lab/harness"
)

// phases divide a job's response time, in seconds, by its event log. Attempts that
// did not succeed do not count.
type phases struct {
	start   float64 // from submission to the first launch, planning included
	maps    float64 // from the first launch to the end of the last map
	rest    float64 // from there to the job's end
	mapTask float64 // mean duration of a map
	reduce  float64 // mean time of a reduce after the last map
	// mapCPU and reduceCPU are the mean processor times of a task.
	mapCPU, reduceCPU float64
}

// writeStep writes an event and its effects in the format of the local shell's
// event log.
func writeStep(w io.Writer, now time.Duration, ev tracker.Event, effects []tracker.Effect) {
	fmt.Fprintf(w, "%.6f %s\n", now.Seconds(), tracker.FormatEvent(ev))
	for _, e := range effects {
		fmt.Fprintf(w, "%.6f   %s\n", now.Seconds(), e)
	}
}

// jobLog has the times at which things happened to one job, in seconds since the
// start of the event log.
type jobLog struct {
	accepted   float64            // when the tracker got the job
	first      float64            // first launch; -1 before it
	lastMap    float64            // end of the last map so far
	ended      float64            // end of the job
	launched   map[string]float64 // by attempt
	mapTimes   []float64          // duration of each map
	reduceEnds []float64          // time of each reduce after the last map
}

// readLog reads an event log and returns one entry for each job, in the order in
// which the tracker accepted them. It converts the times with the clock c unless c
// is nil.
func readLog(in io.Reader, c *clock) ([]*jobLog, error) {
	var list []*jobLog
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 2 {
			continue
		}
		at, err := strconv.ParseFloat(f[0], 64)
		if err != nil {
			return nil, fmt.Errorf("event log: %q: %w", lines.Text(), err)
		}
		if c != nil {
			at = c.at(time.Duration(at * float64(time.Second))).Seconds()
		}
		switch f[1] {
		case "accepted":
			list = append(list, &jobLog{accepted: at, first: -1, launched: map[string]float64{}})
		case "launch":
			s := jobOf(list, f[2])
			if s.launched[f[2]] = at; s.first < 0 {
				s.first = at
			}
		case "done":
			jobOf(list, f[2]).ended = at
		case "heartbeat":
			for _, report := range f[3:] {
				if id, ok := strings.CutSuffix(report, ":succeeded"); ok {
					jobOf(list, id).taskDone(id, at)
				}
			}
		}
	}
	return list, lines.Err()
}

// jobOf returns the job of an id such as j3 or j3_m_0_0, where 3 is the third job in
// the list. For an unknown id it returns an empty job that is not in the list.
func jobOf(list []*jobLog, id string) *jobLog {
	n, _, _ := strings.Cut(strings.TrimPrefix(id, "j"), "_")
	at, err := strconv.Atoi(n)
	if err != nil || at < 1 || at > len(list) {
		return &jobLog{launched: map[string]float64{}}
	}
	return list[at-1]
}

// taskDone records the end of a successful attempt.
func (s *jobLog) taskDone(id string, at float64) {
	if strings.Contains(id, "_m_") {
		s.lastMap = at
		s.mapTimes = append(s.mapTimes, at-s.launched[id])
		return
	}
	s.reduceEnds = append(s.reduceEnds, at-max(s.lastMap, s.launched[id]))
}

// phases computes the phases of a job that was submitted at the given time.
func (s *jobLog) phases(submitted float64) phases {
	return phases{start: s.first - submitted, maps: s.lastMap - s.first, rest: s.ended - s.lastMap,
		mapTask: harness.Mean(s.mapTimes), reduce: harness.Mean(s.reduceEnds)}
}
