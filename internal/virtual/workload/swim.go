package workload

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/sched/job"
)

// SWIMOptions say how the rows of a SWIM trace become tasks, which the trace
// does not describe. The zero value selects the defaults.
type SWIMOptions struct {
	TraceOptions
	// Block is the bytes of input of one map: a row has max(1, ⌈input/Block⌉)
	// maps. Default 64 MiB.
	Block int64
	// ReduceBytes is the bytes of shuffle or output for each reduce: a row has
	// ⌈max(shuffle, output)/ReduceBytes⌉ reduces, and none without shuffle. Output
	// counts because a job with little shuffle and much output would else become one
	// reduce that writes for days. Default 1 GiB. ReducesPerMap, if above 0, replaces
	// this rule: ⌈maps · ReducesPerMap⌉.
	ReduceBytes   int64
	ReducesPerMap float64
	// MaxReduces bounds the reduces of a job; 0 means no bound.
	MaxReduces int
	// MapOutput is the most that a map of a map-only job writes: a row has
	// ⌈output/MapOutput⌉ maps if that is more. Jobs with much output and little
	// input generate data, and Hadoop's RandomWriter writes 1 GiB with each
	// map, which is the default. Negative means no bound. Such jobs then have
	// one map that runs for hours, and there is a warning.
	MapOutput int64
	// DataScale multiplies all bytes, for smaller clusters; 0 means 1.
	DataScale float64
	// Rate is the bytes per second that a task processes, Startup the time that
	// it takes in addition. The bytes of a map are its input, plus its output
	// in a map-only job. The bytes of a reduce are its part of the shuffle and
	// of the output. The default Rate is 64 MiB in 18.5 s, which TuMM reports
	// for a map of Grep on machines of the trace's age. The default Startup of
	// 1 s is a guess; negative means 0.
	Rate    float64
	Startup time.Duration
	// Profile, if set, makes tasks go through stages: the trace states the
	// bytes, the profile the CPU costs.
	Profile *Profile
	// Outline gives jobs an Outline in place of tasks.
	Outline bool
}

// The defaults of SWIMOptions.
const (
	defaultReduceBytes = 1 << 30
	defaultRate        = DefaultBlock / 18.5
	defaultStartup     = time.Second
	defaultMapOutput   = 1 << 30
)

// fill replaces zero fields by the defaults and checks the options.
func (o *SWIMOptions) fill() error {
	if o.Block == 0 {
		o.Block = DefaultBlock
	}
	if o.ReduceBytes == 0 {
		o.ReduceBytes = defaultReduceBytes
	}
	if o.MapOutput == 0 {
		o.MapOutput = defaultMapOutput
	}
	if o.DataScale == 0 {
		o.DataScale = 1
	}
	if o.Rate == 0 {
		o.Rate = defaultRate
	}
	if o.Startup == 0 {
		o.Startup = defaultStartup
	}
	o.Startup = max(0, o.Startup)
	if o.Block < 0 || o.ReduceBytes < 0 || o.MaxReduces < 0 || !(o.DataScale > 0 && o.DataScale < MaxScale) ||
		!(o.Rate > 0) || !(o.ReducesPerMap >= 0 && o.ReducesPerMap < 1e9) || o.Startup > maxTime {
		return errors.New("sizes, scales and rates must be above 0")
	}
	return o.check()
}

// ReadSWIM reads a SWIM trace. Each line has the job, the time of submission in
// seconds, the gap since the previous job, and the bytes of input, shuffle and
// output, separated by tabs. The gap is checked and not used. Errors name the
// file and line.
func ReadSWIM(file string, in io.Reader, options SWIMOptions) (*Trace, error) {
	if err := options.fill(); err != nil {
		return nil, fmt.Errorf("%s: options: %w", file, err)
	}
	im := &importer{r: reader{file: file}, options: options.TraceOptions}
	lines := bufio.NewScanner(in)
	number, heavy, where := 0, 0, 0
	for lines.Scan() && !im.full() {
		number++
		// The CR of a file from Windows would be a part of the output bytes, the last column.
		if text := bytes.TrimRight(lines.Bytes(), "\r"); len(bytes.TrimSpace(text)) > 0 {
			j, err := options.row(string(text))
			if err != nil {
				im.fail(number, "%s", err)
				continue
			}
			// The user has turned the bound off, perhaps without knowing that such jobs are in the
			// trace. One warning names the first.
			if len(j.Reduces) == 0 && options.MapOutput < 0 && j.Maps[0].Output > defaultMapOutput {
				if heavy++; heavy == 1 {
					where = number
				}
			}
			if j.Outline != nil {
				// They were made only to check the row. The outline makes them again when the job
				// is submitted, so a trace does not fill the memory.
				j.Maps, j.Reduces = nil, nil
			}
			im.add(number, j)
		}
	}
	if err := lines.Err(); err != nil {
		// The scanner fails on the line after the last one that it returned.
		im.fail(number+1, "%s", err)
	}
	if heavy > 0 {
		im.warn(where, "maps that write more than 1 GiB each; %d such map-only jobs, a bound on a map's output would give them more maps", heavy)
	}
	return im.finish()
}

// swimColumns are the names of the columns.
var swimColumns = []string{"job", "submit time", "gap", "input bytes", "shuffle bytes", "output bytes"}

// row converts one line.
func (o *SWIMOptions) row(line string) (Job, error) {
	cells := strings.Split(line, "\t")
	if len(cells) != len(swimColumns) {
		return Job{}, fmt.Errorf("%d columns, must be %d: %s", len(cells), len(swimColumns), strings.Join(swimColumns, ", "))
	}
	// The gap is parsed, too: a row whose columns are shifted has no number there.
	var times [2]time.Duration
	for i := range times {
		v, err := strconv.ParseFloat(cells[1+i], 64)
		if err == nil {
			times[i], err = seconds(v)
		} else {
			err = fmt.Errorf("%q is not a number", cells[1+i])
		}
		if err != nil {
			return Job{}, fmt.Errorf("%s: %w", swimColumns[1+i], err)
		}
	}
	var sizes [3]int64
	for i := range sizes {
		v, err := strconv.ParseInt(cells[3+i], 10, 64)
		// A float, which cannot overflow; the bound below rejects what an int64 could not hold.
		scaled := math.Round(float64(v) * o.DataScale)
		switch {
		case err != nil:
			return Job{}, fmt.Errorf("%s: %q is not a whole number", swimColumns[3+i], cells[3+i])
		case v < 0 || scaled > maxBytes:
			return Job{}, fmt.Errorf("%s: %d, must be from 0 to 2⁶⁰", swimColumns[3+i], v)
		}
		sizes[i] = int64(scaled)
		if v > 0 {
			sizes[i] = max(1, sizes[i]) // a job does not become map-only by scaling
		}
	}
	j, err := o.job(sizes[0], sizes[1], sizes[2])
	j.Name, j.Submit = cells[0], times[0]
	if o.Outline && err == nil {
		j.Outline = &Outline{Maps: len(j.Maps), Reduces: len(j.Reduces), Make: func() (maps, reduces []Task) {
			again, _ := o.job(sizes[0], sizes[1], sizes[2]) // no error, as above
			return again.Maps, again.Reduces
		}}
	}
	return j, err
}

// job makes the tasks of a job from its bytes.
func (o *SWIMOptions) job(input, shuffle, output int64) (Job, error) {
	j := Job{Origin: Computed}
	var err error
	if j.Maps, err = split(input, o.Block); err != nil {
		return j, fmt.Errorf("input bytes: %w", err)
	}
	out := output
	switch n := math.Ceil(float64(output) / float64(max(1, o.MapOutput))); {
	// The maps of a map-only job write its output. By the input alone, a job that reads little and
	// writes a terabyte would have one map that runs for hours.
	case shuffle == 0 && o.MapOutput > 0 && n > float64(len(j.Maps)):
		if j.Maps, err = count(job.Map, n); err != nil {
			return j, fmt.Errorf("output bytes: %w", err)
		}
		for i := range j.Maps {
			j.Maps[i].Input = share(input, i, len(j.Maps))
		}
	// Without shuffle there are no reduces, whatever the output is: the trace's map-only jobs.
	case shuffle > 0:
		out = shuffle
		n := math.Ceil(float64(max(shuffle, output)) / float64(o.ReduceBytes))
		if o.ReducesPerMap > 0 {
			n = math.Ceil(float64(len(j.Maps)) * o.ReducesPerMap)
		}
		if o.MaxReduces > 0 {
			n = min(n, float64(o.MaxReduces))
		}
		if j.Reduces, err = count(job.Reduce, n); err != nil {
			return j, fmt.Errorf("shuffle bytes: %w", err)
		}
	}
	for i := range j.Maps {
		t := &j.Maps[i]
		t.Output = share(out, i, len(j.Maps))
		work := t.Input
		// Other maps write for the reduces, whose time is in the reduces' work.
		if shuffle == 0 {
			work += t.Output
		}
		o.cost(t, job.Map, work, 0)
	}
	for i := range j.Reduces {
		t := &j.Reduces[i]
		t.Input, t.Output = share(shuffle, i, len(j.Reduces)), share(output, i, len(j.Reduces))
		o.cost(t, job.Reduce, t.Input+t.Output, len(j.Maps))
	}
	return j, nil
}

// cost gives a task its time: a duration for work bytes, or the CPU costs of
// the profile, which for a reduce depend on the number of maps.
func (o *SWIMOptions) cost(t *Task, kind job.Kind, work int64, maps int) {
	switch p := o.Profile; {
	case p == nil:
		t.Duration = o.Startup + milliseconds(float64(work)/o.Rate)
	case kind == job.Map:
		t.CPU = cores(float64(p.MapStart*mega) + float64(float64(t.Input)*p.MapCPU) + float64(float64(t.Output)*p.SortCPU))
	default:
		// The profile's selectivities are not asked: the trace states the bytes of this very job.
		t.CPU = p.ReduceTask(t.Input, maps).CPU
	}
}
