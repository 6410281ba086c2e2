package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// request is a user's request_id. All Submits with it are answered with the same job,
// also after a restart.
//
//	          StageOutput                Staged, accepted
//	Submit ─────────────────► under way ───────────────────► job known
//	                              │ refused, or an error
//	                              ▼ RemoveStaged
//	                          removing ─── StagingRemoved ──► forgotten
//
// After an error of staging, the core answers the callers at once and then has the staging
// directory removed, because the error may hide that it exists.
//
// The journal has an intent before the output is staged. If the master dies before the job
// is accepted, Restore finds the intent and removes the staging directory. A repeated Submit waits
// until then, so that a request has one intent at most.
type request struct {
	job     job.ID    // 0 until the job is accepted
	calls   []Call    // that wait for the result
	entry   *jobEntry // while under way
	core    job.Spec
	refused error // why the job was refused, while its staging directory is removed
	// removing is set while the staging directory of an earlier life, or of staging that has
	// failed, is being removed. The Submits of queue are handled after that.
	removing bool
	queue    []*queuedSubmit
}

// queuedSubmit is a Submit that waits for the end of request.removing.
type queuedSubmit struct {
	r *request
	m *Submit
}

// release implements waiter. The caller has gone: it may repeat the request.
func (q *queuedSubmit) release(c *Core) {
	delete(c.held, q.m.Call)
	// Otherwise the end of the removal would submit a job for which no caller waits any more.
	q.r.queue = slices.DeleteFunc(q.r.queue, func(x *queuedSubmit) bool { return x == q })
	c.refuse(q.m.Call, errorf(Aborted, "output %s: what an earlier try has left there is not removed yet; submit the job again", q.m.Spec.Output))
}

// submit answers with the request's job, or begins to accept one.
func (c *Core) submit(m *Submit) {
	if m.Spec.Chain != "" && !c.admitStep(m) {
		return
	}
	// A client repeats its Submit when an answer is lost. All its calls get the same job.
	if r := c.requests[m.Request]; r != nil {
		switch {
		case r.job != 0:
			c.reply(m.Call, &slotwisev1.SubmitResponse{Job: r.job.String()})
		// The end of the removal ends the intent of the request. It must not be the one of a new staging.
		case r.removing:
			q := &queuedSubmit{r, m}
			r.queue = append(r.queue, q)
			c.held[m.Call] = q
		default:
			r.calls = append(r.calls, m.Call)
		}
		return
	}
	j := c.newJob(m.Request, m.Spec, m.Core)
	// All checks come before anything is counted or recorded, so a refused request leaves
	// nothing behind and may be repeated when there is room.
	err := c.hasRoom(j)
	if err == nil && m.Spec.Chain == "" { // a chain's queue was checked when the chain was submitted
		err = c.checkQueue(m.Spec.Pool)
	}
	if err == nil {
		err = c.outputIsFree(j.spec, chainNumber(j.spec))
	}
	if err != nil {
		c.refuse(m.Call, err)
		return
	}
	j.secret, j.authenticated = m.Secret, m.Authenticated
	r := &request{calls: []Call{m.Call}, entry: j, core: m.Core}
	c.requests[m.Request] = r
	// The job takes its place now, not on acceptance. Otherwise all requests whose outputs are
	// being staged would find room, and be refused after the storage has done its work.
	c.room.count(j)
	c.stepEntering(j, 1)
	// Nothing is staged, so no intent is needed and the job can be accepted in this step.
	if m.Spec.Output == "" {
		c.accept(r)
		return
	}
	c.staging = append(c.staging, j)
	c.stagings++
	j.token = hashed(c.cfg.Life, strconv.Itoa(c.stagings), m.Request)
	// The intent is durable before the order is carried out. If the master dies in between or
	// afterwards, Restore knows which directory to remove.
	c.recordIntent(&slotwisev1.JournalStaging{Request: m.Request, Output: m.Spec.Output, Token: j.token, Chain: m.Spec.Chain})
	c.order(&StageOutput{Request: m.Request, URI: m.Spec.Output, Token: j.token, Overwrite: m.Spec.Overwrite, Force: m.Spec.Force})
}

// checkQueue returns an error if the policy has no pool or queue of this name and creates none.
func (c *Core) checkQueue(name string) error {
	if err := c.tracker.CheckQueue(name); err != nil {
		return errorf(InvalidArgument, "%v", err)
	}
	return nil
}

// recordIntent records that an output is about to be staged.
func (c *Core) recordIntent(s *slotwisev1.JournalStaging) {
	c.intents = append(c.intents, s)
	c.record(intentRecord(s))
}

// endIntent records that nothing is staged for a request any more.
func (c *Core) endIntent(request string) {
	if c.dropIntent(request) {
		c.record(&slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_StagingEnded{StagingEnded: &slotwisev1.JournalStagingEnded{Request: request}}})
	}
}

// dropIntent removes the intent of a request and reports whether there was one.
func (c *Core) dropIntent(request string) bool {
	before := len(c.intents)
	c.intents = slices.DeleteFunc(c.intents, func(s *slotwisev1.JournalStaging) bool { return s.Request == request })
	return len(c.intents) < before
}

// removeIntended removes what an earlier life of the master has staged for a request whose
// job was not accepted.
func (c *Core) removeIntended(s *slotwisev1.JournalStaging) {
	j := c.newJob(s.Request, &slotwisev1.JobSpec{Output: s.Output, Chain: s.Chain}, job.Spec{})
	j.token = s.Token
	c.requests[s.Request] = &request{entry: j, removing: true}
	c.stepEntering(j, 1)
	c.order(&RemoveStaged{Request: s.Request, URI: s.Output, Token: s.Token, Retry: true})
	c.logInfo("a job was not accepted: its staged output is removed", "output", s.Output)
}

// hashed returns 40 hexadecimal digits that depend on all parts. A staging token depends on the life
// of the master that stages and on the number of its stagings, so no two stagings share one. A
// master that was stopped within a request to the storage may send its rest long after
// another one leads. Under its old token it hits nothing that the other one has staged. The
// intent in the journal has the token, so nothing stays behind when a master dies between staging
// and accepting.
func hashed(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:20])
}

// staged accepts the job of a request whose output is staged, or fails the request if
// staging failed.
func (c *Core) staged(m *Staged) {
	r := c.requests[m.Request]
	switch {
	case r == nil || r.entry == nil || r.refused != nil || r.removing:
	case m.Err != nil:
		for _, call := range r.calls {
			c.refuse(call, m.Err)
		}
		// The error may hide that the directory exists: a time-out does not say whether the
		// storage has carried the request out.
		r.calls, r.removing = nil, true
		c.doneStaging(r.entry)
		c.room.uncount(r.entry)
		c.order(&RemoveStaged{Request: m.Request, URI: r.entry.spec.Output, Token: r.entry.token})
	default:
		c.accept(r)
	}
}

// doneStaging notes that the request of a job has been answered.
func (c *Core) doneStaging(j *jobEntry) {
	c.staging = slices.DeleteFunc(c.staging, func(x *jobEntry) bool { return x == j })
}

// outputIsFree refuses an output that another job or chain writes which has not ended, and
// one that contains that output or lies in it. Of two such jobs only one could publish, or
// the later one would remove what the earlier one has published. spec describes a chain, or
// a job that is a step of the chain with the number step. step is 0 for other jobs.
func (c *Core) outputIsFree(spec *slotwisev1.JobSpec, step ChainID) error {
	if spec.Output == "" {
		return nil
	}
	// Compared as text, without a call to the storage, so two names of one directory are not noticed here.
	place := outputPlace(spec.Output)
	conflict := func(name string, with *slotwisev1.JobSpec, its string) error {
		if its == "" || !overlap(place, its) {
			return nil
		}
		return errorf(FailedPrecondition, "output %s: %s (%s, of user %s) writes to %s and has not ended; wait for its end, or name another output",
			spec.Output, name, with.Name, with.User, with.Output)
	}
	for _, list := range [][]*jobEntry{c.live, c.staging} {
		for _, other := range list {
			// Its output is in place or gone. Only the history does not have the job yet.
			if other.end != nil {
				continue
			}
			// A job has no number while its output is being staged.
			name := "a job that is being submitted"
			if other.id != 0 {
				name = "job " + other.id.String()
			}
			if err := conflict(name, other.spec, other.place); err != nil {
				return err
			}
		}
	}
	// A step writes to its chain's output or into the chain's directory, so its own chain is no
	// conflict. No chain has the number 0.
	own := c.chains.byID[step]
	for _, ch := range c.chains.live {
		// A decided chain starts no further step, and its steps that still run were compared above.
		if ch.outcome != nil || ch == own {
			continue
		}
		if err := conflict(ch.id.String(), ch.job(), ch.place); err != nil {
			return err
		}
	}
	return nil
}

// overlap reports whether two places are the same or one contains the other.
func overlap(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }

// chainNumber returns the number of the chain that a spec names, 0 if it names none.
func chainNumber(spec *slotwisev1.JobSpec) ChainID {
	id, _ := ParseChain(spec.Chain)
	return id
}

// outputPlace returns a URI in a form in which one output is a prefix of all URIs in it:
// the scheme and host in lower case, the path clean and with a slash at its end. It knows
// nothing of links and of default hosts.
func outputPlace(uri string) string {
	scheme, rest, ok := strings.Cut(uri, "://")
	// file:/a, file:///a and /a are one directory and must compare as one.
	if !ok {
		scheme, rest = "file", strings.TrimPrefix(uri, "file:")
	}
	host, dir, _ := strings.Cut(rest, "/")
	if !ok && host != "" { // a relative path
		return "file://./" + path.Clean(rest) + "/"
	}
	place := strings.ToLower(scheme) + "://" + strings.ToLower(host) + path.Clean("/"+dir)
	// The slash keeps /a/b from being a prefix of /a/bc.
	return strings.TrimSuffix(place, "/") + "/"
}

// accept hands a job to the tracker. The job's own record precedes the tracker's
// facts: staged output of a job that the journal knows of, but not as accepted, is
// removed by Restore.
func (c *Core) accept(r *request) {
	j := r.entry
	// The chain may have been killed while the output of its step was being staged.
	err := c.stepWanted(j)
	if err == nil {
		err = c.enter(j, r.core)
	}
	if err != nil {
		// Nothing was staged, so the callers are refused at once. Otherwise they are answered when
		// the directory is gone: a client that repeats its request must not meet the removal.
		if j.token == "" {
			c.failRequest(j.request, r, err)
			return
		}
		r.refused = err
		c.order(&RemoveStaged{Request: j.request, URI: j.spec.Output, Token: j.token})
		return
	}
	r.job, r.entry = j.id, nil
	c.stepEntering(j, -1)
	c.doneStaging(j)
	for _, call := range r.calls {
		c.reply(call, &slotwisev1.SubmitResponse{Job: j.id.String()})
	}
	r.calls = nil
}

// enter has the tracker accept the job and carries out the effects.
func (c *Core) enter(j *jobEntry, core job.Spec) error {
	// step finds the job by this field when the tracker accepts it. The tracker gives the
	// number, so the entry cannot be in the table before.
	c.entering = j
	effects := c.step(&tracker.Submit{Spec: core})
	c.entering = nil
	for _, e := range effects {
		if e.Kind == tracker.JobRejected {
			return errorf(InvalidArgument, "%s", e.Text)
		}
	}
	return nil
}

// accepted adds a job that the tracker has just accepted. Its record precedes the
// tracker's facts, because the spec in a fact is read with the help of the record.
func (c *Core) accepted(j *jobEntry, id job.ID) {
	j.id = id
	j.core = c.tracker.Jobs().Get(id)
	c.dropIntent(j.request) // the job's acceptance ends it
	c.addJob(j)
	c.addStep(j)
	c.order(&HoldFiles{j.spec.Program})
	// The policy may have chosen the pool. Owner reads it here once the tracker has forgotten the
	// job.
	j.spec.Pool = j.core.Pool()
	c.record(jobRecord(j))
	c.logInfo("job accepted", "job", id.String(), "name", j.spec.Name, "user", j.spec.User, "pool", j.spec.Pool,
		"maps", j.maps, "reduces", j.spec.Reduces, "output", j.spec.Output)
}

// failRequest answers all calls that wait for a request with an error and forgets the
// request, so that it can be made again.
func (c *Core) failRequest(name string, r *request, err error) {
	delete(c.requests, name)
	// The directory is gone, or was given up and reported: a restart must not order its removal
	// again.
	c.endIntent(name)
	c.stepEntering(r.entry, -1)
	c.doneStaging(r.entry)
	c.room.uncount(r.entry)
	for _, call := range r.calls {
		c.refuse(call, err)
	}
}

// stagingRemoved ends a refused request, or lets a request of an earlier life start
// again.
func (c *Core) stagingRemoved(m *StagingRemoved) {
	if m.Err != nil {
		c.logWarn("the staged output of a job that was not accepted cannot be removed", "output", m.Output, "error", m.Err)
	}
	switch r := c.requests[m.Request]; {
	case r == nil:
	// The directory is gone or given up. The callers get both errors, because a directory that
	// stays is theirs to remove.
	case r.refused != nil:
		c.failRequest(m.Request, r, errors.Join(r.refused, m.Err))
	// The queued Submits start over: they may be refused now for other reasons, such as a lack
	// of room.
	case r.removing:
		delete(c.requests, m.Request)
		c.endIntent(m.Request)
		c.stepEntering(r.entry, -1)
		for _, q := range r.queue {
			delete(c.held, q.m.Call)
			c.submit(q.m)
		}
	}
}

// pastRequest is the request of a job that is in the history.
type pastRequest struct {
	id      job.ID
	request string
}

// maxPast limits the number of remembered requests whose jobs are in the history.
const maxPast = 10_000

// PastJobs returns the number of remembered jobs that are in the history.
func (c *Core) PastJobs() int { return len(c.past) }

// remember notes the request of a job that is in the history and forgets the oldest
// ones beyond maxPast.
func (c *Core) remember(p pastRequest) {
	c.requests[p.request] = &request{job: p.id}
	c.past = append(c.past, p)
	// A client may repeat a Submit long after its job has ended. Beyond maxPast the repetition
	// starts a new job, which is the price of bounded memory.
	if over := len(c.past) - maxPast; over > 0 {
		for _, old := range c.past[:over] {
			delete(c.requests, old.request)
		}
		c.past = append(c.past[:0], c.past[over:]...)
	}
}
