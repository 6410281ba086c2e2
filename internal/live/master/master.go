// Package master is the shell around the master's protocol core
// (internal/live/master/protocol): RPC services, the journal's fsync, storage, history,
// files, metrics and logs. It decides nothing itself.
//
// One goroutine, the loop, owns the core. A handler posts a function to the loop's
// inbox and waits. The loop runs all functions that have come in as one batch, makes
// the batch durable with one fsync, and only then lets the replies leave and starts
// the work that the core has ordered:
//
//	handlers ─► inbox ─► batch of functions ─► EndBatch ─► fsync ─► replies ─► handlers
//	   ▲                     │                                │
//	   │                     └─► core.Handle ─► records,      └─► instructions ─► goroutines
//	   │                                        replies,                              │
//	   └──────────────────────────────────────  instructions  ◄───── result ──────────┘
//
// The loop does no I/O but the journal's. Output is staged, committed and aborted,
// and history is written, by goroutines that report back as messages of the core.
//
// # Who owns what
//
// Three kinds of goroutines meet here, and each field of Master says to which it belongs.
//
//   - The loop owns the core, the journal, the replica and everything that is collected for a batch. They have
//     no locks. Other goroutines post a function: a handler by query or call, background work by postOwn.
//   - Handlers of requests run on goroutines of the HTTP server. They check rights and sizes before they post,
//     because a refusal that costs the loop nothing cannot be used to keep it busy.
//   - Background goroutines carry out instructions. Each belongs to one leadership: it ends with the context of
//     that leadership, and the loop drops its later reports.
//
// What other goroutines read is published by the loop in atomic pointers: the role, the members, the lease.
// Locks guard small tables only (files, kept copies, tokens, callers). No function holds two, except
// logWriter, whose order is writing before mu. Of the locks that the loop takes, only the one of the file store
// is held during I/O, and that is a removal, never a transfer.
//
// # The life of a request
//
//  1. A guard (package secure) has identified the caller. requestLimits bounds how many requests he has.
//  2. messages receives the body within its rooms, before anything is decoded.
//  3. The handler checks the request and posts a function, for which the inbox must have room.
//  4. The loop runs it. The core answers with records, replies and instructions, or holds the call.
//  5. seal notes up to which entry of the journal the batch reaches. release lets its replies and instructions
//     leave when that entry is committed and the lease is valid.
//
// To add a call: declare it in proto, write its method on clientService or workerService with query (it only
// reads) or call (the core changes), and give it a row in the tables of doors_test.go, which fails without one.
package master

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/data/storage/roots"
	"github.com/slotwise/slotwise/internal/live/history"
	"github.com/slotwise/slotwise/internal/live/journal"
	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/internal/live/master/replica"
	"github.com/slotwise/slotwise/internal/live/policyfiles"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Master serves workers and users until it is closed.
type Master struct {
	cfg Config
	log *slog.Logger
	// historyNote says that the history has lost jobs in this life; nil if it has not.
	historyNote atomic.Pointer[string]
	files       *fileStore
	kept        keptFiles            // of files
	inbox       *bounds.Line[func()] // requests; their senders take turns
	own         *bounds.Line[func()] // the master's own work, which has every second turn
	room        *bounds.Gate         // of requests that wait in the inbox
	stop        chan struct{}        // closed to end the loop
	stopped     chan struct{}        // closed when the loop has ended
	looping     context.Context      // ends when the loop has ended
	endLooping  context.CancelFunc
	ctx         context.Context
	cancel      context.CancelFunc // ends the goroutines of background
	// background are the goroutines that carry out instructions and follow files.
	background sync.WaitGroup
	start      time.Time
	history    *history.Store
	// places has the pod or container of each worker, nil without a provider of machines.
	places atomic.Pointer[map[string]string]
	// historyTurn has room for the one entry that is being written to the history.
	historyTurn chan struct{}
	logWriter   logWriter
	unread      bounds.LogLimit // of historyUnread
	unwritten   bounds.LogLimit // of historyUnwritten
	stats       *stats
	forecasts   *forecaster
	ui          http.Handler // the console
	hadoop      *policyfiles.Files
	roots       *roots.Rules // which files jobs may name
	coreConfig  protocol.Config
	workerKey   []byte       // derives the keys of sessions; nil without authentication
	followers   *bounds.Gate // of logs that are being sent
	rates       submitRates
	messages    [2]*messages   // of users, and of workers
	requests    *requestLimits // of users
	drivers     driverTokens
	lastCall    atomic.Uint64
	closing     sync.Once
	closeErr    error
	peers       *peers
	peerClients peerClients
	group       string                   // of masters; it never changes
	id          uint64                   // of this member; it never changes
	removed     atomic.Pointer[[]uint64] // ids of former members
	identity    atomic.Pointer[slotwisev1.IdentifyResponse]
	strangers   atomic.Int64                         // when strange has logged last, in Unix seconds
	callers     callers                              // of Identify
	roster      atomic.Pointer[[]*slotwisev1.Member] // the members of the group, learners included
	role        atomic.Pointer[role]
	lease       atomic.Int64         // as Replica.Lease
	pull        atomic.Pointer[pull] // the last one; nil before the first

	// The fields below belong to the loop: open sets them before it starts, and then only
	// its goroutine reads and writes them.
	core         *protocol.Core                         // nil whenever lead is nil
	restoring    string                                 // the policy with which takeOver has restored a core last
	calls        map[protocol.Call]func(protocol.Reply) // take the replies that are due, and never block
	replies      []protocol.Reply                       // of this batch
	instructions []protocol.Instruction                 // of this batch
	after        []func(error)                          // to run when the batch leaves, or with the error that it never will
	data         []byte                                 // records of this batch
	waiting      []sealed                               // earlier batches that are not committed yet, by index
	outputs      map[job.ID]chan struct{}               // closed to cancel the commit or abort under way
	wake         *time.Timer                            // fires at the core's deadline

	journal         *journal.Store
	replica         *replica.Replica
	lead            *leadership          // nil while another master leads; then there is no core
	members         []*slotwisev1.Member // of the group, as in roster
	contacts        map[uint64]string    // addresses of masters that have called and are not in members
	promoting       bool                 // a learner is being asked
	behind          unready              // the learner that promote has called last
	record          []byte               // buffer for one record
	failed          error                // of the journal; nothing leaves the master after it
	positioned      bool                 // a snapshot was proposed
	replacing       bool                 // a snapshot is being written
	snapshotForPeer bool                 // the journal is being read for another master
	snapshotSize    int64                // of the last snapshot in bytes
	noSnapshot      time.Time            // no snapshot is tried before
	checked         time.Time            // when checkDirectory looked last
	ticked          time.Time            // when tick was called last
	resumed         time.Time            // when tick noticed the end of a pause last
}

// Open starts a master on its directory, whatever state a killed master may have
// left there. The caller must call Close.
func Open(cfg Config) (*Master, error) {
	cfg.fill()
	rules, err := roots.New(cfg.Schemes, cfg.StorageRoots, append([]string{cfg.Dir}, cfg.OwnFiles...))
	if err != nil {
		return nil, err
	}
	log, err := openJournal(&cfg)
	if err != nil {
		return nil, err // for example, another master uses the directory
	}
	m := &Master{
		cfg: cfg, roots: rules, log: cfg.Log, journal: log, start: time.Now(),
		inbox: bounds.NewLine[func()](), own: bounds.NewLine[func()](), room: bounds.NewGate(int64(cfg.Limits.Inbox)), stop: make(chan struct{}), stopped: make(chan struct{}),
		calls: map[protocol.Call]func(protocol.Reply){}, outputs: map[job.ID]chan struct{}{}, contacts: map[uint64]string{},
		historyTurn: make(chan struct{}, 1),
		followers:   bounds.NewGate(bounds.Followers),
		messages:    [2]*messages{newMessages(cfg.Limits.Message), newMessages(cfg.Limits.Message)},
		requests:    newRequestLimits(),
	}
	// Not kept on disk: workers register again with each master, and get their session's key
	// then.
	if cfg.Authenticates {
		m.workerKey = make([]byte, 32)
		rand.Read(m.workerKey)
	}
	// The id comes from the journal and never from a flag: a member is a directory (package replica).
	m.id, m.group = log.Self(), log.Group()
	// Two contexts, because they end one after the other: looping when no answer can come any more, so that
	// connections of frames close, and ctx only after that, so that work of the last batch can still
	// report.
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.looping, m.endLooping = context.WithCancel(context.Background())
	m.peers = &peers{m: m}
	m.hadoop = policyfiles.New(target{m}, cfg.Policies, cfg.FairScheduler, cfg.CapacityScheduler, cfg.PolicySet, func(text string) { m.log.Warn(text) })
	m.peers.mu.to = map[uint64]chan *raftpb.Message{}
	m.stats, m.forecasts = newStats(m), newForecaster()
	if err := m.open(); err != nil {
		// open may have started instructions of a restored core. They use the history, so they end
		// before it is closed.
		m.cancel()
		m.background.Wait()
		// nil if the files or the history itself could not be opened.
		if m.history != nil {
			err = errors.Join(err, m.history.Close())
		}
		return nil, errors.Join(err, log.Close())
	}
	forms := m.journal.Forms() // before the loop, to which the journal belongs from now on
	go func() {
		m.loop()
		// Not deferred in loop: after a panic nothing may take the master for closed, and end the process before
		// the panic is printed.
		close(m.stopped)
		m.endLooping()
	}()
	// Not before open: until then a failure must leave no goroutine behind that uses the journal.
	m.background.Go(m.forecastOn)
	m.background.Go(m.trimHistory)
	// The loop never reads ui, and Handler is called after Open.
	m.ui = http.NotFoundHandler()
	if m.cfg.Console != nil {
		var follow func()
		m.ui, follow = m.cfg.Console(m.ctx, consoleSource{m}, consoleActor{clientService{m}})
		m.background.Go(follow)
	}
	// The loop runs by now, so a failure is undone by Close and not by hand.
	if err := m.follow(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	// After follow: the policies that it simulates get the pools that follow has read from Hadoop's files.
	m.background.Go(m.chooseOn)
	if forms {
		m.background.Go(m.form)
	}
	return m, nil
}

// open opens the stores, restores the core from the journal, and starts the instructions
// that the master before did not finish.
func (m *Master) open() (err error) {
	defer m.explainPanic() // a core is restored with the policy
	if cut := m.journal.Cut(); cut != nil {
		m.log.Warn("the end of the journal was incomplete and is cut off", "cut", cut.String())
	}
	// After openJournal, whose lock keeps a second master out: openFiles removes unfinished uploads, which
	// could be the other master's.
	if m.files, err = openFiles(durable.OS(), m.cfg.Dir, m.cfg.Limits); err != nil {
		return err
	}
	if m.history, err = history.Open(m.cfg.Dir, m.cfg.History, m.historyDamaged); err != nil {
		return err
	}
	secret := make([]byte, 32)
	rand.Read(secret)
	l := m.cfg.Limits
	m.coreConfig = protocol.Config{ // takeOver sets the rest
		Policy: m.cfg.Policy, PolicySet: m.cfg.PolicySet, Configured: m.cfg.configured(), Build: m.buildPolicy,
		NodeTimeout: m.cfg.NodeTimeout, Heartbeat: m.cfg.Heartbeat, Grace: m.cfg.Grace,
		GraylistFaults: m.cfg.GraylistFaults, KeepEnded: m.cfg.KeepEnded, StorageRetry: m.cfg.StorageRetry, Seed: m.cfg.Seed,
		Limits: protocol.Limits{Jobs: l.Jobs, Tasks: l.Tasks, Specs: l.Specs, Nodes: l.Nodes, Waiting: l.Waiting},
		Secret: secret,
	}
	if err := m.openReplica(); err != nil {
		return err
	}
	// A master without peers leads when this call returns, with its core restored, so a journal that cannot
	// be replayed fails Open. One with peers becomes a follower, and restores a core when it is elected.
	if !m.run() {
		return m.failed
	}
	return nil
}

// buildPolicy builds a policy of the registry with the configured seed.
// Live refuses policies that only a simulation can run, for example with the sizes of jobs. All builds share one
// seed, so the policies of forecasts draw the numbers that the installed one draws.
func (m *Master) buildPolicy(name string, set map[string]string) (sched.Policy, error) {
	return m.cfg.Policies.Build(name, sched.Options{Seed: m.cfg.Seed, Set: set, Live: true})
}

// newToken returns an unguessable name that is never used twice.
func newToken() string { return strings.ToLower(rand.Text()) }

// Done is closed when the master has ended. It ends by itself if its journal cannot
// be written; Close then returns why.
func (m *Master) Done() <-chan struct{} { return m.stopped }

// Close ends the master and fails the requests under way. Jobs continue under the next
// master on the directory.
func (m *Master) Close() error {
	m.closing.Do(func() {
		// The loop ends first: it hands the leadership over and is the only user of the journal.
		// The goroutines of background end before the history that they read and write is closed.
		close(m.stop)
		<-m.stopped
		m.cancel()
		m.background.Wait()
		m.closeErr = errors.Join(m.failed, m.journal.Close(), m.history.Close())
	})
	return m.closeErr
}

// A batch of at most maxBatch functions shares one fsync. No function of a batch begins
// after batchTime: all replies of a batch leave at its end, so costly questions of one user
// must not hold back the replies to others.
const (
	maxBatch  = 256
	batchTime = 20 * time.Millisecond
)

// loop runs batches until the master is closed.
func (m *Master) loop() {
	defer m.explainPanic()
	tick := time.NewTicker(protocol.TickEvery)
	defer tick.Stop()
	m.ticked = time.Now()
	m.wake = time.NewTimer(0)
	defer m.wake.Stop()
	// A master without peers needs no ticks of its replica.
	ticks := m.cfg.Election / 20
	if m.cfg.Self == "" {
		ticks = time.Hour
	}
	// Replica.Tick wants two calls in each heartbeat interval of the group, which is a tenth of Election.
	beat := time.NewTicker(ticks)
	defer beat.Stop()
	for m.failed == nil {
		select {
		case <-m.inbox.Ready():
			m.batch(func() {})
		case <-m.own.Ready():
			m.batch(func() {})
		case <-tick.C:
			m.checkDirectory()
			m.batch(m.tick)
		case <-m.wake.C:
			// The deadline of offers and of paced answers. EndBatch does the work.
			m.batch(func() {})
		case <-beat.C:
			m.batch(func() {
				m.replica.Tick(m.cfg.clock())
				m.promote()
			})
		case <-m.stop:
			// A tick that was due is skipped: what a stopping master would decide, the next one decides as
			// well.
			// The last records are committed before the leadership is transferred: abdicate drops
			// uncommitted ones.
			m.handle(&protocol.Closing{})
			m.seal()
			if m.run() {
				m.handOver()
			}
			return
		}
	}
}

// leastPause is the least time between two ticks that counts as a pause of the loop.
const leastPause = time.Second

// tick lets time pass in the core, unless the loop has just continued after a pause: the process or its machine was
// stopped, or the disk did not answer. The heartbeats of that time wait in the network and in the inbox, and with a
// tick before them the core would find all workers silent and give them up. So it gets none for half of NodeTimeout.
// Workers that live are heard until then, and a worker that died in the pause is given up that much later.
func (m *Master) tick() {
	now := time.Now()
	// From a quarter of NodeTimeout on, because a shorter pause leaves the workers most of the time that they have. A
	// tick is late by a few milliseconds on a busy master, and by a second on no master that runs. Once in NodeTimeout
	// only, unless the pause was long: on a disk that is slow all the time each tick ends such a pause, and workers
	// that died would never be given up. The heartbeats of the living are read between these pauses.
	gap, since := now.Sub(m.ticked), now.Sub(m.resumed)
	if gap >= max(leastPause, m.cfg.NodeTimeout/4) && (gap >= m.cfg.NodeTimeout/2 || since >= m.cfg.NodeTimeout) {
		m.resumed = now
		m.log.Warn("this master did not run for a while, or its disk did not answer: no worker is given up until all had time to be heard", "paused", gap)
	}
	m.ticked = now
	if now.Sub(m.resumed) >= m.cfg.NodeTimeout/2 {
		m.handle(&protocol.Tick{})
	}
}

// batch runs f and functions that wait in the inbox, makes their changes durable,
// and then delivers replies and starts instructions.
func (m *Master) batch(f func()) {
	// f comes first, so that a tick is not put off by a full inbox.
	start := time.Now()
	f()
	for n := 0; n < maxBatch && time.Since(start) < batchTime; n++ {
		// The time is looked at between functions and not within one, so one costly function can exceed
		// batchTime. The costly ones therefore work in portions: see copyState and executions.
		next := m.next(n%2 == 0)
		if next == nil {
			break
		}
		next()
	}
	// The values of Ready that woke the loop do not say how many functions there were.
	m.inbox.Again()
	m.own.Again()
	// A master that does not lead has no core. Its batches only carry raft's messages.
	if m.core != nil {
		m.absorb(m.core.EndBatch(m.now()))
	}
	// Before maybeSnapshot, whose position describes the state after all records of this batch.
	m.seal()
	m.maybeSnapshot()
	// No reply may reveal changes that are not committed.
	if !m.run() {
		return
	}
	// run may have ended this leadership or begun another one.
	if m.core != nil {
		// Without a deadline the timer is not stopped. If it fires, the batch is empty.
		if at, ok := m.core.Deadline(); ok {
			m.wake.Reset(at - m.now())
		}
	}
	m.stats.batch(time.Since(start))
}

// next takes the next function from the lines, nil if there is none. ownFirst says which line
// comes first: with many senders in the inbox the master's own work would get one turn of
// thousands.
func (m *Master) next(ownFirst bool) func() {
	first, second := m.inbox, m.own
	if ownFirst {
		first, second = second, first
	}
	// Pop takes turns among users by itself. Only the two lines are balanced here.
	f, _, ok := first.Pop()
	if !ok {
		f, _, _ = second.Pop()
	}
	return f
}

// handle gives the core a message, if there is one. It is called in the loop.
func (m *Master) handle(msg protocol.Message) {
	if m.core != nil {
		m.absorb(m.core.Handle(m.now(), msg))
	}
}

// absorb collects the records of an output. Replies and instructions wait in m until the batch
// is committed.
func (m *Master) absorb(out protocol.Output) {
	// Logs leave at once, even if the step is never committed: they report on this process and promise
	// nothing.
	for _, l := range out.Logs {
		if l.Warn {
			m.log.Warn(l.Text, l.Args...)
		} else {
			m.log.Info(l.Text, l.Args...)
		}
	}
	// Not after the sync: a token that has become invalid must be refused at once, and a new
	// one leaves the master only with the batch.
	m.drivers.apply(out.Tokens)
	lead := m.lead
	for _, r := range out.Records {
		// A large step is proposed in parts. If one shows that another master leads, this core is
		// gone, and the rest of its step must not enter the journal later.
		if m.append(r); m.lead != lead {
			m.data = nil
			return
		}
	}
	for _, r := range out.Replies {
		// Even durable facts may be out of date when another master can lead.
		if r.Early && m.lead.mayAct() == nil {
			m.deliver(r)
		} else {
			m.replies = append(m.replies, r)
		}
	}
	m.instructions = append(m.instructions, out.Instructions...)
}

// deliver hands a reply to the caller. It never blocks, even if the caller has gone.
func (m *Master) deliver(r protocol.Reply) {
	// Nil after abdicate, which has answered all calls with an error.
	if answer := m.calls[r.Call]; answer != nil {
		delete(m.calls, r.Call)
		answer(r)
	}
}

// errClosed answers requests that arrive while the master ends.
var errClosed = errors.New("the master is shutting down")

// whyClosed is errClosed, or says that the master was removed. It is called after stopped was closed.
func (m *Master) whyClosed() error {
	if errors.Is(m.failed, ErrRemoved) {
		return connect.NewError(connect.CodeUnavailable, m.failed)
	}
	return errClosed
}

// errBusy answers requests for which the inbox has no room.
var errBusy = fault(connect.CodeUnavailable, "the master is overloaded: try again later")

// inboxPatience limits the time for which a request waits for room in the inbox.
const inboxPatience = 10 * time.Second

// post queues f for the loop, in the line of who sent the request. If he has his share of the
// inbox, or it is full, it waits for inboxPatience.
func (m *Master) post(ctx context.Context, f func()) error {
	user := identity(ctx).Account()
	// Most requests find room. The context with a time limit is made only for the others, because it costs
	// more than the whole rest of post.
	if !m.room.Try(user, 1) {
		ctx, cancel := context.WithTimeoutCause(ctx, inboxPatience, errBusy)
		defer cancel()
		defer context.AfterFunc(m.ctx, cancel)()
		if err := m.room.Take(ctx, user, 1); err != nil {
			return err
		}
	}
	// Never dropped from here on, even if ctx ends: a message may have reached the core of a caller who is
	// gone, and the caller's next request must come behind it.
	m.inbox.Push(user, func() {
		// The place in the inbox is free once the function has left it, however long it runs.
		m.room.Give(user, 1)
		f()
	})
	return nil
}

// postOwn queues the master's own work for the loop. It needs no room: each request and each
// order has at most one such function.
func (m *Master) postOwn(f func()) { m.own.Push(ownAccount, f) }

// query has the loop run f, which reads from the core, and returns its result once
// all changes that f may have seen are committed. If this master does not lead, f is not run.
func query[T any](ctx context.Context, m *Master, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	// Has room for the result, so the loop never waits for a caller that has gone.
	done := make(chan result, 1)
	var none T
	err := m.post(ctx, func() {
		// Asked in the loop: the leadership may have ended while the function waited in the inbox.
		if err := m.notLeader(); err != nil {
			done <- result{none, err}
			return
		}
		// Also an error waits for the commit. "No such job" may be wrong if the batch that ended the job is
		// lost.
		v, err := f()
		m.after = append(m.after, func(lost error) { done <- result{v, cmp.Or(lost, err)} })
	})
	if err != nil {
		return none, rpcError(err)
	}
	// The place goes back while the request waits for the loop: a place means use of the processor, and a thousand
	// waiting requests of one user use none.
	place := placeOf(ctx)
	place.leave()
	defer place.enter(ctx)
	select {
	case r := <-done:
		return r.value, rpcError(r.err)
	case <-ctx.Done():
		return none, rpcError(context.Cause(ctx))
	case <-m.stopped:
		return none, rpcError(m.whyClosed())
	}
}

// call has the core handle a message and returns its reply. message makes the
// message in the loop, where it may read from the core; its error is the result. A
// call that the core holds is released after wait, unless that is 0, and when ctx is
// cancelled.
func call[T any](ctx context.Context, m *Master, wait time.Duration, message func(protocol.Call) (protocol.Message, error)) (T, error) {
	id := protocol.Call(m.lastCall.Add(1))
	done := make(chan protocol.Reply, 1) // has room for the one reply
	var none T
	err := m.begin(ctx, id, message, func(r protocol.Reply) { done <- r })
	if err != nil {
		return none, rpcError(err)
	}
	place := placeOf(ctx)
	place.leave()
	defer place.enter(ctx)
	// At most two releases are posted for one call, and the core ignores the second.
	release := func() { m.releaseCall(identity(ctx).Account(), id) }
	var expired <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		expired = timer.C
	}
	for {
		select {
		case r := <-done:
			v, _ := r.Message.(T)
			return v, rpcError(r.Err)
		// The wait continues: the core answers the released call at the end of a batch.
		case <-expired:
			release()
			expired = nil
		// The release frees what the core holds for the call. Its reply stays unread in the
		// channel's buffer.
		case <-ctx.Done():
			release()
			return none, rpcError(context.Cause(ctx))
		case <-m.stopped:
			return none, rpcError(m.whyClosed())
		}
	}
}

// begin has the core handle the message of a call. The loop calls answer with the reply, once; answer must
// not block.
func (m *Master) begin(ctx context.Context, id protocol.Call, message func(protocol.Call) (protocol.Message, error), answer func(protocol.Reply)) error {
	return m.post(ctx, func() {
		// Asked in the loop, where it cannot change before the core has the message.
		err := m.notLeader()
		var msg protocol.Message
		if err == nil {
			msg, err = message(id)
		}
		if err != nil {
			answer(protocol.Reply{Call: id, Err: err})
			return
		}
		// Before the core sees the message, because an early reply is delivered within handle.
		m.calls[id] = answer
		m.handle(msg)
	})
}

// releaseCall has the core answer a call now if it holds it. The release is in the sender's line, behind the
// call itself: in another one it could come before it, and the call would be held for ever.
// It takes no room of the inbox: it must never wait or be refused, and a call posts at most two.
func (m *Master) releaseCall(user string, id protocol.Call) {
	m.inbox.Push(user, func() { m.handle(&protocol.Release{Call: id}) })
}

// now returns the time since the journal's epoch. It never runs backwards, not even
// over restarts and changes of the leader.
// time.Since uses the monotonic clock, which a step of the wall clock does not move. On Linux it stands
// still while the machine is suspended, so a master that wakes up does not find that all its workers were
// silent.
func (m *Master) now() time.Duration { return m.core.Base() + time.Since(m.lead.since) }
