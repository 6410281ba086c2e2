package protocol

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/policies"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
)

// chainCore is a core with a chain and a worker that runs its driver.
func chainCore(t *testing.T, secret string) *Core {
	t.Helper()
	c, _, err := Restore(Config{
		Policy: "fifo", Build: func(name string, _ map[string]string) (sched.Policy, error) {
			return policies.Builtin().Build(name, sched.Options{Seed: 1})
		},
		NodeTimeout: time.Minute, Limits: Limits{Jobs: 10_000, Tasks: 100_000, Nodes: 10, Waiting: 10},
		ID: "m", Life: "l", Secret: []byte(secret), Started: time.Unix(1_000_000, 0),
	}, decoded(nil))
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseRegister(&slotwisev1.RegisterRequest{Worker: "w1", MapSlots: 1, DriverSlots: 1}, 10, func(string) string { return "r" })
	if err != nil {
		t.Fatal(err)
	}
	m.Call, m.Session = 1, "s1"
	c.Handle(1, m)
	c.Handle(2, &SubmitChain{Call: 2, Request: "r", Spec: &slotwisev1.ChainSpec{Job: &slotwisev1.JobSpec{
		User: "ann", Program: &slotwisev1.Program{App: "x"}, Output: "file:///d/out",
	}}})
	return c
}

// token returns the token in the order to start a driver.
func (c *Core) token() string {
	token := ""
	for _, a := range c.sessionOf("w1").outbox {
		if d := a.GetDrive(); d != nil {
			token = d.Token
		}
	}
	return token
}

// A step may write to its own chain's output, and to no other chain's.
func TestStepsTakeNoOtherOutput(t *testing.T) {
	c := chainCore(t, "secret")
	chain := func(id ChainID, output string) *slotwisev1.JournalChain {
		return &slotwisev1.JournalChain{Chain: int32(id), Request: fmt.Sprint("r", id), Spec: &slotwisev1.ChainSpec{Job: &slotwisev1.JobSpec{User: "bob", Output: output}}}
	}
	c.addChain(chain(2, "file:///d/other"))
	for _, x := range []struct {
		step   ChainID
		output string
		free   bool
	}{
		{1, "file:///d/out", true}, {1, "file:///d/other", false}, {1, "file:///d/other/nested", false}, {1, "file:///d/own", true},
		{2, "file:///d/other", true}, {2, "file:///d/out", false},
		{0, "file:///d/other", false},
	} {
		err := c.outputIsFree(&slotwisev1.JobSpec{Output: x.output}, x.step)
		if (err == nil) != x.free {
			t.Errorf("a step of %v to %s: %v", x.step, x.output, err)
		}
	}
}

// A token is valid for its chain as long as its driver is the current one, under no
// other number and of no other life.
func TestDriverToken(t *testing.T) {
	c := chainCore(t, "secret")
	first := c.token()
	if r, ok := c.Driver(first); !ok || r != (DriverRights{Chain: 1, Owner: "ann"}) {
		t.Fatalf("the token %q: %v %v", first, r, ok)
	}
	if secret := strings.TrimPrefix(first, TokenPrefix+"1_"); len(secret) < 32 {
		t.Errorf("the token has %d hexadecimal digits, fewer than 128 bits", len(secret))
	}
	for r := range c.Snapshot() {
		if strings.Contains(r.String(), first) {
			t.Errorf("the token is in the journal: %v", r)
		}
	}
	if other := chainCore(t, "other").token(); other == first {
		t.Error("another life of the master makes the same token")
	}
	for _, bad := range []string{"", TokenPrefix, TokenPrefix + "1_", TokenPrefix + "2" + first[len(TokenPrefix)+1:], first + "0", first[:len(first)-1], TokenPrefix + "-1_x"} {
		if _, ok := c.Driver(bad); ok {
			t.Errorf("the token %q is accepted", bad)
		}
	}
	c.Handle(3, &Heartbeat{Call: 3, Request: &slotwisev1.HeartbeatRequest{Session: "s1", Seq: 1, Acked: 1}, event: heartbeatOf(t)})
	second := c.token() // the worker did not know the driver, so there is another one
	if _, ok := c.Driver(first); ok || second == first {
		t.Error("the token of a driver that was replaced is accepted")
	}
	if _, ok := c.Driver(second); !ok {
		t.Error("the token of the current driver is refused")
	}
	c.Handle(4, &KillChain{Call: 4, Chain: 1})
	if _, ok := c.Driver(second); ok {
		t.Error("the token outlives the chain")
	}
}

// A chain whose drivers are lost again and again fails, also if the master is restarted
// meanwhile. Before that, each loss starts another driver.
func TestDriversLost(t *testing.T) {
	c := chainCore(t, "secret")
	for n := range maxDriversLost {
		ch := c.chains.byID[1]
		if ch.outcome != nil || ch.driver.try != int32(n+1) || ch.driver.worker != "w1" {
			t.Fatalf("after %d losses: driver %d on %q, outcome %v", n, ch.driver.try, ch.driver.worker, ch.outcome)
		}
		if n == maxDriversLost/2 {
			again, _, err := Restore(c.cfg, func(yield func(*slotwisev1.JournalRecord, error) bool) {
				for r := range c.Snapshot() {
					if !yield(r, nil) {
						return
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			c = again
		}
		m, err := ParseRegister(&slotwisev1.RegisterRequest{Worker: "w1", MapSlots: 1, DriverSlots: 1, Incarnation: fmt.Sprint(n)}, 10, func(string) string { return "r" })
		if err != nil {
			t.Fatal(err)
		}
		m.Call, m.Session = Call(100+n), fmt.Sprint("again", n)
		c.Handle(c.now+1, m)
	}
	o := c.chains.byID[1].outcome
	if o == nil || o.state != slotwisev1.JobState_JOB_STATE_FAILED || !strings.Contains(o.message, "its driver was lost 10 times and no step ended in between") || !strings.Contains(o.message, "on worker w1: the worker has registered without it") {
		t.Errorf("outcome %+v", o)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}

// The times of a chain come from chains of its name and user that have succeeded; a chain that has ended
// has none.
func TestChainTimes(t *testing.T) {
	c := chainCore(t, "secret")
	first := c.chains.byID[1]
	c.now = first.at + 7
	if elapsed, past, live := c.ChainTimes(1); elapsed != 7 || len(past) != 0 || !live {
		t.Errorf("alone: %v %v %v", elapsed, past, live)
	}
	for i, x := range []struct {
		name, user string
		state      slotwisev1.JobState
	}{
		{first.job().Name, first.job().User, slotwisev1.JobState_JOB_STATE_SUCCEEDED},
		{first.job().Name, first.job().User, slotwisev1.JobState_JOB_STATE_FAILED},
		{"other", first.job().User, slotwisev1.JobState_JOB_STATE_SUCCEEDED},
		{first.job().Name, "other", slotwisev1.JobState_JOB_STATE_SUCCEEDED},
	} {
		id := ChainID(10 + i)
		c.chains.byID[id] = &chainEntry{id: id, at: 100, outcome: &chainOutcome{state: x.state, at: 142},
			spec: &slotwisev1.ChainSpec{Job: &slotwisev1.JobSpec{Name: x.name, User: x.user}}}
	}
	if _, past, _ := c.ChainTimes(1); !slices.Equal(past, []time.Duration{42}) {
		t.Errorf("past times %v", past)
	}
	if _, _, live := c.ChainTimes(10); live {
		t.Error("an ended chain has an end to come")
	}
}

func heartbeatOf(t *testing.T) *tracker.Heartbeat {
	t.Helper()
	m, err := ParseHeartbeat(&slotwisev1.HeartbeatRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return m.event
}

// A chain whose function submits steps for ever is stopped by the limit; repeated steps
// do not count.
func TestMaxSteps(t *testing.T) {
	c := chainCore(t, "secret")
	submit := func(n int) Reply {
		spec := &slotwisev1.JobSpec{Program: &slotwisev1.Program{Step: "s"}, Synthetic: 1, Chain: "chain-1", Output: fmt.Sprint("t", n)}
		core, err := CoreSpec(spec)
		if err != nil {
			t.Fatal(err)
		}
		out := c.Handle(5, &Submit{Call: Call(10 + n), Spec: spec, Core: core})
		if len(out.Replies) == 0 {
			out = c.Handle(5, &Staged{Request: stepRequest(1, spec.Output)})
		}
		return out.Replies[0]
	}
	for n := range MaxSteps {
		if r := submit(n); r.Err != nil {
			t.Fatalf("step %d: %v", n, r.Err)
		}
	}
	if r := submit(MaxSteps - 1); r.Err != nil {
		t.Errorf("a repeated step is refused: %v", r.Err)
	}
	if r := submit(MaxSteps); r.Err == nil || !strings.Contains(r.Err.Error(), "1000 steps") {
		t.Errorf("step %d: %v", MaxSteps, r.Err)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}

// A chain has its output from its submission to its end: other jobs and chains are refused
// on entry, its own steps are not. A job that writes refuses a chain in the same way.
func TestChainReservesOutput(t *testing.T) {
	c := chainCore(t, "secret") // chain-1 writes to file:///d/out
	submit := func(chain, output string) error {
		spec := &slotwisev1.JobSpec{User: "bob", Program: &slotwisev1.Program{Step: "s"}, Synthetic: 1, Chain: chain, Output: output}
		core, err := CoreSpec(spec)
		if err != nil {
			t.Fatal(err)
		}
		m := &Submit{Call: 20, Request: "job to " + output, Spec: spec, Core: core}
		out := c.Handle(5, m)
		if len(out.Replies) == 0 {
			out = c.Handle(5, &Staged{Request: m.Request})
		}
		return out.Replies[0].Err
	}
	begin := func(output string) error {
		job := &slotwisev1.JobSpec{User: "bob", Program: &slotwisev1.Program{App: "x"}, Output: output}
		return c.Handle(5, &SubmitChain{Call: 21, Request: "chain to " + output, Spec: &slotwisev1.ChainSpec{Job: job}}).Replies[0].Err
	}
	refused := func(what string, err error, text string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), "has not ended") {
			t.Errorf("%s: %v, want %q", what, err, text)
		}
	}
	refused("a job", submit("", "file:///d/out"), "chain-1 (")
	refused("a job inside", submit("", "file:///d/./out/sub"), "chain-1 (")
	refused("a chain", begin("file:///d/out/"), "chain-1 (")
	for _, err := range []error{submit("", "file:///d/other"), begin("file:///d/outer"), submit("chain-1", "file:///d/out")} {
		if err != nil {
			t.Error(err)
		}
	}
	refused("a chain into a job's output", begin("file:///d/other/sub"), "job j1 (")
	c.Handle(6, &KillChain{Call: 22, Chain: 2})
	if err := submit("", "file:///d/outer"); err != nil {
		t.Errorf("after the chain's end: %v", err)
	}
}

// Names of chains have one spelling.
func TestParseChain(t *testing.T) {
	for _, id := range []ChainID{1, 12, 1<<31 - 1} {
		if got, err := ParseChain(id.String()); got != id || err != nil {
			t.Errorf("%v: %v, %v", id, got, err)
		}
	}
	for _, bad := range []string{"", "chain-", "chain-0", "chain--1", "chain-01", "chain-+1", "chain-2147483648", "j1", "Chain-1", "chain-1 "} {
		if got, err := ParseChain(bad); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
}

// A user with many chains leaves room for the chains of others. The limit is the limit of jobs.
func TestMaxChainsOfUser(t *testing.T) {
	c := chainCore(t, "secret")
	c.cfg.Limits.Jobs = 4
	c.room = newRoom(c.cfg.Limits)
	submit := func(request, user string) error {
		job := &slotwisev1.JobSpec{Name: "n", User: user, Program: &slotwisev1.Program{App: "x"}, Output: "file:///d/" + request}
		return c.Handle(5, &SubmitChain{Call: 10, Request: request, Spec: &slotwisev1.ChainSpec{Job: job}}).Replies[0].Err
	}
	for _, x := range []struct{ request, user, refused string }{
		{"1", "mallory", ""}, {"2", "mallory", ""}, {"3", "mallory", "user mallory has 2 chains"}, {"2", "mallory", ""},
		{"4", "ann", ""}, {"5", "ann", "user ann has 1 chains"}, {"5", "bob", ""}, {"6", "eve", "more than 4"},
	} {
		if err := submit(x.request, x.user); (err == nil) != (x.refused == "") || err != nil && !strings.Contains(err.Error(), x.refused) {
			t.Errorf("request %s of %s: %v, want %q", x.request, x.user, err, x.refused)
		}
	}
}
