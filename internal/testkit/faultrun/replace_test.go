package faultrun

import (
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/slotwise/slotwise/internal/testkit/faultfs"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// voters returns the members that vote, as far as the member knows.
func (b *member) voters() []*slotwisev1.Member {
	list := b.store.Members(b.replica.Committed())
	return slices.DeleteFunc(list, func(o *slotwisev1.Member) bool { return o.Learner })
}

// majority returns the other machines that vote, and the number that is a majority with this one.
func (m *master) majority() (others []*member, need int) {
	for _, o := range m.member.voters() {
		if o.Id != m.member.id {
			others = append(others, m.r.machines[o.Id])
		}
	}
	return others, (len(others) + 1) / 2
}

// replaceMember begins to replace a member by one with a new directory on the same machine. Half of the
// times the directory is lost first, and the machine is started with --join before an operator has removed
// its former member, as an operator does by mistake.
func (r *cluster) replaceMember(b *member) {
	if len(r.members) == 1 || r.replaced != nil {
		return
	}
	r.replaced, r.leaving = b, r.chance(50)
	if !r.leaving {
		r.counts.LostDirectories++
		b.renew()
	}
	r.after(r.randomUpTo(10*second), r.replaceOn)
}

// renew gives the machine an empty directory, in which its next process joins.
func (b *member) renew() {
	r := b.r
	b.die("its directory is lost")
	b.id = uint64(len(r.machines) + 1)
	r.machines[b.id] = b
	b.disk, b.past, b.joins, b.left, b.faulty = faultfs.NewDisk(), newPast(), true, false, false
	r.logf("%s is member %d now", b.address, b.id)
	r.after(r.randomUpTo(4*second), b.start)
}

// leave ends the process of a member that has learned of its removal.
func (b *member) leave() {
	if b.up {
		b.r.counts.Departures++
		b.left = true
		b.die("it was removed")
	}
}

// replaceOn does the next step of an administrator, with each leader again until it is done.
func (r *cluster) replaceOn() {
	b := r.replaced
	defer func() {
		if r.replaced != nil {
			r.after(second/2+r.randomUpTo(second), r.replaceOn)
		}
	}()
	m := r.master
	if m == nil || !m.mayAct() || r.fault(20) {
		return
	}
	at := m.member
	list := at.store.Members(at.replica.Committed())
	i := slices.IndexFunc(list, func(o *slotwisev1.Member) bool { return o.Address == b.address })
	var change *raftpb.ConfChange
	switch {
	case i >= 0 && list[i].Id == b.id && !r.leaving && (list[i].Learner || !at.replica.Settled(b.id)):
		return // it catches up, or not all that must know yet have heard that it votes
	case i >= 0 && list[i].Id == b.id && !r.leaving:
		r.counts.Replacements++
		r.logf("%s is replaced", b.address)
		r.replaced = nil
		return
	case i >= 0 && list[i].Id == at.id:
		at.transfer()
		return
	case i >= 0:
		if !list[i].Learner && at.replica.MayRemove(list[i].Id) != nil {
			return
		}
		r.counts.Removals++
		change = &raftpb.ConfChange{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: new(list[i].Id)}
	case r.leaving:
		// The former process may run on for a while before the directory is gone.
		if b.left || !b.up || r.chance(30) {
			r.leaving = false
			b.renew()
		}
		return
	case !b.up || b.frozen:
		return // masters add asks it who it is
	default:
		r.counts.Additions++
		r.added[b.id] = true
		change = &raftpb.ConfChange{Type: raftpb.ConfChangeAddLearnerNode.Enum(), NodeId: new(b.id), Context: []byte(b.address)}
	}
	// An error says that another change is under way, or that the master does not lead.
	_, err := at.replica.ProposeMember(at.now(), change)
	r.logf("%s proposes %v of member %d: %v", at.address, change.GetType(), change.GetNodeId(), err)
	at.run()
}

// promote makes a learner that has caught up a voter.
func (b *member) promote() {
	id := b.replica.CaughtUp()
	if o := b.r.machines[id]; id == 0 || b.master == nil || o.id != id || !o.up || !o.ready {
		return
	}
	_, _ = b.replica.ProposeMember(b.now(), &raftpb.ConfChange{Type: raftpb.ConfChangeAddNode.Enum(), NodeId: new(id), Context: []byte(b.r.machines[id].address)})
}
