package master

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/cespare/xxhash/v2"
	"go.etcd.io/raft/v3/raftpb"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// MemberID returns the id of the master with an address.
func MemberID(address string) uint64 { return max(2, xxhash.Sum64String(address)) }

// Bounds of the messages to one other master.
const (
	peerQueue   = 4096            // messages; more are dropped, and raft sends them again
	peerBatch   = 8 << 20         // bytes in one call, except for a message that is larger
	peerTimeout = 2 * time.Second // of a call
	peerRate    = 1 << 20         // bytes a second that a large call may take at least
	// maxExchange bounds one call. The largest one is a snapshot of the journal.
	maxExchange = 1 << 30
)

// peers sends messages to the other masters, to each in order and beside the loop.
type peers struct {
	m    *Master
	dial func(address string) (url string, client *http.Client, err error)
	mu   struct {
		sync.Mutex
		to map[uint64]chan raftpb.Message
	}
	pending sync.WaitGroup // messages that are queued or under way
}

// send queues a message for another master. It never blocks the loop.
func (m *Master) send(msg raftpb.Message) {
	address := ""
	for _, o := range m.members {
		if o.Id == msg.To {
			address = o.Address
		}
	}
	if address == "" {
		return // it was removed
	}
	p := m.peers
	p.mu.Lock()
	defer p.mu.Unlock()
	to := p.mu.to[msg.To]
	if to == nil {
		to = make(chan raftpb.Message, peerQueue)
		p.mu.to[msg.To] = to
		m.background.Go(func() { p.deliver(msg.To, address, to) })
	}
	p.pending.Add(1)
	select {
	case to <- msg:
	default:
		p.pending.Done()
	}
}

// deliver sends the messages of a queue until the master ends.
func (p *peers) deliver(id uint64, address string, queue <-chan raftpb.Message) {
	url, client, err := p.dial(address)
	if err != nil {
		p.m.log.Error("another master cannot be called", "address", address, "error", err)
	}
	wasDown := false
	var peer slotwisev1connect.MastersServiceClient
	if err == nil {
		peer = slotwisev1connect.NewMastersServiceClient(client, url)
	}
	for {
		var req slotwisev1.ExchangeRequest
		req.Group = p.m.group
		var snapshot bool
		n, size := 0, 0
		add := func(msg raftpb.Message) {
			b, err := msg.Marshal()
			if n++; err == nil {
				req.Messages = append(req.Messages, b)
				size += len(b)
			}
			snapshot = snapshot || msg.Type == raftpb.MsgSnap
		}
		select {
		case msg := <-queue:
			add(msg)
		case <-p.m.ctx.Done():
			return
		}
		for more := true; more && size < peerBatch; {
			select {
			case msg := <-queue:
				add(msg)
			default:
				more = false
			}
		}
		err := context.DeadlineExceeded
		if peer != nil {
			ctx, cancel := context.WithTimeout(p.m.ctx, peerTimeout+time.Duration(size/peerRate)*time.Second)
			_, callErr := peer.Exchange(ctx, &req)
			cancel()
			err = callErr
		}
		p.pending.Add(-n)
		if down := err != nil && p.m.ctx.Err() == nil; down != wasDown {
			if wasDown = down; down {
				p.m.log.Warn("another master cannot be reached", "address", address, "error", err)
			} else {
				p.m.log.Info("another master is reached again", "address", address)
			}
		}
		p.report(id, snapshot, err)
	}
}

// report gives the replica the result of a call.
func (p *peers) report(id uint64, snapshot bool, err error) {
	if err == nil && !snapshot {
		return
	}
	p.m.postOwn(func() {
		if snapshot {
			p.m.replica.ReportSnapshot(id, err == nil)
		} else {
			p.m.replica.ReportUnreachable(id)
		}
	})
	if err != nil { // a host that refuses connections at once must not keep a processor busy
		time.Sleep(20 * time.Millisecond)
	}
}

// flush waits until the queued messages were sent, for a short time.
func (p *peers) flush() {
	done := make(chan struct{})
	go func() {
		p.pending.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(peerTimeout):
	}
}

// mastersService takes messages of the other masters.
type mastersService struct{ m *Master }

var _ slotwisev1connect.MastersServiceHandler = mastersService{}

// Exchange hands messages to the loop.
func (s mastersService) Exchange(_ context.Context, r *slotwisev1.ExchangeRequest) (*slotwisev1.ExchangeResponse, error) {
	m := s.m
	if err := s.check(r.Group); err != nil {
		return nil, err
	}
	list := make([]raftpb.Message, len(r.Messages))
	for i, b := range r.Messages {
		if err := list[i].Unmarshal(b); err != nil {
			return nil, fault(connect.CodeInvalidArgument, "a message cannot be decoded: %w", err)
		}
		// Raft trusts messages, and panics at some that no member sends.
		if list[i].To != m.replica.ID() || !slices.ContainsFunc(m.others(), func(a string) bool { return MemberID(a) == list[i].From }) {
			return nil, fault(connect.CodeInvalidArgument, "a message is for another master, or not from one of them")
		}
	}
	m.postOwn(func() {
		for i := range list {
			m.replica.Step(m.cfg.clock(), list[i])
			if m.failed == nil && i < len(list)-1 {
				m.run()
			}
		}
	})
	return &slotwisev1.ExchangeResponse{}, nil
}
