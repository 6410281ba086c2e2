package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/lab/harness"
	"github.com/slotwise/slotwise/mapreduce"
)

// profilePrefix begins the names of the inputs on which profiles are measured. They have the
// kinds and sizes of the batches' inputs and another seed.
const profilePrefix = "profile-of-"

// profileSeed is the seed of these inputs. The batches' inputs have seed 1.
const profileSeed = 1001

// clusterRuns is the number of runs of an app on a cluster whose median corrects its profile.
const clusterRuns = 3

// profileOf returns the file of an app's profile.
func (s *settings) profileOf(app string) string { return filepath.Join(s.data, "profile-"+app+".yaml") }

// profile measures the cost profile of an app in two steps, both on an input that no batch
// reads. "slotwise profile" separates the costs, in one process. The same app then runs on a
// cluster as the batch's, whose tasks are processes of their own, with files and connections
// between them. All costs are multiplied by the processor time of that cluster over what the
// profile predicts. start is the processor time of starting an attempt; it is added to each task.
func (s *settings) profile(ctx context.Context, b *batch, app string, start time.Duration) error {
	name := b.inputOf(app)
	in, ok := inputs[name]
	if !ok {
		return fmt.Errorf("the batch %s has no input for it", b.name)
	}
	input := filepath.Join(s.data, profilePrefix+name)
	if _, err := harness.GenerateSeed(ctx, s.binary(), in.kind, int64(in.size)*splitMiB*harness.MiB, profileSeed, input); err != nil {
		return err
	}
	file := s.profileOf(app)
	args := []string{"profile", app, "--input", input, "--output", file, "--overwrite", "--split-size", fmt.Sprint(splitMiB, "MiB"), "--reduces", "8", "--quiet"}
	for key, value := range params[app] {
		args = append(args, "--param", key+"="+strings.ReplaceAll(value, "DATA", s.data))
	}
	if _, err := s.command(ctx, args...); err != nil {
		return err
	}
	p, err := readProfile(file)
	if err != nil {
		return err
	}
	var factors []float64
	for i := range clusterRuns {
		f, err := s.clusterFactor(ctx, b, app, profilePrefix+name, p, start, i)
		if err != nil {
			return err
		}
		factors = append(factors, f)
	}
	f := harness.Median(factors)
	correct(p, f, start)
	fmt.Fprintf(os.Stderr, "profile of %s: a cluster takes %.2f times the processor time of one process, of runs %.2f\n", app, f, factors)
	return writeProfile(file, p)
}

// inputOf returns the name of the input of an app in a batch of programs.
func (b *batch) inputOf(app string) string {
	_, rest, _ := strings.Cut(b.programs, "{app: "+app+", input: ")
	name, _, _ := strings.Cut(strings.TrimPrefix(rest, "["), ",")
	return strings.TrimPrefix(name, "DATA/")
}

// clusterFactor runs an app on a cluster as the batch's and returns the processor time of all
// processes, without the starts of attempts, over the prediction of a profile.
func (s *settings) clusterFactor(ctx context.Context, b *batch, program, input string, p *workload.Profile, start time.Duration, run int) (factor float64, err error) {
	dir, err := os.MkdirTemp(s.data, "run")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "mix.yaml")
	mix := "jobs:\n" + strings.ReplaceAll(app(program, "DATA/"+input, ", reduces: 8"), "DATA", filepath.ToSlash(s.data))
	if err := os.WriteFile(file, []byte(mix), 0o666); err != nil {
		return 0, err
	}
	c, err := s.start(ctx, b, &contestant{policy: "fifo"}, filepath.Join(dir, "cluster"))
	if err != nil {
		return 0, err
	}
	before, err := c.CPU()
	var jobs []submitted
	if err == nil {
		jobs, err = s.submit(ctx, c, file, filepath.Join(dir, "out"), run+1)
	}
	after, also := c.CPU()
	if err := errors.Join(err, also, c.Stop()); err != nil {
		return 0, err
	}
	return factorOf(p, jobs[0].Results, after-before, start)
}

// factorOf returns the processor time of jobs, without the starts of attempts, over the
// prediction of a profile.
func factorOf(p *workload.Profile, results []mapreduce.Result, used, start time.Duration) (float64, error) {
	var predicted time.Duration
	tasks := 0
	for _, r := range results {
		maps, reduces := max(1, r.Maps), max(1, r.Reduces)
		predicted += time.Duration(r.Maps) * p.MapTask(r.Counters["map.input_bytes"]/int64(maps)).CPU
		predicted += time.Duration(r.Reduces) * p.ReduceTask(r.Counters["reduce.input_bytes"]/int64(reduces), r.Maps).CPU
		tasks += r.Maps + r.Reduces
	}
	f := (used - time.Duration(tasks)*start).Seconds() / predicted.Seconds()
	if !(f > 0) {
		return 0, fmt.Errorf("a cluster used %v for %d tasks, of which a profile predicts %v", used, tasks, predicted)
	}
	return f, nil
}

// correct multiplies all costs of a profile by a factor and adds the start of an attempt to each
// task.
func correct(p *workload.Profile, factor float64, start time.Duration) {
	for _, cost := range []*float64{&p.MapStart, &p.MapCPU, &p.SortCPU, &p.ReduceStart, &p.ReduceCPU, &p.MergeCPU} {
		*cost *= factor
	}
	p.MapStart += start.Seconds()
	p.ReduceStart += start.Seconds()
	p.Source += fmt.Sprintf("; times %.3f, measured on a cluster, with %v for each start", factor, start)
}

// readProfile reads a file with one profile.
func readProfile(name string) (*workload.Profile, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := workload.ReadProfiles(name, f)
	if err == nil && len(list) != 1 {
		err = fmt.Errorf("%s: %d profiles, want one", name, len(list))
	}
	if err != nil {
		return nil, err
	}
	return &list[0], nil
}

// writeProfile replaces a file by one profile.
func writeProfile(name string, p *workload.Profile) error {
	var text strings.Builder
	if err := workload.WriteProfiles(&text, []workload.Profile{*p}); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text.String()), 0o666)
}
