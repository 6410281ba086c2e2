package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/console"
	"github.com/slotwise/slotwise/internal/storage"
	"github.com/slotwise/slotwise/mapreduce"
)

// outputPlace is where a run's output goes: the user's directory or, for a
// small result to be printed, a temporary one.
type outputPlace struct {
	dir  string
	temp *storage.DirScratch // to be removed; nil for the user's directory
}

// openOutput finds the place for the program's output.
func (f *runFlags) openOutput(p *program, o *mapreduce.Options) (*outputPlace, error) {
	if f.output != "" {
		return &outputPlace{dir: f.output}, nil
	}
	if p.app == nil || !p.app.Small {
		return nil, misuse("--output is missing: the directory for what %s writes", p.name)
	}
	if f.outputCompress != "none" {
		return nil, misuse("--output-compress %s: needs --output", f.outputCompress)
	}
	temp, err := storage.NewDirScratch(f.tempDir)
	if err != nil {
		return nil, err
	}
	out := &outputPlace{dir: filepath.Join(temp.Dir(), "result"), temp: temp}
	o.Output = out.dir
	return out, nil
}

// close removes a temporary place.
func (p *outputPlace) close() {
	if p.temp != nil {
		p.temp.Close()
	}
}

// print copies the output files to w in the order of their names, which is
// the order of the result.
func (p *outputPlace) print(w io.Writer) error {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), "_") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if err := copyFile(w, filepath.Join(p.dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// outcome is how a run ended.
type outcome struct {
	program *program
	results []*mapreduce.Result
	elapsed time.Duration
	output  *outputPlace
	err     error
}

// finish prints the result, if it is to be printed, and the summary. It
// returns the error of the run, or else its own.
func (f *runFlags) finish(c *cobra.Command, o outcome) error {
	if f.json {
		return errors.Join(o.err, printJSON(c.OutOrStdout(), &o))
	}
	if !f.quiet {
		printSummary(c.ErrOrStderr(), &o)
	}
	if f.explain {
		printWaits(c.ErrOrStderr(), o.program.name, o.results)
	}
	if o.err == nil && o.output.temp != nil {
		return o.output.print(c.OutOrStdout())
	}
	return o.err
}

// summary is the object that --json prints.
type summary struct {
	Program string              `json:"program"`
	State   string              `json:"state"` // succeeded, failed or killed
	Error   string              `json:"error,omitempty"`
	Output  string              `json:"output,omitempty"`
	Result  *string             `json:"result,omitempty"` // of a small result without --output
	Elapsed time.Duration       `json:"elapsed_ns"`
	Jobs    []*mapreduce.Result `json:"jobs"`
}

// printJSON prints one object on one line, for a failed run too.
func printJSON(w io.Writer, o *outcome) error {
	s := summary{Program: o.program.name, State: "succeeded", Elapsed: o.elapsed, Jobs: o.results}
	if s.Jobs == nil {
		s.Jobs = []*mapreduce.Result{}
	}
	if o.output.temp == nil {
		s.Output = o.output.dir
	}
	switch {
	case errors.Is(o.err, console.ErrInterrupted):
		s.State, s.Error = "killed", console.ErrInterrupted.Error()
	case o.err != nil:
		s.State, s.Error = "failed", oneLine(o.err)
	case o.output.temp != nil:
		var text strings.Builder
		if err := o.output.print(&text); err != nil {
			return err
		}
		result := text.String()
		s.Result = &result
		for _, r := range s.Jobs {
			// Where a temporary directory was is of no use to anyone.
			if strings.HasPrefix(r.Output, o.output.temp.Dir()) {
				r.Output = ""
			}
		}
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(s)
}

// printSummary prints a line for each job of the run and its counters.
func printSummary(w io.Writer, o *outcome) {
	for _, r := range o.results {
		r.Summary(w)
	}
	if len(o.results) > 1 {
		fmt.Fprintf(w, "%s: %s in %s\n", o.program.name, console.Plural(len(o.results), "job"), console.Duration(o.elapsed))
	}
	if o.err == nil && o.output.temp == nil {
		fmt.Fprintf(w, "output: %s\n", o.output.dir)
	}
}
