// Package trackertest tests trackers and policies: scripts with golden traces,
// a random cluster that checks the promises of a tracker while it plays, and a
// recount of everything that is counted as it changes.
package trackertest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/slotwise/slotwise/internal/base/counters"
	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// Parse makes the policy that a script names.
type Parse func(spec string, opt sched.Options) (sched.Policy, error)

// Run plays all scripts below a directory and compares what the tracker says
// with what follows "----" in them; go test -rewrite writes that part anew.
// Each line after "run" is a command, and what the tracker says to it follows,
// indented. The state lasts from one "run" of a file to the next. After every
// step all counts are counted again, and no assignment may have been refused.
//
//	policy SPEC [NAME=VALUE…]                install a policy with parameters
//	config nodetimeout= nodefailures= graylist= window= commit=1 waits=1s offers=1ms preempt=5s storage=10s
//	       forget=24h forgetmarked=720h keep=2
//	                                         start afresh, the policy too; with
//	                                         commit=1 jobs have output to commit
//	committed J [ERROR]   aborted J [ERROR]  the shell has committed or aborted it
//	published J           the abort of the output of J found it published
//	join N maps= reduces= host= rack= running=A,A outputs=A,A
//	lose N   drain N   undrain N
//	submit NAME maps= reduces= loc=h1,h2;h3;- slowstart= attempts= timeout=
//	       priority= user= pool= nospec=1 bytes= profile=CPU,MEM,DISK,NET
//	finish|fail|killed A…                    the node's next heartbeat reports it
//	fail cause=storage|node|denied|program|permanent A…
//	progress A 0.5                           the same
//	load N cpu= avg= mem= disk= net= procs=  the same, from then on
//	heartbeat N… [nowork] [early]   beat     some nodes' in turn, or all nodes'
//	heartbeat N… leaving|diskfull|diskgone   their workers report that they take no work
//	offer N…                                 says first whether an offer is due
//	heartbeat N all unheard=A,A              one that names all it runs
//	kill J|A   priority J P   move J [POOL]   commit A [N]   fetchfail R M [gone]
//	preempt A                                asks a policy's part with Want to preempt A
//	advance D  tick                          tick also lets time-outs happen
//	restart [lose=N]        from the facts so far but the last N
//	show   nodes   explain J KIND   account J
//
// A value with spaces needs double quotes: pools="pool a weight=2". loc gives
// the hosts of each map's split, used cyclically. Preemption shows as
// kills.
func Run(t *testing.T, dir string, parse Parse) {
	datadriven.Walk(t, dir, func(t *testing.T, path string) {
		if !strings.HasSuffix(path, ".txt") {
			return // rapid keeps failed cases below testdata, too
		}
		s := newScript(t, parse)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t, s.out = t, &strings.Builder{}
			// Each command is printed before its effects: a diff of a golden file must be readable without
			// the input.
			for _, line := range strings.Split(d.Input, "\n") {
				if line = strings.TrimSpace(line); line != "" {
					fmt.Fprintf(s.out, "%s\n", line)
					s.run(words(line))
				}
			}
			return s.out.String()
		})
	})
}

// script plays commands on a tracker.
type script struct {
	t       testing.TB
	out     *strings.Builder
	parse   Parse
	tr      *tracker.Tracker
	policy  []string // the arguments of the last policy command
	now     time.Duration
	pending *pending
	cfg     tracker.Config
	facts   []tracker.Fact
}

func newScript(t testing.TB, parse Parse) *script {
	s := &script{t: t, parse: parse, policy: []string{"fifo"}}
	s.reset(tracker.Config{})
	return s
}

// Facts are always recorded, so that restart works at any line of a script.
func (s *script) reset(cfg tracker.Config) {
	cfg.Record = true
	s.tr, s.pending, s.now = tracker.New(cfg, s.newPolicy()), newPending(), 0
	s.cfg, s.facts = cfg, nil
}

func (s *script) newPolicy() sched.Policy {
	p, err := s.parse(s.policy[0], sched.Options{Seed: 1, Set: args(s.policy[1:])})
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

func (s *script) run(f []string) {
	args := args(f[1:])
	switch f[0] {
	case "policy":
		s.policy = f[1:]
		// A fresh policy, also of the same name: its learned state is lost, as when a user installs it.
		s.tr.SetPolicy(s.newPolicy())
	case "config":
		s.reset(tracker.Config{NodeTimeout: args.duration("nodetimeout"), MaxNodeFailures: args.int("nodefailures"),
			GraylistFaults: args.int("graylist"), GraylistWindow: args.duration("window"),
			CommitOutput: args["commit"] != "", KeepEnded: args.int("keep"),
			ForgetNodes: args.duration("forget"), ForgetMarked: args.duration("forgetmarked"), WaitEvery: args.duration("waits"), PreemptDelay: args.duration("preempt"),
			StorageRetry: args.duration("storage"), OfferAtOnce: args["offers"] != "", OfferPause: args.duration("offers")})
	case "join":
		ev := args.join(f[1])
		ev.Running = s.attempts(args.list("running"))
		for _, id := range s.attempts(args.list("outputs")) {
			ev.Outputs = append(ev.Outputs, tracker.Output{Attempt: id, Bytes: 100})
		}
		s.step(ev)
	case "submit":
		s.step(&tracker.Submit{Spec: args.job(f[1])})
	case "finish", "fail", "killed", "progress":
		s.report(f)
	case "load":
		s.pending.loads[f[1]] = args.load()
	case "heartbeat":
		// Such a heartbeat claims to name all attempts, so it is for one node. Other words may name
		// several nodes.
		if _, ok := args["unheard"]; ok || f[len(f)-1] == "all" {
			hb := s.pending.heartbeat(f[1])
			hb.All, hb.Unheard = true, s.attempts(args.list("unheard"))
			s.step(hb)
			break
		}
		s.heartbeats(f[1:])
	case "beat":
		for _, n := range s.tr.Nodes().All() {
			if n.Alive() {
				s.step(s.pending.heartbeat(n.Name()))
			}
		}
	case "show":
		s.show()
	case "nodes":
		s.nodes()
	default:
		s.runMore(f)
	}
}

func (s *script) heartbeats(nodes []string) {
	form := tracker.Heartbeat{}
	var names []string
	for _, word := range nodes {
		switch word {
		case "nowork":
			form.NoWork = true
		case "early":
			form.Early = true
		case "leaving":
			form.Condition = cluster.Leaving
		case "diskfull":
			form.Condition, form.Why = cluster.DiskFull, "1 MiB is free"
		case "diskgone":
			form.Condition, form.Why = cluster.DiskGone, "its directory is gone"
		default:
			names = append(names, word)
		}
	}
	for _, n := range names {
		hb := s.pending.heartbeat(n)
		// Words before or after the names hold for all nodes of the command.
		hb.NoWork, hb.Early, hb.Condition, hb.Why = form.NoWork, form.Early, form.Condition, form.Why
		s.step(hb)
	}
}

func (s *script) runMore(f []string) {
	switch f[0] {
	case "lose":
		s.step(&tracker.Lose{Node: f[1]})
	case "restart":
		s.restart(len(s.facts) - args(f[1:]).int("lose"))
	case "drain", "undrain":
		s.step(&tracker.Drain{Node: f[1], Undo: f[0] == "undrain"})
	case "kill":
		// The same word kills an attempt, whose name says that it is one, and a job.
		if id, err := job.ParseAttempt(f[1]); err == nil {
			s.step(&tracker.KillAttempt{Attempt: id})
			break
		}
		s.step(&tracker.KillJob{Job: s.job(f[1])})
	case "move":
		s.step(&tracker.MoveJob{Job: s.job(f[1]), Pool: strings.Join(f[2:], "")})
	case "priority":
		p, ok := job.ParsePriority(f[2])
		if !ok {
			s.t.Fatalf("bad priority %s", f[2])
		}
		s.step(&tracker.SetPriority{Job: s.job(f[1]), Priority: p})
	case "commit":
		s.step(&tracker.AskCommit{Attempt: s.attempt(f[1]), Node: strings.Join(f[2:], "")})
	case "fetchfail":
		s.step(&tracker.FetchFailed{Reduce: s.attempt(f[1]), Map: s.attempt(f[2]), SourceGone: len(f) > 3})
	case "offer":
		if at, due := s.tr.OfferDue(); due {
			fmt.Fprintf(s.out, "  due at %v\n", at)
		} else {
			fmt.Fprintln(s.out, "  not due")
		}
		s.step(&tracker.Offer{Nodes: f[1:]})
	case "committed":
		s.step(&tracker.CommitEnded{Job: s.job(f[1]), Error: strings.Join(f[2:], "")})
	case "published":
		s.step(&tracker.AbortEnded{Job: s.job(f[1]), Published: true})
	case "aborted":
		s.step(&tracker.AbortEnded{Job: s.job(f[1]), Error: strings.Join(f[2:], "")})
	case "preempt":
		s.preempt(s.tr.Jobs().Attempt(s.attempt(f[1])))
	case "advance":
		d, err := time.ParseDuration(f[1])
		if err != nil {
			s.t.Fatal(err)
		}
		s.now += d
	case "tick":
		s.step(&tracker.Tick{})
	case "explain":
		k := job.Map
		if f[2] == "reduce" {
			k = job.Reduce
		}
		_, words := s.tr.Explain(s.tr.Jobs().Get(s.job(f[1])), k)
		fmt.Fprintf(s.out, "  %s\n", words)
	case "account":
		s.account(s.tr.Jobs().Get(s.job(f[1])))
	default:
		s.t.Fatalf("unknown command %q", f[0])
	}
}

func (s *script) step(ev tracker.Event) {
	for _, e := range s.tr.Step(s.now, ev) {
		fmt.Fprintf(s.out, "  %s\n", e)
	}
	s.facts = append(s.facts, s.tr.Facts()...)
	// After each step, so that a wrong count is found at the command that made it and not in a later trace.
	if err := Recount(s.tr); err != nil {
		s.t.Fatalf("after %s: %v", tracker.FormatEvent(ev), err)
	}
	// A refused assignment is a bug of the policy, and a golden trace would accept it as the policy's choice.
	if st := s.tr.Stats(); st.Refused > 0 {
		s.t.Fatalf("after %s: %s", tracker.FormatEvent(ev), st.LastRefusal)
	}
}

// restart continues with a tracker restored from the first facts.
func (s *script) restart(facts int) {
	tr, err := tracker.Restore(s.cfg, s.newPolicy(), s.now, slices.Values(s.facts[:facts]))
	if err != nil {
		s.t.Fatal(err)
	}
	// Reports that were on their way are lost with the old process, as over a broken connection.
	s.tr, s.pending = tr, newPending()
	s.facts = append(slices.Clone(s.facts[:facts]), tr.Facts()...)
	// What a master would order again after its restart.
	for _, e := range tr.Unfinished() {
		fmt.Fprintf(s.out, "  %s\n", e)
	}
	if err := Recount(tr); err != nil {
		s.t.Fatal(err)
	}
}

// preempt tells the part of the policy that takes wishes of one.
func (s *script) preempt(a *job.Attempt) {
	if p, ok := s.tr.Policy().(sched.Parted); ok {
		for _, part := range p.Parts() {
			if w, ok := part.(interface{ Want(a *job.Attempt) }); ok {
				w.Want(a)
				return
			}
		}
	}
	s.t.Fatal("the policy takes no wishes")
}

// causes are the names of causes in scripts.
var causes = map[string]job.Cause{"storage": job.CauseStorage, "node": job.CauseNode, "denied": job.CauseDenied, "program": job.CauseProgram, "permanent": job.CausePermanent}

// report queues reports for the next heartbeats of the attempts' nodes.
func (s *script) report(f []string) {
	r, ids := tracker.Report{Error: "it broke"}, f[1:]
	switch f[0] {
	case "finish":
		r = tracker.Report{State: job.AttemptSucceeded, Progress: 1, OutputBytes: 100, Counters: &counters.Set{}}
		r.Counters.Add(counters.OutputRecords, 10)
		r.Counters.Add(counters.BytesRead, 1000)
	case "fail":
		r.State = job.AttemptFailed
		if cause := args(f[1:2])["cause"]; cause != "" {
			r.Cause, ids = causes[cause], f[2:]
		}
		if text, ok := strings.CutPrefix(ids[0], "text="); ok {
			r.Error, ids = text, ids[1:]
		}
	case "killed":
		r.State = job.AttemptKilled
	// The only report with a value after the attempt, so it names one attempt. The others may name
	// several.
	case "progress":
		p, err := strconv.ParseFloat(f[2], 64)
		if err != nil {
			s.t.Fatal(err)
		}
		r, ids = tracker.Report{State: job.AttemptRunning, Progress: p, BytesRead: int64(1000 * p)}, ids[:1]
	}
	for _, id := range ids {
		r.Attempt = s.attempt(id)
		a := s.tr.Jobs().Attempt(r.Attempt)
		if a == nil {
			s.t.Fatalf("no attempt %s", id)
		}
		s.pending.add(s.tr.Nodes().Node(a.Node()).Name(), r)
	}
}

func (s *script) show() {
	// Ended jobs first, by age within each group, so that a line keeps its position when later jobs are added to
	// a script.
	l := s.tr.Jobs()
	for _, j := range slices.Concat(l.Ended(), l.Finishing(), l.Live()) {
		fmt.Fprintf(s.out, "  %v %v %v", j.ID(), j.Name(), j.State())
		for k := range job.Kind(job.Kinds) {
			fmt.Fprintf(s.out, "  %ss %d pending", k, j.Pending(k))
			// Left out at 0, like states and reservations below: most scripts have none, and their traces
			// stay short.
			if n := j.Delayed(k); n > 0 {
				fmt.Fprintf(s.out, " %d delayed", n)
			}
			fmt.Fprintf(s.out, " %d running %d done", j.Running(k), j.Done(k))
		}
		fmt.Fprintf(s.out, "  %d failed\n", j.FailedAttempts())
	}
	for _, n := range s.tr.Nodes().All() {
		// Its name may join again as a new node, which has another line.
		if n.Forgotten() {
			continue
		}
		state := ""
		if st := n.State(); st != cluster.StateAlive {
			state = st.String()
		}
		fmt.Fprintf(s.out, "  %s %s maps %d/%d reduces %d/%d", n.Name(), state,
			n.Used(job.Map), n.Slots(job.Map), n.Used(job.Reduce), n.Slots(job.Reduce))
		for k := range job.Kind(job.Kinds) {
			if res := n.Reserved(k); res.Job != nil {
				fmt.Fprintf(s.out, " %d %v slots reserved for %v", res.Width, k, res.Job.ID())
			}
		}
		fmt.Fprintln(s.out)
	}
}

// nodes shows the states of all nodes, since when they are in them, and why.
func (s *script) nodes() {
	for _, n := range s.tr.Nodes().All() {
		st := n.Status()
		fmt.Fprintf(s.out, "  %s %v since %v %s\n", n.Name(), st.State, st.Since, st.Reason)
	}
}

// account shows the sums over a job's attempts and why its tasks waited.
func (s *script) account(j *job.Job) {
	a := j.Account()
	fmt.Fprintf(s.out, "  launched %d+%d, %d copies, maps by level %v; failed %d+%d; slots used for %v+%v\n",
		a.Launched[job.Map], a.Launched[job.Reduce], a.Copies, a.Levels[job.LevelNode:], a.Failed[job.Map], a.Failed[job.Reduce],
		a.SlotTime[job.Map], a.SlotTime[job.Reduce])
	fmt.Fprintf(s.out, "  output records %d+%d, bytes read %d\n", a.Counters[job.Map].Get(counters.OutputRecords),
		a.Counters[job.Reduce].Get(counters.OutputRecords), j.BytesRead())
	if a.LastError != "" {
		fmt.Fprintf(s.out, "  last error %s\n", a.LastError)
	}
	for _, w := range j.Waits() {
		fmt.Fprintf(s.out, "  %vs waited %v: %s\n", w.Kind, w.For, w.Words)
	}
}

func (s *script) job(name string) job.ID {
	id, err := job.ParseID(name)
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

func (s *script) attempt(name string) job.AttemptID {
	id, err := job.ParseAttempt(name)
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

func (s *script) attempts(names []string) (ids []job.AttemptID) {
	for _, name := range names {
		ids = append(ids, s.attempt(name))
	}
	return ids
}
