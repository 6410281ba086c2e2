package protocol

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// The commands of scripts that concern chains; TestScripts lists them.

func (c *conversation) chain(name string) ChainID {
	id, err := ParseChain(name)
	if err != nil {
		c.t.Fatal(err)
	}
	return id
}

// driver parses the name of a driver, such as chain-1#2.
func (c *conversation) driver(name string) *slotwisev1.DriverRef {
	chain, try, _ := strings.Cut(name, "#")
	n, err := strconv.Atoi(try)
	if err != nil {
		c.t.Fatal(err)
	}
	return &slotwisev1.DriverRef{Chain: chain, Try: int32(n)}
}

// driverReport parses a line of a heartbeat.
func (c *conversation) driverReport(f []string) *slotwisev1.DriverReport {
	r := &slotwisev1.DriverReport{
		Driver: c.driver(f[0]), State: slotwisev1.AttemptState(slotwisev1.AttemptState_value["ATTEMPT_STATE_"+strings.ToUpper(f[1])]),
	}
	f = f[2:]
	if len(f) > 0 && f[0] == "final" {
		r.Final, f = true, f[1:]
	}
	r.Error = strings.Join(f, " ")
	return r
}

// request returns the request that a script calls name: C>OUTPUT is a step's.
func (c *conversation) request(name string) string {
	if chain, output, ok := strings.Cut(name, ">"); ok {
		return stepRequest(c.chain(chain), output)
	}
	return name
}

// shownRequest replaces the unprintable request of a step.
func shownRequest(r string) string {
	if f := strings.Split(r, "\x00"); len(f) == 3 {
		return fmt.Sprintf("a step of %s", f[1])
	}
	return r
}

// chainMessage makes the message of a command about a chain, nil for others.
func (c *conversation) chainMessage(d *datadriven.TestData, a args) Message {
	switch d.Cmd {
	case "submit-chain":
		return &SubmitChain{Call: c.newCall(), Request: a.words[0], Spec: &slotwisev1.ChainSpec{Job: &slotwisev1.JobSpec{
			Name: "test", User: "ann", Program: &slotwisev1.Program{App: "x"}, Output: a.get("output", "file:///d/out"),
		}}}
	case "step":
		m := c.submit(args{words: []string{"-"}, named: map[string][]string{"output": {a.get("output", "t1")}}}).(*Submit)
		m.Spec.Chain, m.Spec.Program.Step, m.Spec.Digest, m.Spec.User = a.words[0], a.words[1], a.get("digest", ""), "mallory"
		return m
	case "watch-chain":
		return &WatchChain{Call: c.newCall(), Chain: c.chain(a.words[0]), After: int64(a.number("after", 0)), Wait: a.has("wait"), Steps: a.has("all")}
	case "kill-chain":
		return &KillChain{Call: c.newCall(), Chain: c.chain(a.words[0]), Reason: "enough"}
	case "move-chain":
		return &ChangeChain{Call: c.newCall(), Chain: c.chain(a.words[0]), Pool: a.words[1]}
	case "cleaned":
		return &ChainCleaned{Chain: c.chain(a.words[0]), Err: a.err()}
	case "chain-in-history":
		return &ChainInHistory{Chain: c.chain(a.words[0]), Err: a.err()}
	}
	return nil
}

func formatChainRecord(r *slotwisev1.JournalRecord) string {
	switch w := r.What.(type) {
	case *slotwisev1.JournalRecord_Chain:
		return fmt.Sprintf("chain-%d for request %s", w.Chain.Chain, w.Chain.Request)
	case *slotwisev1.JournalRecord_Driver:
		return fmt.Sprintf("driver chain-%d#%d on %q, %d failures%s %s", w.Driver.Chain, w.Driver.Try, w.Driver.Worker, w.Driver.Failures, formatLost(w.Driver.Lost), w.Driver.Error)
	case *slotwisev1.JournalRecord_StepEnded:
		return fmt.Sprintf("step %s of chain-%d ended: %s %s", w.StepEnded.Status.Step, w.StepEnded.Chain, w.StepEnded.Status.Id, StateWord(w.StepEnded.Status.State))
	case *slotwisev1.JournalRecord_ChainOutcome:
		return fmt.Sprintf("outcome of chain-%d: %s %s", w.ChainOutcome.Chain, StateWord(w.ChainOutcome.State), w.ChainOutcome.Message)
	case *slotwisev1.JournalRecord_ChainChanged:
		return fmt.Sprintf("chain-%d is in pool %s", w.ChainChanged.Chain, w.ChainChanged.Pool)
	case *slotwisev1.JournalRecord_ChainFinished:
		return fmt.Sprintf("chain-%d of request %s is in the history", w.ChainFinished.Chain, w.ChainFinished.Request)
	}
	return ""
}

// formatLost prints how many drivers were lost since the last step ended, if any was.
func formatLost(n int32) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d lost", n)
}

func formatChainInstruction(o Instruction) string {
	switch o := o.(type) {
	case *RemoveChainDir:
		return fmt.Sprintf("remove %s of %v", o.URI, o.Chain)
	case *WriteChainHistory:
		return fmt.Sprintf("history: %s, %d steps", formatStatus(o.Entry.Job), len(o.Entry.Steps))
	}
	return ""
}

// printChains prints the live chains.
func (c *conversation) printChains() {
	for _, ch := range c.core.chains.live {
		fmt.Fprintf(&c.out, "%s; driver %d on %q, %d failures%s, %d entering\n", formatStatus(c.core.chainStatus(ch)), ch.driver.try, ch.driver.worker, ch.driver.failures, formatLost(ch.driver.lost), ch.entering)
		for _, s := range c.core.stepStatuses(ch, true) {
			fmt.Fprintf(&c.out, "  %s of %s in pool %s: %s\n", s.Step, s.User, s.Pool, formatStatus(s))
		}
	}
	fmt.Fprintf(&c.out, "%d ended in memory, %d requests\n", len(c.core.chains.ended), len(c.core.chains.requests))
}

// explainChain prints why a chain waits.
func (c *conversation) explainChain(a args) {
	resp, err := c.core.ExplainChain(c.chain(a.words[0]))
	if err != nil {
		fmt.Fprintln(&c.out, err)
		return
	}
	for _, e := range resp.Why {
		fmt.Fprintf(&c.out, "%s: %s\n", e.Reason, e.Words)
	}
}
