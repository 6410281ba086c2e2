package agent

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/live/wire"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// conversation runs the commands of a script against one agent.
type conversation struct {
	agent *Agent
	sent  map[int64]*slotwisev1.HeartbeatRequest // by sequence number, of all sessions
}

// TestScripts plays the conversations in testdata. Each command prints what the
// agent composes or orders. The commands:
//
//	register [held=ID,...]               compose a registration
//	session ID [other] [kill=…] [drop=…] the master grants a session
//	heartbeat                            compose a heartbeat
//	answered SEQ                         the heartbeat was answered
//	act                                  actions, one a line: NUMBER launch|kill|drop …
//	end ATTEMPT STATE [text]             an attempt's process has ended
//	progress ATTEMPT FRACTION TICKS
//	known JOB TOKEN                      the master has described a job
//	fetch-failed REDUCE MAP
//	no-work on|off
//	stop-all
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		c := &conversation{agent: New(), sent: map[int64]*slotwisev1.HeartbeatRequest{}}
		datadriven.RunTest(t, path, c.run)
	})
}

func (c *conversation) run(t *testing.T, d *datadriven.TestData) string {
	g := c.agent
	var words []string
	named := map[string][]string{}
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			words = append(words, a.Key)
			continue
		}
		named[a.Key] = a.Vals
	}
	switch d.Cmd {
	case "register":
		r := &slotwisev1.RegisterRequest{}
		var held []*slotwisev1.HeldOutput
		for _, id := range named["held"] {
			held = append(held, &slotwisev1.HeldOutput{Attempt: id, Bytes: 7})
		}
		g.Registration(r, g.Listed(), held)
		text := fmt.Sprintf("registration %d: running %v, outputs %s", r.Number, r.Running, outputs(r.Outputs))
		if len(r.Jobs) > 0 {
			text += fmt.Sprintf(", jobs %v", r.Jobs)
		}
		return text + "\n"
	case "session":
		other := slices.Contains(words, "other")
		return render(g.Registered(&slotwisev1.RegisterResponse{Session: words[0], DropJobs: named["drop"]}, other))
	case "heartbeat":
		r := g.Heartbeat(1000, nil)
		c.sent[r.Seq] = r
		return describe(r)
	case "answered":
		seq, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil || c.sent[seq] == nil {
			t.Fatalf("%s: no heartbeat %s", d.Pos, words[0])
		}
		g.Acknowledge(c.sent[seq])
	case "act":
		var actions []*slotwisev1.Action
		for line := range strings.Lines(d.Input) {
			actions = append(actions, action(t, strings.Fields(line)))
		}
		return render(g.Act(actions, 5))
	case "end":
		state := slotwisev1.AttemptState(slotwisev1.AttemptState_value["ATTEMPT_STATE_"+strings.ToUpper(words[1])])
		return render(g.End(attemptID(t, words[0]), state, strings.Join(words[2:], " "), "", &slotwisev1.Done{OutputBytes: 9}))
	case "progress":
		fraction, _ := strconv.ParseFloat(words[1], 64)
		ticks, _ := strconv.ParseUint(words[2], 10, 64)
		g.Progress(attemptID(t, words[0]), fraction, ticks)
	case "known":
		id, err := job.ParseID(words[0])
		if err != nil {
			t.Fatal(err)
		}
		g.JobKnown(id, words[1])
	case "fetch-failed":
		g.FetchFailed(&slotwisev1.FetchFailure{Reduce: words[0], Map: words[1]})
	case "no-work":
		c := slotwisev1.NodeCondition_NODE_CONDITION_UNSPECIFIED
		if words[0] == "on" {
			c = slotwisev1.NodeCondition_NODE_CONDITION_LEAVING
		}
		g.SetCondition(c, "")
	case "stop-all":
		return render(g.StopAll("the worker is shutting down"))
	default:
		t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
	return "ok\n"
}

func action(t *testing.T, f []string) *slotwisev1.Action {
	n, err := strconv.ParseInt(f[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	a := &slotwisev1.Action{Number: n}
	switch f[1] {
	case "launch":
		l := &slotwisev1.Launch{Attempt: f[2]}
		if len(f) > 3 {
			l.Staging = f[3]
		}
		a.What = &slotwisev1.Action_Launch{Launch: l}
	case "kill":
		a.What = &slotwisev1.Action_Kill{Kill: &slotwisev1.Kill{Attempt: f[2], Reason: strings.Join(f[3:], " ")}}
	case "drop":
		a.What = &slotwisev1.Action_DropJob{DropJob: f[2]}
	default:
		t.Fatalf("unknown action %s", f[1])
	}
	return a
}

func attemptID(t testing.TB, name string) job.AttemptID {
	id, err := job.ParseAttempt(name)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func outputs(list []*slotwisev1.HeldOutput) string {
	var names []string
	for _, o := range list {
		names = append(names, o.Attempt)
	}
	return fmt.Sprint(names)
}

func word(s slotwisev1.AttemptState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "ATTEMPT_STATE_"))
}

func describe(r *slotwisev1.HeartbeatRequest) string {
	var b strings.Builder
	fmt.Fprintf(&b, "session %q heartbeat %d, acknowledges action %d", r.Session, r.Seq, r.Acked)
	if r.Draining {
		b.WriteString(", no work")
	}
	b.WriteString("\n")
	for _, p := range r.Reports {
		fmt.Fprintf(&b, "  %s %s progress=%g ticks=%d bytes=%d %s\n", p.Attempt, word(p.State), p.Progress, p.Ticks, p.OutputBytes, p.Error)
	}
	for _, f := range r.FetchFailures {
		fmt.Fprintf(&b, "  complaint %d: %s cannot fetch %s\n", f.Number, f.Reduce, f.Map)
	}
	return strings.ReplaceAll(b.String(), " \n", "\n")
}

var orderWords = map[InstructionKind]string{Start: "start", Stop: "stop", Discard: "discard the output of", DropJob: "drop job", Refuse: "refuse"}

func render(orders []Instruction) string {
	if len(orders) == 0 {
		return "no orders\n"
	}
	var b strings.Builder
	for _, o := range orders {
		b.WriteString(orderWords[o.Kind])
		switch o.Kind {
		case DropJob:
			b.WriteString(" " + o.Job.String())
		case Start, Stop, Discard:
			b.WriteString(" " + o.Attempt.String())
		}
		if o.Reason != "" {
			b.WriteString(": " + o.Reason)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestFormerLeader gives an agent answers of two leaders in any order: it accepts none of a lower
// term while the higher one answers, and a lower one once the higher one has been silent for a
// minute, as after a restore.
func TestFormerLeader(t *testing.T) {
	g := New()
	for i, x := range []struct {
		term  uint64
		at    int64
		allow bool
	}{
		{0, 0, true}, {3, 1, true}, {2, 2, false}, {3, 50_000, true}, {2, 60_000, false}, {4, 60_001, true},
		{3, 60_001 + forgetTerm - 1, false}, {3, 60_001 + forgetTerm, true}, {2, 60_001 + forgetTerm, false}, {4, 60_001 + forgetTerm, true},
	} {
		if got := g.Accept(x.term, x.at); got != x.allow {
			t.Errorf("answer %d, of term %d at %d: accepted is %v", i, x.term, x.at, got)
		}
	}
}

// TestLossyMaster plays an agent against a master that repeats, loses and
// reorders, and checks the three promises of the package comment: each launch is
// started exactly once, each end reaches the master, and a heartbeat that
// acknowledges a launch names its attempt until the master has heard its end.
func TestLossyMaster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := New()
		g.Registered(&slotwisev1.RegisterResponse{Session: "s"}, false)
		var actions []*slotwisev1.Action
		var sent []*slotwisev1.HeartbeatRequest
		started, ended, heard := map[string]int{}, map[string]bool{}, map[string]bool{}
		acked := int64(0)
		receive := func(r *slotwisev1.HeartbeatRequest) {
			acked = max(acked, r.Acked)
			named := map[string]bool{}
			for _, p := range r.Reports {
				named[p.Attempt] = true
				if p.State != Running {
					heard[p.Attempt] = true
				}
			}
			for _, a := range actions[:r.Acked] {
				id := a.GetLaunch().GetAttempt()
				if !named[id] && !heard[id] {
					t.Fatalf("heartbeat %d acknowledges the launch of %s and does not name it", r.Seq, id)
				}
			}
		}
		answer := func(r *slotwisev1.HeartbeatRequest) {
			g.Acknowledge(r)
			for _, o := range g.Act(actions[min(acked, int64(len(actions))):], 1) {
				if o.Kind != Start {
					t.Fatalf("unexpected order %v", o)
				}
				started[o.Attempt.String()]++
			}
		}
		end := func(id string) {
			if started[id] > 0 && !ended[id] {
				ended[id] = true
				a, _ := job.ParseAttempt(id)
				g.End(a, Succeeded, "", "", nil)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				n := len(actions)
				actions = append(actions, &slotwisev1.Action{Number: int64(n + 1),
					What: &slotwisev1.Action_Launch{Launch: &slotwisev1.Launch{Attempt: fmt.Sprintf("j1_m_%d_0", n)}}})
			case 1:
				sent = append(sent, g.Heartbeat(0, nil))
			case 2, 3: // the master receives one of the last heartbeats; its answer may be lost
				if len(sent) == 0 {
					continue
				}
				r := sent[rapid.IntRange(max(0, len(sent)-3), len(sent)-1).Draw(t, "which")]
				receive(r)
				if rapid.Bool().Draw(t, "answered") {
					answer(r)
				}
			case 4:
				if len(actions) > 0 {
					end(actions[rapid.IntRange(0, len(actions)-1).Draw(t, "ends")].GetLaunch().GetAttempt())
				}
			}
		}
		// Once messages arrive, everything is started, ended and heard.
		for range 2 {
			r := g.Heartbeat(0, nil)
			receive(r)
			answer(r)
			for _, a := range actions {
				end(a.GetLaunch().GetAttempt())
			}
		}
		r := g.Heartbeat(0, nil)
		receive(r)
		answer(r)
		for _, a := range actions {
			id := a.GetLaunch().GetAttempt()
			if started[id] != 1 || !heard[id] {
				t.Fatalf("%s: started %d times, end heard: %v", id, started[id], heard[id])
			}
		}
		if running, listed := g.Count(); running != 0 || listed != 0 {
			t.Fatalf("%d attempts run and %d are listed at the end", running, listed)
		}
	})
}

// TestSmallMaster plays an agent against a master that refuses heartbeats beyond a size.
// Every heartbeat names every attempt, none is repeated unchanged after a refusal, and
// every end arrives. An end that is too large for any heartbeat arrives as a failure.
func TestSmallMaster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const attempts = 8
		bare := 60 * attempts // bytes of a heartbeat without ends, at most
		most := bare + rapid.IntRange(600, 40<<10).Draw(t, "most")
		g := New()
		g.Registered(&slotwisev1.RegisterResponse{Session: "s"}, false)
		var actions []*slotwisev1.Action
		for i := range attempts {
			actions = append(actions, &slotwisev1.Action{Number: int64(i + 1),
				What: &slotwisev1.Action_Launch{Launch: &slotwisev1.Launch{Attempt: fmt.Sprintf("j1_m_%d_0", i)}}})
		}
		g.Act(actions, 1)
		for i := range attempts {
			id := job.AttemptID{TaskID: job.TaskID{Job: 1, Kind: job.Map, Index: int32(i)}}
			var count counters.Set
			for n := range rapid.IntRange(0, 60).Draw(t, "counters") {
				count.AddUser(fmt.Sprintf("%0150d", n), 1)
			}
			g.End(id, Succeeded, "", "", &slotwisev1.Done{Counters: wire.EncodeCounters(&count)})
			for n := range rapid.IntRange(0, 3).Draw(t, "complaints") {
				g.FetchFailed(&slotwisev1.FetchFailure{Reduce: id.String(), Map: fmt.Sprint(n), Error: strings.Repeat("e", 9999)})
			}
		}
		heard, complaints, refused := map[string]slotwisev1.AttemptState{}, int64(0), 0
		var last []byte
		for beats := 0; ; beats++ {
			if beats > 1000 {
				t.Fatalf("after %d heartbeats %d of %d ends have arrived", beats, len(heard), attempts)
			}
			r := g.Heartbeat(500, nil)
			if _, listed := g.Count(); len(r.Reports) != listed {
				t.Fatalf("a heartbeat names %d of %d attempts", len(r.Reports), listed)
			}
			r.Seq = 0
			b, err := proto.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if len(b) > most {
				if refused++; bytes.Equal(b, last) {
					t.Fatalf("a refused heartbeat of %d bytes is repeated", len(b))
				}
				last = b
				g.TooLarge(r)
				continue
			}
			for _, p := range r.Reports {
				if p.State != Running {
					heard[p.Attempt] = p.State
					if big := 14 << 10; p.State == Failed && most > big {
						t.Fatalf("%s failed although %d bytes were free", p.Attempt, most)
					}
				}
			}
			for _, f := range r.FetchFailures {
				if f.Number != complaints+1 && most > bare+2048 {
					t.Fatalf("complaint %d follows %d", f.Number, complaints)
				}
				complaints = f.Number
			}
			g.Acknowledge(r)
			if r.WaitMs == 500 { // nothing was left out
				break
			}
		}
		if _, listed := g.Count(); listed != 0 || len(heard) != attempts {
			t.Fatalf("%d of %d ends arrived, %d are listed", len(heard), attempts, listed)
		}
	})
}

// TestManyComplaints checks that one reduce cannot fill the worker's memory.
func TestManyComplaints(t *testing.T) {
	g, long := New(), strings.Repeat("e", 1<<20)
	for i := range 10_000 {
		g.FetchFailed(&slotwisev1.FetchFailure{Reduce: fmt.Sprintf("j1_r_%d_0", i%2), Map: "j1_m_0_0", Error: long})
	}
	r := g.Heartbeat(0, nil)
	if n := len(r.FetchFailures); n != 2*bounds.PerReduce || proto.Size(r) > bounds.Batch {
		t.Errorf("%d complaints, %d bytes", n, proto.Size(r))
	}
}
