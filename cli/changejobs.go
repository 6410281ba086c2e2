package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/live/client"
	"github.com/slotwise/slotwise/internal/live/feature"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// newKill returns the command that kills jobs and attempts. All kinds of ids are arguments of one
// command, since each shows its kind by its form.
func newKill() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "kill [JOB|CHAIN|ATTEMPT]...",
		Short: "Kill jobs, chains or single attempts",
		Long: `Kills jobs and removes their output. With the id of a chain it kills the running steps,
and no step follows. With the id of an attempt it kills that attempt only: the task
runs again, and the attempt does not count as a failure. A job that has succeeded or
failed cannot be killed; killing a killed job again changes nothing.
` + filterNote,
		Example: `  slotwise kill j12 --reason 'wrong input'
  slotwise kill j12 j13 chain-3
  slotwise kill j12_m_3_0
  slotwise kill --user ann --name 'nightly-*'`,
	}
	addChange(c, "kill", func(ctx context.Context, u *userCommand, id, _ string) error {
		r := &slotwisev1.KillRequest{Job: id, Reason: reason}
		// Ids of attempts have underscores, and ids of jobs and chains have none.
		if strings.Contains(id, "_") {
			r.Job, r.Attempt = "", id
		}
		_, err := client.Call(ctx, u.cl, u.cl.RPC().Kill, r)
		return err
	})
	c.Flags().StringVar(&reason, "reason", "", "`text` with the reason, shown with the job")
	return c
}

// newPriority returns the command that changes the priority of jobs.
func newPriority() *cobra.Command {
	c := &cobra.Command{
		Use:   "priority [JOB|CHAIN]... LEVEL",
		Short: "Change the priority of jobs or chains",
		Long: `Changes the priority of jobs: very-low, low, normal, high or very-high. Running attempts
continue. Of a chain it changes the steps that have not ended and the later ones.
` + filterNote,
		Example: `  slotwise priority j12 high
  slotwise priority --pool reports low`,
	}
	return addChange(c, "change", func(ctx context.Context, u *userCommand, id, level string) error {
		// A misuse, so that changeEach stops at the first job instead of failing once for each.
		if !slices.Contains(feature.Priorities, level) {
			return unknown("priority", level, feature.Priorities)
		}
		_, err := client.Call(ctx, u.cl, u.cl.RPC().SetPriority, &slotwisev1.SetPriorityRequest{Job: id, Priority: wirePriority(level)})
		return err
	}, "level")
}

// newMove returns the command that moves jobs to another pool.
func newMove() *cobra.Command {
	c := &cobra.Command{
		Use:   "move [JOB|CHAIN]... POOL",
		Short: "Move jobs or chains to another pool",
		Long: `Moves jobs to another pool or queue. Running attempts continue. Of a chain it moves
the steps that have not ended and the later ones.
` + filterNote,
		Example: `  slotwise move j12 reports
  slotwise move --user ann --name 'trial-*' experiments`,
	}
	return addChange(c, "move", func(ctx context.Context, u *userCommand, id, pool string) error {
		_, err := client.Call(ctx, u.cl, u.cl.RPC().Move, &slotwisev1.MoveRequest{Job: id, Pool: pool})
		return err
	}, "pool")
}

// filterNote describes the filters of the commands that change jobs.
const filterNote = `
Instead of ids, --user, --pool and --name choose jobs and chains that have not ended. The
command prints the id and the name of each one that it has changed. It goes on after an
error, and its status says whether there was one.`

// addChange completes a command that changes the jobs whose ids are its arguments, or that its
// filters choose. change changes one. value names the argument behind the ids, which change gets;
// without it the command has ids only. The value comes last, as the destination of mv does, so that
// any number of ids can stand before it.
func addChange(c *cobra.Command, verb string, change func(ctx context.Context, u *userCommand, id, value string) error, value ...string) *cobra.Command {
	var chosen jobFilter
	c.Args = func(c *cobra.Command, args []string) error {
		if err := chosen.check(c); err != nil {
			return err
		}
		ids := len(args) - len(value)
		switch {
		// Without ids and filters the command would have to mean all jobs of the cluster, which must be
		// said.
		case ids <= 0 && !chosen.given() && len(value) > 0:
			return misuse("%s: want the ids of jobs, or --user, --pool or --name, and a %s (usage: %s)", c.Name(), value[0], usage(c))
		case ids <= 0 && !chosen.given():
			return misuse("%s: which job? name ids, or choose jobs with --user, --pool or --name (usage: %s)", c.Name(), usage(c))
		case ids < 0:
			return misuse("%s: want a %s at the end (usage: %s)", c.Name(), value[0], usage(c))
		case ids > 0 && chosen.given():
			return misuse("%s %s: name ids or choose jobs with --user, --pool or --name, not both", c.Name(), args[0])
		}
		// Without this a forgotten pool would move the job to a pool that is called like a job.
		if len(value) > 0 && jobLike().MatchString(args[len(args)-1]) {
			return misuse("%s: %s is a job; want a %s at the end (usage: %s)", c.Name(), args[len(args)-1], value[0], usage(c))
		}
		return nil
	}
	newUserCommand(c, false, func(ctx context.Context, u *userCommand, args []string) error {
		last := ""
		if len(value) > 0 {
			args, last = args[:len(args)-1], args[len(args)-1]
		}
		if !chosen.given() {
			// Ids are not looked up first: the master's answer names the wrong one.
			return changeEach(args, func(id string) error { return change(ctx, u, id, last) })
		}
		// A job that is submitted after this list is not changed: the user has not seen it.
		jobs, err := chosen.list(ctx, u.cl)
		if err != nil {
			return err
		}
		// Steps go with their chain: killing a chain and then its steps would fail for each step.
		jobs = jobRows(jobs, false)
		// An error, unlike in a list: the script that kills by name expects that something was killed.
		if len(jobs) == 0 {
			return errors.New(chosen.none())
		}
		names, ids := map[string]string{}, make([]string, len(jobs))
		for i, j := range jobs {
			ids[i], names[j.Id] = j.Id, j.Name
		}
		return changeEach(ids, func(id string) error {
			err := change(ctx, u, id, last)
			// The job has ended since it was listed, so there is nothing left to change.
			if connect.CodeOf(err) == connect.CodeFailedPrecondition {
				return nil
			}
			if err == nil {
				terminal.Fprintf(u.out(), "%s %s\n", id, names[id])
			}
			return err
		})
	})
	chosen.register(c, verb+" only")
	fromCommandLineOnly(c.Flags(), "user", "pool")
	return c
}

// jobLike matches the ids of jobs and chains.
var jobLike = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(j|chain-)[0-9]+$`) })

// changeEach calls change for each id, also after an error. The error names the id if there are
// several. It works on one id after the other, so that the lines have the order of the ids.
func changeEach(ids []string, change func(id string) error) error {
	if len(ids) == 1 {
		return change(ids[0])
	}
	var errs []error
	for _, id := range ids {
		// An interrupt, or a value that no job can have: the next id would fail alike.
		err := change(id)
		if errors.Is(err, context.Canceled) || errors.As(err, new(misuseError)) {
			return err
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s", id, client.Message(err)))
		}
	}
	return errors.Join(errs...)
}

// jobFilter chooses jobs of a cluster.
type jobFilter struct {
	// Each "" chooses all.
	user, pool, name string
	ended            bool // jobs that have ended too
}

// register declares the flags. verb begins their help.
func (f *jobFilter) register(c *cobra.Command, verb string) {
	c.Flags().StringVar(&f.user, "user", "", verb+" the jobs of the user of this `name`")
	c.Flags().StringVar(&f.pool, "pool", "", verb+" the jobs of the pool of this `name`")
	c.Flags().StringVar(&f.name, "name", "", verb+" the jobs with a name that matches this `glob`, in which * stands for any text")
	fromCommandLineOnly(c.Flags(), "name")
}

// given reports whether the filter excludes a job.
func (f *jobFilter) given() bool { return f.user+f.pool+f.name != "" }

// check refuses an empty value: a script whose variable is unset would change the jobs of
// all users.
func (f *jobFilter) check(c *cobra.Command) error {
	for _, flag := range []string{"user", "pool", "name"} {
		if v := c.Flags().Lookup(flag); v.Changed && v.Value.String() == "" {
			return misuse("--%s: must not be empty", flag)
		}
	}
	return bounds.CheckName("--name", f.name)
}

// list returns the jobs that the filter chooses, and the chains. The master sorts out users
// and pools; names are compared here.
func (f *jobFilter) list(ctx context.Context, cl *client.Client) ([]*slotwisev1.JobStatus, error) {
	jobs, err := cl.Jobs(ctx, &slotwisev1.JobsRequest{Ended: f.ended, User: f.user, Pool: f.pool})
	if err != nil || f.name == "" {
		return jobs, err
	}
	// Not path.Match: its * ends at a slash, and the steps of chains have slashes in their names.
	pattern := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(f.name))
	names := regexp.MustCompile("(?s)^" + pattern + "$")
	return slices.DeleteFunc(jobs, func(j *slotwisev1.JobStatus) bool { return !names.MatchString(j.Name) }), nil
}

// none returns the sentence for an empty list, without what could be done.
func (f *jobFilter) none() string {
	// The words of the filter, so that a user sees a misspelt name in the answer.
	text := "no job"
	if f.user != "" {
		text += " of user " + f.user
	}
	if f.pool != "" {
		text += " in pool " + f.pool
	}
	if f.name != "" {
		text += " named " + f.name
	}
	if f.ended {
		return text
	}
	return text + " that has not ended"
}
