package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/mapreduce"
)

// submitFlags are the flags of submit: those of run that do not describe the
// in-process cluster, and which cluster it is instead.
type submitFlags struct {
	runFlags
	clusterFlags
	remote mapreduce.Remote
	wait   bool
}

func newSubmit(setup *setup) *cobra.Command {
	f := &submitFlags{runFlags: runFlags{policyFlags: policyFlags{setup: setup}}}
	c := &cobra.Command{
		Use:   "submit APP [INPUT]... --output DIR",
		Short: "Run a job on a cluster",
		Long: `Submits what slotwise run runs to a cluster's master. The input is listed and
divided here; it and the output must be readable and writable, under the same
names, from here and from the workers: a shared directory, HDFS or S3.

The job's name is printed and the command ends, or stays with --wait until the
job has ended, shows its progress and exits with its verdict. Interrupting it then
kills the job. An app that is a chain of jobs needs --wait: its steps are
submitted from here, and what goes from one to the next lies in a hidden
directory beside the output until the chain ends.` + masterNote,
		Example: `  slotwise submit wordcount /shared/books --output /shared/counts --master 10.0.0.1:7077 --wait
  slotwise submit --mapper ./map.py --reducer ./red.py --file map.py --file red.py --input /shared/logs --output /shared/out --master 10.0.0.1:7077`,
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return appNames(), cobra.ShellCompDirectiveNoFileComp
		},
	}
	f.clusterFlags.register(c)
	s := c.Flags()
	f.registerData(s)
	s.StringArrayVar(&f.remote.Files, "file", nil, "`file` to put into the working directory of each task (repeatable)")
	f.registerJob(s)
	s.BoolVar(&f.wait, "wait", false, "stay until the job has ended, and exit with its verdict")
	f.registerShow(s)
	completeJob(c)
	addSettings(c, func(c *cobra.Command, args []string) error { return f.submit(c, args) })
	return c
}

// submit is the command.
func (f *submitFlags) submit(c *cobra.Command, args []string) error {
	if f.output == "" {
		return misuse("--output is missing: the directory for what the job writes")
	}
	show := newJobDisplay(c.ErrOrStderr(), f.quiet || f.noProgress || !f.wait)
	p, inputs, err := f.program(args, show)
	if err != nil {
		return err
	}
	if !f.wait && p.app != nil && p.app.Chain != nil {
		return misuse("--wait is missing: %s is a chain of jobs, submitted from here one after the other", p.name)
	}
	o, err := f.options(inputs)
	if err != nil {
		return err
	}
	if err := f.check(c.Context(), p, o.Inputs); err != nil {
		return err
	}
	cl, err := f.client()
	if err != nil {
		return err
	}
	f.remote.Detach, f.remote.Master, f.remote.HTTP = !f.wait, cl.Address(), cl.HTTP()
	o.Remote, o.Progress, o.Stderr = &f.remote, show.update, show
	start := time.Now()
	results, err := p.run(c.Context(), o)
	took := time.Since(start)
	show.close()
	if err == nil && !f.wait && !f.json {
		_, err = fmt.Fprintln(c.OutOrStdout(), results[0].ID)
		return err
	}
	return f.finish(c, outcome{program: p, results: results, elapsed: took, output: &outputPlace{dir: f.output}, err: err})
}
