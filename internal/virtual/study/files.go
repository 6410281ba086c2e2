package study

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/slotwise/slotwise/internal/base/svg"
	"github.com/slotwise/slotwise/internal/virtual/metrics/collect"
	"github.com/slotwise/slotwise/internal/virtual/report"
	"github.com/slotwise/slotwise/sched"
)

// Files are the files that a study writes: tables, plots, a report, and a log of
// events. They are written under temporary names; Publish renames them when all
// is complete, so that a reader sees a whole result or none.
type Files struct {
	study       *Study
	out, log    string // the final names; empty for none
	overwrite   bool   // out may be an earlier result
	dir, events string // the temporary names; empty for none
	open        []*os.File
	tasks       []*report.Table[report.AttemptRow] // by run
	figures     []string                           // of the page, in the order of plots
}

// OpenFiles opens the files that are written during the runs. out is a
// directory for tables and plots, events a file for the events of a single run;
// either may be empty. overwrite permits Publish to replace an earlier result in out.
// The caller must call Discard in the end.
func OpenFiles(s *Study, out, events string, overwrite bool) (*Files, error) {
	x := &Files{study: s, out: out, log: events, overwrite: overwrite}
	if events != "" && len(s.runs) > 1 {
		return nil, &FileError{"events", fmt.Errorf("%s: holds one run, and %d are asked for; name one policy and one seed", events, len(s.runs))}
	}
	if err := x.begin(); err != nil {
		x.Discard()
		return nil, err
	}
	return x, nil
}

// FileError is an error of OpenFiles about one of its files.
type FileError struct {
	File string // out or events
	Err  error
}

// Error returns the text of Err.
func (e *FileError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *FileError) Unwrap() error { return e.Err }

// CheckOut returns an error if the directory dir exists and a study must not
// replace it: it is not empty and overwrite is false, or it contains something that
// the study of its report.json has not written.
func CheckOut(dir string, overwrite bool) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) == 0:
	case !overwrite:
		return fmt.Errorf("%s: exists and is not empty; --overwrite replaces it", dir)
	default:
		if err := checkResult(dir, entries); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil
}

// reportName is a file that every result has.
const reportName = "report.json"

// checkResult returns an error that names the first entry of the directory dir that
// is no file of the result in it. The error is a phrase that follows the directory's name.
func checkResult(dir string, entries []fs.DirEntry) error {
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == reportName && e.Type().IsRegular() }) {
		return fmt.Errorf("holds no %s, so it is no result of sim, and --overwrite replaces nothing else", reportName)
	}
	text, err := os.ReadFile(filepath.Join(dir, reportName))
	if err != nil {
		return err
	}
	var old struct {
		Policies []struct{}      // every result has some; other tools' reports have none
		Runs     []report.RunRow // failed runs have left no files
	}
	if err := json.Unmarshal(text, &old); err != nil || len(old.Policies) == 0 {
		return fmt.Errorf("its %s is not of sim, so it is no result of sim, and --overwrite replaces nothing else", reportName)
	}
	for _, e := range entries {
		// A study writes no directories and no links, whatever their names.
		if !e.Type().IsRegular() || !isResultFile(e.Name(), old.Runs) {
			return fmt.Errorf("it contains %s, which sim has not written; move it away, or name another directory", e.Name())
		}
	}
	return nil
}

// isResultFile reports whether the study of these runs writes a file of this name.
// The reverse of the names that this file gives: a new kind of file must be here, too, or --overwrite refuses
// the results that have one.
func isResultFile(name string, runs []report.RunRow) bool {
	switch name {
	case reportName, "report.html", "comparison.txt", "jobs.csv", "jobs.parquet":
		return true
	}
	base, isPlot := strings.CutSuffix(name, ".svg")
	if isPlot && slices.Contains([]string{"slowdown", "queue", "slots"}, base) {
		return true
	}
	for _, r := range runs {
		run := fileName(r)
		switch {
		case name == "tasks-"+run+".csv", name == "tasks-"+run+".parquet", isPlot && base == "gantt-"+run:
			return true
		}
		// The policy chooses the names of its logs, and report.json does not list them.
		if log, ok := strings.CutSuffix(name, "-"+run+".csv"); ok && log != "" && !strings.ContainsAny(log, " .") {
			return true
		}
	}
	return false
}

// begin makes the temporary files and adds their observers to the runs.
func (x *Files) begin() error {
	if x.log != "" {
		file, err := os.CreateTemp(filepath.Dir(x.log), filepath.Base(x.log)+".new-*")
		if err != nil {
			return &FileError{"events", err}
		}
		x.events, x.open = file.Name(), append(x.open, file)
		x.study.runs[0].trace = report.NewEventLog(x.log, file)
	}
	if x.out == "" {
		return nil
	}
	// Beside the final directory, since a rename works within one file system only.
	parent := filepath.Dir(filepath.Clean(x.out))
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return &FileError{"out", err}
	}
	var err error
	if x.dir, err = os.MkdirTemp(parent, "."+filepath.Base(x.out)+".new-*"); err != nil {
		// The error of MkdirTemp has the temporary name, which the user has not asked for.
		if path := (*fs.PathError)(nil); errors.As(err, &path) {
			err = fmt.Errorf("cannot create a directory in %s: %w", parent, path.Err)
		}
		return &FileError{"out", fmt.Errorf("%s: %w", x.out, err)}
	}
	// All files are open during the runs, two for each run: rows of attempts do not fit into memory.
	for _, r := range x.study.runs {
		if err := x.observe(r); err != nil {
			return err
		}
	}
	return nil
}

// observe makes the table of a run's attempts and, for the first seed, the plot
// of its slots.
func (x *Files) observe(r *run) error {
	csv, err := x.create("tasks-" + fileName(r.RunRow) + ".csv")
	if err != nil {
		return err
	}
	parquet, err := x.create("tasks-" + fileName(r.RunRow) + ".parquet")
	if err != nil {
		return err
	}
	t := report.NewTable[report.AttemptRow](csv, parquet)
	x.tasks = append(x.tasks, t)
	r.more = append(r.more, report.Attempts{Table: t})
	// A plot of slots shows one seed; the bars of all would be megabytes.
	if r.draft == x.study.drafts[0] {
		r.lanes = report.NewLanes(&x.study.cfg.Cluster, r.draft.jobs)
		r.more = append(r.more, r.lanes)
	}
	return nil
}

// fileName returns a run's name as part of a file name.
func fileName(r report.RunRow) string {
	policy := strings.Map(func(c rune) rune {
		// A composition such as slots=static,order=fifo is a policy's name, and must be a file's.
		if strings.ContainsRune("=,/ ", c) {
			return '_'
		}
		return c
	}, r.Policy)
	return fmt.Sprintf("%s-%d", policy, r.Seed)
}

// create makes a file in the temporary directory.
func (x *Files) create(name string) (*os.File, error) {
	file, err := os.Create(filepath.Join(x.dir, name))
	if err == nil {
		x.open = append(x.open, file)
	}
	return file, err
}

// write makes a file in the temporary directory and calls f to fill it. It does
// nothing if the context has ended.
func (x *Files) write(ctx context.Context, name string, f func(io.Writer) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	file, err := x.create(name)
	if err != nil {
		return err
	}
	return f(file)
}

// Publish writes the tables and plots of the whole study and renames all files,
// unless the context ends before. Call it after Study.Run.
func (x *Files) Publish(ctx context.Context) error {
	s := x.study
	if x.events != "" {
		if err := s.runs[0].trace.Close(); err != nil {
			return fmt.Errorf("--events %s: %w", x.log, err)
		}
	}
	if x.dir != "" {
		if err := x.fill(ctx, s); err != nil {
			return fmt.Errorf("--out %s: %w", x.out, err)
		}
	}
	// Before the rename: a write that fails late, on a full disk, is an error of close.
	for _, file := range x.open {
		if err := file.Close(); err != nil {
			return err
		}
	}
	x.open = nil
	return x.rename()
}

// fill writes tables and plots, and removes the tables of failed runs.
func (x *Files) fill(ctx context.Context, s *Study) error {
	for i, t := range x.tasks {
		if err := t.Close(); err != nil {
			return err
		}
		// The rows of a failed run end where it failed, and a reader could take them for all.
		if s.runs[i].err != nil {
			name := filepath.Join(x.dir, "tasks-"+fileName(s.runs[i].RunRow))
			if err := errors.Join(os.Remove(name+".csv"), os.Remove(name+".parquet")); err != nil {
				return err
			}
		}
	}
	if err := x.jobs(s); err != nil {
		return err
	}
	if err := x.logs(ctx, s); err != nil {
		return err
	}
	all := s.Comparison()
	err := x.write(ctx, reportName, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(all)
	})
	var text bytes.Buffer
	tables := *all.Study
	tables.Record = nil // the page has it below, with the contents of files
	err = errors.Join(err, report.Comparison(&text, &tables), x.plots(ctx, s))
	if err != nil {
		return err
	}
	return errors.Join(x.write(ctx, "comparison.txt", func(w io.Writer) error { return report.Comparison(w, all.Study) }),
		x.write(ctx, "report.html", func(w io.Writer) error {
			return report.HTMLPage("Simulation of "+s.cfg.Workload.Name, "",
				h.P(g.Text("Cluster: "+s.cfg.ClusterName)), h.Pre(g.Text(text.String())),
				g.Map(x.figures, func(drawing string) g.Node { return h.Figure(g.Raw(drawing)) }),
				all.Record.HTML(),
			).Render(w)
		}))
}

// jobs writes the table of the jobs of all runs.
func (x *Files) jobs(s *Study) error {
	csv, err := x.create("jobs.csv")
	if err != nil {
		return err
	}
	parquet, err := x.create("jobs.parquet")
	if err != nil {
		return err
	}
	t := report.NewTable[report.JobRow](csv, parquet)
	for _, r := range s.runs {
		if r.err != nil {
			continue
		}
		for _, row := range report.Jobs(r.RunRow, r.draft.jobs, r.result, r.draft.alone, r.collector.Uses()) {
			t.Add(row)
		}
	}
	return t.Close()
}

// logs writes the decisions that policies have logged, a table for each log of each run.
func (x *Files) logs(ctx context.Context, s *Study) error {
	for _, r := range s.runs {
		if r.err != nil {
			continue
		}
		// Of the run's first policy: the policies that swaps install write no logs.
		for _, l := range sched.Logs(r.policy) {
			err := x.write(ctx, l.Name+"-"+fileName(r.RunRow)+".csv", func(w io.Writer) error { return writeLog(w, l) })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// writeLog writes a log as CSV, with the names of its columns. Numbers have all their digits.
func writeLog(w io.Writer, l sched.Log) error {
	out := csv.NewWriter(w)
	cells := make([]string, len(l.Columns))
	for i, c := range l.Columns {
		cells[i] = c.Name
	}
	err := out.Write(cells)
	for row := range l.Rows {
		for i, d := range row {
			cells[i] = d.Text
			if d.Text == "" {
				cells[i] = strconv.FormatFloat(d.Number, 'g', -1, 64)
			}
		}
		err = errors.Join(err, out.Write(cells))
	}
	out.Flush()
	return errors.Join(err, out.Error())
}

// rename gives the files their final names. An earlier directory is replaced.
func (x *Files) rename() error {
	if x.events != "" {
		if err := os.Rename(x.events, x.log); err != nil {
			return err
		}
		x.events = ""
	}
	if x.dir == "" {
		return nil
	}
	// MkdirTemp makes directories for the user alone.
	if err := os.Chmod(x.dir, 0o755); err != nil {
		return err
	}
	// The runs may have taken hours, in which files can have come.
	if err := CheckOut(x.out, x.overwrite); err != nil {
		return fmt.Errorf("--out %w", err)
	}
	// A rename does not replace a directory with files. Between the two renames there is no result under the
	// name; a reader then finds none, never a half.
	old := x.dir + ".old"
	err := os.Rename(x.out, old)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(x.dir, x.out); err != nil {
		// The earlier result gets its name back.
		return errors.Join(err, os.Rename(old, x.out))
	}
	x.dir = ""
	return os.RemoveAll(old)
}

// Discard closes and removes the files that have not been published.
func (x *Files) Discard() {
	for _, file := range x.open {
		file.Close()
	}
	if x.dir != "" {
		os.RemoveAll(x.dir)
	}
	if x.events != "" {
		os.Remove(x.events)
	}
}

// plots draws all plots: the slowdowns over all seeds; for the first seed, the
// numbers of jobs and slots over time, and which job was in each slot. All but the last include the references.
func (x *Files) plots(ctx context.Context, s *Study) error {
	var slowdowns []report.Line
	var courses []report.Timeline
	for _, r := range slices.Concat(s.runs, s.references) {
		if r.err != nil {
			continue
		}
		// The runs of a policy follow each other, so one line collects all its seeds.
		if len(slowdowns) == 0 || slowdowns[len(slowdowns)-1].Name != r.Policy {
			slowdowns = append(slowdowns, report.Line{Name: r.Policy})
		}
		last := &slowdowns[len(slowdowns)-1]
		last.Values = append(last.Values, r.outcomes.Known(collect.Slowdowns)...)
		// Courses over time cannot be averaged over seeds: the same moment means different jobs.
		if r.draft != s.drafts[0] {
			continue
		}
		courses = append(courses, report.Timeline{Name: r.Policy, Courses: r.collector.Courses(),
			Capacity: r.collector.Capacity(), End: r.result.Ended})
		if r.lanes == nil {
			continue
		}
		if err := x.plot(ctx, "gantt-"+fileName(r.RunRow), r.lanes.Gantt("Slots over time: "+r.Policy)); err != nil {
			return err
		}
	}
	if _, list := s.bounded(); list != nil {
		slowdowns = append(slowdowns, report.Line{Name: ReferenceNames[RefBound], Values: list})
	}
	return errors.Join(x.plot(ctx, "slowdown", report.SlowdownCDF(slowdowns)), x.plot(ctx, "queue", report.QueueLength(courses)),
		x.plot(ctx, "slots", report.SlotUse(courses)))
}

// plot writes a figure as SVG and adds it to the page.
func (x *Files) plot(ctx context.Context, name string, f *svg.Figure) error {
	x.figures = append(x.figures, f.Inline())
	return x.write(ctx, name+".svg", f.SVG)
}
