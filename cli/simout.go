package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	simreport "github.com/slotwise/slotwise/internal/report"
)

// simFiles are the files that sim writes. They come into being under other names
// and take theirs when all is written: so they are whole or not there.
type simFiles struct {
	flags  *simFlags
	dir    string // that becomes --out; "" for none
	events string // that becomes --events
	open   []*os.File
	tasks  []*simreport.Table[simreport.Attempt] // by run
}

// openFiles opens the files that are written while runs go on.
func (f *simFlags) openFiles(s *study) (*simFiles, error) {
	files := &simFiles{flags: f}
	if f.events != "" && len(s.runs) > 1 {
		return nil, misuse("--events %s: holds one run, and %d are asked for; name one policy and one seed", f.events, len(s.runs))
	}
	if err := f.checkOut(); err != nil {
		return nil, err
	}
	err := files.begin(s)
	if err != nil {
		files.discard()
		return nil, err
	}
	return files, nil
}

// checkOut refuses a directory in which something would be lost.
func (f *simFlags) checkOut() error {
	if f.out == "" {
		return nil
	}
	entries, err := os.ReadDir(f.out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return misuse("--out %s: %w", f.out, reason(err))
	case len(entries) > 0 && !f.overwrite:
		return misuse("--out %s: exists and is not empty; --overwrite replaces it", f.out)
	case len(entries) > 0 && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == reportName }):
		return misuse("--out %s: holds no %s, so it is no result of sim, and --overwrite replaces nothing else", f.out, reportName)
	}
	return nil
}

// reportName is a file that every result has.
const reportName = "report.json"

func (x *simFiles) begin(s *study) error {
	if name := x.flags.events; name != "" {
		file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".new-*")
		if err != nil {
			return misuse("--events: %w", err)
		}
		x.events, x.open = file.Name(), append(x.open, file)
		s.runs[0].trace = simreport.NewEventLog(file)
	}
	if x.flags.out == "" {
		return nil
	}
	parent := filepath.Dir(filepath.Clean(x.flags.out))
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return misuse("--out: %w", err)
	}
	var err error
	if x.dir, err = os.MkdirTemp(parent, "."+filepath.Base(x.flags.out)+".new-*"); err != nil {
		return misuse("--out: %w", err)
	}
	for _, r := range s.runs {
		csv, err := x.create("tasks-" + fileName(r.Run) + ".csv")
		if err != nil {
			return err
		}
		parquet, err := x.create("tasks-" + fileName(r.Run) + ".parquet")
		if err != nil {
			return err
		}
		t := simreport.NewTable[simreport.Attempt](csv, parquet)
		x.tasks = append(x.tasks, t)
		r.more = append(r.more, simreport.Attempts{Table: t})
		if r.draft == s.drafts[0] {
			r.lanes = simreport.NewLanes(&s.cluster, r.draft.jobs)
			r.more = append(r.more, r.lanes)
		}
	}
	return nil
}

// fileName is a run's name as part of the name of a file.
func fileName(r simreport.Run) string {
	policy := strings.Map(func(c rune) rune {
		if strings.ContainsRune("=,/ ", c) {
			return '_'
		}
		return c
	}, r.Policy)
	return fmt.Sprintf("%s-%d", policy, r.Seed)
}

// create makes a file of the directory.
func (x *simFiles) create(name string) (*os.File, error) {
	file, err := os.Create(filepath.Join(x.dir, name))
	if err == nil {
		x.open = append(x.open, file)
	}
	return file, err
}

// write makes a file of the directory with what f writes, unless the context has
// ended.
func (x *simFiles) write(ctx context.Context, name string, f func(io.Writer) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	file, err := x.create(name)
	if err != nil {
		return err
	}
	return f(file)
}

// publish writes what is known at the end and gives all their names, unless the
// context ends before.
func (x *simFiles) publish(ctx context.Context, s *study) error {
	if x.events != "" {
		if err := s.runs[0].trace.Close(); err != nil {
			return fmt.Errorf("--events %s: %w", x.flags.events, err)
		}
	}
	if x.dir != "" {
		if err := x.fill(ctx, s); err != nil {
			return fmt.Errorf("--out %s: %w", x.flags.out, err)
		}
	}
	for _, file := range x.open {
		if err := file.Close(); err != nil {
			return err
		}
	}
	x.open = nil
	return x.rename()
}

// fill writes tables and plots, and takes away what there is of failed runs.
func (x *simFiles) fill(ctx context.Context, s *study) error {
	for i, t := range x.tasks {
		if err := t.Close(); err != nil {
			return err
		}
		if s.runs[i].err != nil {
			name := filepath.Join(x.dir, "tasks-"+fileName(s.runs[i].Run))
			if err := errors.Join(os.Remove(name+".csv"), os.Remove(name+".parquet")); err != nil {
				return err
			}
		}
	}
	if err := x.jobs(s); err != nil {
		return err
	}
	all := s.comparison()
	err := x.write(ctx, reportName, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(all)
	})
	return errors.Join(err, x.write(ctx, "comparison.txt", func(w io.Writer) error { return simreport.Comparison(w, all.Study) }),
		x.plots(ctx, s))
}

// jobs writes the table of all runs' jobs.
func (x *simFiles) jobs(s *study) error {
	csv, err := x.create("jobs.csv")
	if err != nil {
		return err
	}
	parquet, err := x.create("jobs.parquet")
	if err != nil {
		return err
	}
	t := simreport.NewTable[simreport.Job](csv, parquet)
	for _, r := range s.runs {
		if r.err != nil {
			continue
		}
		for _, row := range simreport.Jobs(r.Run, r.draft.jobs, r.result, r.draft.alone, r.collector.Uses()) {
			t.Add(row)
		}
	}
	return t.Close()
}

// rename gives the files their names.
func (x *simFiles) rename() error {
	if x.events != "" {
		if err := os.Rename(x.events, x.flags.events); err != nil {
			return err
		}
		x.events = ""
	}
	if x.dir == "" {
		return nil
	}
	if err := os.Chmod(x.dir, 0o755); err != nil {
		return err
	}
	old := x.dir + ".old"
	err := os.Rename(x.flags.out, old)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(x.dir, x.flags.out); err != nil {
		return errors.Join(err, os.Rename(old, x.flags.out))
	}
	x.dir = ""
	return os.RemoveAll(old)
}

// discard removes what has not been published.
func (x *simFiles) discard() {
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
