package tracker

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
)

// TestTraces plays the scripts in testdata. Each line is a command, and what the
// tracker says to it follows, indented. After every step all counts are counted
// again, and no assignment may have been refused.
//
//	policy NAME                              install a policy
//	config nodetimeout= nodefailures=        start afresh
//	join N maps= reduces= host= rack=        lose N
//	submit NAME maps= reduces= loc=h1,h2;h3;- slowstart= attempts= timeout= priority= nospec=1
//	finish|fail|killed A…                    the node's next heartbeat reports it
//	progress A 0.5                           the same
//	heartbeat N [nowork]    beat             one node's, or all nodes' in turn
//	kill J   priority J P   commit A   fetchfail R M [gone]   preempt A
//	advance D  tick                          tick also lets time-outs happen
//	show   explain J KIND
func TestTraces(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := newScript(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t, s.out = t, &strings.Builder{}
			for _, line := range strings.Split(d.Input, "\n") {
				if line = strings.TrimSpace(line); line != "" {
					fmt.Fprintf(s.out, "%s\n", line)
					s.run(strings.Fields(line))
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
	tr      *Tracker
	policy  string
	now     time.Duration
	reports map[string][]Report
}

func newScript(t testing.TB) *script {
	s := &script{t: t, policy: "fifo"}
	s.reset(Config{})
	return s
}

func (s *script) reset(cfg Config) {
	s.tr, s.reports, s.now = New(cfg, testPolicy(s.t, s.policy)), map[string][]Report{}, 0
}

func joinEvent(name string, maps, reduces int) *Join {
	return &Join{Node: cluster.Spec{Name: name, MapSlots: maps, ReduceSlots: reduces}}
}

func (s *script) run(f []string) {
	args := args(f[1:])
	switch f[0] {
	case "policy":
		s.policy = f[1]
		s.tr.SetPolicy(testPolicy(s.t, f[1]))
	case "config":
		s.reset(Config{NodeTimeout: args.duration("nodetimeout"), MaxNodeFailures: args.int("nodefailures")})
	case "join":
		e := joinEvent(f[1], args.int("maps"), args.int("reduces"))
		e.Node.Host, e.Node.Rack = args["host"], args["rack"]
		s.step(e)
	case "submit":
		s.step(&Submit{Spec: s.spec(f[1], args)})
	case "finish", "fail", "killed", "progress":
		s.report(f)
	case "heartbeat":
		s.heartbeat(f[1], len(f) > 2)
	case "beat":
		for _, n := range s.tr.Nodes().All() {
			if n.Alive() {
				s.heartbeat(n.Name(), false)
			}
		}
	case "show":
		s.show()
	default:
		s.runMore(f)
	}
}

func (s *script) runMore(f []string) {
	switch f[0] {
	case "lose":
		s.step(&Lose{Node: f[1]})
	case "kill":
		s.step(&KillJob{Job: s.job(f[1])})
	case "priority":
		p, ok := job.ParsePriority(f[2])
		if !ok {
			s.t.Fatalf("bad priority %s", f[2])
		}
		s.step(&SetPriority{Job: s.job(f[1]), Priority: p})
	case "commit":
		s.step(&AskCommit{Attempt: s.attempt(f[1])})
	case "fetchfail":
		m, err := job.ParseTask(f[2])
		if err != nil {
			s.t.Fatal(err)
		}
		s.step(&FetchFailed{Reduce: s.attempt(f[1]), Map: m, SourceGone: len(f) > 3})
	case "preempt":
		w := s.tr.Policy().(interface{ Parts() []any }).Parts()[3].(*wisher)
		w.want = append(w.want, s.tr.Jobs().Attempt(s.attempt(f[1])))
	case "advance":
		d, err := time.ParseDuration(f[1])
		if err != nil {
			s.t.Fatal(err)
		}
		s.now += d
	case "tick":
		s.step(&Tick{})
	case "explain":
		k := job.Map
		if f[2] == "reduce" {
			k = job.Reduce
		}
		j := s.tr.Jobs().Get(s.job(f[1]))
		_, words := s.tr.Explain(j, k)
		fmt.Fprintf(s.out, "  %s\n", words)
	default:
		s.t.Fatalf("unknown command %q", f[0])
	}
}

func (s *script) step(ev Event) {
	for _, e := range s.tr.Step(s.now, ev) {
		fmt.Fprintf(s.out, "  %s\n", e)
	}
	if err := recount(s.tr); err != nil {
		s.t.Fatalf("after %s: %v", FormatEvent(ev), err)
	}
	if st := s.tr.Stats(); st.Refused > 0 {
		s.t.Fatalf("after %s: %s", FormatEvent(ev), st.LastRefusal)
	}
}

func (s *script) heartbeat(node string, noWork bool) {
	hb := &Heartbeat{Node: node, Reports: s.reports[node], NoWork: noWork}
	delete(s.reports, node)
	s.step(hb)
}

// report queues reports for the next heartbeats of the attempts' nodes.
func (s *script) report(f []string) {
	r, ids := Report{Error: "it broke"}, f[1:]
	switch f[0] {
	case "finish":
		r = Report{State: job.AttemptSucceeded, Progress: 1, OutputBytes: 100}
	case "fail":
		r.State = job.AttemptFailed
	case "killed":
		r.State = job.AttemptKilled
	case "progress":
		p, err := strconv.ParseFloat(f[2], 64)
		if err != nil {
			s.t.Fatal(err)
		}
		r, ids = Report{State: job.AttemptRunning, Progress: p}, ids[:1]
	}
	for _, id := range ids {
		r.Attempt = s.attempt(id)
		a := s.tr.Jobs().Attempt(r.Attempt)
		if a == nil {
			s.t.Fatalf("no attempt %s", id)
		}
		node := s.tr.Nodes().Node(a.Node()).Name()
		s.reports[node] = append(s.reports[node], r)
	}
}

func (s *script) spec(name string, a argMap) job.Spec {
	spec := job.Spec{Name: name, User: a["user"], Splits: make([]job.Split, a.int("maps")), Reduces: a.int("reduces"),
		MaxAttempts: a.int("attempts"), TaskTimeout: a.duration("timeout"), SlowStart: -1,
		NoSpeculation: a["nospec"] != ""}
	if v := a["slowstart"]; v != "" {
		spec.SlowStart, _ = strconv.ParseFloat(v, 64)
	}
	spec.Priority, _ = job.ParsePriority(a["priority"])
	if a["loc"] != "" {
		loc := strings.Split(a["loc"], ";")
		for i := range spec.Splits {
			if h := loc[i%len(loc)]; h != "-" {
				spec.Splits[i].Hosts = strings.Split(h, ",")
			}
		}
	}
	return spec
}

func (s *script) show() {
	l := s.tr.Jobs()
	for _, j := range append(append([]*job.Job(nil), l.Ended()...), l.Live()...) {
		fmt.Fprintf(s.out, "  %v %v %v", j.ID(), j.Name(), j.State())
		for k := range job.Kind(job.Kinds) {
			fmt.Fprintf(s.out, "  %ss %d pending %d running %d done", k, j.Pending(k), j.Running(k), j.Done(k))
		}
		fmt.Fprintf(s.out, "  %d failed\n", j.FailedAttempts())
	}
	for _, n := range s.tr.Nodes().All() {
		fmt.Fprintf(s.out, "  %s %s maps %d/%d reduces %d/%d\n", n.Name(), when(!n.Alive(), "lost"),
			n.Used(job.Map), n.Slots(job.Map), n.Used(job.Reduce), n.Slots(job.Reduce))
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

// argMap holds the key=value arguments of a command.
type argMap map[string]string

func args(fields []string) argMap {
	m := argMap{}
	for _, f := range fields {
		if k, v, ok := strings.Cut(f, "="); ok {
			m[k] = v
		}
	}
	return m
}

func (m argMap) int(key string) int { n, _ := strconv.Atoi(m[key]); return n }

func (m argMap) duration(key string) time.Duration { d, _ := time.ParseDuration(m[key]); return d }
