package master

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// ErrRemoved is the reason why a master ends that was removed from its group.
var ErrRemoved = errors.New("this master was removed from the masters of its cluster")

func errRemoved(address string) error {
	return fmt.Errorf("%w; to add it again, start it in a new directory with --join, and run slotwise masters add %s", ErrRemoved, address)
}

// quit ends the master for another reason than its journal. It is called in the loop.
// Not fail: nothing is wrong with the disk, and an operator who reads of the journal would look in the wrong
// place.
func (m *Master) quit(err error) {
	if m.failed == nil {
		m.failed = err
		m.log.Error("the master stops", "why", err)
	}
}

// leave ends a master that was removed, as etcd does: one that stayed would answer clients that have it in
// their lists, and would look like a master that only needs time.
func (m *Master) leave() { m.quit(errRemoved(m.cfg.Self)) }

// Identify says who this master is.
func (s mastersService) Identify(_ context.Context, r *slotwisev1.IdentifyRequest) (*slotwisev1.IdentifyResponse, error) {
	own := s.m.callers.answer(r.Id, &s.m.identity)
	// Ready follows from Lacks, which looks at the pull once: it may end between two looks, and the answer would say
	// that this master is not ready and lacks nothing.
	own.Lacks = s.m.pull.Load().lacks()
	own.Ready = own.Lacks == ""
	return own, nil
}

// identify asks another master who it is.
func (m *Master) identify(ctx context.Context, address string) (*slotwisev1.IdentifyResponse, error) {
	peer, err := m.peer(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	return peer.Identify(ctx, &slotwisev1.IdentifyRequest{Id: m.id})
}

// candidate returns the id of a master that is to be added, or an error with the step that must be done first.
func (m *Master) candidate(ctx context.Context, address string) (uint64, error) {
	resp, err := m.identify(ctx, address)
	problem := ""
	switch {
	case connect.CodeOf(err) == connect.CodeUnimplemented:
		problem = earlierVersion + " first"
	case err != nil:
		// The caller tries again for a while: it may just have been started.
		return 0, fault(connect.CodeUnavailable, "master %s does not answer: start it with --join before it is added: %w", address, err)
	// The worst mistake is named first: an administrator repairs one and tries again.
	case resp.Group == "":
		problem = "it was started without --peers: start it with --peers " + m.group + " and --join in a new directory"
	case resp.Group != m.group:
		problem = "it was started with --peers " + resp.Group + ", and the masters of this cluster with --peers " + m.group + ": start it with these and --join in a new directory"
	case slices.Contains(*m.removed.Load(), resp.Id):
		problem = "it was removed and still has its former directory: start it in a new one with --join"
	case !resp.Joins:
		problem = "it was not started with --join in a new directory"
	// Messages would reach the member by this address, and its own answers name the other one.
	case resp.Address != address:
		problem = "its own --advertise is " + resp.Address + ": add it by this address"
	default:
		return resp.Id, nil
	}
	return 0, fault(connect.CodeFailedPrecondition, "master %s cannot be added: %s", address, problem)
}

// strange refuses messages for a member that had this master's address and another directory.
func (m *Master) strange() error {
	a := m.cfg.Self
	err := fault(connect.CodeFailedPrecondition, "master %s has a new directory: to the others it is a new master, which does not vote and must be added. Run slotwise masters remove %s, and then slotwise masters add %s", a, a, a)
	now := time.Now().Unix()
	// Once a minute: the others send messages many times a second.
	if last := m.strangers.Load(); now-last >= 60 && m.strangers.CompareAndSwap(last, now) {
		m.log.Warn("the others know a former master at this address", "error", err)
	}
	return err
}

// formWarning is the time after which a master that forms a group says for which others it waits.
const formWarning = 10 * time.Second

// form asks the first masters of a new group for their ids until the group can be formed.
//
// Only one list of first members may ever be used: with two lists, two majorities need not have a master in
// common. So only the master with the least address makes a list, and the others take it from one that has
// it. That master may lose its directory before the others have its list, and then makes another list with
// its new directory. A master that has told this new directory that it has no list takes the former one no
// more: it takes no list in a round in which a directory outside the list has asked it. In a later round
// the former directory is gone and cannot give its list away.
func (m *Master) form() {
	warn := time.Now().Add(formWarning)
	defer m.callers.stop()
	// Short at first, because all masters of a new cluster usually start together, and long later, because
	// somebody may start the last one tomorrow.
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		// The round begins before the questions: the answers of this master since then decide
		// whether it may take the list.
		m.callers.start()
		first, missing, err := m.firstMembers()
		switch {
		case err != nil:
			// The only error is a directory that was lost: no later round can repair it, and waiting would look like
			// progress.
			m.postOwn(func() { m.quit(err) })
			return
		case first != nil:
			if m.begins(first) {
				return
			}
		case time.Now().After(warn):
			m.log.Warn("the cluster is formed when all its first masters run; this one waits", "for", strings.Join(missing, "; "))
			warn = time.Now().Add(time.Minute)
		}
		select {
		case <-m.ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// begins has the loop begin the group with a list. It reports false if the list may not be taken now.
func (m *Master) begins(first []*slotwisev1.Member) bool {
	// Has room for the answer, because the loop may give it after this goroutine has seen the end of the master.
	done := make(chan bool, 1)
	m.postOwn(func() { done <- m.formed(first) })
	select {
	case begun := <-done:
		return begun
	// The master closes: there is nothing to try again.
	case <-m.ctx.Done():
		return true
	}
}

// formed begins the group, unless a directory outside the list has asked this master. It is called in the
// loop.
func (m *Master) formed(first []*slotwisev1.Member) bool {
	// If the others were faster, a snapshot of the leader may have come first.
	if m.failed != nil || !m.journal.Forms() {
		return true
	}
	m.callers.mu.Lock() // no caller hears meanwhile that there is no list
	defer m.callers.mu.Unlock()
	if m.callers.strange(first) {
		return false
	}
	// Durable before the replica knows the voters: a vote given without the list on the disk would be forgotten
	// by a crash, and with it the list that the others may have taken from this master.
	err := m.journal.Form(first)
	if err == nil {
		err = m.openReplica() // with these voters
	}
	if err != nil {
		m.fail(err)
	}
	return true
}

// callers are the directories that have asked a master who it is during one round of form.
type callers struct {
	mu     sync.Mutex
	counts bool // while the master forms a group
	ids    []uint64
}

// mostCallers bounds the list. A round with more callers gives no list.
const mostCallers = 100

// start begins a round.
func (c *callers) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts, c.ids = true, c.ids[:0]
}

// stop ends the last round.
func (c *callers) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts, c.ids = false, nil
}

// answer notes a caller, and returns the answer to it.
func (c *callers) answer(id uint64, own *atomic.Pointer[slotwisev1.IdentifyResponse]) *slotwisev1.IdentifyResponse {
	c.mu.Lock()
	defer c.mu.Unlock()
	// All holders of a master's certificate may call, so the list is bounded.
	if c.counts && len(c.ids) < mostCallers {
		c.ids = append(c.ids, id)
	}
	return proto.CloneOf(own.Load())
}

// strange reports whether a directory outside the list has called in this round. mu is held.
func (c *callers) strange(first []*slotwisev1.Member) bool {
	// A full list may have missed a caller, so it counts as if it had.
	return len(c.ids) == mostCallers || slices.ContainsFunc(c.ids, func(id uint64) bool {
		return !slices.ContainsFunc(first, func(o *slotwisev1.Member) bool { return o.Id == id })
	})
}

// firstMembers returns the first members of the group. It returns nil, and the masters that are missing, if they are not
// known yet.
func (m *Master) firstMembers() (first []*slotwisev1.Member, missing []string, err error) {
	own := &slotwisev1.Member{Id: m.id, Address: m.cfg.Self}
	type answer struct {
		from string
		resp *slotwisev1.IdentifyResponse
		err  error
	}
	answers := make(chan answer)
	others := m.others()
	for _, a := range others {
		go func() {
			// identify has a time limit (peerTimeout), so a round takes no longer.
			resp, err := m.identify(m.ctx, a)
			answers <- answer{a, resp, err}
		}()
	}
	found := []*slotwisev1.Member{own}
	// All answers are awaited, so that no goroutine stays behind at the unbuffered channel.
	for range others {
		x := <-answers
		switch {
		case x.err != nil:
			missing = append(missing, x.from+" ("+x.err.Error()+")")
		case x.resp.Group != m.group:
			missing = append(missing, x.from+" (its --peers are "+cmp.Or(x.resp.Group, "empty")+")")
		// The group is older than this directory, unless the other master has counted with it.
		case len(x.resp.First) > 0 && !slices.ContainsFunc(x.resp.First, func(o *slotwisev1.Member) bool { return o.Id == m.id }):
			err = fmt.Errorf("--bootstrap is for a new cluster, and %s belongs to one that exists and knows another directory of this master. If that is lost, run slotwise masters remove %s, "+
				"start this master in a new directory with --join, and run slotwise masters add %s", x.from, m.cfg.Self, m.cfg.Self)
		// Two names of one master would be two voters with one id, so that no majority could be found.
		case x.resp.Address != x.from:
			missing = append(missing, x.from+" (its --advertise is "+cmp.Or(x.resp.Address, "empty")+": --peers must name it so)")
		case len(x.resp.First) > 0:
			// Any list will do: all masters that have one have the same.
			first = x.resp.First
		case x.resp.Joins:
			missing = append(missing, x.from+" (it was started with --join instead of --bootstrap)")
		default:
			found = append(found, &slotwisev1.Member{Id: x.resp.Id, Address: x.from})
		}
	}
	slices.Sort(missing)
	// A list that exists wins over masters that are missing: the others of a formed group need not run.
	if err != nil || first != nil || len(missing) > 0 {
		return first, missing, err
	}
	if least, _, _ := strings.Cut(m.group, ","); least != m.cfg.Self {
		return nil, []string{least + " (which makes the list of the first masters)"}, nil
	}
	slices.SortFunc(found, func(a, b *slotwisev1.Member) int { return cmp.Compare(a.Id, b.Id) })
	return found, nil, nil
}
