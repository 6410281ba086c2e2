package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/live/client"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
)

// newNodes returns the command that lists workers.
func newNodes() *cobra.Command {
	c := &cobra.Command{
		Use:   "nodes",
		Short: "List the workers of a cluster",
		Long: `Lists all workers that have registered. The states, of which the first that applies
is shown: absent (not back since the master was restarted), lost (silent for too long),
left (stopped in order), draining and drained (by request or because the worker is being stopped), disk gone, disk
full, graylisted (tasks that failed there succeeded elsewhere), alive. All but alive get
no new work. FOR says how long the worker has been in its state, REASON why.`,
		Example: `  slotwise nodes
  slotwise nodes drain worker3`,
		Args: noArgs,
	}
	newUserCommand(c, true, func(ctx context.Context, u *userCommand, _ []string) error {
		// The answer to Drain has no state. A script that empties a machine repeats the command until no
		// task is left, so the state is part of the output.
		resp, err := client.Call(ctx, u.cl, u.cl.RPC().Nodes, &slotwisev1.NodesRequest{})
		if err != nil {
			return err
		}
		if u.json() {
			return printMessages(u.out(), resp.Nodes)
		}
		return printNodes(u.out(), resp.Nodes)
	})
	c.AddCommand(newDrain())
	return c
}

// printNodes prints a line for each worker. The reason comes last, because its length has no bound,
// and the columns before it stay aligned.
func printNodes(w io.Writer, nodes []*slotwisev1.NodeStatus) error {
	t := table(w)
	fmt.Fprintln(t, "NODE\tSTATE\tMAPS\tREDUCES\tCPU\tMEMORY\tFAILURES\tSEEN\tADDRESS\tRACK\tFOR\tREASON")
	for _, n := range nodes {
		terminal.Fprintf(t, "%s\t%s\t%d/%d\t%d/%d\t%.0f %%\t%.0f %%\t%d\t%s ago\t%s\t%s\t%s\t%s\n", n.Name, n.State, n.Maps, n.MapSlots,
			n.Reduces, n.ReduceSlots, 100*n.Cpu, 100*n.Memory, n.Failures,
			terminal.Duration(time.Duration(n.SeenMs)*time.Millisecond), n.Address, n.Rack,
			terminal.Duration(time.Duration(n.SinceMs)*time.Millisecond), n.Reason)
	}
	return t.Flush()
}

// newDrain returns the command that drains a worker.
func newDrain() *cobra.Command {
	r := &slotwisev1.DrainRequest{}
	c := &cobra.Command{
		Use:   "drain NODE",
		Short: "Drain a worker: give it no more work",
		Long: `Stops giving work to a worker. Its running attempts finish, and reduces can still
fetch its map outputs. With --undo a worker that is drained or graylisted gets work again,
and its faults are forgotten. Prints the worker's new state and how many tasks still run there.`,
		Example: `  slotwise nodes drain worker3
  slotwise nodes drain worker3 --undo`,
		Args: oneArg("node"),
	}
	newUserCommand(c, true, func(ctx context.Context, u *userCommand, args []string) error {
		r.Node = args[0]
		if _, err := client.Call(ctx, u.cl, u.cl.RPC().Drain, r); err != nil {
			return err
		}
		resp, err := client.Call(ctx, u.cl, u.cl.RPC().Nodes, &slotwisev1.NodesRequest{})
		if err != nil {
			// The order must not look as if it had failed: a script would repeat it or give up.
			return fmt.Errorf("the change of node %s succeeded, but reading its new state failed: %w", r.Node, err)
		}
		for _, n := range resp.Nodes {
			if n.Name != r.Node {
				continue
			}
			if u.json() {
				return printMessage(u.out(), n)
			}
			_, err := terminal.Fprintf(u.out(), "%s is %s; running there: %d maps, %d reduces\n", n.Name, n.State, n.Maps, n.Reduces)
			return err
		}
		// The master forgot the worker between the two calls. The change was accepted, so this is a success.
		return nil
	})
	c.Flags().BoolVar(&r.Undo, "undo", false, "end the draining, and take the worker off the graylist")
	return c
}

// newPolicy returns the command that shows or replaces the policy of a cluster.
func newPolicy(s *setup) *cobra.Command {
	var given []string
	var preview bool
	c := &cobra.Command{
		Use:   "policy [NAME]",
		Short: "Show the policy of a cluster and its inner state, or install another one",
		Long: `Shows the scheduling policy of a cluster and the values by which it decides now: how
it splits slots, the shares and deficits of pools, or what it has learned. Policies
without such values show none. -o json has the meaning and unit of each value.

With NAME, or a composition such as order=fair,place=delay, it installs that policy while
jobs run and prints the old and the new policy. Running tasks are not affected. With
--preview it installs nothing: it forecasts when each job would end under that policy,
like slotwise whatif --policy.`,
		Example: `  slotwise policy
  slotwise policy fair --preview
  slotwise policy fair
  slotwise policy capacity --set 'queues=prod,capacity=70;default,capacity=30'`,
		Args:              atMostOne("policy"),
		ValidArgsFunction: s.completePolicies,
	}
	newUserCommand(c, true, func(ctx context.Context, u *userCommand, args []string) error {
		set, err := parseAssignments("set", given)
		if err != nil {
			return err
		}
		switch {
		case len(args) == 0 && preview:
			return misuse("--preview needs the name of a policy")
		case len(args) == 0:
			return showPolicy(ctx, u, set)
		// The same question as whatif asks, so it is answered by the same code.
		case preview:
			return (&whatIfFlags{policy: args[0], set: given}).ask(ctx, u, nil)
		}
		return installPolicy(ctx, u, &slotwisev1.SetPolicyRequest{Name: args[0], Set: set})
	})
	c.Flags().StringArrayVar(&given, "set", nil, "one parameter of the new policy, `name=value` (repeatable)")
	c.Flags().BoolVar(&preview, "preview", false, "show when jobs would end under the policy NAME, and do not install it")
	return c
}

// showPolicy prints the current policy, its parameters and its inner state.
func showPolicy(ctx context.Context, u *userCommand, set map[string]string) error {
	if len(set) > 0 {
		return misuse("--set needs the name of a policy")
	}
	// Inspect costs the policy a look at all pools and jobs, so installPolicy does without.
	resp, err := client.Call(ctx, u.cl, u.cl.RPC().Policy, &slotwisev1.PolicyRequest{Inspect: true})
	if err != nil {
		return err
	}
	if u.json() {
		return printMessage(u.out(), resp)
	}
	if _, err := terminal.Fprintf(u.out(), "%s\n", policyText(resp.Name, resp.Set)); err != nil {
		return err
	}
	return printInsight(u.out(), resp)
}

// printInsight prints the inner state of a policy: a line for each figure, then the tables. Names,
// units and the number of columns come from the policy, so a new policy needs no change here.
func printInsight(w io.Writer, resp *slotwisev1.PolicyResponse) error {
	t := table(w)
	if len(resp.Figures) > 0 {
		fmt.Fprintln(w)
	}
	for _, f := range resp.Figures {
		terminal.Fprintf(t, "%s\t%s\n", f.Measure.Name, strings.TrimSpace(datumText(f.Value)+" "+f.Measure.Unit))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, table := range resp.Tables {
		terminal.Fprintf(w, "\n%s\n", table.Name)
		// Indented below the table's name.
		fmt.Fprint(t, "  ")
		for _, c := range table.Columns {
			terminal.Fprintf(t, "%s%s\t", strings.ToUpper(c.Name), unit(c))
		}
		fmt.Fprintln(t)
		for _, row := range table.Rows {
			fmt.Fprint(t, "  ")
			for _, d := range row.Values {
				terminal.Fprintf(t, "%s\t", datumText(d))
			}
			fmt.Fprintln(t)
		}
		// Each table has its own widths of columns.
		if err := t.Flush(); err != nil {
			return err
		}
		if table.Omitted > 0 {
			terminal.Fprintf(w, "  and %d more\n", table.Omitted)
		}
	}
	return nil
}

// unit returns the unit of a measure in parentheses.
func unit(m *slotwisev1.PolicyMeasure) string {
	if m.Unit == "" {
		return ""
	}
	return " (" + m.Unit + ")"
}

// datumText formats a value of a policy's inner state.
func datumText(d *slotwisev1.PolicyDatum) string {
	return sched.Datum{Number: d.GetNumber(), Text: d.GetText()}.String()
}

// installPolicy installs a policy and prints the one before it and the new one: the output is
// the command line that undoes the change.
func installPolicy(ctx context.Context, u *userCommand, r *slotwisev1.SetPolicyRequest) error {
	// Asked before the change, since afterwards the master only knows the new one. Another user may
	// change the policy between the two calls; then the first line names a policy that was not the last
	// one.
	old, err := client.Call(ctx, u.cl, u.cl.RPC().Policy, &slotwisev1.PolicyRequest{})
	if err != nil {
		return err
	}
	if _, err := client.Call(ctx, u.cl, u.cl.RPC().SetPolicy, r); err != nil {
		return err
	}
	if u.json() {
		// Composed by hand, because the two messages are written by reflection and not by package json.
		var b bytes.Buffer
		b.WriteString(`{"old":`)
		writeMessage(&b, old.ProtoReflect())
		b.WriteString(`,"new":`)
		writeMessage(&b, (&slotwisev1.PolicyResponse{Name: r.Name, Set: r.Set}).ProtoReflect())
		b.WriteString("}\n")
		_, err := u.out().Write(b.Bytes())
		return err
	}
	_, err = terminal.Fprintf(u.out(), "%s → %s\n", policyText(old.Name, old.Set), policyText(r.Name, r.Set))
	return err
}

// policyText returns a policy's name and its given parameters, sorted by name, in the form of the
// command line without quotes.
func policyText(name string, set map[string]string) string {
	words := []string{name}
	for _, k := range slices.Sorted(maps.Keys(set)) {
		words = append(words, k+"="+set[k])
	}
	return strings.Join(words, " ")
}
