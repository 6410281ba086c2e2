package workload

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// maxRow bounds a line of a table.
const maxRow = 1 << 20

// eachRow reads a table of values separated by commas. It calls do with each row and its
// line until do returns false. The fields are valid until do returns. A value may be
// quoted, but may not contain a newline, so that a stray quote cannot fill the memory.
func eachRow(im *importer, in io.Reader, do func(line int, row []string) bool) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxRow)
	for number := 1; lines.Scan(); number++ {
		text := strings.TrimSuffix(lines.Text(), "\r")
		if text == "" {
			continue
		}
		row := strings.Split(text, ",")
		// A row with quotes, such as Google's with a list of predecessors, needs encoding/csv and a reader of
		// its own. Most rows have none.
		if strings.Contains(text, `"`) {
			var err error
			if row, err = csv.NewReader(strings.NewReader(text)).Read(); err != nil {
				var parse *csv.ParseError
				if errors.As(err, &parse) {
					err = parse.Err
				}
				im.fail(number, "is no row of values with commas between them: %s", err)
				return nil
			}
		}
		if !do(number, row) {
			return nil
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("has a line of more than %d bytes", maxRow)
	}
	return lines.Err()
}

// run is a task that has run: the compact form in which importers of large tables keep it.
type run struct {
	index  int32
	millis uint32  // at most maxRun
	cores  float32 // used on average, 0 unknown
}

// maxRun bounds the time of a run in ms: 49 days, longer than any of these traces.
const maxRun = 1<<32 - 1

// newRun returns the run of a task from its times in ms, or an error.
func newRun(index int32, start, end int64, cores float32) (run, error) {
	d, err := span(start, end)
	if err != nil {
		return run{}, err
	}
	if d/time.Millisecond > maxRun {
		return run{}, fmt.Errorf("it took %v, more than %v", d, maxRun*time.Millisecond)
	}
	return run{index, uint32(d / time.Millisecond), cores}, nil
}

// runTasks returns tasks in the order of their indexes, and at least n tasks: those
// without a run get the median time. It returns the number of the latter.
func runTasks(runs []run, n int) (tasks []Task, guessed int) {
	slices.SortStableFunc(runs, func(a, b run) int { return int(a.index) - int(b.index) })
	tasks = make([]Task, max(n, len(runs)))
	var known []time.Duration
	for i, r := range runs {
		d := time.Duration(r.millis) * time.Millisecond
		tasks[i] = Task{Duration: d, CPU: time.Duration(float64(d) * float64(r.cores))}
		// Sorting the durations of a task with all its rows would be for nothing.
		if n > len(runs) {
			known = append(known, d)
		}
	}
	middle := median(known)
	for i := len(runs); i < len(tasks); i++ {
		tasks[i].Duration = middle
		guessed++
	}
	return tasks, guessed
}
