package protocol

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/policies"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// conversation runs the commands of a script against one master over all its lives.
type conversation struct {
	t          *testing.T
	core       *Core
	now        time.Duration
	start      time.Duration // of this life
	lives      int
	calls      Call
	journal    [][]byte          // durable records
	batch      bool              // inside batch … end
	sessions   map[string]string // the latest one, by worker
	seqs       map[string]int64  // the latest heartbeat, by worker
	complaints int64             // fetch failures that a script did not number
	policy     string
	limits     Limits
	out        strings.Builder
}

// TestScripts plays the conversations in testdata. Each command prints what the core
// logs, records, replies and orders, in this order. Outside a batch, each
// command is its own batch. Calls are numbered from 1.
//
//	master [policy=NAME] [jobs=N] [nodes=N] [waiting=N]
//	                               a master with an empty journal
//	restart [cut=N] [snapshot] [policy=NAME]
//	                               another life, from the journal without its last N
//	                               records, or from a snapshot
//	batch / end                    the commands in between share one fsync
//	register W [maps=N] [reduces=N] [incarnation=X] [number=N] [running=A,…] [outputs=A,…]
//	           [drivers=C#N,…] [driver-slots=N]
//	heartbeat W [seq=N] [acked=N] [wait] [draining] [leaving] [session=S]
//	                               with a report a line: ATTEMPT STATE [error],
//	                               driver C#N STATE [final] [error], or
//	                               fetch-failed REDUCE MAP WORKER [corrupt] [#NUMBER]
//	ask-commit W ATTEMPT / job-for-worker W JOB / map-outputs W JOB [cursor=C] [wait]
//	submit R [maps=N] [reduces=N] [output=URI] [attempts=N] [user=NAME]
//	staged R [error=X] / staging-removed R [error=X]
//	watch JOB [after=N] [wait] / release CALL
//	kill JOB|ATTEMPT / move JOB POOL / priority JOB P / drain W [undo] / policy NAME
//	delayed JOB X / committed JOB [error=X] / aborted JOB [error=X] / in-history JOB
//	submit-chain R [output=URI]
//	step C NAME [output=URI] [digest=X]  submits a step; staged and staging-removed take
//	                               its chain and output, C>OUTPUT, for R
//	watch-chain C [after=N] [wait] [all] / kill-chain C / move-chain C POOL
//	cleaned C [error=X] / chain-in-history C / chains / explain-chain C
//	closing                        the last message before an orderly stop
//	advance D                      time passes, with a tick at its end
//	wake                           EndBatch at the core's deadline
//	state                          jobs, workers, outboxes and calls
//	explain JOB / jobs / tasks JOB / nodes / users JOB ATTEMPT
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		c := &conversation{t: t, sessions: map[string]string{}, seqs: map[string]int64{}}
		datadriven.RunTest(t, path, c.run)
	})
}

// args are the arguments of a command: words, and named values.
type args struct {
	words []string
	named map[string][]string
}

func parseArgs(list []datadriven.CmdArg) args {
	a := args{named: map[string][]string{}}
	for _, arg := range list {
		if len(arg.Vals) == 0 {
			a.words = append(a.words, arg.Key)
		} else {
			a.named[arg.Key] = arg.Vals
		}
	}
	return a
}

func (a args) has(word string) bool { return slices.Contains(a.words, word) }

func (a args) get(name, otherwise string) string {
	if v := a.named[name]; len(v) > 0 {
		return v[0]
	}
	return otherwise
}

func (a args) number(name string, otherwise int) int {
	n, err := strconv.Atoi(a.get(name, strconv.Itoa(otherwise)))
	if err != nil {
		panic(err)
	}
	return n
}

// err is the error that a command names, or nil.
func (a args) err() error {
	if text := a.get("error", ""); text != "" {
		return fmt.Errorf("%s", text)
	}
	return nil
}

func (c *conversation) run(t *testing.T, d *datadriven.TestData) string {
	c.t = t
	c.out.Reset()
	a := parseArgs(d.CmdArgs)
	switch d.Cmd {
	case "master":
		c.journal, c.policy = nil, a.get("policy", "fifo")
		c.limits = Limits{Jobs: a.number("jobs", 100), Tasks: 1000, Nodes: a.number("nodes", 10), Waiting: a.number("waiting", 10)}
		c.restart(c.journal)
	case "restart":
		c.policy = a.get("policy", c.policy)
		records := c.journal
		if a.has("snapshot") {
			records = c.snapshot()
		}
		c.journal = slices.Clone(records[:len(records)-a.number("cut", 0)])
		c.restart(c.journal)
	case "batch":
		c.batch = true
	case "end":
		c.batch = false
		c.endBatch()
	case "advance":
		span, err := time.ParseDuration(a.words[0])
		if err != nil {
			t.Fatal(err)
		}
		c.now += span
		c.handle(&Tick{})
	case "wake":
		at, ok := c.core.Deadline()
		if !ok {
			return "no deadline\n"
		}
		c.now = at - c.core.Base() + c.start
		fmt.Fprintf(&c.out, "at %v\n", at)
		c.endBatch()
	case "state":
		c.printState()
	case "users":
		c.printRead(a)
	case "chains":
		c.printChains()
	case "explain-chain":
		c.explainChain(a)
	case "explain", "jobs", "tasks", "nodes":
		c.query(d.Cmd, a)
	default:
		c.handle(c.message(d, a))
	}
	if err := c.core.Check(); err != nil {
		fmt.Fprintf(&c.out, "VIOLATION: %v\n", err)
	}
	if c.out.Len() == 0 {
		return "nothing\n"
	}
	return c.out.String()
}

// restart begins a life of the master from records.
func (c *conversation) restart(journal [][]byte) {
	c.lives++
	c.start = c.now
	core, out, err := Restore(Config{
		Policy: c.policy, Configured: c.policy, Build: func(name string, _ map[string]string) (sched.Policy, error) {
			return policies.Builtin().Build(name, sched.Options{Seed: 1})
		},
		NodeTimeout: 30 * time.Second, Heartbeat: time.Second, Grace: 10 * time.Second, KeepEnded: 1, Limits: c.limits, Secret: []byte(fmt.Sprint("secret", c.lives)),
		ID: fmt.Sprint("master", c.lives), Life: fmt.Sprint("life", c.lives), Started: time.Unix(1_000_000, 0).Add(c.now),
	}, decoded(journal))
	if err != nil {
		c.t.Fatal(err)
	}
	c.core = core
	c.print(out)
}

func decoded(journal [][]byte) iter.Seq2[*slotwisev1.JournalRecord, error] {
	return func(yield func(*slotwisev1.JournalRecord, error) bool) {
		for _, b := range journal {
			r := &slotwisev1.JournalRecord{}
			if err := proto.Unmarshal(b, r); !yield(r, err) || err != nil {
				return
			}
		}
	}
}

func (c *conversation) snapshot() (records [][]byte) {
	for r := range c.core.Snapshot() {
		b, err := proto.Marshal(r)
		if err != nil {
			c.t.Fatal(err)
		}
		records = append(records, b)
	}
	return records
}

func (c *conversation) time() time.Duration { return c.core.Base() + c.now - c.start }

// handle gives the core a message. Each one takes a millisecond.
func (c *conversation) handle(m Message) {
	c.now += time.Millisecond
	c.print(c.core.Handle(c.time(), m))
	if !c.batch {
		c.endBatch()
	}
}

func (c *conversation) endBatch() { c.print(c.core.EndBatch(c.time())) }

func (c *conversation) newCall() Call {
	c.calls++
	return c.calls
}

// message makes the message of a command.
func (c *conversation) message(d *datadriven.TestData, a args) Message {
	switch d.Cmd {
	case "register":
		return c.register(a)
	case "heartbeat":
		return c.heartbeat(a, d.Input)
	case "ask-commit":
		return &AskCommit{Call: c.newCall(), Session: c.sessions[a.words[0]], Attempt: c.attempt(a.words[1])}
	case "job-for-worker":
		return &JobForWorker{Call: c.newCall(), Session: c.sessions[a.words[0]], Job: c.job(a.words[1])}
	case "map-outputs":
		return &MapOutputs{Call: c.newCall(), Session: c.sessions[a.words[0]], Job: c.job(a.words[1]), Cursor: a.get("cursor", ""), Wait: a.has("wait")}
	case "submit":
		return c.submit(a)
	case "staged":
		return &Staged{Request: c.request(a.words[0]), Err: a.err()}
	case "staging-removed":
		return &StagingRemoved{Request: c.request(a.words[0]), Output: "out", Err: a.err()}
	case "watch":
		return &WatchJob{Call: c.newCall(), Job: c.job(a.words[0]), After: int64(a.number("after", 0)), Wait: a.has("wait")}
	case "release":
		n, err := strconv.Atoi(a.words[0])
		if err != nil {
			c.t.Fatal(err)
		}
		return &Release{Call: Call(n)}
	case "delayed":
		return &OutputDelayed{Job: c.job(a.words[0]), Err: fmt.Errorf("%s", a.words[1])}
	case "committed", "aborted":
		return &OutputFinished{Job: c.job(a.words[0]), Commit: d.Cmd == "committed", Err: a.err()}
	case "in-history":
		return &HistoryWritten{Job: c.job(a.words[0]), Err: a.err()}
	}
	if m := c.chainMessage(d, a); m != nil {
		return m
	}
	return c.administration(d, a)
}

// administration makes the message of a command that users and administrators give.
func (c *conversation) administration(d *datadriven.TestData, a args) Message {
	switch d.Cmd {
	case "kill":
		if id, err := job.ParseAttempt(a.words[0]); err == nil {
			return &KillAttempt{Call: c.newCall(), Attempt: id, Reason: strings.Join(a.words[1:], " ")}
		}
		return &KillJob{Call: c.newCall(), Job: c.job(a.words[0]), Reason: "enough"}
	case "move":
		return &MoveJob{Call: c.newCall(), Job: c.job(a.words[0]), Pool: a.words[1]}
	case "priority":
		p, _ := job.ParsePriority(a.words[1])
		return &SetPriority{Call: c.newCall(), Job: c.job(a.words[0]), Priority: p}
	case "drain":
		return &Drain{Call: c.newCall(), Node: a.words[0], Undo: a.has("undo")}
	case "closing":
		return &Closing{}
	case "policy":
		p, err := policies.Builtin().Build(a.words[0], sched.Options{Seed: 1})
		if err != nil {
			c.t.Fatal(err)
		}
		return &SetPolicy{Call: c.newCall(), Name: a.words[0], Policy: p}
	case "reconfigure":
		return &Reconfigure{Call: c.newCall(), Conf: a.words}
	}
	c.t.Fatalf("unknown command %s", d.Cmd)
	return nil
}

func (c *conversation) job(name string) job.ID {
	id, err := job.ParseID(name)
	if err != nil {
		c.t.Fatal(err)
	}
	return id
}

func (c *conversation) attempt(name string) job.AttemptID {
	id, err := job.ParseAttempt(name)
	if err != nil {
		c.t.Fatal(err)
	}
	return id
}

func (c *conversation) register(a args) Message {
	w := a.words[0]
	r := &slotwisev1.RegisterRequest{
		Worker: w, Address: w + ":1", Host: "host-" + w, MapSlots: int32(a.number("maps", 2)), ReduceSlots: int32(a.number("reduces", 1)),
		Incarnation: a.get("incarnation", "a"), MapBuffer: int64(a.number("buffer", 0)), DriverSlots: int32(a.number("driver-slots", 0)), Number: int64(a.number("number", 0)), Running: a.named["running"],
	}
	for _, id := range a.named["outputs"] {
		r.Outputs = append(r.Outputs, &slotwisev1.HeldOutput{Attempt: id, Bytes: 1})
	}
	for _, ref := range a.named["drivers"] {
		r.Drivers = append(r.Drivers, c.driver(ref))
	}
	m, err := ParseRegister(r, 100, func(host string) string { return "/rack-of-" + host })
	if err != nil {
		c.t.Fatal(err)
	}
	m.Call = c.newCall()
	m.Session = fmt.Sprintf("%s.%d", w, m.Call)
	if c.core.sessionOf(w) == nil || !c.core.sessionOf(w).overtook(r) {
		c.sessions[w], c.seqs[w] = m.Session, 0
	}
	return m
}

func (c *conversation) heartbeat(a args, input string) Message {
	w := a.words[0]
	c.seqs[w]++
	r := &slotwisev1.HeartbeatRequest{
		Session: a.get("session", c.sessions[w]), Seq: int64(a.number("seq", int(c.seqs[w]))), Acked: int64(a.number("acked", 0)),
		Draining: a.has("draining"), Leaving: a.has("leaving"),
	}
	c.seqs[w] = max(r.Seq, c.seqs[w])
	if a.has("wait") {
		r.WaitMs = 1000
	}
	for line := range strings.Lines(input) {
		f := strings.Fields(line)
		if f[0] == "driver" {
			r.Drivers = append(r.Drivers, c.driverReport(f[1:]))
			continue
		}
		if f[0] == "fetch-failed" {
			complaint := &slotwisev1.FetchFailure{Reduce: f[1], Map: f[2], Worker: f[3], Corrupt: slices.Contains(f, "corrupt")}
			if n, ok := strings.CutPrefix(f[len(f)-1], "#"); ok {
				complaint.Number, _ = strconv.ParseInt(n, 10, 64)
			} else { // a new one
				c.complaints++
				complaint.Number = 1000 + c.complaints
			}
			r.FetchFailures = append(r.FetchFailures, complaint)
			continue
		}
		state := slotwisev1.AttemptState(slotwisev1.AttemptState_value["ATTEMPT_STATE_"+strings.ToUpper(f[1])])
		r.Reports = append(r.Reports, &slotwisev1.Report{
			Attempt: f[0], State: state, Error: strings.Join(f[2:], " "), Counters: &slotwisev1.Counters{InputRecords: 5, BytesRead: 7},
		})
	}
	m, err := ParseHeartbeat(r)
	if err != nil {
		c.t.Fatal(err)
	}
	m.Call = c.newCall()
	return m
}

func (c *conversation) submit(a args) Message {
	spec := &slotwisev1.JobSpec{
		Name: "test", User: a.get("user", "ann"), Program: &slotwisev1.Program{App: "x"}, Synthetic: int32(a.number("maps", 1)), Reduces: int32(a.number("reduces", 0)),
		SlowStart: proto.Float64(1), Output: a.get("output", ""), MaxAttempts: int32(a.number("attempts", 4)),
	}
	core, err := CoreSpec(spec)
	if err != nil {
		c.t.Fatal(err)
	}
	if a.has("invalid") {
		core.Reduces = -1 // the tracker refuses it
	}
	return &Submit{Call: c.newCall(), Request: a.words[0], Spec: spec, Core: core, Secret: []byte("secret")}
}

// print writes an output and adds its records to the journal.
func (c *conversation) print(out Output) {
	for _, l := range out.Logs {
		fmt.Fprintf(&c.out, "log: %s", l.Text)
		for i := 0; i < len(l.Args); i += 2 {
			fmt.Fprintf(&c.out, " %v=%v", l.Args[i], l.Args[i+1])
		}
		c.out.WriteString("\n")
	}
	for _, r := range out.Records {
		b, err := proto.Marshal(r)
		if err != nil {
			c.t.Fatal(err)
		}
		c.journal = append(c.journal, b)
		fmt.Fprintf(&c.out, "record: %s\n", formatRecord(r))
	}
	for _, r := range out.Replies {
		early := ""
		if r.Early {
			early = " early"
		}
		if r.Err != nil {
			code := ""
			if e := (*Error)(nil); errors.As(r.Err, &e) {
				code = e.Code.String() + ": "
			}
			fmt.Fprintf(&c.out, "reply to %d%s: %s%v\n", r.Call, early, code, r.Err)
			continue
		}
		fmt.Fprintf(&c.out, "reply to %d%s: %s\n", r.Call, early, formatReply(r.Message))
	}
	for _, o := range out.Instructions {
		fmt.Fprintf(&c.out, "order: %s\n", c.formatInstruction(o))
	}
}

func formatRecord(r *slotwisev1.JournalRecord) string {
	switch w := r.What.(type) {
	case *slotwisev1.JournalRecord_Master:
		return "master " + w.Master.Id
	case *slotwisev1.JournalRecord_Policy:
		return "policy " + w.Policy.Name
	case *slotwisev1.JournalRecord_Learned:
		return "learned"
	case *slotwisev1.JournalRecord_Job:
		return fmt.Sprintf("details of j%d for request %s", w.Job.Job, shownRequest(w.Job.Request))
	case *slotwisev1.JournalRecord_Staging:
		return fmt.Sprintf("%s is staged as %.6s for %s", w.Staging.Output, w.Staging.Token, shownRequest(w.Staging.Request))
	case *slotwisev1.JournalRecord_StagingEnded:
		return fmt.Sprintf("nothing is staged for %s", shownRequest(w.StagingEnded.Request))
	case *slotwisev1.JournalRecord_Finished:
		return fmt.Sprintf("j%d of request %s is in the history", w.Finished.Job, shownRequest(w.Finished.Request))
	}
	if text := formatChainRecord(r); text != "" {
		return text
	}
	f, err := decodeFact(r, func(id job.ID) *slotwisev1.JournalJob {
		return &slotwisev1.JournalJob{Job: int32(id), Spec: &slotwisev1.JobSpec{}}
	})
	if err != nil {
		return err.Error()
	}
	switch f := f.(type) {
	case *tracker.FactAccepted:
		return fmt.Sprintf("%v accepted", f.Job)
	case *tracker.FactLaunched:
		return fmt.Sprintf("%v launched on %s", f.Attempt, f.Node)
	case *tracker.FactGranted:
		return fmt.Sprintf("%v may commit", f.Attempt)
	case *tracker.FactEnded:
		return fmt.Sprintf("%v %v %s", f.Attempt, f.State, f.Error)
	case *tracker.FactOutputLost:
		return fmt.Sprintf("output of %v lost", f.Map)
	case *tracker.FactOutcome:
		return fmt.Sprintf("outcome of %v: %v %s", f.Job, f.Outcome, f.Message)
	case *tracker.FactCommitCancelled:
		return fmt.Sprintf("commit of %v cancelled: %s", f.Job, f.Reason)
	case *tracker.FactJobEnded:
		return fmt.Sprintf("%v ended: %v %s", f.Job, f.State, f.Message)
	case *tracker.FactJoined:
		return fmt.Sprintf("%s joined, host %s, rack %s", f.Node.Name, f.Node.Host, f.Node.Rack)
	case *tracker.FactLeft:
		return f.Node + " left"
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", f), "*tracker.Fact")
}

func formatReply(m any) string {
	switch m := m.(type) {
	case *slotwisev1.RegisterResponse:
		return fmt.Sprintf("session %s of %s, drop %v", m.Session, m.Master, m.DropJobs)
	case *slotwisev1.HeartbeatResponse:
		if m.RegisterAgain {
			return "register again"
		}
		return strings.Join(append([]string{"actions"}, formatActions(m.Actions)...), " ")
	case *slotwisev1.AskCommitResponse:
		if m.Granted {
			return "granted"
		}
		return "denied: " + m.Reason
	case *slotwisev1.JobForWorkerResponse:
		return fmt.Sprintf("job of %s, %d maps, token %.6s, secret %s", m.Spec.User, m.Maps, m.Staging, m.Secret)
	case *slotwisev1.MapOutputsResponse:
		var b strings.Builder
		fmt.Fprintf(&b, "outputs up to %s", m.Cursor)
		if m.Reset_ {
			b.WriteString(", reset")
		}
		if m.Ended {
			b.WriteString(", ended")
		}
		for _, o := range m.Outputs {
			if o.Lost {
				fmt.Fprintf(&b, ", map %d lost", o.Map)
			} else {
				fmt.Fprintf(&b, ", %s at %s", o.Attempt, o.Address)
			}
		}
		return b.String()
	case *slotwisev1.SubmitResponse:
		return m.Job
	case *slotwisev1.SubmitChainResponse:
		return m.Chain
	case *slotwisev1.JobResponse:
		text := formatStatus(m.Job)
		for _, s := range m.Steps {
			text += " | " + s.Step + " " + formatStatus(s)
		}
		return text
	case nil:
		return "ok"
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", m), "*slotwisev1.")
}

func formatActions(actions []*slotwisev1.Action) (out []string) {
	for _, a := range actions {
		switch what := a.What.(type) {
		case *slotwisev1.Action_Launch:
			out = append(out, fmt.Sprintf("%d:launch:%s", a.Number, what.Launch.Attempt))
		case *slotwisev1.Action_Kill:
			out = append(out, fmt.Sprintf("%d:kill:%s", a.Number, what.Kill.Attempt))
		case *slotwisev1.Action_DropJob:
			out = append(out, fmt.Sprintf("%d:drop:%s", a.Number, what.DropJob))
		case *slotwisev1.Action_Drive:
			out = append(out, fmt.Sprintf("%d:drive:%s#%d", a.Number, what.Drive.Driver.Chain, what.Drive.Driver.Try))
		case *slotwisev1.Action_StopDriver:
			out = append(out, fmt.Sprintf("%d:stop:%s#%d", a.Number, what.StopDriver.Driver.Chain, what.StopDriver.Driver.Try))
		}
	}
	return out
}

func formatStatus(j *slotwisev1.JobStatus) string {
	s := fmt.Sprintf("%s %s, maps %d of %d done, %d failed", j.Id, StateWord(j.State), j.Maps.GetDone(), j.Maps.GetTotal(), j.Maps.GetFailed())
	for _, text := range []string{j.Message, j.Waiting} {
		if text != "" {
			s += "; " + text
		}
	}
	return s
}

func (c *conversation) formatInstruction(o Instruction) string {
	switch o := o.(type) {
	case *StageOutput:
		return fmt.Sprintf("stage %s as %.6s for %s", o.URI, o.Token, shownRequest(o.Request))
	case *RemoveStaged:
		return fmt.Sprintf("remove staged %s as %.6s for %s, retry %v", o.URI, o.Token, shownRequest(o.Request), o.Retry)
	case *CommitOutput:
		return fmt.Sprintf("commit %s of %v, decided at %v", o.URI, o.Job, o.Since)
	case *AbortOutput:
		return fmt.Sprintf("abort %s of %v", o.URI, o.Job)
	case *CancelOutput:
		return fmt.Sprintf("cancel the output of %v", o.Job)
	case *WriteHistory:
		return fmt.Sprintf("history: %s, %d tasks", formatStatus(o.Entry.Job), len(o.Entry.Tasks))
	}
	if text := formatChainInstruction(o); text != "" {
		return text
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", o), "*protocol."))
}

// query prints what users read.
func (c *conversation) query(what string, a args) {
	switch what {
	case "jobs":
		r := &slotwisev1.JobsRequest{Ended: a.has("ended"), User: a.get("user", ""), Pool: a.get("pool", "")}
		for _, j := range c.core.Jobs(r, 0).Jobs {
			fmt.Fprintln(&c.out, formatStatus(j))
		}
	case "tasks":
		resp, err := c.core.Tasks(c.job(a.words[0]), &slotwisev1.TasksRequest{State: a.get("state", "")})
		if err != nil {
			fmt.Fprintln(&c.out, err)
			return
		}
		for _, t := range resp.Tasks {
			fmt.Fprintf(&c.out, "%s %s", t.Id, t.State)
			for _, at := range t.Attempts {
				fmt.Fprintf(&c.out, ", %s %s on %s %s", at.Id, at.State, at.Node, at.Error)
			}
			c.out.WriteString("\n")
		}
	case "nodes":
		for _, n := range c.core.Nodes(c.time()).Nodes {
			fmt.Fprintf(&c.out, "%s %s, %d maps, %d reduces, address %q\n", n.Name, n.State, n.Maps, n.Reduces, n.Address)
		}
	case "explain":
		resp, err := c.core.Explain(c.job(a.words[0]))
		if err != nil {
			fmt.Fprintln(&c.out, err)
			return
		}
		for _, e := range resp.Why {
			fmt.Fprintf(&c.out, "%s: %s (%s), %d ms\n", e.Reason, e.Words, e.Advice, e.HeldMs)
		}
	}
}

// printRead prints what the shell reads for a job and an attempt.
func (c *conversation) printRead(a args) {
	user, pool, err := c.core.Owner(c.job(a.words[0]))
	fmt.Fprintf(&c.out, "owner %q in pool %q, error %v\n", user, pool, err)
	node, err := c.core.NodeOf(c.attempt(a.words[1]))
	address, _ := c.core.Address(node)
	fmt.Fprintf(&c.out, "on %q at %q, error %v\n", node, address, err)
	policy, set := c.core.Policy()
	users, heartbeats := c.core.Held()
	fmt.Fprintf(&c.out, "master %s, policy %s %v, buffer %d, held %d and %d, states %v\n",
		c.core.ID(), policy, set, c.core.MapBuffer(), users, heartbeats, c.core.JobStates())
}

// printState prints the tables of the core.
func (c *conversation) printState() {
	for _, j := range c.core.live {
		fmt.Fprintf(&c.out, "%v %v, %d attempts alive\n", j.id, StateWord(j.state()), j.alive)
	}
	for _, w := range c.core.list {
		fmt.Fprintf(&c.out, "%s", w.name)
		if s := w.session; s != nil {
			fmt.Fprintf(&c.out, " in session %s, outbox %v", s.id, formatActions(s.outbox))
		}
		fmt.Fprintf(&c.out, ", alive %v\n", w.alive)
	}
	fmt.Fprintf(&c.out, "%d calls held\n", len(c.core.held))
}
