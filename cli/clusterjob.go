package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/client"
	"github.com/slotwise/slotwise/internal/console"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

func newTasks() *cobra.Command {
	var kind, state string
	c := &cobra.Command{
		Use:   "tasks JOB",
		Short: "List the tasks of a job and their attempts",
		Long:  "Lists the tasks of a job, a line for each attempt.",
		Example: `  slotwise tasks j12
  slotwise tasks j12 --kind reduce --state running
  slotwise tasks j12 -o json`,
		Args: oneArg("job"),
	}
	newUserCommand(c, true, func(ctx context.Context, u *userCommand, args []string) error {
		r := &slotwisev1.TasksRequest{Job: args[0], State: state}
		switch kind {
		case "map":
			r.Kind = slotwisev1.Kind_KIND_MAP
		case "reduce":
			r.Kind = slotwisev1.Kind_KIND_REDUCE
		case "":
		default:
			return oneOf("kind", kind, []string{"map", "reduce"})
		}
		if state != "" {
			if err := oneOf("state", state, taskStates); err != nil {
				return err
			}
		}
		resp, err := client.Call(ctx, u.cl, u.cl.RPC().Tasks, r)
		if err != nil {
			return err
		}
		if u.json() {
			return printMessages(u.out(), resp.Tasks)
		}
		return printTasks(u.out(), resp.Tasks)
	})
	c.Flags().StringVar(&kind, "kind", "", "list only tasks of this `kind`: map or reduce")
	c.Flags().StringVar(&state, "state", "", "list only tasks in this `state`: pending, running, succeeded, failed or killed")
	completeWords(c, "kind", []string{"map", "reduce"})
	completeWords(c, "state", taskStates)
	return c
}

// taskStates are the states of tasks.
var taskStates = []string{"pending", "running", "succeeded", "failed", "killed"}

// printTasks prints a line for each attempt, and one for each task without any.
func printTasks(w io.Writer, tasks []*slotwisev1.TaskStatus) error {
	t := table(w)
	fmt.Fprintln(t, "TASK\tSTATE\tATTEMPT\tSTATE\tNODE\tLEVEL\tPROGRESS\tTIME\tERROR")
	for _, task := range tasks {
		if len(task.Attempts) == 0 {
			fmt.Fprintf(t, "%s\t%s\n", task.Id, task.State)
		}
		for _, a := range task.Attempts {
			state := a.State
			if a.Speculative {
				state += " (copy)"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%.0f %%\t%s\t%s\n", task.Id, task.State, a.Id, state, a.Node,
				strings.ToLower(a.Level), 100*a.Progress, attemptTime(a), oneLineText(a.Error))
		}
	}
	return t.Flush()
}

func attemptTime(a *slotwisev1.AttemptStatus) string {
	end := a.EndedMs
	if end == 0 {
		end = time.Now().UnixMilli()
	}
	return console.Duration(time.Duration(max(0, end-a.StartedMs)) * time.Millisecond)
}

func newKill() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "kill JOB|ATTEMPT",
		Short: "End a job, or one attempt",
		Long: `Ends a job; its output is removed. The name of an attempt ends that attempt alone:
its task is tried again, and it does not count as a failure.`,
		Example: `  slotwise kill j12 --reason 'wrong input'
  slotwise kill j12_m_3_0`,
		Args: oneArg("job or attempt"),
	}
	newUserCommand(c, false, func(ctx context.Context, u *userCommand, args []string) error {
		r := &slotwisev1.KillRequest{Job: args[0], Reason: reason}
		if strings.Contains(args[0], "_") {
			r.Job, r.Attempt = "", args[0]
		}
		_, err := client.Call(ctx, u.cl, u.cl.RPC().Kill, r)
		return err
	})
	c.Flags().StringVar(&reason, "reason", "", "`text` that says why")
	return c
}

func newPriority() *cobra.Command {
	c := &cobra.Command{
		Use:     "priority JOB LEVEL",
		Short:   "Change the priority of a job",
		Long:    "Changes a job's priority: very-low, low, normal, high or very-high. What runs goes on.",
		Example: "  slotwise priority j12 high",
		Args:    twoArgs("job", "level"),
	}
	return newUserCommand(c, false, func(ctx context.Context, u *userCommand, args []string) error {
		if err := oneOf("priority", args[1], priorities); err != nil {
			return err
		}
		_, err := client.Call(ctx, u.cl, u.cl.RPC().SetPriority, &slotwisev1.SetPriorityRequest{Job: args[0], Priority: wirePriority(args[1])})
		return err
	})
}

func newMove() *cobra.Command {
	c := &cobra.Command{
		Use:     "move JOB POOL",
		Short:   "Move a job to another pool",
		Long:    "Puts a job into another pool or queue. What runs goes on.",
		Example: "  slotwise move j12 reports",
		Args:    twoArgs("job", "pool"),
	}
	return newUserCommand(c, false, func(ctx context.Context, u *userCommand, args []string) error {
		_, err := client.Call(ctx, u.cl, u.cl.RPC().Move, &slotwisev1.MoveRequest{Job: args[0], Pool: args[1]})
		return err
	})
}

// twoArgs wants two arguments.
func twoArgs(a, b string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 2 {
			return misuse("%s: want a %s and a %s (usage: slotwise %s)", c.Name(), a, b, c.Use)
		}
		return nil
	}
}

func newExplain() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain JOB",
		Short: "Say why a job waits or is slow, and what would change that",
		Long: `Says for the maps and the reduces of a job why none is started now, what made
them wait before and for how long, and what would change it.`,
		Example: `  slotwise explain j12
  slotwise explain j12 -o json`,
		Args: oneArg("job"),
	}
	return newUserCommand(c, true, func(ctx context.Context, u *userCommand, args []string) error {
		resp, err := client.Call(ctx, u.cl, u.cl.RPC().Explain, &slotwisev1.ExplainRequest{Job: args[0]})
		if err != nil {
			return err
		}
		if u.json() {
			return printMessage(u.out(), resp)
		}
		printWhy(u.out(), resp.Why)
		return nil
	})
}

// printWhy prints reasons, each with what would change it.
func printWhy(w io.Writer, why []*slotwisev1.Explanation) {
	if len(why) == 0 {
		fmt.Fprintln(w, "nothing has held it back")
	}
	for _, e := range why {
		held := ""
		if e.HeldMs > 0 {
			held = fmt.Sprintf(" (for %s in all)", console.Duration(time.Duration(e.HeldMs)*time.Millisecond))
		}
		fmt.Fprintf(w, "%ss: %s%s\n", enumName(e.Kind.Descriptor(), e.Kind.Number()), e.Words, held)
		if e.Advice != "" {
			fmt.Fprintf(w, "  what would help: %s\n", e.Advice)
		}
	}
}
