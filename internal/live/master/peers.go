package master

import (
	"context"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// Bounds of the messages to one other master.
const (
	peerQueue = 4096    // messages; more are dropped, and raft sends them again
	peerBatch = 8 << 20 // bytes in one call, except for a message that is larger
	// peerTimeout limits a call. It is twice the default Election: after one Election without messages the
	// group has another leader, so a longer call delivers messages of a term that is over. Large calls get
	// time by their size.
	peerTimeout = 2 * time.Second
	peerRate    = 1 << 20 // bytes a second that a large call may take at least
	// maxExchange bounds one message. The largest has one entry of the journal.
	maxExchange = 1 << 30
)

// peers sends messages to the other masters, to each in order and beside the loop.
// One goroutine for each member, because a frozen one keeps its calls for peerTimeout, and the others'
// heartbeats must not be delayed by that. A goroutine stays after its member was removed: there are few, and the id
// may still be answered from contacts.
type peers struct {
	m  *Master
	mu struct {
		sync.Mutex
		to map[uint64]chan *raftpb.Message
	}
	pending sync.WaitGroup // messages that are queued or under way
}

// send queues a message for another master. It never blocks the loop.
func (m *Master) send(msg *raftpb.Message) {
	// Looked up by id for each message: the address of an id never changes, and the list is short.
	id, address := msg.GetTo(), ""
	for _, o := range m.members {
		if o.Id == id {
			address = o.Address
		}
	}
	// A master that this one does not count as a member may be one: this one may lack the entry
	// that added it, and must answer it to get the entry.
	if address == "" {
		address = m.contacts[id]
	}
	if address == "" {
		return // it was removed
	}
	p := m.peers
	p.mu.Lock()
	defer p.mu.Unlock()
	to := p.mu.to[id]
	if to == nil {
		to = make(chan *raftpb.Message, peerQueue)
		p.mu.to[id] = to
		m.background.Go(func() { p.deliver(id, address, to) })
	}
	// Counted before the message is in the queue. deliver could otherwise count it down first, and flush would
	// not wait.
	p.pending.Add(1)
	select {
	case to <- msg:
	// Blocking here would stop the loop. Raft repeats lost messages.
	default:
		p.pending.Done()
	}
}

// deliver sends the messages of a queue until the master ends. Its client is its own: a file for the same master
// must not share the connection of the heartbeats.
func (p *peers) deliver(id uint64, address string, queue <-chan *raftpb.Message) {
	wasDown := false
	var peer slotwisev1connect.MastersServiceClient
	for {
		// The group's name is in each request. A master of another cluster that got this address must refuse the
		// messages before it looks at ids.
		req := slotwisev1.ExchangeRequest{Group: p.m.group, Sender: p.m.cfg.Self}
		n, size := 0, 0
		add := func(msg *raftpb.Message) {
			if msg.GetType() == raftpb.MsgSnap {
				// Beside the queue, so that heartbeats overtake it. Raft sends no other snapshot to this
				// master before the result is reported.
				p.m.background.Go(func() { p.install(address, msg) })
				return
			}
			b, err := proto.Marshal(msg)
			// A message that cannot be encoded has been counted in pending, too.
			if n++; err == nil {
				req.Messages = append(req.Messages, b)
				size += len(b)
			}
		}
		select {
		case msg := <-queue:
			add(msg)
		case <-p.m.ctx.Done():
			return
		}
		// Messages that have queued up during the call before go together. Under load this makes few large
		// calls of many small ones, as the loop's batches do with fsyncs.
		for more := true; more && size < peerBatch; {
			select {
			case msg := <-queue:
				add(msg)
			default:
				more = false
			}
		}
		if n == 0 {
			continue
		}
		var err error
		// Again after an error: the certificates may have been unreadable while they were replaced. The queue is read
		// all the same, because raft must hear that the member is unreachable, and flush must not wait for its messages.
		if peer == nil {
			peer, err = p.m.dial(address)
		}
		if err == nil {
			ctx, cancel := context.WithTimeout(p.m.ctx, peerTimeout+time.Duration(size/peerRate)*time.Second)
			resp, callErr := peer.Exchange(ctx, &req)
			cancel()
			// The other master has the entry that removed this one, which this one cannot receive any more: no member
			// sends entries to it.
			if err = callErr; err == nil && resp.Removed {
				p.m.postOwn(p.m.leave)
			}
		}
		// After the call: flush promises that the campaign of a transfer was delivered, not that it left the queue.
		p.pending.Add(-n)
		if down := err != nil && p.m.ctx.Err() == nil; down != wasDown {
			if wasDown = down; down {
				p.m.log.Warn("another master cannot be reached", "address", address, "error", err)
			} else {
				p.m.log.Info("another master is reached again", "address", address)
			}
		}
		if err != nil {
			// Raft then sends one message at a time until the member answers, instead of many that
			// are all lost.
			p.m.postOwn(func() { p.m.replica.ReportUnreachable(id) })
			time.Sleep(20 * time.Millisecond) // a host that refuses connections at once must not keep a processor busy
		}
	}
}

// snapshotPiece is the size in bytes of a piece of a snapshot.
const snapshotPiece = 4 << 20

// install sends a message with a snapshot in pieces, so that its size has no bound but the memory.
func (p *peers) install(address string, msg *raftpb.Message) {
	defer p.pending.Done()
	head, data := withoutData(msg)
	// The receiver replies after its loop has the message, not after it has installed it, so only the transfer
	// counts.
	ctx, cancel := context.WithTimeout(p.m.ctx, copyTimeout+time.Duration(len(data)/peerRate)*time.Second)
	defer cancel()
	b, err := proto.Marshal(head)
	var peer slotwisev1connect.MastersServiceClient
	if err == nil {
		peer, err = p.m.peer(address)
	}
	if err == nil {
		err = sendPieces(ctx, peer, &slotwisev1.ExchangeRequest{Group: p.m.group, Sender: p.m.cfg.Self, Messages: [][]byte{b}}, data, min(snapshotPiece, p.m.cfg.exchange/2))
	}
	if err != nil {
		p.m.log.Warn("the journal could not be sent to another master", "bytes", len(data), "error", err)
	}
	// In both cases: raft sends this member nothing until it hears how the snapshot ended.
	p.m.postOwn(func() { p.m.replica.ReportSnapshot(msg.GetTo(), err == nil) })
}

// withoutData splits a message with a snapshot into a message without the snapshot's data, and the
// data. It changes neither, because the journal still refers to both.
func withoutData(msg *raftpb.Message) (head *raftpb.Message, data []byte) {
	head = &raftpb.Message{}
	msg.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		head.ProtoReflect().Set(f, v)
		return true
	})
	head.Snapshot = &raftpb.Snapshot{Metadata: msg.GetSnapshot().GetMetadata()}
	return head, msg.GetSnapshot().GetData()
}

func sendPieces(ctx context.Context, peer slotwisev1connect.MastersServiceClient, head *slotwisev1.ExchangeRequest, data []byte, piece int) error {
	stream, err := peer.Install(ctx)
	if err != nil {
		return err
	}
	err = stream.Send(&slotwisev1.InstallRequest{Head: head, Size: uint64(len(data))})
	for len(data) > 0 && err == nil {
		n := min(piece, len(data))
		err = stream.Send(&slotwisev1.InstallRequest{Data: data[:n]})
		data = data[n:]
	}
	// After an error of Send the answer says why.
	if _, answer := stream.CloseAndReceive(); answer != nil {
		return answer
	}
	return err
}

// flush waits until the queued messages were sent, for a short time.
func (p *peers) flush() {
	// The goroutine stays behind if a member is dead. The process ends next.
	done := make(chan struct{})
	go func() {
		p.pending.Wait()
		close(done)
	}()
	select {
	case <-done:
	// A dead member must not keep this master from ending.
	case <-time.After(peerTimeout):
	}
}

// mastersService takes messages of the other masters.
type mastersService struct{ m *Master }

var _ slotwisev1connect.MastersServiceHandler = mastersService{}

// Exchange hands messages to the loop.
func (s mastersService) Exchange(_ context.Context, r *slotwisev1.ExchangeRequest) (*slotwisev1.ExchangeResponse, error) {
	// Every check happens here, on the caller's goroutine. What reaches the loop is trusted by raft.
	list, err := s.decode(r)
	if err != nil {
		return nil, err
	}
	// An answer and not an error: the sender must distinguish it from a network that is down, and ends
	// (leave).
	if slices.ContainsFunc(list, func(msg *raftpb.Message) bool { return slices.Contains(*s.m.removed.Load(), msg.GetFrom()) }) {
		return &slotwisev1.ExchangeResponse{Removed: true}, nil
	}
	s.step(r.Sender, list)
	return &slotwisev1.ExchangeResponse{}, nil
}

// mostSnapshot bounds the memory that another master can have this one use. A job of a million tasks takes some
// hundred MiB of a snapshot.
const mostSnapshot = 16 << 30

// Install hands a message with a snapshot to the loop.
func (s mastersService) Install(_ context.Context, in *connect.ClientStream[slotwisev1.InstallRequest]) (*slotwisev1.ExchangeResponse, error) {
	if !in.Receive() {
		return nil, fault(connect.CodeInvalidArgument, "the request is empty")
	}
	head, size := in.Msg().Head, in.Msg().Size
	// The announced size bounds the memory below, so it needs a bound itself.
	if size > mostSnapshot {
		return nil, fault(connect.CodeInvalidArgument, "a snapshot of %d bytes is announced, and at most %d are taken", size, int64(mostSnapshot))
	}
	list, err := s.decode(head)
	if err != nil {
		return nil, err
	}
	// Data of another message would be attached to a nil snapshot and end the process.
	if len(list) != 1 || list[0].GetType() != raftpb.MsgSnap || list[0].Snapshot == nil {
		return nil, fault(connect.CodeInvalidArgument, "the request has no snapshot")
	}
	var data []byte
	for in.Receive() {
		// The sender has announced the size, which bounds the memory of this request.
		if data = append(data, in.Msg().Data...); uint64(len(data)) > size {
			break
		}
	}
	// A snapshot that was cut between two records would look complete.
	switch {
	case in.Err() != nil:
		return nil, fault(connect.CodeInvalidArgument, "the snapshot ended after %d of %d bytes: %w", len(data), size, in.Err())
	case uint64(len(data)) != size:
		return nil, fault(connect.CodeInvalidArgument, "%d bytes of a snapshot came, and %d were announced", len(data), size)
	}
	list[0].Snapshot.Data = data
	s.step(head.Sender, list)
	return &slotwisev1.ExchangeResponse{}, nil
}

// decode returns the messages of a request. Raft trusts messages, and panics at some that no member
// sends, so it refuses others.
func (s mastersService) decode(r *slotwisev1.ExchangeRequest) ([]*raftpb.Message, error) {
	m := s.m
	if err := s.check(r.GetGroup()); err != nil {
		return nil, err
	}
	list := make([]*raftpb.Message, len(r.Messages))
	for i, b := range r.Messages {
		msg := &raftpb.Message{}
		if err := proto.Unmarshal(b, msg); err != nil {
			return nil, fault(connect.CodeInvalidArgument, "a message cannot be decoded: %w", err)
		}
		list[i] = msg
		from := msg.GetFrom()
		known := slices.ContainsFunc(*m.roster.Load(), func(o *slotwisev1.Member) bool { return o.Id == from }) || slices.Contains(*m.removed.Load(), from)
		// This master may have missed that the sender was added. What a leader and a candidate send
		// is judged by its term and its log.
		t := msg.GetType()
		leads := t == raftpb.MsgApp || t == raftpb.MsgHeartbeat || t == raftpb.MsgSnap || t == raftpb.MsgVote || t == raftpb.MsgPreVote
		added := leads && CheckAddress(r.Sender) == nil
		switch {
		// A master without members is new, so the sender knows a former directory at this address. It answers with
		// what the administrator must do, in the sender's log as well.
		case msg.GetTo() != m.id && len(*m.roster.Load()) == 0 && added:
			return nil, m.strange()
		case msg.GetTo() != m.id || from == m.id || !known && !added:
			return nil, fault(connect.CodeInvalidArgument, "a message is for another master, or not from one of them")
		}
	}
	return list, nil
}

// step gives messages to the replica, in the loop.
func (s mastersService) step(sender string, list []*raftpb.Message) {
	m := s.m
	m.postOwn(func() {
		if len(list) > 0 && CheckAddress(sender) == nil {
			// Forgetting all costs one round of messages: who still calls is noted again by that call.
			if len(m.contacts) >= 100 { // of masters that were removed long ago
				clear(m.contacts)
			}
			m.contacts[list[0].GetFrom()] = sender
		}
		for i := range list {
			// The clock is read for each message: the time at which it was heard decides when this member may vote.
			m.replica.Step(m.cfg.clock(), list[i])
			// Run must follow each Step. The batch runs the replica after the last message.
			if m.failed == nil && i < len(list)-1 {
				m.run()
			}
		}
	})
}
