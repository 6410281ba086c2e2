package master

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// freeAddress returns an address of loopback that nothing uses.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", clustertest.LoopbackHost()+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// begin starts a seat at its address.
func (s *seat) begin(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", s.cfg.Self)
	if err != nil {
		t.Fatal(err)
	}
	s.start(t, l)
}

// roles returns the masters as the leader lists them, such as "leader" or "follower silent", by address.
func roles(t *testing.T, seats []*seat) map[string]string {
	t.Helper()
	resp, err := rigOf(t, leader(t, seats)).users.Masters(t.Context(), &slotwisev1.MastersRequest{})
	if err != nil {
		return nil
	}
	all := map[string]string{}
	for _, m := range resp.Masters {
		if all[m.Address] = m.Role; m.Silent {
			all[m.Address] += " silent"
		}
		if m.Term == 0 || m.Index == 0 && m.Role == "leader" || m.Lag > 0 && m.Role == "leader" {
			t.Errorf("the leader lists %v", m)
		}
	}
	return all
}

// changeMasters adds or removes a master, and returns the refusal.
func changeMasters(t *testing.T, seats []*seat, add, remove string) (err error) {
	t.Helper()
	eventually(t, func() bool {
		_, err = rigOf(t, leader(t, seats)).users.ChangeMasters(t.Context(), &slotwisev1.ChangeMastersRequest{Add: add, Remove: remove})
		return connect.CodeOf(err) != connect.CodeUnavailable
	})
	return err
}

// refused checks that a change was refused with a sentence.
func refused(t *testing.T, err error, code connect.Code, words string) {
	t.Helper()
	if connect.CodeOf(err) != code || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want %v with %q", err, code, words)
	}
}

// loseDirectory has one of four masters lose its directory, and starts it wrongly, before an administrator has removed
// it.
func loseDirectory(t *testing.T, seats []*seat, x *seat) {
	t.Helper()
	x.crash()
	if err := os.RemoveAll(x.cfg.Dir); err != nil {
		t.Fatal(err)
	}
	x.cfg.Bootstrap, x.cfg.Join = true, false
	x.begin(t)
	<-x.m.Done()
	if err := x.m.Close(); err == nil || !strings.Contains(err.Error(), "knows another directory of this master") {
		t.Errorf("a master without its directory, started with --bootstrap: %v", err)
	}
	x.srv.Close()
	if err := os.RemoveAll(x.cfg.Dir); err != nil {
		t.Fatal(err)
	}
	x.cfg.Bootstrap, x.cfg.Join = false, true
	x.begin(t)
	refused(t, changeMasters(t, seats, x.cfg.Self, ""), connect.CodeAlreadyExists, "remove "+x.cfg.Self+" first")
	// The next leader does not count entries of its former directory either.
	at := leader(t, seats)
	at.stop()
	at.begin(t)
	next := leader(t, seats)
	eventually(t, func() bool { return len(roles(t, seats)) == 4 })
	time.Sleep(x.cfg.Election)
	var terms []uint64
	held := make(chan int, 1)
	x.m.postOwn(func() {
		terms = append(terms, x.m.replica.Term())
		held <- len(x.m.members)
	})
	if n := <-held; n != 0 || x.m.failed != nil || terms[0] > 1 || next == x {
		t.Errorf("a master without a directory has %d members, is in term %d, %v", n, terms[0], x.m.failed)
	}
	eventually(t, func() bool { // it hears of the group before it says so
		_, err := rigOf(t, x).users.Jobs(t.Context(), &slotwisev1.JobsRequest{})
		return connect.CodeOf(err) == connect.CodeUnavailable && strings.Contains(err.Error(), "run slotwise masters remove "+x.cfg.Self)
	})
}

// TestMembers adds a fourth master, whose journal is larger than one message between masters may be.
// Then a master dies, loses its directory, is removed and added again. Changes that would stop the
// cluster are refused. The new masters keep the membership over restarts, and the jobs over the death
// of the masters that accepted them.
func TestMembers(t *testing.T) {
	t.Parallel()
	small := func(c *Config) { c.exchange = 14 << 20 }
	seats := newSeats(t, small)
	first := leader(t, seats)
	r := rigOf(t, first)
	params := map[string]string{}
	for i := range 16 {
		params[fmt.Sprint("p", i)] = strings.Repeat("x", 60<<10)
	}
	var last string
	for range 17 {
		last = r.submit(&slotwisev1.JobSpec{Name: "big", User: "ann", Program: &slotwisev1.Program{App: "x", Params: params}, Synthetic: 1})
	}
	d := &seat{cfg: first.cfg}
	d.cfg.Dir, d.cfg.Self, d.cfg.Bootstrap, d.cfg.Join = t.TempDir(), freeAddress(t), false, true
	d.begin(t)
	t.Cleanup(d.stop)
	refused(t, changeMasters(t, seats, "", first.cfg.Self), connect.CodeFailedPrecondition, "leads: stop it first")
	refused(t, changeMasters(t, seats, "", d.cfg.Self), connect.CodeNotFound, "none of the masters")
	refused(t, changeMasters(t, seats, first.cfg.Self, ""), connect.CodeAlreadyExists, "already")
	refused(t, changeMasters(t, seats, "a", ""), connect.CodeInvalidArgument, "not an address")
	_, err := r.users.ChangeMasters(t.Context(), &slotwisev1.ChangeMastersRequest{Add: freeAddress(t)})
	refused(t, err, connect.CodeUnavailable, "does not answer: start it with --join")
	if err := changeMasters(t, seats, d.cfg.Self, ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return roles(t, seats)[d.cfg.Self] == "follower" })
	seats = append(seats, d)

	// One dies and loses its directory. It returns empty, and must not take part by its old name.
	var x, y *seat
	for _, s := range seats {
		switch {
		case s == leader(t, seats) || s == d:
		case x == nil:
			x = s
		default:
			y = s
		}
	}
	loseDirectory(t, seats, x)
	if err := changeMasters(t, seats, "", x.cfg.Self); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { // there is no list while the masters elect a leader
		got := roles(t, seats)
		return len(got) == 3 && got[x.cfg.Self] == ""
	})
	if err := changeMasters(t, seats, x.cfg.Self, ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return roles(t, seats)[x.cfg.Self] == "follower" })

	// Of four, one may die. Without another one two would be left of three, which is a majority.
	y.crash()
	eventually(t, func() bool { return strings.HasSuffix(roles(t, seats)[y.cfg.Self], "silent") })
	if err := changeMasters(t, seats, "", y.cfg.Self); err != nil {
		t.Fatal(err)
	}
	// Of three, one dies, and the removal of the other follower would leave one of two.
	x.crash()
	eventually(t, func() bool { return strings.HasSuffix(roles(t, seats)[x.cfg.Self], "silent") })
	at := leader(t, seats)
	follower := d
	if at == d {
		follower = first
	}
	refused(t, changeMasters(t, seats, "", follower.cfg.Self), connect.CodeFailedPrecondition, "of the 2 masters that would be left, 2 must run, and 1 do")

	// The membership is in the journal, also in the one that began with a snapshot.
	d.stop()
	d.begin(t)
	x.begin(t)
	eventually(t, func() bool {
		got := roles(t, seats)
		return len(got) == 3 && !strings.Contains(fmt.Sprint(got), "silent")
	})
	at = leader(t, seats)
	at.crash()
	at = leader(t, seats)
	if at != d && at != x && at != first {
		t.Fatal("a removed master leads")
	}
	eventually(t, func() bool {
		st, err := rigOf(t, at).users.Job(t.Context(), &slotwisev1.JobRequest{Job: last})
		return err == nil && st.Job.State == slotwisev1.JobState_JOB_STATE_WAITING
	})
}

// TestRemovedMaster removes a master that runs, one that is away meanwhile, and adds a former directory and
// masters that were started wrongly.
func TestRemovedMaster(t *testing.T) {
	t.Parallel()
	seats := newSeats(t)
	first := leader(t, seats)
	var x *seat
	for _, s := range seats {
		if s != first {
			x = s
		}
	}
	term := first.m.Term()
	if err := changeMasters(t, seats, "", x.cfg.Self); err != nil {
		t.Fatal(err)
	}
	<-x.m.Done()
	if err := x.m.Close(); !errors.Is(err, ErrRemoved) {
		t.Errorf("a removed master ends with %v", err)
	}
	x.srv.Close()
	x.m = nil
	if got := first.m.Term(); got != term {
		t.Errorf("its departure has changed the term from %d to %d", term, got)
	}
	// Its journal may not know. It learns from the others then.
	m, err := Open(x.cfg)
	if err == nil {
		<-m.Done()
		err = m.Close()
	}
	if !errors.Is(err, ErrRemoved) {
		t.Errorf("started again it ends with %v", err)
	}
	for words, change := range map[string]func(*Config){
		"and the masters of this cluster with --peers": func(c *Config) { c.Peers = []string{"a:1", "b:1", "c:1"} },
		"without --peers":               func(c *Config) { c.Peers, c.Join = nil, false },
		"not started with --join":       func(c *Config) { c.Bootstrap, c.Join = true, false },
		"its own --advertise is d:7077": func(c *Config) { c.Self = "d:7077" },
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		d := &seat{cfg: first.cfg}
		d.cfg.Dir, d.cfg.Self, d.cfg.Bootstrap, d.cfg.Join = t.TempDir(), l.Addr().String(), false, true
		if change(&d.cfg); d.cfg.Peers == nil {
			d.cfg.Self = ""
		}
		d.start(t, l)
		refused(t, changeMasters(t, seats, l.Addr().String(), ""), connect.CodeFailedPrecondition, words)
		d.stop()
	}
}

// TestNewMasterHasFiles replaces the only other master that has the program of a waiting job. The new one
// has it before it votes: else the death of the leader would leave the job without its program.
func TestNewMasterHasFiles(t *testing.T) {
	t.Parallel()
	seats := newSeats(t)
	first := leader(t, seats)
	var away, gone *seat
	for _, s := range seats {
		switch {
		case s == first:
		case away == nil:
			away = s
		default:
			gone = s
		}
	}
	away.crash()
	sha := putCopy(t, first, "program")
	rigOf(t, first).submit(&slotwisev1.JobSpec{Name: "waits", User: "ann", Program: &slotwisev1.Program{Executable: sha, App: "x"}, Synthetic: 1})
	away.begin(t)
	eventually(t, func() bool { return roles(t, seats)[away.cfg.Self] == "follower" })
	gone.crash()
	if err := changeMasters(t, seats, "", gone.cfg.Self); err != nil {
		t.Fatal(err)
	}
	d := &seat{cfg: first.cfg}
	d.cfg.Dir, d.cfg.Self, d.cfg.Bootstrap, d.cfg.Join = t.TempDir(), freeAddress(t), false, true
	d.begin(t)
	t.Cleanup(d.stop)
	if err := changeMasters(t, seats, d.cfg.Self, ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return roles(t, seats)[d.cfg.Self] == "follower" })
	if away.m.files.touch(sha) {
		t.Error("the master that was away has the program: the test shows nothing")
	}
	if !d.m.files.touch(sha) {
		t.Error("the new master votes without the program of a job that waits")
	}
	if first.m.kept.has(sha) {
		t.Error("the leader takes copies for enough that were with other masters: a next job's program may be with it alone")
	}
}

// TestRefusedFile adds a master whose limit is below the size of a job's program. The list of masters says which
// flag is in the way, and the master votes when no job needs the program any more.
func TestRefusedFile(t *testing.T) {
	t.Parallel()
	seats := newSeats(t)
	first := leader(t, seats)
	sha := putCopy(t, first, "a program")
	id := rigOf(t, first).submit(&slotwisev1.JobSpec{Name: "waits", User: "ann", Program: &slotwisev1.Program{Executable: sha, App: "x"}, Synthetic: 1})
	d := &seat{cfg: first.cfg}
	d.cfg.Dir, d.cfg.Self, d.cfg.Bootstrap, d.cfg.Join, d.cfg.Limits.File = t.TempDir(), freeAddress(t), false, true, 3
	d.begin(t)
	t.Cleanup(d.stop)
	if err := changeMasters(t, seats, d.cfg.Self, ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		resp, err := rigOf(t, leader(t, seats)).users.Masters(t.Context(), &slotwisev1.MastersRequest{})
		return err == nil && slices.ContainsFunc(resp.Masters, func(o *slotwisev1.MasterStatus) bool {
			return o.Address == d.cfg.Self && o.Role == learnerRole && strings.Contains(o.Note, "the limit is 3 bytes (--max-file)")
		})
	})
	if _, err := rigOf(t, leader(t, seats)).users.Kill(t.Context(), &slotwisev1.KillRequest{Job: id}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return roles(t, seats)[d.cfg.Self] == "follower" })
}

// TestTwoNamesOfOneMaster has two of three first masters be the same one, as with two names of a machine.
func TestTwoNamesOfOneMaster(t *testing.T) {
	t.Parallel()
	listeners, peers := listenThree(t, clustertest.LoopbackHost())
	var seats []*seat
	for i := range 2 {
		s := &seat{cfg: Config{Dir: t.TempDir(), Peers: peers, Self: peers[i], Bootstrap: true, Console: newConsole}}
		s.start(t, listeners[i])
		defer s.stop()
		seats = append(seats, s)
	}
	go seats[1].srv.Serve(listeners[2])
	for _, s := range seats {
		eventually(t, func() bool { // on a machine under load a master may not answer in time
			first, missing, err := s.m.firstMembers()
			text := strings.Join(missing, "; ")
			if first != nil || err != nil {
				t.Fatalf("%s finds %v, misses %q, %v", s.cfg.Self, first, text, err)
			}
			return strings.Contains(text, peers[2]+" (its --advertise is "+peers[1])
		})
	}
}

// A master without peers has no membership.
func TestMembersOfOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	if resp, err := r.users.Masters(t.Context(), &slotwisev1.MastersRequest{}); err != nil || len(resp.Masters) != 0 {
		t.Errorf("%v, %v", resp, err)
	}
	_, err := r.users.ChangeMasters(t.Context(), &slotwisev1.ChangeMastersRequest{Add: "a:1"})
	refused(t, err, connect.CodeFailedPrecondition, "without --peers")
}

// TestRemovedCandidate adds a master that was removed between the call to it and the change: its id would be among
// the members and among the removed ones, so that the others dropped its messages.
func TestRemovedCandidate(t *testing.T) {
	t.Parallel()
	m := &Master{}
	m.removed.Store(&[]uint64{7})
	for id, want := range map[uint64]bool{7: false, 8: true} {
		_, err := m.memberChange(&slotwisev1.ChangeMastersRequest{Add: "a:1"}, id)
		if (err == nil) != want || err != nil && connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("member %d is added: %v", id, err)
		}
	}
}
