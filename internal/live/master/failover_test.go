package master

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/slotwise/slotwise/internal/live/master/protocol"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// putCopy stores a file on one master only, as an upload does that ended before a majority had it.
func putCopy(t *testing.T, s *seat, content string) (sha string) {
	t.Helper()
	sha = shaOf(content)
	req, err := http.NewRequest(http.MethodPut, "http://"+s.cfg.Self+copyPath+sha, strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode >= 300 {
		t.Fatalf("PUT: %s: %s", resp.Status, text)
	}
	return sha
}

// An upload that ended on the leader alone is on a majority when the job is accepted.
func TestHalfUpload(t *testing.T) {
	t.Parallel()
	seats := newSeats(t)
	first := leader(t, seats)
	sha := putCopy(t, first, "program")
	rigOf(t, first).submit(&slotwisev1.JobSpec{Name: "half", User: "ann", Program: &slotwisev1.Program{Executable: sha, App: "x"}, Synthetic: 1})
	have := 0
	for _, s := range seats {
		if s.m.files.touch(sha) {
			have++
		}
	}
	if have < 2 {
		t.Errorf("%d of the masters have the program of an accepted job", have)
	}
}

// A follower that has removed the program of a waiting job gets it again: it does not know which files jobs need.
func TestFollowersKeepFiles(t *testing.T) {
	t.Parallel()
	seats := newSeats(t, func(c *Config) { c.refresh = 20 * time.Millisecond })
	first := leader(t, seats)
	sha := putCopy(t, first, "program")
	rigOf(t, first).submit(&slotwisev1.JobSpec{Name: "waits", User: "ann", Program: &slotwisev1.Program{Executable: sha, App: "x"}, Synthetic: 1})
	for _, s := range seats {
		if s != first {
			if err := s.m.files.disk.Remove(s.m.files.path(sha)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
	}
	for _, s := range seats {
		eventually(t, func() bool { return s.m.files.touch(sha) })
	}
}

// A frozen follower, which takes connections and answers nothing, delays a submission and does not stop it, also
// if the program is on another follower only.
func TestFrozenFollower(t *testing.T) {
	t.Parallel()
	seats := newSeats(t)
	first := leader(t, seats)
	// The first one that the leader asks.
	frozen := first.m.others()[0]
	var other *seat
	for _, s := range seats {
		switch s.cfg.Self {
		case frozen:
			s.crash()
		case first.cfg.Self:
		default:
			other = s
		}
	}
	l, err := net.Listen("tcp", frozen)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	sha := putCopy(t, other, "program")
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	began := time.Now()
	_, err = rigOf(t, first).users.Submit(ctx, &slotwisev1.SubmitRequest{RequestId: "r", Spec: &slotwisev1.JobSpec{Name: "x", User: "ann", Program: &slotwisev1.Program{Executable: sha, App: "x"}, Synthetic: 1}})
	t.Logf("accepted after %v", time.Since(began))
	if err != nil {
		t.Error(err)
	}
}

// TestEarlierMessages decodes messages as raft 3.6 has encoded them, and splits a snapshot off.
func TestEarlierMessages(t *testing.T) {
	for encoded, want := range map[string]*raftpb.Message{
		"\b\x03\x10\x02\x18\x01 \x05(\x040\a:\t\b\x00\x10\x05\x18\b\"\x01x@\x06P\x00X\x00h\x00": {Type: raftpb.MsgApp.Enum(), To: new(uint64(2)), From: new(uint64(1)), Term: new(uint64(5)),
			LogTerm: new(uint64(4)), Index: new(uint64(7)), Commit: new(uint64(6)), Reject: new(false), RejectHint: new(uint64(0)), Vote: new(uint64(0)),
			Entries: []*raftpb.Entry{{Type: raftpb.EntryNormal.Enum(), Term: new(uint64(5)), Index: new(uint64(8)), Data: []byte("x")}}},
		"\b\a\x10\x02\x18\x01 \x05(\x000\x00@\x00J\x10\x12\x0e\n\b\b\x01\b\x02\x10\x03(\x00\x10\a\x18\x04P\x00X\x00h\x00": {Type: raftpb.MsgSnap.Enum(), To: new(uint64(2)), From: new(uint64(1)), Term: new(uint64(5)),
			LogTerm: new(uint64(0)), Index: new(uint64(0)), Commit: new(uint64(0)), Reject: new(false), RejectHint: new(uint64(0)), Vote: new(uint64(0)),
			Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: new(uint64(7)), Term: new(uint64(4)), ConfState: &raftpb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{3}, AutoLeave: new(false)}}}},
	} {
		got := &raftpb.Message{}
		if err := proto.Unmarshal([]byte(encoded), got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
		if again, err := (proto.MarshalOptions{Deterministic: true}).Marshal(want); err != nil || string(again) != encoded {
			t.Errorf("encoded again: %q, %v", again, err)
		}
		if want.Snapshot != nil {
			got.Snapshot.Data = []byte("data")
			if head, data := withoutData(got); string(data) != "data" || !proto.Equal(head, want) || got.Snapshot.Data == nil {
				t.Errorf("split into %v and %q", head, data)
			}
		}
	}
}

// Messages from outside the group never reach raft, which would believe them.
func TestForeignMessages(t *testing.T) {
	t.Parallel()
	seats := newSeats(t)
	first := leader(t, seats)
	m := first.m
	peer := slotwisev1connect.NewMastersServiceClient(http.DefaultClient, "http://"+first.cfg.Self)
	member, own, term := otherMember(m), m.id, m.Term()
	for name, x := range map[string]struct {
		group string
		msg   *raftpb.Message
		want  connect.Code
	}{
		"from a stranger":     {m.group, &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(uint64(99)), To: new(own), Term: new(term + 9)}, connect.CodeInvalidArgument},
		"for another one":     {m.group, &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(member), To: new(uint64(99)), Term: new(term + 9)}, connect.CodeInvalidArgument},
		"as from itself":      {m.group, &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(own), To: new(own), Term: new(term + 9)}, connect.CodeInvalidArgument},
		"of another group":    {"x:1,y:1,z:1", &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(member), To: new(own), Term: new(term + 9)}, connect.CodeFailedPrecondition},
		"without any content": {m.group, &raftpb.Message{}, connect.CodeInvalidArgument},
	} {
		b, err := proto.Marshal(x.msg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := peer.Exchange(t.Context(), &slotwisev1.ExchangeRequest{Group: x.group, Messages: [][]byte{b}}); connect.CodeOf(err) != x.want {
			t.Errorf("a message %s: %v", name, err)
		}
	}
	if _, err := rigOf(t, first).users.Jobs(t.Context(), &slotwisev1.JobsRequest{}); err != nil || m.Term() >= term+9 {
		t.Errorf("the term was %d and is %d: %v", term, m.Term(), err)
	}
}

// A leader hears of a later term while it proposes a step in several parts. The rest of the step, and
// the orders that follow from it, vanish with its core.
func TestTermLostInBatch(t *testing.T) {
	t.Parallel()
	seats := newSeats(t)
	first := leader(t, seats)
	m := first.m
	type left struct {
		led                                 bool
		data, instructions, replies, queued int
	}
	found := make(chan left, 1)
	m.postOwn(func() {
		var out protocol.Output
		for range 3 {
			out.Records = append(out.Records, &slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Learned{Learned: &slotwisev1.JournalLearned{Doc: make([]byte, maxData*2/3)}}})
		}
		out.Instructions = []protocol.Instruction{&protocol.HoldFiles{Program: &slotwisev1.Program{Executable: shaOf("dead")}}}
		out.Replies = []protocol.Reply{{Call: 1 << 60}}
		m.replica.Step(m.cfg.clock(), &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(otherMember(m)), To: new(m.replica.ID()), Term: new(m.replica.Term() + 1)})
		led := m.lead != nil
		m.absorb(out)
		found <- left{led && m.lead == nil, len(m.data), len(m.instructions), len(m.replies), len(m.waiting)}
	})
	if got := <-found; got != (left{led: true}) {
		t.Errorf("the step has left %+v", got)
	}
}

// What an earlier leadership has collected does not leave under the next one.
func TestTakeOverDrops(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	sha := shaOf("dead")
	held := make(chan int, 1)
	r.m.postOwn(func() {
		m := r.m
		m.abdicate("the test says so")
		m.instructions = append(m.instructions, &protocol.HoldFiles{Program: &slotwisev1.Program{Executable: sha}})
		if err := m.takeOver(); err != nil {
			t.Error(err)
		}
		m.run()
		m.files.mu.Lock()
		defer m.files.mu.Unlock()
		held <- m.files.mu.users[sha]
	})
	if n := <-held; n != 0 {
		t.Errorf("an order of the dead core was carried out %d times", n)
	}
}

// A master whose history cannot be read is elected. It leads all the same: only a new journal must be compared with
// the history.
func TestLeadWithoutHistory(t *testing.T) {
	t.Parallel()
	seats := newSeats(t)
	first := leader(t, seats)
	id := rigOf(t, first).submit(&slotwisev1.JobSpec{Name: "x", User: "ann", Program: &slotwisev1.Program{App: "x"}, Synthetic: 1})
	for _, s := range seats {
		if s == first {
			continue
		}
		if err := s.m.history.Close(); err != nil {
			t.Fatal(err)
		}
	}
	first.crash()
	second := leader(t, slices.DeleteFunc(slices.Clone(seats), func(s *seat) bool { return s == first }))
	if st := rigOf(t, second).job(id); st.Id != id {
		t.Errorf("job %v", st)
	}
}

// The lease ends by its clock, which also counts the time for which nothing ran.
func TestLeaseEnds(t *testing.T) {
	t.Parallel()
	var lease atomic.Int64
	var now time.Duration
	l := &leadership{ctx: t.Context(), lease: &lease, clock: func() time.Duration { return now }}
	for _, x := range []struct {
		now, lease time.Duration
		may        bool
	}{{0, 0, false}, {0, 1, true}, {time.Second - 1, time.Second, true}, {time.Second, time.Second, false}, {time.Hour, time.Second, false}} {
		now = x.now
		lease.Store(int64(x.lease))
		if err := l.mayAct(); (err == nil) != x.may || err != nil && !errors.Is(err, errNoLease) {
			t.Errorf("at %v with a lease until %v: %v", x.now, x.lease, err)
		}
	}
	// A job whose output could not be staged at that moment is submitted again by its client.
	if err := fmt.Errorf("output /out: %w", l.mayAct()); connect.CodeOf(rpcError(err)) != connect.CodeUnavailable {
		t.Errorf("the client does not try again after: %v", rpcError(err))
	}
}

// The leader's machine is suspended for a minute: its clock jumps. It has no lease then, before its loop
// runs or any message arrives, and its /leader says so. Later a master leads again.
func TestSuspendedLeader(t *testing.T) {
	t.Parallel()
	var suspended [3]atomic.Int64
	n := 0
	seats := newSeats(t, func(c *Config) {
		clock, by := c.clock, &suspended[n]
		n++
		c.clock = func() time.Duration { return clock() + time.Duration(by.Load()) }
	})
	first := leader(t, seats)
	leads := make(chan *leadership, 1)
	found := make(chan error, 2)
	first.m.postOwn(func() { leads <- first.m.lead })
	l := <-leads
	eventually(t, func() bool { return l.mayAct() == nil })
	first.m.postOwn(func() { // nothing else runs in the loop meanwhile
		for i, s := range seats {
			if s == first {
				suspended[i].Add(int64(time.Minute))
			}
		}
		found <- l.mayAct()
		if first.m.mayLead() {
			found <- errors.New("it says that it leads")
			return
		}
		found <- nil
	})
	if err := <-found; !errors.Is(err, errNoLease) {
		t.Errorf("after a minute: %v", err)
	}
	if err := <-found; err != nil {
		t.Error(err)
	}
	eventually(t, func() bool {
		_, err := rigOf(t, leader(t, seats)).users.Jobs(t.Context(), &slotwisev1.JobsRequest{})
		return err == nil
	})
}

// otherMember returns the id of another member.
func otherMember(m *Master) uint64 {
	for _, o := range *m.roster.Load() {
		if o.Id != m.id {
			return o.Id
		}
	}
	return 0
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not come true")
		}
	}
}
