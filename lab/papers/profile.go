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
	if err := s.measureProfile(ctx, app, b.inputOf(app), 8); err != nil {
		return err
	}
	file := s.profileOf(app)
	p, err := readProfile(file)
	if err != nil {
		return err
	}
	var factors []float64
	for range clusterRuns {
		r, err := s.runOnCluster(ctx, b, app, profilePrefix+b.inputOf(app))
		if err != nil {
			return err
		}
		f, err := r.factorOf(p, start)
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

// measureProfile measures the profile of an app with "slotwise profile", on an input that no batch reads: of the kind
// and size of the input of that name.
func (s *settings) measureProfile(ctx context.Context, app, name string, reduces int) error {
	in, ok := inputs[name]
	if !ok {
		return fmt.Errorf("there is no input %q for it", name)
	}
	input := filepath.Join(s.data, profilePrefix+name)
	if _, err := harness.GenerateSeed(ctx, s.binary(), in.kind, int64(in.size)*splitMiB*harness.MiB, profileSeed, input); err != nil {
		return err
	}
	args := []string{"profile", app, "--input", input, "--output", s.profileOf(app), "--overwrite", "--split-size", fmt.Sprint(splitMiB, "MiB"), "--reduces", fmt.Sprint(reduces), "--quiet"}
	for key, value := range params[app] {
		args = append(args, "--param", key+"="+strings.ReplaceAll(value, "DATA", s.data))
	}
	_, err := s.command(ctx, args...)
	return err
}

// inputOf returns the name of the input of an app in a batch of programs.
func (b *batch) inputOf(app string) string {
	_, rest, _ := strings.Cut(b.programs, "{app: "+app+", input: ")
	name, _, _ := strings.Cut(strings.TrimPrefix(rest, "["), ",")
	return strings.TrimPrefix(name, "DATA/")
}

// clusterRun is a run of one app on a cluster.
type clusterRun struct {
	results []mapreduce.Result
	used    time.Duration // processor time of all processes of the cluster
}

// runOnCluster runs an app on an input, in a cluster of its own as the batch's.
func (s *settings) runOnCluster(ctx context.Context, b *batch, program, input string) (r clusterRun, err error) {
	dir, err := os.MkdirTemp(s.data, "run")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c, err := s.start(ctx, b, &contestant{policy: "fifo"}, filepath.Join(dir, "cluster"))
	if err != nil {
		return r, err
	}
	r, err = s.runOn(ctx, c, dir, app(program, "DATA/"+input, ", reduces: 8"))
	return r, errors.Join(err, c.Stop())
}

// runOn runs the job of an entry of a mix on a cluster. dir is for its files.
func (s *settings) runOn(ctx context.Context, c *harness.Cluster, dir, entry string) (r clusterRun, err error) {
	file, out := filepath.Join(dir, "mix.yaml"), filepath.Join(dir, "out")
	if err := os.WriteFile(file, []byte("jobs:\n"+strings.ReplaceAll(entry, "DATA", filepath.ToSlash(s.data))), 0o666); err != nil {
		return r, err
	}
	before, err := c.CPU()
	if err != nil {
		return r, err
	}
	jobs, err := s.submit(ctx, c, file, out, 1)
	if err != nil {
		return r, err
	}
	after, err := c.CPU()
	return clusterRun{jobs[0].Results, after - before}, errors.Join(err, os.RemoveAll(out))
}

// factorOf returns the processor time of a run, without the starts of attempts, over the
// prediction of a profile.
func (r *clusterRun) factorOf(p *workload.Profile, start time.Duration) (float64, error) {
	predicted, tasks := r.predicted(p), r.tasks()
	f := (r.used - time.Duration(tasks)*start).Seconds() / predicted.Seconds()
	if !(f > 0) {
		return 0, fmt.Errorf("a cluster used %v for %d tasks, of which a profile predicts %v", r.used, tasks, predicted)
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
