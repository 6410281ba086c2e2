package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/lab/harness"
)

// trioFault is a kind of fault of the masters. inject begins it and returns what undoes it.
type trioFault struct {
	name, what string
	// fails says that another master must lead before the fault ends: the leader cannot.
	fails  bool
	inject func(t *trio, m *seat, amount uint64) (undo func() error, err error)
}

var trioFaults = []trioFault{
	{"kill", "SIGKILL to the leader, which is started again", true, func(t *trio, m *seat, _ uint64) (func() error, error) {
		m.kill()
		return func() error { return t.startMaster(m) }, nil
	}},
	{"freeze", "SIGSTOP to the leader, SIGCONT when another one has led for a while", true, func(_ *trio, m *seat, _ uint64) (func() error, error) {
		p := m.cmd.Process
		return func() error { return p.Signal(syscall.SIGCONT) }, p.Signal(syscall.SIGSTOP)
	}},
	{"cut", "all packets from and to the leader vanish", true, func(_ *trio, m *seat, _ uint64) (func() error, error) {
		return func() error { return m.net.ip("link set " + inside + " up") }, m.net.ip("link set " + inside + " down")
	}},
	{"mute", "all packets that the leader sends vanish, the others arrive", true, func(_ *trio, m *seat, _ uint64) (func() error, error) {
		return m.block(1, 2, 3, hubHost)
	}},
	{"cut-peers", "all packets that the leader sends to the other masters vanish; workers and users reach it", true, func(_ *trio, m *seat, _ uint64) (func() error, error) {
		return m.block(1, 2, 3)
	}},
	{"disk-full", "the leader's disk runs full; it must end, and is started again when there is room", true, fillLeader},
	{"torn", "SIGKILL to the leader, an incomplete batch at the end of its journal; it is started again", true, func(t *trio, m *seat, amount uint64) (func() error, error) {
		m.kill()
		return func() error { return t.startMaster(m) }, tear(m.dir, amount)
	}},
	{"stop", "SIGTERM to the leader, which is started again when it has ended", true, func(t *trio, m *seat, _ uint64) (func() error, error) {
		err := m.cmd.Process.Signal(syscall.SIGTERM)
		return func() error { return errors.Join(m.awaitExit(startLimit), t.startMaster(m)) }, err
	}},
	{"rolling", "SIGTERM to each master, one after the other; each is started again and serves before the next", false, roll},
	{"follower", "SIGKILL to a follower, which is started again", false, func(t *trio, m *seat, _ uint64) (func() error, error) {
		o := t.masters[m.number%3]
		o.kill()
		return func() error { return t.startMaster(o) }, nil
	}},
	{"replace", "a follower that runs is removed, ends, and is added again with a new directory", false, func(t *trio, m *seat, _ uint64) (func() error, error) {
		o := t.masters[m.number%3]
		err := errors.Join(t.change("remove", o), o.awaitExit(startLimit))
		if err == nil {
			err = t.joinAnew(o)
		}
		return nil, errors.Join(err, t.added(o))
	}},
	{"lost", "SIGKILL to a follower, its directory is lost, and it is started with --join; a second later it is removed and added", false, func(t *trio, m *seat, _ uint64) (func() error, error) {
		o := t.masters[m.number%3]
		o.kill()
		if err := t.joinAnew(o); err != nil {
			return nil, err
		}
		time.Sleep(trioElected)
		err := t.change("remove", o)
		return nil, errors.Join(err, t.added(o))
	}},
}

// upgrade is the fault of the runs that begin with an earlier program.
var upgrade = trioFault{"upgrade", "as rolling, from the program of -before to the present one; workers and submit stay at the former", false, func(t *trio, m *seat, n uint64) (func() error, error) {
	for _, o := range t.masters {
		o.program = ""
	}
	return roll(t, m, n)
}}

func roll(t *trio, m *seat, _ uint64) (func() error, error) {
	for i := range t.masters { // the leader is the last
		o := t.masters[(m.number+i)%3]
		if err := errors.Join(o.cmd.Process.Signal(syscall.SIGTERM), o.awaitExit(startLimit), t.startMaster(o)); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// joinAnew starts a master that has ended with an empty directory.
func (t *trio) joinAnew(m *seat) error {
	var all error
	for _, pattern := range []string{"journal/*", "files", "history"} { // journal itself is a mounted disk
		names, err := filepath.Glob(filepath.Join(m.dir, pattern))
		all = errors.Join(all, err)
		for _, name := range names {
			all = errors.Join(all, os.RemoveAll(name))
		}
	}
	if all != nil {
		return all
	}
	return t.startMaster(m, "--join")
}

// masterCommand runs slotwise masters as an administrator.
func (t *trio) masterCommand(args ...string) (string, error) {
	args = append(append([]string{t.binary, "masters"}, args...), "--master", t.list())
	args = t.hub.command(append(args, t.credentials.flags(certificates, "admin")...)...)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = t.dir, t.env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), err
}

// change adds or removes a master. The leader may have changed, or may not know yet that the others run, so
// it is tried again.
func (t *trio) change(how string, m *seat) error {
	address := net.JoinHostPort(trioAddress(m.number), trioPort)
	var refused error
	err := eventually("masters "+how, func() (bool, error) {
		_, refused = t.masterCommand(how, address)
		return refused == nil, nil
	})
	if err != nil {
		err = errors.Join(err, refused)
	}
	return err
}

// added adds a master and waits until it votes.
func (t *trio) added(m *seat) error {
	if err := t.change("add", m); err != nil {
		return err
	}
	follows := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(net.JoinHostPort(trioAddress(m.number), trioPort)) + ` +(follower|leader) `)
	return eventually(m.name+" votes", func() (bool, error) {
		out, err := t.masterCommand()
		return err == nil && follows.MatchString(out), nil
	})
}

// block drops all packets that a master sends to some hosts.
func (m *seat) block(numbers ...int) (undo func() error, err error) {
	lines := func(do string) (list []string) {
		for _, n := range numbers {
			if n != m.number {
				list = append(list, fmt.Sprintf("route %s blackhole %s/32", do, trioAddress(n)))
			}
		}
		return list
	}
	return func() error { return m.net.ip(lines("del")...) }, m.net.ip(lines("add")...)
}

// fillLeader fills the disk of a master with one file.
func fillLeader(t *trio, m *seat, _ uint64) (func() error, error) {
	name := filepath.Join(m.journal(), "filler")
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	piece := make([]byte, 64<<10)
	for err == nil {
		if _, err = f.Write(piece); err != nil && len(piece) > 1 {
			piece, err = piece[:len(piece)/2], nil
		}
	}
	err = errors.Join(ignore(err, syscall.ENOSPC), f.Close())
	return func() error {
		select {
		case <-m.gone:
		case <-time.After(startLimit):
			return fmt.Errorf("%s runs on although its disk is full", m.name)
		case <-interrupted:
			return errInterrupted
		}
		return errors.Join(os.Remove(name), t.startMaster(m))
	}, err
}

// tear appends an incomplete batch to the journal of a master that has ended, as tearJournal does.
func tear(dir string, amount uint64) error {
	logs, err := filepath.Glob(filepath.Join(dir, "journal", "log-*"))
	if err != nil || len(logs) == 0 {
		return errors.Join(err, errors.New("no journal"))
	}
	name := slices.Max(logs)
	b, err := os.ReadFile(name)
	if err != nil || len(b) <= segmentHeader {
		return err
	}
	torn := b[segmentHeader:]
	return os.WriteFile(name, slices.Concat(b, torn[:1+amount%min(200, uint64(len(torn)))]), 0o600)
}

// trioOutcome has the results of one run.
type trioOutcome struct {
	seed      uint64
	faults    []string
	failovers map[string][]time.Duration // by fault: from its begin until a task starts under the next leader
	leading   []time.Duration            // from the begin of a fault until another master leads
	back      []time.Duration            // from then until a worker is registered with it
	jobs      int                        // that users have run to their end
	ops       int                        // calls whose history was checked
	unknown   int                        // calls without an answer
	undecided bool                       // the check of the history took too long
	missing   int                        // entries that one of the three histories lacks
	left      int                        // empty staging directories that a stopped leader has left behind
	problem   error
}

// Times of a run. A fault ends one second after another master has begun to lead, so that a leader
// that was cut off or stopped meets its successor.
const (
	trioFaultsEach = 3
	trioPause      = 2 * time.Second
	trioElected    = time.Second
	trioLimit      = 30 * time.Second // for another master to lead
)

// runTrio makes one run.
func (s *settings) runTrio(ctx context.Context, seed uint64, number int, in *input) *trioOutcome {
	o := &trioOutcome{seed: seed, failovers: map[string][]time.Duration{}}
	rnd := rand.New(rand.NewPCG(seed, 3))
	p := plan{name: fmt.Sprint("trio-", seed), seed: seed, security: certificates, storage: s.storage, snapshots: rnd.IntN(2) == 0}
	dir := filepath.Join(s.dir, p.name)
	old := ""
	if s.before != "" && seed%3 == 0 {
		old = s.before
	}
	t, err := s.newTrio(ctx, p, dir, in, number, old)
	if err == nil {
		err = s.playTrio(ctx, t, o, rnd, in)
	}
	if err != nil {
		err = errors.Join(err, t.keepJournals())
	}
	err = errors.Join(err, t.end())
	if o.problem = err; err == nil {
		o.problem = os.RemoveAll(dir)
	}
	return o
}

// playTrio injects faults while users run jobs and change others, and checks everything at the end.
func (s *settings) playTrio(ctx context.Context, t *trio, o *trioOutcome, rnd *rand.Rand, in *input) error {
	calls, err := t.newCalls(ctx)
	if err != nil {
		return err
	}
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	enough := make(chan struct{})
	var users, callers sync.WaitGroup
	var jobs int
	var failed error
	users.Go(func() { jobs, failed = t.runJobs(limited, enough, in) })
	for i := range 3 {
		r := rand.New(rand.NewPCG(o.seed, uint64(100+i)))
		callers.Go(func() { calls.user(limited, i, r, enough) })
	}
	type hit struct {
		name   string
		at     time.Time
		leader *seat
	}
	var hits []hit
	var wrong error
	for i := range trioFaultsEach {
		harness.Sleep(ctx, trioPause+time.Duration(rnd.Int64N(int64(time.Second))))
		f := trioFaults[rnd.IntN(len(trioFaults))]
		// The earlier version does not refuse a master that has lost its directory.
		if t.old != "" && i == 0 {
			f = upgrade
		}
		m, err := t.leader()
		if err != nil {
			wrong = err
			break
		}
		o.faults = append(o.faults, f.name)
		before := t.leads()
		h := hit{f.name, time.Now(), m}
		undo, err := f.inject(t, m, rnd.Uint64())
		if err == nil && f.fails {
			err = t.awaitNext(before[len(before)-1], h.at)
			hits = append(hits, h)
		}
		harness.Sleep(ctx, trioElected)
		if undo != nil {
			err = errors.Join(err, undo())
		}
		if err != nil {
			wrong = fmt.Errorf("%s of %s: %w", f.name, m.name, err)
			break
		}
	}
	harness.Sleep(ctx, trioPause)
	close(enough)
	time.AfterFunc(s.limit, cancel)
	callers.Wait()
	if ctx.Err() != nil { // interrupted: nothing can be checked any more
		users.Wait()
		return ctx.Err()
	}
	err = errors.Join(wrong, calls.finish(ctx)) // before the other user's job can end: the jobs of the calls may be before it
	users.Wait()
	o.jobs = jobs
	err = errors.Join(err, failed)
	o.ops, o.unknown, o.undecided = calls.count()
	var again error
	o.left, again = t.twice(in)
	err = errors.Join(err, calls.problem(), again, t.awaitHistories(ctx), t.stop(), t.noProcess())
	starts, leads, back := t.attemptStarts(), t.leads(), t.registrations()
	for _, h := range hits {
		next := slices.IndexFunc(leads, func(l lead) bool { return l.at.After(h.at) })
		if next < 0 {
			continue
		}
		// A full disk does no harm before the first write that fails: the journal's last page has room.
		if at := h.leader.failed(h.at); h.name == "disk-full" && !at.IsZero() {
			h.at = at
		}
		o.leading = append(o.leading, leads[next].at.Sub(h.at))
		if i := slices.IndexFunc(back, leads[next].at.Before); i >= 0 {
			o.back = append(o.back, back[i].Sub(leads[next].at))
		}
		if i := slices.IndexFunc(starts, leads[next].at.Before); i >= 0 {
			o.failovers[h.name] = append(o.failovers[h.name], starts[i].Sub(h.at))
		}
	}
	var missing error
	o.missing, missing = t.histories(ctx)
	return errors.Join(err, missing)
}

// awaitNext waits until another master leads than before a fault.
func (t *trio) awaitNext(before lead, since time.Time) error {
	for time.Since(since) < trioLimit {
		if list := t.leads(); list[len(list)-1].term > before.term {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-interrupted:
			return errInterrupted
		}
	}
	return fmt.Errorf("no other master leads after %v", trioLimit)
}

// runJobs submits one job after the other, each with its own output, until enough is closed.
func (t *trio) runJobs(ctx context.Context, enough chan struct{}, in *input) (n int, err error) {
	w := work{args: []string{"grep", "--param", "regex=w1[0-9]* w2", "--split-size", "200KiB"}, answer: matching}
	for {
		select {
		case <-enough:
			return n, err
		case <-ctx.Done():
			return n, errors.Join(err, errors.New("a job has not ended"))
		default:
		}
		w.name = fmt.Sprint("grep", n)
		if err = t.submitHere(ctx, w, in); err != nil {
			return n, err
		}
		n++
	}
}

// submitHere submits a job from the switch's namespace, waits for its end, and checks its output.
func (t *trio) submitHere(ctx context.Context, w work, in *input) error {
	out := "out/" + w.name
	args := append(append([]string{cmp.Or(t.old, t.binary), "submit"}, w.args...), "--input", t.store.uri("in"), "--output", t.store.uri(out), "--wait", "--no-progress", "--master", t.list())
	args = t.hub.command(append(args, t.credentials.flags(certificates, "user")...)...)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = t.dir, t.env()
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", w.name, err, strings.TrimSpace(string(text)))
	}
	return checkOutput(t.store, out, w, in)
}

// twice checks all outputs again, and that no staged file is left beside them. It counts the empty
// directories that are left.
func (t *trio) twice(in *input) (left int, err error) {
	names, err := t.store.names("out")
	for _, name := range names {
		if strings.HasPrefix(name, ".") {
			// A leader that is stopped while it stages may do so after the next one has removed what it
			// had staged. Nobody uses that directory, and it has no files.
			var files []string
			inside, _ := t.store.names("out/" + name)
			for _, dir := range inside {
				below, _ := t.store.names("out/" + name + "/" + dir) // an error says that it is a file
				files = append(files, below...)
			}
			if left++; len(files) > 0 {
				err = errors.Join(err, fmt.Errorf("%s is left behind, with %q", name, files))
			}
			continue
		}
		err = errors.Join(err, checkOutput(t.store, "out/"+name, work{name: name, answer: matching}, in))
	}
	return left, err
}

// prepareTrios builds slotwise in dir and makes credentials for the addresses of three masters.
func (s *settings) prepareTrios(ctx context.Context, dir string) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("-masters 3 needs root: each master gets a network namespace and a disk")
	}
	s.dir, s.binary = dir, filepath.Join(dir, "slotwise")
	if err := harness.Build(ctx, s.binary); err != nil {
		return err
	}
	if s.storage != localStorage {
		if s.keeper, err = harness.BuildKeeper(ctx, dir); err != nil {
			return err
		}
		if err := harness.PrepareServers(s.keeper, s.storage); err != nil {
			return err
		}
	}
	s.hdfs = newHDFSPool(s.keeper, dir, s.atOnce)
	s.credentials, err = makeCredentials(ctx, s.binary, filepath.Join(dir, "certs"), trioHosts()...)
	return err
}

// campaign makes all runs with three masters and prints the results.
func (s *settings) campaign(ctx context.Context, in *input, out io.Writer) error {
	var mu sync.Mutex
	var all []*trioOutcome
	each(s.atOnce, s.runs, func(i int) {
		if ctx.Err() != nil {
			return
		}
		o := s.runTrio(ctx, s.seed+uint64(i), i, in)
		if ctx.Err() != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, o)
		fmt.Fprintf(out, "seed %d: %v; another led after %v; a worker was back after %v more; next task after %v; %d jobs, %d calls, %d lost; load %s\n", o.seed, o.faults, o.leading, o.back, o.failovers, o.jobs, o.ops, o.unknown, harness.Load())
		if o.problem != nil {
			fmt.Fprintf(out, "FAILED: %v\nagain: go -C lab run ./faults -masters 3 -seed %d -runs 1\n", o.problem, o.seed)
		}
	})
	stopped := s.hdfs.stop()
	if failed := writeTrio(out, all); failed > 0 {
		return errors.Join(stopped, fmt.Errorf("%d runs failed; see %s", failed, s.dir))
	}
	return errors.Join(stopped, ctx.Err(), os.RemoveAll(s.dir))
}

// writeTrio prints the results of all runs.
func writeTrio(out io.Writer, all []*trioOutcome) (failed int) {
	var every, leading, back []time.Duration
	byFault := map[string][]time.Duration{}
	times := map[string]int{}
	jobs, ops, unknown, undecided, missing, left := 0, 0, 0, 0, 0, 0
	for _, o := range all {
		if o.problem != nil {
			failed++
		}
		jobs, ops, unknown, missing, left = jobs+o.jobs, ops+o.ops, unknown+o.unknown, missing+o.missing, left+o.left
		if o.undecided {
			undecided++
		}
		leading, back = append(leading, o.leading...), append(back, o.back...)
		for _, f := range o.faults {
			times[f]++
		}
		for name, list := range o.failovers { //house:sorted sums
			every = append(every, list...)
			byFault[name] = append(byFault[name], list...)
		}
	}
	fmt.Fprintf(out, "\n%d runs, %d failed; %d jobs ran to their end; %d calls, %d without an answer, %d histories undecided; %d entries that one of three histories lacks; %d empty staging directories left\n\n",
		len(all), failed, jobs, ops, unknown, undecided, missing, left)
	table := harness.NewTable(out, "fault", "times", "next task, median s", "p99 s", "at most s")
	row := func(name string, n int, list []time.Duration) {
		if len(list) == 0 {
			table.Row(name, fmt.Sprint(n), "", "", "")
			return
		}
		table.Row(name, fmt.Sprint(n), fmt.Sprintf("%.2f", harness.Quantile(list, 0.5).Seconds()), fmt.Sprintf("%.2f", harness.Quantile(list, 0.99).Seconds()), fmt.Sprintf("%.2f", slices.Max(list).Seconds()))
	}
	for _, f := range append(trioFaults, upgrade) {
		row(f.name, times[f.name], byFault[f.name])
	}
	row("all", len(every), every)
	row("another master leads", len(leading), leading)
	row("from then until a worker is back", len(back), back)
	return failed
}
