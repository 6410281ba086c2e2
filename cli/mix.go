package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/slotwise/slotwise/apps"
	"github.com/slotwise/slotwise/internal/console"
	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/sched"
)

// mixFile is the file of --jobs.
type mixFile struct {
	Jobs []mixEntry `yaml:"jobs"`
	Swap []mixSwap  `yaml:"swap"`
}

// mixEntry is one entry: an app or two commands, submitted once or several
// times.
type mixEntry struct {
	Name     string            `yaml:"name"`
	App      string            `yaml:"app"`
	Mapper   string            `yaml:"mapper"`
	Combiner string            `yaml:"combiner"`
	Reducer  string            `yaml:"reducer"`
	Input    words             `yaml:"input"`
	Include  words             `yaml:"include"`
	Exclude  words             `yaml:"exclude"`
	Output   string            `yaml:"output"`
	Params   map[string]string `yaml:"params"`
	User     string            `yaml:"user"`
	Pool     string            `yaml:"pool"`
	Priority string            `yaml:"priority"`
	Reduces  int               `yaml:"reduces"`
	Split    mixSize           `yaml:"split-size"`
	Delay    time.Duration     `yaml:"delay"`
	Repeat   int               `yaml:"repeat"`
	Every    time.Duration     `yaml:"every"`
	Profile  mixProfile        `yaml:"profile"`
}

// mixProfile rates a job's tasks from 1 to 10.
type mixProfile struct {
	Map    mixLoad `yaml:"map"`
	Reduce mixLoad `yaml:"reduce"`
}

type mixLoad struct {
	CPU     uint8 `yaml:"cpu"`
	Memory  uint8 `yaml:"memory"`
	Disk    uint8 `yaml:"disk"`
	Network uint8 `yaml:"network"`
}

// mixSwap changes the policy on the way.
type mixSwap struct {
	At     time.Duration     `yaml:"at"`
	Policy string            `yaml:"policy"`
	Set    map[string]string `yaml:"set"`
}

// words is a YAML string or a list of them.
type words []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (w *words) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*w = words{n.Value}
		return nil
	}
	return n.Decode((*[]string)(w))
}

// mixSize is a size such as 64MiB.
type mixSize int64

// UnmarshalYAML implements yaml.Unmarshaler.
func (z *mixSize) UnmarshalYAML(n *yaml.Node) error {
	var v console.Size
	if err := v.Set(n.Value); err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	*z = mixSize(v)
	return nil
}

// readMix reads the file of --jobs, whose policies must be known. Errors name the
// file and the line or the entry.
func readMix(known *sched.Registry, name string, stderr io.Writer) ([]mapreduce.MixJob, []mapreduce.Swap, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, nil, misuse("--jobs: %w", err)
	}
	var f mixFile
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, misuse("--jobs %s: %w", name, err)
	}
	if len(f.Jobs) == 0 {
		return nil, nil, misuse("--jobs %s: no jobs in it", name)
	}
	var jobs []mapreduce.MixJob
	for i := range f.Jobs {
		some, err := f.Jobs[i].jobs(stderr)
		if err != nil {
			return nil, nil, misuse("--jobs %s: job %d: %w", name, i+1, err)
		}
		jobs = append(jobs, some...)
	}
	var swaps []mapreduce.Swap
	for i, s := range f.Swap {
		if s.Policy == "" || s.At < 0 {
			return nil, nil, misuse("--jobs %s: swap %d: needs a policy and a time", name, i+1)
		}
		if _, err := known.Build(s.Policy, sched.Options{Set: s.Set}); err != nil {
			return nil, nil, misuse("--jobs %s: swap %d: %w", name, i+1, err)
		}
		swaps = append(swaps, mapreduce.Swap{At: s.At, Policy: s.Policy, Set: s.Set})
	}
	return jobs, swaps, nil
}

// jobs makes the jobs of an entry.
func (e *mixEntry) jobs(stderr io.Writer) ([]mapreduce.MixJob, error) {
	j := mapreduce.MixJob{Name: e.Name, Params: e.Params}
	streaming := e.Mapper != "" || e.Reducer != ""
	switch {
	case (e.App != "") == streaming:
		return nil, errors.New("it needs either an app or a mapper or reducer")
	case e.Delay < 0 || e.Every < 0 || e.Repeat < 0:
		return nil, errors.New("delay, every and repeat must not be negative")
	case streaming:
		s, err := mapreduce.Streaming(mapreduce.StreamingOptions{
			Mapper: e.Mapper, Combiner: e.Combiner, Reducer: e.Reducer, Stderr: stderr,
		})
		if err != nil {
			return nil, err
		}
		j.Job = s
	default:
		app, err := apps.Lookup(e.App)
		if err != nil {
			return nil, err
		}
		if _, err := app.Check(e.Params); err != nil {
			return nil, err
		}
		if reads := app.Reads != ""; reads != (len(e.Input) > 0) {
			return nil, fmt.Errorf("%s reads %s: input is missing or too much", app.Name, cmp.Or(app.Reads, "nothing"))
		}
		j.App = app
	}
	if err := oneOf("priority", cmp.Or(e.Priority, "normal"), priorities); err != nil {
		return nil, err
	}
	j.Name = cmp.Or(e.Name, e.App, "streaming")
	j.Options = mapreduce.Options{
		Inputs: e.Input, Include: e.Include, Exclude: e.Exclude, Output: e.Output,
		Reduces: e.Reduces, SplitSize: int64(e.Split),
		User: e.User, Pool: e.Pool, Priority: e.Priority, Stderr: stderr,
		Profile: mapreduce.Profile{Map: mapreduce.Load(e.Profile.Map), Reduce: mapreduce.Load(e.Profile.Reduce)},
	}
	var out []mapreduce.MixJob
	for i := range max(1, e.Repeat) {
		k := j
		k.Delay = e.Delay + time.Duration(i)*e.Every
		if e.Repeat > 1 && e.Output != "" {
			k.Options.Output = fmt.Sprintf("%s-%d", e.Output, i+1)
		}
		out = append(out, k)
	}
	return out, nil
}

// runMix is the command with --jobs.
func (f *runFlags) runMix(c *cobra.Command, args []string) error {
	if err := f.checkMixFlags(args); err != nil {
		return err
	}
	show := newJobDisplay(c.ErrOrStderr(), f.quiet || f.noProgress)
	jobs, swaps, err := readMix(f.setup.policies, f.jobs, show)
	if err != nil {
		return err
	}
	o, err := f.options(nil)
	if err != nil {
		return err
	}
	o.Cluster.Warn = show.warn
	closeEvents, err := f.openEvents(&o)
	if err != nil {
		return err
	}
	learned, err := f.readLearned()
	if err != nil {
		return err
	}
	for i := range jobs {
		p := &jobs[i].Options
		p.Progress, p.Overwrite = show.update, f.overwrite
		p.TaskTimeout, p.MaxAttempts = f.taskTimeout, f.maxAttempts
	}
	r, err := mapreduce.RunMix(c.Context(), jobs, mapreduce.MixOptions{
		Cluster: o.Cluster, Compress: f.compress, Swaps: swaps, Alone: f.alone, Learned: learned,
	})
	show.close()
	if r == nil {
		return errors.Join(err, closeEvents())
	}
	err = errors.Join(err, closeEvents(), f.writeLearned(r.Learned))
	if f.json {
		e := json.NewEncoder(c.OutOrStdout())
		return errors.Join(err, e.Encode(r))
	}
	printMix(c.OutOrStdout(), r)
	if f.explain {
		for i := range r.Jobs {
			printWaits(c.OutOrStdout(), r.Jobs[i].Name, r.Jobs[i].Results)
		}
	}
	return err
}

// checkMixFlags refuses flags that say something of one job.
func (f *runFlags) checkMixFlags(args []string) error {
	if len(args) > 0 {
		return misuse("%s: with --jobs the file names the apps", args[0])
	}
	for _, x := range []struct {
		flag string
		set  bool
	}{
		{"input", len(f.inputs) > 0}, {"output", f.output != ""}, {"param", len(f.params) > 0},
		{"mapper", f.mapper != ""}, {"reducer", f.reducer != ""}, {"combiner", f.combiner != ""},
		{"include", len(f.include) > 0}, {"exclude", len(f.exclude) > 0}, {"reduces", f.reduces > 0},
		{"split-size", f.splitSize > 0}, {"user", f.user != ""}, {"pool", f.pool != ""},
	} {
		if x.set {
			return misuse("--%s: with --jobs the file says it for each job", x.flag)
		}
	}
	return nil
}

// readLearned reads the file of --learned, if it is named and there is one.
func (f *runFlags) readLearned() ([]byte, error) {
	if f.learned == "" {
		return nil, nil
	}
	b, err := os.ReadFile(f.learned)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, misuse("--learned: %w", err)
	}
	return b, nil
}

// writeLearned replaces the file of --learned, whole or not at all.
func (f *runFlags) writeLearned(b []byte) error {
	if f.learned == "" {
		return nil
	}
	temp := f.learned + ".new"
	if err := os.WriteFile(temp, b, 0o644); err != nil {
		return errors.Join(fmt.Errorf("--learned: %w", err), os.Remove(temp))
	}
	return os.Rename(temp, f.learned)
}

// printMix prints how the jobs of a mix fared.
func printMix(w io.Writer, r *mapreduce.MixResult) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	alone := false
	for _, e := range r.Jobs {
		alone = alone || e.Alone > 0
	}
	head := "job\tid\tstate\tsubmitted\twaited\tran\tnode-local"
	if alone {
		head += "\talone\tslowdown"
	}
	fmt.Fprintln(t, head)
	for _, e := range r.Jobs {
		ids, local, all := []string{}, 0, 0
		for _, x := range e.Results {
			ids = append(ids, x.ID)
			local += x.Locality.Node
			all += x.Locality.Node + x.Locality.Rack + x.Locality.Any
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s", e.Name, strings.Join(ids, ","), e.State,
			console.Duration(e.Submit), console.Duration(e.Wait), console.Duration(e.Run), share(local, all))
		if alone {
			fmt.Fprintf(t, "\t%s\t%.2f", console.Duration(e.Alone), e.Slowdown)
		}
		fmt.Fprintln(t)
	}
	t.Flush()
	fmt.Fprintf(w, "policy %s: makespan %s, map slots used %.0f %%, reduce slots %.0f %%\n",
		r.Policy, console.Duration(r.Makespan), 100*r.MapUse, 100*r.ReduceUse)
}

// share is a fraction in per cent, or a dash where there is nothing to share:
// local files are everywhere and nowhere.
func share(part, all int) string {
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%d %%", 100*part/all)
}

// printWaits prints what held the jobs of a run back.
func printWaits(w io.Writer, name string, results []*mapreduce.Result) {
	for _, r := range results {
		printWait(w, name, r.ID, r.Waits)
	}
}

// printWait prints what held a job back, the longest three reasons.
func printWait(w io.Writer, name, id string, waits []mapreduce.Wait) {
	fmt.Fprintf(w, "%s (%s) waited for\n", name, id)
	if len(waits) == 0 {
		fmt.Fprintln(w, "  nothing to speak of")
	}
	for _, x := range waits[:min(3, len(waits))] {
		fmt.Fprintf(w, "  %8s  %s: %s\n", console.Duration(x.For), x.Tasks, x.Reason)
	}
}
