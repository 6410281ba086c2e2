package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
)

// phases are where a job's time went, in seconds, by its event log. Tasks whose
// attempts did not succeed do not count.
type phases struct {
	start   float64 // from submission to the first launch, planning included
	maps    float64 // from the first launch to the end of the last map
	rest    float64 // from there to the job's end
	mapTask float64 // mean duration of a map
	reduce  float64 // mean time of a reduce after the last map
	// mapCPU and reduceCPU are the mean processor times of a task.
	mapCPU, reduceCPU float64
}

// line writes an event and its effects as the local shell does.
func line(w io.Writer, now time.Duration, ev tracker.Event, effects []tracker.Effect) {
	fmt.Fprintf(w, "%.6f %s\n", now.Seconds(), tracker.FormatEvent(ev))
	for _, e := range effects {
		fmt.Fprintf(w, "%.6f   %s\n", now.Seconds(), e)
	}
}

// story is what the log says of one job, in seconds since the start of the log.
type story struct {
	first, lastMap, ended float64
	launched              map[string]float64 // by attempt
	mapTimes              []float64
	reduceEnds            []float64
}

// readLog reads an event log and returns the jobs' stories in the order in which
// they were accepted, with times by a clock, if there is one.
func readLog(in io.Reader, c *clock) ([]*story, error) {
	var list []*story
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
			list = append(list, &story{first: -1, launched: map[string]float64{}})
		case "launch":
			s := storyOf(list, f[2])
			if s.launched[f[2]] = at; s.first < 0 {
				s.first = at
			}
		case "done":
			storyOf(list, f[2]).ended = at
		case "heartbeat":
			for _, report := range f[3:] {
				if id, ok := strings.CutSuffix(report, ":succeeded"); ok {
					storyOf(list, id).taskDone(id, at)
				}
			}
		}
	}
	return list, lines.Err()
}

// storyOf finds the job of j3, or of j3_m_0_0: its number is its place.
func storyOf(list []*story, id string) *story {
	n, _, _ := strings.Cut(strings.TrimPrefix(id, "j"), "_")
	at, err := strconv.Atoi(n)
	if err != nil || at < 1 || at > len(list) {
		return &story{launched: map[string]float64{}} // of no job of ours
	}
	return list[at-1]
}

func (s *story) taskDone(id string, at float64) {
	if strings.Contains(id, "_m_") {
		s.lastMap = at
		s.mapTimes = append(s.mapTimes, at-s.launched[id])
		return
	}
	s.reduceEnds = append(s.reduceEnds, at-max(s.lastMap, s.launched[id]))
}

// phases sums a story up, for a job that was to be submitted at a time.
func (s *story) phases(submitted float64) phases {
	return phases{start: s.first - submitted, maps: s.lastMap - s.first, rest: s.ended - s.lastMap,
		mapTask: mean(s.mapTimes), reduce: mean(s.reduceEnds)}
}

func mean(list []float64) float64 {
	sum := 0.
	for _, x := range list {
		sum += x
	}
	return sum / float64(max(1, len(list)))
}
