package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/cli/internal/jobmix"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/client"
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/mapreduce"
	"github.com/slotwise/slotwise/mapreduce/remote"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// submitFlags are the flags of submit: the flags of run except for the in-process cluster, and the
// choice of a master. runFlags keeps fields that have no flag here, such as workers; they stay
// zero.
type submitFlags struct {
	runFlags
	clusterFlags
	remote remote.Cluster
	wait   bool
}

// newSubmit returns the command that submits jobs to a cluster.
func newSubmit(setup *setup) *cobra.Command {
	f := &submitFlags{runFlags: runFlags{policyFlags: policyFlags{setup: setup}}}
	c := &cobra.Command{
		Use:   "submit APP [INPUT]... --output DIR",
		Short: "Run a job, or a file of jobs, on a cluster",
		Long: `Submits a job to the master of a cluster. Jobs are the same as for slotwise run. This
command lists and divides the input, and the workers read it, so that input and
output need the same names on all these machines: a shared directory, HDFS or S3.

Prints the job's id and ends. With --wait it stays until the job has ended, shows
its progress, and exits with status 0 if the job succeeded and 1 if not. An
interrupt then kills the job.

An app that is a chain of jobs, such as kmeans, is submitted as a whole, under an id
such as chain-12. The cluster runs its steps, whatever happens to this command. The
data between the steps is in a hidden directory beside the output until the chain
ends.

With --jobs it submits the jobs of a file, each at its time, and prints their ids
as the master accepts them. slotwise formats jobmix describes the file, which is
also the one of slotwise run --jobs and slotwise sim --workload. The command ends
when the last job is submitted or, with --wait, when all have ended: its status is
0 if all succeeded. An interrupt keeps the remaining jobs from being submitted;
with --wait it kills those that run.` + masterNote,
		Example: `  slotwise submit wordcount /shared/books --output /shared/counts --master 10.0.0.1:7077 --wait
  slotwise submit --mapper ./map.py --reducer ./red.py --file map.py --file red.py --input /shared/logs --output /shared/out --master 10.0.0.1:7077
  slotwise submit --jobs mix.yaml --output /shared/results --master 10.0.0.1:7077 --wait`,
		// Flags of run that a user tries here. Each error says who decides instead: the master or the
		// worker.
		Annotations: map[string]string{
			elsewhere + "policy":     "the cluster's policy schedules all its jobs; slotwise policy NAME replaces it, slotwise master --policy NAME starts with it",
			elsewhere + "policy-set": "the cluster's policy schedules all its jobs; slotwise policy NAME --set name=value replaces it",
			elsewhere + "set":        "slotwise policy NAME --set name=value sets parameters of the cluster's policy",
			elsewhere + "workers":    "the cluster has the workers that slotwise worker starts",
			elsewhere + "memory":     "slotwise worker --memory sets it on each worker; --task-memory is what one task needs",
		},
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeFirst(appNames, cobra.ShellCompDirectiveDefault),
	}
	// Before registerData, so that the flags of the connection come first in the help.
	f.clusterFlags.register(c)
	s := c.Flags()
	f.registerData(s)
	s.StringArrayVar(&f.remote.Files, "file", nil, "`file` to put into the working directory of each task (repeatable)")
	s.StringVar(&f.jobs, "jobs", "", "submit the jobs that this YAML `file` lists; --output is the directory for those that name none")
	// policyFlags declares the seed of run, and submit has no policy.
	s.Uint64Var(&f.seed, "seed", 1, "`seed` of what --jobs draws at random")
	feature.DeclareRequest(jobFlagSet{s}, &f.request)
	// Off by default: scripts submit many jobs and wait for the last one.
	s.BoolVar(&f.wait, "wait", false, "stay until the job has ended, and exit with status 1 unless it succeeded")
	f.registerShow(c)
	completeJob(c)
	addSettings(c, func(c *cobra.Command, args []string) error {
		if f.jobs != "" {
			return f.submitMix(c, args)
		}
		return f.submit(c, args)
	})
	groupJobFlags(c, []string{"master", "input", "output", "overwrite", "mapper", "reducer", "param", "reduces", "file", "jobs", "wait", "print", "quiet"})
	return c
}

// submit is the command without --jobs. It plans the job here, because the program, the input and
// the user's rights are here; the master gets splits and a program, and needs no access to them.
//
// Until the master has accepted the job an interrupt leaves nothing but uploaded programs, which
// the master removes when space is needed. A repeated call of Submit has the same request id, so a
// lost answer makes no second job. After the acceptance the job is the cluster's: without --wait an
// interrupt does not touch it, and with --wait it is killed, because the user sees it as running
// here.
func (f *submitFlags) submit(c *cobra.Command, args []string) error {
	// Workers run on other machines, which do not have this process's pipes.
	if f.output == standard || slices.Contains(f.inputs, standard) || slices.Contains(args, standard) {
		return misuse("-: standard input and output are for slotwise run; the workers of a cluster read and write shared files")
	}
	// Without --wait no progress comes, so the display only writes the lines of planning.
	show := newJobDisplay(c.ErrOrStderr(), f.quiet || f.noProgress || !f.wait)
	p, inputs, err := f.program(args, show)
	if err != nil {
		return err
	}
	// NoOutput is an app such as sleep, which exists for its tasks.
	if f.output == "" && !(p.app != nil && p.app.NoOutput) {
		return misuse("--output is missing: the directory for what %s writes", p.name)
	}
	o, err := f.options(inputs)
	if err != nil {
		return err
	}
	o.Notify = f.notify(show)
	if err := f.check(c.Context(), p, o.Inputs, feature.Outages{Storage: o.StorageRetry, Notify: o.Notify}); err != nil {
		return err
	}
	// Opened again when they are uploaded. Here the error is the flag's.
	for _, name := range f.remote.Files {
		if info, err := os.Stat(name); err != nil {
			return misuse("--file %s: %w", name, reason(err))
		} else if info.IsDir() {
			return misuse("--file %s: is a directory; name its files", name)
		}
	}
	// After all checks that need no master, so that a mistake is reported at once even if no master answers.
	if _, err := f.connect(nil); err != nil {
		return err
	}
	o.Remote, o.Progress, o.Stderr = &f.remote, show.update, show
	start := time.Now()
	// Detach in f.remote makes this return when the master has the job in its journal.
	results, err := p.run(c.Context(), o)
	took := time.Since(start)
	show.close()
	// Nothing was submitted: the error is about the command line or the inputs.
	if len(results) == 0 {
		err = planMisuse(err)
	}
	// Only the id, for scripts that pass it to other commands.
	if err == nil && !f.wait && !f.json {
		_, err = terminal.Fprintf(c.OutOrStdout(), "%s\n", results[0].ID)
		return err
	}
	return f.finish(c, outcome{program: p, results: results, elapsed: took, output: &runOutput{dir: f.output}, err: err, pending: !f.wait})
}

// planMisuse marks an error of a job's planning as the user's, for the exit status. Nothing was
// submitted, and another command line or other files are needed. A storage that did not answer is
// no misuse: the same command line may work later.
func planMisuse(err error) error {
	if errors.As(err, new(*mapreduce.PlanError)) && !errors.Is(err, storage.ErrUnavailable) {
		return misuseError{err}
	}
	return err
}

// connect makes a client of the master and fills in the flags' Remote. It sends nothing yet. The
// submission and the changes of policies of a mix share the connections of one HTTP client.
func (f *submitFlags) connect(notify func(text string)) (*client.Client, error) {
	cl, err := f.client(notify)
	if err != nil {
		return nil, err
	}
	f.remote.Detach, f.remote.Master, f.remote.HTTP = !f.wait, cl.Address(), cl.HTTP()
	return cl, nil
}

// submitMix is the command with --jobs. The file is checked as a whole before the first job is
// submitted, since the jobs before a wrong one could not be taken back.
func (f *submitFlags) submitMix(c *cobra.Command, args []string) error {
	if err := checkMixFlags(c, args); err != nil {
		return err
	}
	show := newJobDisplay(c.ErrOrStderr(), f.quiet || f.noProgress || !f.wait)
	mix, err := readMix(f.setup.policies(), f.jobs, f.seed, show)
	if err != nil {
		return err
	}
	// Before CheckOutputs, which compares the places of all jobs.
	if f.output != "" {
		jobmix.PlaceOutputs(mix.jobs, f.output)
	}
	if err := jobmix.CheckSubmit(mix.jobs, !f.wait); err != nil {
		return misuse("--jobs %s: %w", f.jobs, err)
	}
	if err := jobmix.CheckOutputs(mix.jobs); err != nil {
		return misuse("--jobs %s: %w", f.jobs, err)
	}
	o, err := f.options(nil)
	if err != nil {
		return err
	}
	if err := mix.checkInputs(c.Context(), f.jobs, feature.Outages{Storage: o.StorageRetry, Notify: f.notify(show)}); err != nil {
		return err
	}
	for _, note := range mix.notes {
		show.warn(note)
	}
	for i := range mix.jobs {
		p := &mix.jobs[i].Options
		p.Overwrite, p.Force = o.Overwrite, o.Force
		p.Progress, p.Stderr, p.Compress, p.OutputCompress = show.update, show, o.Compress, cmp.Or(p.OutputCompress, o.OutputCompress)
		p.Features = features()
		// An entry's own request wins over the flags, which are for all others.
		p.Request, p.StorageRetry, p.Notify = p.Request.Or(o.Request), o.StorageRetry, f.notify(show)
	}
	cl, err := f.connect(f.notify(show))
	if err != nil {
		return err
	}
	done, err := jobmix.Submit(c.Context(), mix.jobs, mix.swaps, jobmix.SubmitOptions{
		Remote: f.remote,
		// A swap of the file changes the policy of the cluster for all its users, so the master asks for
		// the rights of an administrator.
		SetPolicy: func(ctx context.Context, s mapreduce.Swap) error {
			_, err := client.Call(ctx, cl, cl.RPC().SetPolicy, &slotwisev1.SetPolicyRequest{Name: s.Policy, Set: s.Set})
			return userError(err)
		},
		// At once, and not at the end: the jobs come at times that the file states, over hours perhaps,
		// and a script may follow each one.
		Accepted: func(_ int, id string) {
			if !f.wait && !f.json {
				terminal.Fprintf(c.OutOrStdout(), "%s\n", id)
			}
		},
	})
	show.close()
	// Some jobs may have been submitted before one failed. Then it is not a misuse: they run.
	if !slices.ContainsFunc(done, func(s jobmix.Submitted) bool { return s.ID != "" }) {
		err = planMisuse(err)
	}
	switch {
	// The jobs and the failure are one object, so that a script learns which jobs run although one
	// failed.
	case f.json:
		return errors.Join(err, encode(c.OutOrStdout(), struct {
			Jobs []jobmix.Submitted `json:"jobs"`
			*failure
		}{done, failureOf(c.Context(), err)}))
	case f.wait:
		return errors.Join(err, printSubmitted(c.OutOrStdout(), done))
	}
	return err
}

// printSubmitted prints a line for each job of a mix that has ended.
func printSubmitted(w io.Writer, done []jobmix.Submitted) error {
	t := table(w)
	fmt.Fprintln(t, "job\tid\tstate\tsubmitted\tran\toutput")
	for i := range done {
		e := &done[i]
		ran := "-"
		if n := len(e.Results); n > 0 {
			// Of a chain the last step's end is the chain's.
			ran = terminal.Duration(e.Results[n-1].Ended)
		}
		terminal.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", e.Name, cmp.Or(e.ID, "-"), e.State, terminal.Duration(e.Submit), ran, e.Output)
	}
	err := t.Flush()
	for i := range done {
		printWarnings(w, done[i].Name, done[i].Results)
	}
	return err
}
