package jobmix

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/data/format"
	"github.com/slotwise/slotwise/internal/data/output"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/mapreduce"
)

// LookupFunc returns the app of a name, or an error for the user.
type LookupFunc func(name string) (*mapreduce.App, error)

// SleepApp is the name of the app that replaces a program that cannot be
// started, in a job that states its task times.
const SleepApp = "sleep"

// Programs returns what run and submit start, in the order of the mix. Drawn
// jobs depend on the seed. What streaming commands print goes to stderr. Each
// note says why the jobs of an entry do not run a program of their own. An error
// names the file, the line, the entry, and what to add to it.
func Programs(m *workload.Mix, seed uint64, lookup LookupFunc, stderr io.Writer) (jobs []mapreduce.MixJob, notes []string, err error) {
	drawn, err := m.Draw(seed)
	if err != nil {
		return nil, nil, err
	}
	// The programs are made before any job, so that one answer names all wrong
	// entries.
	programs := make(map[*workload.Class]*program)
	var errs []error
	for i := range m.Classes {
		c := &m.Classes[i]
		p, err := newProgram(c, lookup, stderr)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Describe(), err))
			continue
		}
		programs[c] = p
		if p.stated {
			notes = append(notes, fmt.Sprintf("%s: its tasks sleep for their stated times, because %s", c.Describe(), p.why))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	for i := range drawn {
		jobs = append(jobs, programs[drawn[i].Class].job(&drawn[i]))
	}
	return jobs, notes, nil
}

// program is the program of the jobs of a class.
type program struct {
	app       *mapreduce.App
	streaming *mapreduce.Job // instead of app
	// stated means that app is SleepApp, with the stated task times as
	// parameters. why names the reason: the class lacks a program.
	stated bool
	why    string
}

// newProgram finds out what a class runs. Its own program goes first; a class
// without one sleeps for the times of its tasks, if it states them.
func newProgram(c *workload.Class, lookup LookupFunc, stderr io.Writer) (*program, error) {
	given := c.Program
	if given == nil {
		given = &workload.Program{}
	}
	if err := checkFormats(given); err != nil {
		return nil, err
	}
	if given.Streaming() {
		return newStreaming(given, stderr)
	}
	if c.App == "" {
		return sleeping(c, lookup, "it names no app and no mapper or reducer", "app, or mapper and reducer")
	}
	app, err := lookup(c.App)
	switch {
	// A trace names programs that exist elsewhere. Its stated times are enough to replay the
	// load.
	case err != nil && c.StatesTimes():
		return sleeping(c, lookup, fmt.Sprintf("there is no app %q", c.App), "")
	case err != nil:
		return nil, err
	case app.Reads != "" && len(given.Inputs) == 0:
		return sleeping(c, lookup, fmt.Sprintf("it names no input, and %s reads %s", c.App, app.Reads), "input")
	case app.Reads == "" && len(given.Inputs) > 0:
		return nil, fmt.Errorf("%s reads no input; leave input out", c.App)
	}
	// Checked before any job starts, so that one run shows the errors of all entries.
	if _, err := app.Check(given.Params); err != nil {
		return nil, err
	}
	return &program{app: app}, nil
}

// checkFormats returns an error for a wrong format of a program's input or output.
func checkFormats(p *workload.Program) error {
	// The columns become a part of the format's text, as the flags of run do, so that one parser checks
	// both.
	text := p.Format
	if len(p.Columns) > 0 {
		text += ",columns=" + strings.Join(p.Columns, ",")
	}
	if _, err := format.Parse(text); err != nil {
		return fmt.Errorf("format or columns: %w", err)
	}
	text = p.OutputFormat
	if len(p.OutputColumns) > 0 {
		text += ",columns=" + strings.Join(p.OutputColumns, ",")
	}
	rows, err := format.ParseOutput(text)
	if err != nil {
		return fmt.Errorf("output-format or output-columns: %w", err)
	}
	codec := cmp.Or(p.OutputCompress, "none")
	if !slices.Contains(output.CodecNames, codec) {
		return fmt.Errorf("output-compress: unknown codec %q; there are %s", codec, strings.Join(output.CodecNames, ", "))
	}
	if rows != nil {
		if err := rows.CheckCodec(codec); err != nil {
			return fmt.Errorf("output-compress: %w", err)
		}
	}
	return nil
}

// newStreaming returns the program of streaming commands.
func newStreaming(given *workload.Program, stderr io.Writer) (*program, error) {
	switch {
	case len(given.Params) > 0:
		return nil, errors.New("streaming commands have no parameters; leave params out")
	case len(given.Inputs) == 0:
		return nil, errors.New("input is missing: streaming commands read lines of text")
	}
	s, err := mapreduce.Streaming(mapreduce.StreamingOptions{
		Mapper: given.Mapper, Combiner: given.Combiner, Reducer: given.Reducer, Stderr: stderr,
	})
	return &program{streaming: s}, err
}

// sleeping returns the program of a class that cannot run its program. why
// names the reason, missing the keys that would complete the program.
func sleeping(c *workload.Class, lookup LookupFunc, why, missing string) (*program, error) {
	if !c.StatesTimes() {
		return nil, fmt.Errorf("it cannot be started: %s; add %s, or map-time to let its tasks sleep", why, missing)
	}
	app, err := lookup(SleepApp)
	return &program{app: app, stated: true, why: why}, err
}

// job makes one job of a class. Params are copied, so that the jobs of a class share no map.
func (p *program) job(d *workload.Drawn) mapreduce.MixJob {
	c := d.Class
	given := c.Program
	if given == nil {
		given = &workload.Program{}
	}
	j := mapreduce.MixJob{
		Name: d.Name, App: p.app, Job: p.streaming, Params: maps.Clone(given.Params), Delay: d.Submit, After: d.After,
		Options: mapreduce.Options{
			Inputs: given.Inputs, Include: given.Include, Exclude: given.Exclude, Output: given.Output,
			Format: given.Format, Columns: given.Columns,
			OutputFormat: given.OutputFormat, OutputColumns: given.OutputColumns, OutputCompress: given.OutputCompress,
			SplitSize: given.SplitSize, Reduces: len(d.Reduces),
			Request: d.Request,
		},
	}
	// Several jobs of one entry would write to one directory.
	if given.Output != "" && (c.Count > 1 || c.Share > 0) {
		// Numbered from 1, as people count.
		j.Options.Output = fmt.Sprintf("%s-%d", given.Output, d.Number+1)
	}
	// The sleep app reads no files and has its tasks from its parameters. Inputs would be
	// refused.
	if p.stated {
		j.Options.Inputs, j.Options.Include, j.Options.Exclude, j.Options.Reduces, j.Options.SplitSize = nil, nil, nil, 0, 0
		j.Options.Format, j.Options.Columns = "", nil
		j.Params = mapreduce.Params{"maps": sleepTimes(d.Maps), "reduces": sleepTimes(d.Reduces)}
	}
	return j
}

// sleepTimes writes the times of tasks as the sleep app reads them: equal
// neighbours together, such as "3x20s,1x5s".
func sleepTimes(tasks []workload.Task) string {
	var b strings.Builder
	for len(tasks) > 0 {
		n, d := 1, sleepTime(&tasks[0])
		for n < len(tasks) && sleepTime(&tasks[n]) == d {
			n++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%dx%s", n, d)
		tasks = tasks[n:]
	}
	return b.String()
}

// sleepTime is a task's duration or, if it only states its cost, its CPU time.
func sleepTime(t *workload.Task) time.Duration { return cmp.Or(t.Duration, t.CPU) }
