package master

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/live/history"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// Uploaded files and the history are not in the journal. They reach a majority of the masters
// before a job refers to them: a file before its upload is answered, an ended job before the
// journal forgets it. Two majorities share a master, so each leader finds missing files by asking
// the others: a file when it is needed, the history whenever a leader is elected. A new master gets
// both before it votes, because majorities with it might share no other master with the earlier ones.

// copyTimeout limits the time in which another master must store an entry of the history, or a
// file of a few MiB.
// It is longer than peerTimeout, because the receiver syncs its disk before it answers.
const copyTimeout = 10 * time.Second

// withMajority calls send for each other master that votes at once, and returns nil when a majority
// has a copy, with this one.
func (m *Master) withMajority(ctx context.Context, send func(ctx context.Context, address string) error) error {
	// Taken once. If the members change meanwhile, the old majority and the new one still share a master:
	// members change one at a time.
	others, need := m.majority()
	// Room for every answer: a master that answers after the majority must not keep its goroutine
	// for ever.
	results := make(chan error, len(others))
	for _, a := range others {
		// Not cancelled with the caller's success: the last master should have a copy, too.
		m.background.Go(func() {
			// send must have a time limit, so that no goroutine stays for ever.
			err := send(context.WithoutCancel(ctx), a)
			if err != nil {
				err = fmt.Errorf("master %s: %w", a, err)
			}
			results <- err
		})
	}
	var errs []error
	// This number of masters may fail. It is computed once, because need counts down below.
	spare := len(others) - need
	for need > 0 {
		// Ends as soon as no majority is possible, and not when the slowest master has answered.
		if len(errs) > spare {
			return fmt.Errorf("no majority of the masters has a copy: %w", errors.Join(errs...))
		}
		select {
		case err := <-results:
			if err == nil {
				need--
			} else {
				errs = append(errs, err)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-m.ctx.Done():
			return errClosed
		}
	}
	return nil
}

// peerClients are the HTTP clients for copies of files and of the history, one for each address. A new client
// for each call would leave a connection behind for a minute each, and begin each call with a handshake.
type peerClients struct {
	mu   sync.Mutex
	list map[string]peerClient
}

type peerClient struct {
	url  string
	http *http.Client
}

// get returns the client for an address, and makes it with dial if there is none. An error is not kept: a file of the
// certificates may be missing while it is replaced.
func (c *peerClients) get(address string, dial func(string) (string, *http.Client, error)) (peerClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, known := c.list[address]
	if known {
		return p, nil
	}
	var err error
	if p.url, p.http, err = dial(address); err != nil {
		return p, err
	}
	if c.list == nil {
		c.list = map[string]peerClient{}
	}
	c.list[address] = p
	return p, nil
}

// dial returns a new client of another master, which shares no connections.
func (m *Master) dial(address string) (slotwisev1connect.MastersServiceClient, error) {
	url, client, err := m.cfg.DialPeer(address)
	if err != nil {
		return nil, err
	}
	return slotwisev1connect.NewMastersServiceClient(client, url), nil
}

// peer returns a client of another master that shares its connections with other calls.
func (m *Master) peer(address string) (slotwisev1connect.MastersServiceClient, error) {
	p, err := m.peerClients.get(address, m.cfg.DialPeer)
	if err != nil {
		return nil, err
	}
	return slotwisev1connect.NewMastersServiceClient(p.http, p.url), nil
}

// keepHistory has a majority of the masters store an entry of the history.
func (m *Master) keepHistory(ctx context.Context, entry *slotwisev1.HistoryJob) error {
	if !m.replicated() {
		return nil
	}
	return m.withMajority(ctx, func(ctx context.Context, address string) error {
		ctx, cancel := context.WithTimeout(ctx, copyTimeout)
		defer cancel()
		peer, err := m.peer(address)
		if err == nil {
			_, err = peer.Keep(ctx, &slotwisev1.KeepRequest{Group: m.group, Entry: entry})
		}
		return err
	})
}

// Keep stores an entry of the history.
func (s mastersService) Keep(_ context.Context, r *slotwisev1.KeepRequest) (*slotwisev1.KeepResponse, error) {
	if err := s.check(r.Group); err != nil {
		return nil, err
	}
	if r.Entry.GetJob().GetId() == "" {
		return nil, fault(connect.CodeInvalidArgument, "the request has no entry")
	}
	// What this master refuses, the leader refuses, too: the entry is as durable as it can be.
	// A second copy of the same entry changes nothing, so the leader may repeat the call after a lost answer.
	if err := s.m.history.Put(r.Entry); err != nil && !errors.Is(err, history.ErrRefused) {
		return nil, fault(connect.CodeUnavailable, "the history cannot be written: %w", err)
	}
	return &slotwisev1.KeepResponse{}, nil
}

// Missing sends the entries of the history that the caller does not have.
func (s mastersService) Missing(ctx context.Context, r *slotwisev1.MissingRequest, out *connect.ServerStream[slotwisev1.KeepRequest]) error {
	if err := s.check(r.Group); err != nil {
		return err
	}
	// A new directory on the machine of a member knows nothing of jobs that have ended. A leader that
	// counted its answer would say that there never was such a job, although another member has it.
	if !slices.ContainsFunc(*s.m.roster.Load(), func(o *slotwisev1.Member) bool { return o.Id == s.m.id && !o.Learner }) {
		return fault(connect.CodeUnavailable, "this master does not vote")
	}
	// A new master votes when it has the leader's history. Were that incomplete, an entry might be with
	// no other majority than one with the master that was replaced.
	if s.m.mayLead() && !s.m.pull.Load().complete() {
		return fault(connect.CodeUnavailable, "this master leads, and has not read the histories of the others yet: %s", s.m.pull.Load().lacks())
	}
	// The caller sends the names of all its entries. Some ten thousand short names are one message; the entries
	// themselves can be gigabytes.
	have := map[string]bool{}
	for _, name := range r.Have {
		have[name] = true
	}
	names, err := s.m.history.Names(ctx)
	for _, name := range names {
		if err != nil {
			break
		}
		if have[name] {
			continue
		}
		var entry *slotwisev1.HistoryJob
		// An entry may have been trimmed since its name was read. The error ends the stream, and the caller asks
		// again, with the names of the entries that have arrived.
		if entry, err = s.m.history.Get(name); err == nil {
			err = out.Send(&slotwisev1.KeepRequest{Entry: entry})
		}
	}
	return err
}

// check returns an error unless this master belongs to a group.
func (s mastersService) check(group string) error {
	switch {
	case s.m.cfg.Self == "":
		return fault(connect.CodeFailedPrecondition, "this master has no peers: start it with --peers")
	// The name of the group is the list of its first members, which each master has from its flags. It keeps two
	// clusters apart whose lists of addresses overlap.
	case group != s.m.group:
		return fault(connect.CodeFailedPrecondition, "this master belongs to the masters %s, and the sender to %s: start all masters of a cluster with the same --peers", s.m.group, group)
	}
	return nil
}

// A pull is the search of one master for the entries of the history that it lacks.
type pull struct {
	cancel  context.CancelFunc
	waiting atomic.Int32           // masters whose answer is still needed; below 0 if more have answered
	problem atomic.Pointer[string] // the last error of a master whose history could not be read; nil without one
}

// complete reports whether enough masters have answered. It is true without a pull.
func (p *pull) complete() bool { return p == nil || p.waiting.Load() <= 0 }

// lacks returns why a pull is not complete, "" if it is.
func (p *pull) lacks() string {
	switch {
	case p == nil:
		return "it knows no leader yet"
	case p.complete():
		return ""
	}
	if problem := p.problem.Load(); problem != nil {
		return *problem
	}
	return "it still reads the history of another master"
}

// pullHistory stores the entries of other masters that this one lacks. It asks all at once,
// because a frozen one answers late or never, and asks the ones that failed again until need masters have
// answered. An earlier pull ends: its leader may be gone for good. past is the number of ended jobs that a
// history which was new at the start should have, else 0: if the others have none, they are lost. It is called
// in the loop.
func (m *Master) pullHistory(addresses []string, need, past int) {
	p := &pull{}
	p.waiting.Store(int32(need))
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(m.ctx)
	// Swapped before the first question leaves: Missing and past read the pull, and must see that it is not
	// complete.
	if before := m.pull.Swap(p); before != nil {
		before.cancel()
	}
	for _, a := range addresses {
		m.background.Go(func() {
			failed := false
			o := retry.Options{FirstPause: firstPause, LastPause: longestPull,
				// Also if this master's own history refuses to be written. It then asks for the same entries again and
				// again, and says so in the list of masters, until an administrator makes room.
				Patience: retry.While(func(error) bool { return !p.complete() }),
				Retrying: func(err error) {
					problem := "the history of master " + a + " cannot be read: " + err.Error()
					p.problem.Store(&problem)
					if !failed {
						failed = true
						m.log.Info("another master's history cannot be read now: this master tries again", "address", a, "error", err)
					}
				}}
			n := 0
			err := retry.Run(ctx, o, func(ctx context.Context) error {
				stored, err := m.pullFrom(ctx, a, copyTimeout)
				n += stored
				return err
			})
			if n > 0 {
				m.log.Info("the history has entries of another master", "address", a, "entries", n)
			}
			switch {
			case err == nil:
				// Only one answer completes the pull, so a loss is reported once. Before it the entries
				// could still come from another master.
				if p.waiting.Add(-1) != 0 || past == 0 {
					return
				}
				if last, err := m.history.Last(ctx); err == nil && last == 0 {
					m.historyLost(past)
				}
			case ctx.Err() == nil:
				m.log.Info("another master's history was not read", "address", a, "error", err)
			}
		})
	}
}

// longestPull is the longest pause between two requests for another master's history.
const longestPull = 5 * time.Second

// pullFrom stores the entries that another master has and this one lacks, and returns their number. It
// gives up when no entry arrives for the time patience: the whole history may take longer.
func (m *Master) pullFrom(ctx context.Context, address string, patience time.Duration) (n int, err error) {
	names, err := m.history.Names(ctx)
	if err != nil {
		return 0, err
	}
	peer, err := m.peer(address)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(patience, func() { cancel(errSilent) })
	defer silent.Stop()
	in, err := peer.Missing(ctx, &slotwisev1.MissingRequest{Group: m.group, Have: names})
	if err != nil {
		// The cause says that the master was silent. The error says only that the call was
		// cancelled.
		return 0, cmp.Or(context.Cause(ctx), err)
	}
	// Each entry is stored as it arrives. A broken stream loses none, because the next request names them.
	for in.Receive() {
		silent.Reset(patience)
		switch err = m.history.Put(in.Msg().Entry); {
		case err == nil:
			n++
		// No further try could store this entry, and the entries behind it must not wait for one.
		case errors.Is(err, history.ErrRefused):
			err = nil
		default:
			return n, errors.Join(err, in.Close())
		}
	}
	return n, cmp.Or(context.Cause(ctx), errors.Join(in.Err(), in.Close()))
}

// errSilent reports that another master takes connections and does not answer.
var errSilent = errors.New("the master takes connections and does not answer")

// copyPath is the path of files for other masters. Requests there are not passed on again.
const copyPath = "/masters/files/"

// serveFiles serves the store. A new file is stored by a majority of the masters before the
// answer, and a file that is missing here is fetched from another one.
func (m *Master) serveFiles(w http.ResponseWriter, r *http.Request) {
	sha := r.PathValue("sha")
	if !m.replicated() || !isSHA(sha) {
		m.files.ServeHTTP(w, r)
		return
	}
	// The client may ask a master that was elected after the upload, and only a majority has the
	// file.
	if r.Method != http.MethodPut {
		m.fetchFile(r.Context(), sha)
		m.files.ServeHTTP(w, r)
		return
	}
	stored := &statusWriter{ResponseWriter: w}
	// statusWriter has passed the refusal on.
	// A file that the store had already has status 204. It is sent to the others all the same: an earlier upload
	// may have ended between the own disk and the majority.
	if m.files.ServeHTTP(stored, r); stored.status >= 300 {
		return
	}
	if err := m.withMajority(r.Context(), func(ctx context.Context, address string) error { return m.sendFile(ctx, address, sha) }); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	m.kept.add(sha)
	w.WriteHeader(stored.status)
}

// keptFiles remembers which files a majority of the masters has. It begins empty with each start and with each
// change of the members, so a file is sent once more then: earlier copies may be with masters that are gone.
type keptFiles struct {
	mu   sync.Mutex
	list map[string]bool
}

// mostKept bounds the list; a longer one begins anew.
// Ten thousand names take about a megabyte, and a cluster that ships more programs between two changes of the
// members sends a few files twice.
const mostKept = 10_000

func (k *keptFiles) add(sha string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	// A file that was dropped from the list is sent once more, which the receiver answers without
	// reading it.
	if len(k.list) >= mostKept {
		k.list = nil
	}
	if k.list == nil {
		k.list = map[string]bool{}
	}
	k.list[sha] = true
}

// forget empties the list.
func (k *keptFiles) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = nil
}

func (k *keptFiles) has(sha string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.list[sha]
}

// statusWriter holds a successful status back, and passes everything else on.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	if w.status = status; status >= 300 {
		w.ResponseWriter.WriteHeader(status)
	}
}

// sendFile sends a file of the store to another master.
func (m *Master) sendFile(ctx context.Context, address, sha string) error {
	f, err := m.files.disk.OpenFile(m.files.path(sha), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	// peerRate is in bytes per second.
	ctx, cancel := context.WithTimeout(ctx, copyTimeout+time.Duration(size/peerRate)*time.Second)
	defer cancel()
	resp, err := m.fileRequest(ctx, http.MethodPut, address, sha, io.NewSectionReader(f, 0, size), size)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // without it the status must do
		return fmt.Errorf("file %s: %s: %s", sha, resp.Status, strings.TrimSpace(string(why)))
	}
	return nil
}

func (m *Master) fileRequest(ctx context.Context, method, address, sha string, body io.Reader, size int64) (*http.Response, error) {
	p, err := m.peerClients.get(address, m.cfg.DialPeer)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, p.url+copyPath+sha, body)
	if err != nil {
		return nil, err
	}
	r.ContentLength = size
	return p.http.Do(r)
}

// fetchFile stores a file that this master lacks, if another one has it.
func (m *Master) fetchFile(ctx context.Context, sha string) {
	// touch also keeps the file from being removed while its job is submitted.
	if !isSHA(sha) || !m.replicated() || m.files.touch(sha) {
		return
	}
	// Any error means the next master: one may be down, and another one may lack the file.
	for _, address := range m.others() {
		if err := m.fetchFrom(ctx, address, sha); err == nil {
			return
		}
	}
}

// keepProgram fetches the files of a program that this master lacks, and has a majority store
// each. An upload may have ended on this master alone, and the client's next try finds the file
// here. What no master has is reported by require.
func (m *Master) keepProgram(ctx context.Context, p *slotwisev1.Program) error {
	list := []string{p.GetExecutable()}
	for _, f := range p.GetFiles() {
		list = append(list, f.Sha256)
	}
	for _, sha := range list {
		// require refuses names that are no SHA-256, with a message for the user.
		if !isSHA(sha) || !m.replicated() || m.kept.has(sha) {
			continue
		}
		if m.fetchFile(ctx, sha); !m.files.touch(sha) {
			continue
		}
		if err := m.withMajority(ctx, func(ctx context.Context, address string) error { return m.sendFile(ctx, address, sha) }); err != nil {
			return fault(connect.CodeUnavailable, "%w", err)
		}
		m.kept.add(sha)
	}
	return nil
}

// keepFresh shows the other masters from time to time which files jobs need, and sends the missing ones, until
// this one no longer leads. A follower does not know the jobs: when its store is full, it removes the files that
// were not used for freshFor, and the copies of a waiting job's program could shrink to one.
func (m *Master) keepFresh(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		// A third of freshFor: two rounds may fail, and the files still count as used on the followers.
		case <-time.After(m.cfg.refresh):
		}
		for _, a := range m.others() {
			if err := m.keepNeeded(ctx, a); err != nil && ctx.Err() == nil {
				m.log.Info("a master does not get the files that jobs need: this master tries again later", "address", a, "error", err)
			}
		}
	}
}

// keepNeeded sends the files that jobs need to another master that lacks them, and marks the others there as
// used. A file that no master has is left out: its job fails without the file, and must not keep a learner from voting.
func (m *Master) keepNeeded(ctx context.Context, address string) error {
	for _, sha := range m.files.needed() {
		has, err := m.hasFile(ctx, address, sha)
		if err != nil {
			return err
		}
		if has {
			continue
		}
		if m.fetchFile(ctx, sha); !m.files.touch(sha) {
			continue
		}
		if err := m.sendFile(ctx, address, sha); err != nil {
			return err
		}
	}
	return nil
}

// hasFile reports whether another master has a file.
func (m *Master) hasFile(ctx context.Context, address, sha string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	resp, err := m.fileRequest(ctx, http.MethodHead, address, sha, nil, 0)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK, nil
}

func (m *Master) fetchFrom(ctx context.Context, address, sha string) error {
	// A frozen master takes the connection and never answers.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A context with a time limit would bound the body as well, whose length is known only after the answer has
	// begun.
	silent := time.AfterFunc(peerTimeout, cancel)
	resp, err := m.fileRequest(ctx, http.MethodGet, address, sha, nil, 0)
	if err != nil {
		return err
	}
	// The first limit was for the beginning of the answer. The body may take longer, by its length.
	silent.Reset(copyTimeout + time.Duration(max(0, resp.ContentLength)/peerRate)*time.Second)
	defer silent.Stop()
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	// In the account of the master and not of the user: the user's share was checked where he uploaded the file.
	u, err := m.files.begin(ctx, resp.Body, ownAccount, resp.ContentLength)
	if err != nil {
		return err
	}
	return m.files.receive(u, sha)
}
