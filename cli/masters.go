package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/live/client"
	"github.com/slotwise/slotwise/internal/live/master"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// newMasters returns the command that lists and changes the masters of a cluster. The list is the
// leader's: a follower sends the request on to it.
func newMasters() *cobra.Command {
	c := &cobra.Command{
		Use:   "masters",
		Short: "List the masters of a cluster that has several",
		Long: `Lists the masters that replace each other. ROLE is leader, follower, or learner: a new
master that receives the journal and does not vote yet. INDEX is the last entry of the
journal that the leader knows the master to have, LAG the number of entries that it
lacks, TERM the leader's. A silent master has not answered the leader lately. A line
below the table says why a learner that has the journal does not vote.`,
		Example: `  slotwise masters
  slotwise masters add d:7077
  slotwise masters remove a:7077`,
		Args: noArgs,
	}
	newUserCommand(c, true, func(ctx context.Context, u *userCommand, _ []string) error {
		resp, err := client.Call(ctx, u.cl, u.cl.RPC().Masters, &slotwisev1.MastersRequest{})
		if err != nil {
			return err
		}
		if u.json() {
			return printMessages(u.out(), resp.Masters)
		}
		// A table without rows would look like an error of the command.
		if len(resp.Masters) == 0 {
			_, err := fmt.Fprintln(u.out(), "this cluster has one master, which was started without --peers")
			return err
		}
		t := table(u.out())
		// Notes are sentences, too long for a column, so they follow the table.
		var notes []string
		fmt.Fprintln(t, "MASTER\tROLE\tTERM\tINDEX\tLAG")
		for _, m := range resp.Masters {
			role := m.Role
			if m.Silent {
				role += ", silent"
			}
			terminal.Fprintf(t, "%s\t%s\t%d\t%d\t%d\n", m.Address, role, m.Term, m.Index, m.Lag)
			if m.Note != "" {
				notes = append(notes, m.Address+" does not vote yet: "+m.Note)
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
		for _, n := range notes {
			if _, err := terminal.Fprintf(u.out(), "%s\n", n); err != nil {
				return err
			}
		}
		return nil
	})
	c.AddCommand(newChangeMasters("add", `Adds a master, which first was started with --join. It receives the journal, and votes
when it has caught up; slotwise masters shows how far it is. One master is added at a
time. Name it in the lists of masters of workers and commands, too.`, func(r *slotwisev1.ChangeMastersRequest, address string) string {
		r.Add = address
		return address + " receives the journal now, and votes when it has caught up: see slotwise masters"
	}), newChangeMasters("remove", `Removes a master, also one that is dead. It is refused if fewer than a majority of
the masters that would be left run, and for the master that leads: stop that one first.
A removed master that runs ends by itself.`, func(r *slotwisev1.ChangeMastersRequest, address string) string {
		r.Remove = address
		return address + " is no master any more; if it runs, it ends"
	}))
	return c
}

// newChangeMasters returns masters add or masters remove. fill sets the request and returns the
// text to print after the change. A change is an entry of the masters' journal, so it needs the
// majority of the masters.
func newChangeMasters(name, long string, fill func(r *slotwisev1.ChangeMastersRequest, address string) string) *cobra.Command {
	c := &cobra.Command{
		Use:     name + " HOST:PORT",
		Short:   map[string]string{"add": "Add a master to a cluster", "remove": "Remove a master from a cluster"}[name],
		Long:    long,
		Example: "  slotwise masters " + name + " d:7077",
		Args:    oneArg("address"),
	}
	newUserCommand(c, false, func(ctx context.Context, u *userCommand, args []string) error {
		// Here, because the address becomes part of the journal of all masters: one with a typing error
		// would be a member that never answers.
		if err := master.CheckAddress(args[0]); err != nil {
			return misuse("%w", err)
		}
		r := &slotwisev1.ChangeMastersRequest{}
		done := fill(r, args[0])
		if _, err := client.Call(ctx, u.cl, u.cl.RPC().ChangeMasters, r); err != nil {
			return err
		}
		_, err := terminal.Fprintf(u.out(), "%s\n", done)
		return err
	})
	return c
}
