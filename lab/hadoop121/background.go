package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
)

// A recorded run has the share of the machine's processors that was in use in each second
// (cpu.tsv), by this cluster and by the others beside it. What the others used is the rest after
//
//   - the starts of this cluster's processes: startCPU for each attempt that started one, spread
//     evenly over the time that its start took in the record;
//   - the share that the daemons and the recorder used in the calibration runs, which the model's
//     times contain.
//
// Nothing is fitted to the run that is replayed. As a check, the recordings state how much processor
// time some runs used themselves, all processes together: the rest of these runs is 38 % of the
// machine for fifo-c-0, 25 % for fifo-a-2 and 41 % for capacity-a, where this file finds 37, 24 and 39 %.
const (
	// startCPU is the processor time in seconds in which a process starts, as measured by the
	// recordings. The model's Start is larger, since it contains what a start makes daemons do.
	startCPU = 0.45
	// daemonShare is the mean rest of fifo-c-1, fifo-c-2 and fifo-hb3: 17.4, 18.1 and 16.1 %.
	daemonShare = 0.172
	// backgroundStep averages what the record of an attempt's start cannot place within seconds.
	backgroundStep = 5
)

// readBackground returns the share of the processors that other programs took during a recorded run.
// It returns nil if the folder has no cpu.tsv.
func readBackground(folder string, w *workloadFile, result *resultFile) ([]sim.Background, error) {
	b, err := os.ReadFile(filepath.Join(folder, "cpu.tsv"))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	own := startsBySecond(w, result)
	var list []sim.Background
	sum, n := 0., 0
	lines := bufio.NewScanner(bytes.NewReader(b))
	for number := 1; lines.Scan(); number++ {
		var at int64
		var busy, average float64
		if number == 1 {
			continue // the names of the columns
		}
		if _, err := fmt.Sscan(lines.Text(), &at, &busy, &average); err != nil || at < 0 || !(busy >= 0 && busy <= 1) {
			return nil, fmt.Errorf("%s/cpu.tsv:%d: %q, want a time in ms, a share and a load average", folder, number, lines.Text())
		}
		// A line is about the second before it.
		second := max(0, at/1000-1)
		sum += busy - own[second]/cores
		if n++; n < backgroundStep {
			continue
		}
		from := max(0, ms(at)-backgroundStep*time.Second)
		list = append(list, sim.Background{At: from, Node: -1, Share: min(0.95, max(0, sum/float64(n)-daemonShare))})
		sum, n = 0, 0
	}
	return list, lines.Err()
}

// cores is the number of processors of the machine of all recorded runs.
const cores = 2

// startsBySecond returns the processor time in seconds that the starts of a cluster's processes
// take in each second of a run.
func startsBySecond(w *workloadFile, result *resultFile) map[int64]float64 {
	sleep := map[string]int64{}
	for _, j := range w.Jobs {
		sleep[j.ID] = j.Map
	}
	const usual = 1500 // ms that the start of a reduce takes, whose shuffle hides it
	out := map[int64]float64{}
	for _, a := range result.Attempts {
		if a.Start == 0 || a.Finish == 0 {
			continue
		}
		took := int64(usual)
		if a.Kind == "MAP" && a.State == "SUCCESS" {
			took = a.Finish - a.Start - sleep[a.Job]
			// Its process had run another map of the job.
			if w.JVMReuse < 0 && took < 1000 {
				continue
			}
		} else if a.Kind == "SETUP" || a.Kind == "CLEANUP" {
			took = a.Finish - a.Start
		}
		took = max(took, int64(1000*startCPU))
		for at := a.Start; at < a.Start+took; {
			next := min(at/1000*1000+1000, a.Start+took)
			out[at/1000] += startCPU * float64(next-at) / float64(took)
			at = next
		}
	}
	return out
}
