package master

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/live/master/replica"
	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// The masters of a group change one at a time. Each change is an entry of the journal and part of
// its snapshots. A new master first is a learner, which receives the journal and does not vote; the
// leader makes it a voter when it has caught up.
//
// The id of a master belongs to its directory; the package comment of replica says why.

// mostMasters bounds the group: each further master makes every commit wait for more disks.
const mostMasters = 7

// noteMembers publishes the members of the group to other goroutines. It is called in the loop.
func (m *Master) noteMembers(index uint64) {
	list, removed := m.journal.Members(index), m.journal.Removed(index)
	// A new slice each time, because readers of roster keep the old one.
	m.members = list
	m.roster.Store(&list)
	// Copies of files may be on masters that are no members any more, so each is sent to a majority
	// again.
	m.kept.forget()
	m.removed.Store(&removed)
	first := m.journal.First()
	m.identity.Store(&slotwisev1.IdentifyResponse{Group: m.group, Id: m.id, First: first, Joins: len(list) == 0 && !m.journal.Forms(), Address: m.cfg.Self})
}

// replicated reports whether this master belongs to a group.
func (m *Master) replicated() bool { return m.cfg.Self != "" }

// others returns the addresses of the other masters. A master that joins takes them from its flags
// until it has the journal.
func (m *Master) others() (list []string) {
	for _, o := range *m.roster.Load() {
		if o.Address != m.cfg.Self {
			list = append(list, o.Address)
		}
	}
	if len(*m.roster.Load()) > 0 {
		return list
	}
	// Only a master without members gets here. It needs somebody to take files and the first list from.
	for _, a := range m.cfg.Peers {
		if a != m.cfg.Self {
			list = append(list, a)
		}
	}
	return list
}

// majority returns the other masters that vote, and how many copies there are a majority together with
// this one, which leads.
func (m *Master) majority() (others []string, need int) {
	for _, o := range *m.roster.Load() {
		// A learner's copy does not count: it may be removed again, and a new leader does not need its vote.
		if !o.Learner && o.Address != m.cfg.Self {
			others = append(others, o.Address)
		}
	}
	return others, (len(others) + 1) / 2
}

// member returns the member with an address.
func (m *Master) member(address string) *slotwisev1.Member {
	for _, o := range m.members {
		if o.Address == address {
			return o
		}
	}
	return nil
}

// Masters lists the masters.
func (c clientService) Masters(ctx context.Context, _ *slotwisev1.MastersRequest) (*slotwisev1.MastersResponse, error) {
	return query(ctx, c.m, func() (*slotwisev1.MastersResponse, error) {
		return &slotwisev1.MastersResponse{Masters: c.m.standing()}, nil
	})
}

// standing lists the masters of the group by address, none without a group. It is called in the loop of the
// leader.
func (m *Master) standing() (list []*slotwisev1.MasterStatus) {
	if !m.replicated() {
		return nil
	}
	// Empty on a follower, which is never asked: query refuses there.
	standings := m.replica.Standings()
	for _, o := range m.members {
		s := &slotwisev1.MasterStatus{Address: o.Address, Role: followerRole, Term: m.replica.Term()}
		switch {
		case o.Id == m.replica.ID():
			s.Role = leaderRole
		// Until then the group may not survive the loss of another master, so an administrator must not stop one yet.
		case o.Learner || !m.replica.Settled(o.Id):
			s.Role = learnerRole
			if o.Id == m.behind.id {
				s.Note = m.behind.note
			}
		}
		if i := slices.IndexFunc(standings, func(x replica.Standing) bool { return x.ID == o.Id }); i >= 0 {
			s.Index, s.Silent = standings[i].Match, standings[i].Silent
			// The difference of two unsigned numbers. A member may have more entries than a leader that was just
			// elected. The leader lacks nothing that it has, also while the last entry is being written.
			if s.Role != leaderRole {
				s.Lag = m.replica.Last() - min(m.replica.Last(), s.Index)
			}
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *slotwisev1.MasterStatus) int { return cmp.Compare(a.Address, b.Address) })
	return list
}

// The roles of masters in MasterStatus.
const (
	leaderRole   = "leader"
	followerRole = "follower"
	learnerRole  = "learner"
)

// ChangeMasters adds or removes a master.
func (c clientService) ChangeMasters(ctx context.Context, r *slotwisev1.ChangeMastersRequest) (*slotwisev1.ChangeMastersResponse, error) {
	who := identity(ctx)
	if err := c.m.may(who, secure.Members, secure.Subject{}); err != nil {
		return nil, err
	}
	address := cmp.Or(r.Add, r.Remove)
	switch {
	case (r.Add == "") == (r.Remove == ""):
		return nil, fault(connect.CodeInvalidArgument, "the request must add one master or remove one")
	// Also for a removal, so that a typing error is not answered with "is none of the masters".
	case CheckAddress(address) != nil:
		return nil, connect.NewError(connect.CodeInvalidArgument, CheckAddress(address))
	case !c.m.replicated():
		return nil, fault(connect.CodeFailedPrecondition, "this master was started without --peers: to have several, move its jobs to a new cluster of three")
	}
	var id uint64
	// A member may be dead, and then memberChange refuses to add it again.
	if r.Add != "" && !slices.ContainsFunc(*c.m.roster.Load(), func(o *slotwisev1.Member) bool { return o.Address == r.Add }) {
		// Asked before the call of the candidate, which may take seconds. memberChange runs on the
		// leader in any case.
		if err := c.m.notLeader(); err != nil {
			return nil, err
		}
		var err error
		// Outside the loop: the call to another master may take peerTimeout.
		if id, err = c.m.candidate(ctx, r.Add); err != nil {
			return nil, err
		}
	}
	// The answer leaves when the change is committed: seal covers the last proposed entry, also a change of the
	// members.
	return query(ctx, c.m, func() (*slotwisev1.ChangeMastersResponse, error) {
		change, err := c.m.memberChange(r, id)
		if err != nil {
			return nil, err
		}
		switch _, err := c.m.replica.ProposeMember(c.m.cfg.clock(), change); {
		case errors.Is(err, replica.ErrNotLeader):
			return nil, notLeaderError(c.m.role.Load())
		case err != nil:
			return nil, connect.NewError(connect.CodeUnavailable, err)
		}
		c.m.log.Info("masters change", "add", r.Add, "remove", r.Remove, "by", who.User)
		return &slotwisev1.ChangeMastersResponse{}, nil
	})
}

// CheckAddress returns an error unless address is host:port with a port in its usual form, so that one
// master has one address.
func CheckAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	n, failed := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || len(address) > 300 || failed != nil || n == 0 || strconv.FormatUint(n, 10) != port || strings.ContainsAny(address, ", \t\n") {
		return fmt.Errorf("%q is not an address such as a:7077", address)
	}
	return nil
}

// memberChange returns the entry for a request, or an error that says why the group cannot change so
// now. id is the one of the master that is added. It is called in the loop of the leader.
func (m *Master) memberChange(r *slotwisev1.ChangeMastersRequest, id uint64) (c *raftpb.ConfChange, err error) {
	for _, o := range m.members {
		if o.Learner && o.Address != r.Remove && o.Address != r.Add {
			return c, fault(connect.CodeFailedPrecondition, "master %s has not caught up yet: one master is added at a time (slotwise masters shows how far it is, and slotwise masters remove %s gives it up)", o.Address, o.Address)
		}
	}
	if r.Add != "" {
		switch {
		case m.member(r.Add) != nil:
			return c, fault(connect.CodeAlreadyExists, "%s is one of the masters already; if it has lost its directory, run slotwise masters remove %s first", r.Add, r.Add)
		// It was removed since the caller looked, or it is a candidate that another request has added and removed since.
		// An id that was removed is never added again.
		case id == 0, slices.Contains(*m.removed.Load(), id):
			return c, connect.NewError(connect.CodeUnavailable, replica.ErrChanging)
		// Also learners count, since each becomes a voter.
		case len(m.members) >= mostMasters:
			return c, fault(connect.CodeFailedPrecondition, "there are %d masters already: remove one first", len(m.members))
		}
		return &raftpb.ConfChange{Type: raftpb.ConfChangeAddLearnerNode.Enum(), NodeId: new(id), Context: []byte(r.Add)}, nil
	}
	o := m.member(r.Remove)
	switch {
	case o == nil:
		return c, fault(connect.CodeNotFound, "%s is none of the masters", r.Remove)
	// Raft permits it, and the leader would step down in the middle of its batches. An orderly stop hands over
	// first.
	case o.Id == m.replica.ID():
		return c, fault(connect.CodeFailedPrecondition, "master %s leads: stop it first, so that another one leads, and remove it then", r.Remove)
	case !o.Learner:
		err := m.replica.MayRemove(o.Id)
		if errors.Is(err, replica.ErrNotHeard) {
			return c, connect.NewError(connect.CodeUnavailable, err)
		}
		if err != nil {
			return c, fault(connect.CodeFailedPrecondition, "without master %s the cluster would stop: %w", r.Remove, err)
		}
	}
	return &raftpb.ConfChange{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: new(o.Id)}, nil
}

// promote makes a learner that has caught up, and has the leader's history and the files of its jobs, a voter.
func (m *Master) promote() {
	// Called with each beat, twenty times a second by default. Without a learner it costs a walk over a few members.
	id := m.replica.CaughtUp()
	i := slices.IndexFunc(m.members, func(o *slotwisev1.Member) bool { return o.Id == id })
	if id == 0 || i < 0 || m.lead == nil || m.failed != nil || m.promoting {
		return
	}
	m.promoting = true
	address, lead := m.members[i].Address, m.lead
	m.background.Go(func() {
		// Asked of the learner itself, because only it knows whether it has read the leader's history.
		resp, err := m.identify(lead.ctx, address)
		note := notReady(id, resp, err)
		if note == "" {
			if err := m.keepNeeded(lead.ctx, address); err != nil {
				note = "it cannot store a file that a job needs: " + err.Error()
			}
		}
		// promoting stays set meanwhile, so the ticks of the replica do not ask the learner again.
		if note != "" {
			time.Sleep(promotePause)
		}
		m.postOwn(func() {
			// The result belongs to a term that has ended. The next leader asks again, because each one calls promote.
			if m.promoting = false; m.lead != lead {
				return
			}
			m.noteLearner(id, address, note)
			// It may have fallen behind during the call.
			if note != "" || m.replica.CaughtUp() != id {
				return
			}
			m.log.Info("a new master has caught up and votes from now on", "address", address, "masters", terminal.Plural(len(m.members), "master"))
			// An error says that this master does not lead any more. The next leader does it.
			_, _ = m.replica.ProposeMember(m.cfg.clock(), &raftpb.ConfChange{Type: raftpb.ConfChangeAddNode.Enum(), NodeId: new(id), Context: []byte(address)})
		})
	})
}

// Pauses for learners that have the journal and are not ready to vote.
const (
	promotePause = 200 * time.Millisecond // before the next call to one
	learnerAfter = 10 * time.Second       // before the log names the reason
	learnerEvery = time.Minute            // between two such lines
)

// notReady says why the answer of a learner, which has the journal, does not permit that it votes. It is
// "" for a learner that may vote.
func notReady(id uint64, resp *slotwisev1.IdentifyResponse, err error) string {
	switch {
	case connect.CodeOf(err) == connect.CodeUnimplemented:
		return earlierVersion
	case err != nil:
		return "it does not answer: " + err.Error()
	// Somebody has started the learner again in a new directory. Its former id would become a voter that no master
	// has.
	case resp.Id != id:
		return "another directory has taken its place: remove this master, and add it again"
	case !resp.Ready:
		return cmp.Or(resp.Lacks, earlierVersion) // never "", with which it would vote
	}
	return ""
}

// earlierVersion is said of a master whose program is older than the leader's.
const earlierVersion = "it runs an earlier version: replace its program"

// unready describes a learner that has the journal and is not ready to vote.
type unready struct {
	id     uint64
	note   string    // why; "" if it is ready
	since  time.Time // when it was first not ready
	logged time.Time // when the log said so last
}

// noteLearner keeps what a learner waits for, for the list of masters, and logs it if that lasts. It is
// called in the loop.
func (m *Master) noteLearner(id uint64, address, note string) {
	now := time.Now()
	if m.behind.id != id || note == "" {
		m.behind = unready{id: id, since: now}
	}
	m.behind.note = note
	if note != "" && now.Sub(m.behind.since) >= learnerAfter && now.Sub(m.behind.logged) >= learnerEvery {
		m.behind.logged = now
		m.log.Warn("a new master has the journal and does not vote yet", "address", address, "why", note)
	}
}
