package master

import (
	"maps"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/counters"
	"github.com/slotwise/slotwise/internal/counterspb"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// jobInfo is what the master knows of a job beside the tracker. It belongs to the
// loop.
type jobInfo struct {
	id      job.ID
	core    *job.Job // the tracker's, also after the tracker has forgotten it; nil if it had before a restart
	request string   // by which a repeated Submit finds the job
	spec    *slotwisev1.JobSpec
	maps    int
	input   int64 // bytes
	token   string
	secret  []byte

	live    int                   // attempts that may be alive; see Master.alive
	nodes   map[string]bool       // on which anything of it was ever launched
	output  *tracker.Effect       // CommitOutput or AbortOutput that is not carried out yet
	giveUp  chan struct{}         // closed when nobody wants to wait for the latest of them any more
	trouble string                // why its output is not published or removed yet
	end     *tracker.FactJobEnded // once it has ended
	final   *slotwisev1.JobStatus // once that is in the history too

	counters  [job.Kinds]counters.Set // of attempts that succeeded
	reading   map[job.AttemptID]int64 // bytes read so far by running maps
	levels    [cluster.NONE + 1]int32 // maps launched
	failures  [job.Kinds]int32
	lastError string
	holds     tracker.Holds
	noted     time.Duration // when holds was last added to

	outputs  outputLog
	revision int64
	changed  bool          // since the revision
	news     chan struct{} // closed when the revision rises
}

// decided reports whether the job's outcome is decided, so that nothing of it runs
// any more.
func (j *jobInfo) decided() bool { return j.core == nil || !j.core.State().Live() }

// tell lets those go that wait for news of the job.
func (j *jobInfo) tell() {
	j.changed = false
	j.revision++
	close(j.news)
	j.news = make(chan struct{})
}

// launched notes an attempt and orders it from its node.
func (m *Master) launched(j *jobInfo, e tracker.Effect) {
	m.born(j, e.Attempt, e.Node)
	j.countLaunch(e.Attempt, e.Level, e.Node)
	s := m.nodes[e.Node]
	if s == nil {
		return // it is told to register again, and the attempt is found missing then
	}
	l := &slotwisev1.Launch{Attempt: e.Attempt.String(), Slot: wireKind(e.Slot), Speculative: e.Speculative, Staging: j.token}
	if e.Attempt.Kind == job.Map && len(j.spec.Splits) > 0 {
		l.Split = j.spec.Splits[e.Attempt.Index]
	}
	m.send(s, &slotwisev1.Action{What: &slotwisev1.Action_Launch{Launch: l}})
}

// born notes that an attempt may be alive.
func (m *Master) born(j *jobInfo, id job.AttemptID, node string) {
	on := m.alive[node]
	if on == nil {
		on = map[job.AttemptID]bool{}
		m.alive[node] = on
	}
	if !on[id] {
		on[id] = true
		j.live++
	}
}

// countLaunch counts an attempt.
func (j *jobInfo) countLaunch(id job.AttemptID, level job.Level, node string) {
	j.nodes[node] = true
	if id.Kind == job.Map {
		j.levels[level]++
	}
}

// countFailure counts an attempt that has failed.
func (j *jobInfo) countFailure(id job.AttemptID, why string) {
	j.failures[id.Kind]++
	j.lastError = id.String() + ": " + why
}

// dead notes that an attempt is not alive on a node.
func (m *Master) dead(node string, id job.AttemptID) {
	if on := m.alive[node]; on[id] {
		delete(on, id)
		if j := m.jobs[id.Job]; j != nil {
			j.live--
			m.finishOutput(j)
		}
	}
}

// confirm notes that of the attempts that were alive on a node only those that
// are named still are.
func (m *Master) confirm(node string, still map[job.AttemptID]bool) {
	for id := range m.alive[node] {
		if !still[id] {
			m.dead(node, id)
		}
	}
}

// kill orders a node to end an attempt.
func (m *Master) kill(e tracker.Effect) {
	if s := m.nodes[e.Node]; s != nil {
		k := &slotwisev1.Kill{Attempt: e.Attempt.String(), Reason: e.Text}
		m.send(s, &slotwisev1.Action{What: &slotwisev1.Action_Kill{Kill: k}})
	}
}

// ending are those of a heartbeat's reports that tell of an attempt's end.
type ending struct {
	id      job.AttemptID
	report  *slotwisev1.Report
	running bool // as far as the tracker knew before the heartbeat
}

// ending finds them, and notes what running attempts have read.
func (m *Master) ending(s *session, r *slotwisev1.HeartbeatRequest, in *tracker.Heartbeat) (out []ending) {
	wire := map[string]*slotwisev1.Report{}
	for _, w := range r.Reports {
		wire[w.Attempt] = w
	}
	for _, report := range in.Reports {
		j := m.jobs[report.Attempt.Job]
		if j == nil {
			continue
		}
		w := wire[report.Attempt.String()]
		j.changed = true
		if report.State == job.AttemptRunning {
			if n := w.GetCounters().GetBytesRead(); n > 0 {
				j.reading[report.Attempt] = n
			}
			continue
		}
		a := m.tracker.Jobs().Attempt(report.Attempt)
		running := a != nil && a.State() == job.AttemptRunning && m.nodeOf(a) == s.worker
		out = append(out, ending{report.Attempt, w, running})
	}
	return out
}

// settle takes note of an attempt's end, after the tracker has.
func (m *Master) settle(s *session, e ending) {
	j := m.jobs[e.id.Job]
	if j == nil {
		return
	}
	m.dead(s.worker, e.id)
	m.offers.wanted = true // a slot is free, or a task waits again
	if !e.running {
		return
	}
	delete(j.reading, e.id)
	if a := m.tracker.Jobs().Attempt(e.id); a != nil {
		switch a.State() {
		case job.AttemptSucceeded:
			j.addCounters(e.id.Kind, e.report.Counters)
			m.note(&slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Counted{Counted: &slotwisev1.JournalCounted{
				Attempt: refAttempt(e.id), Counters: e.report.Counters,
			}}})
		case job.AttemptFailed:
			j.countFailure(e.id, a.Error())
			m.log.Info("attempt failed", "attempt", e.id.String(), "error", a.Error())
		}
	}
}

// finishOutput carries out the tracker's order to commit or abort a job's output
// beside the loop, once the outcome is durable and none of the job's attempts is
// alive or Grace has passed.
func (m *Master) finishOutput(j *jobInfo) {
	if j.output == nil || j.live > 0 && m.now() < j.core.Decided()+m.cfg.Grace {
		return
	}
	w := &outputWork{
		uri: j.spec.Output, token: j.token, commit: j.output.Kind == tracker.CommitOutput, giveUp: j.giveUp,
		patience: m.cfg.RemovePatience,
		retrying: func(err error) { m.insist(func() { m.outputRetried(j, err) }) },
	}
	j.output, j.changed = nil, true
	if w.commit {
		// It counts from the outcome, which outlives the master; but a master that
		// was away for long may be up before its storage is.
		w.patience = max(m.cfg.PublishPatience-(m.now()-j.core.Decided()), min(m.cfg.PublishPatience, m.cfg.RemovePatience))
	}
	m.after = append(m.after, func() {
		m.beside.Go(func() {
			err := w.run(m.ctx)
			if m.ctx.Err() == nil { // else the next master finds it out
				m.insist(func() { m.outputFinished(j, w.commit, err) })
			}
		})
	})
}

// outputRetried notes that a job's output could not be committed or aborted, and
// that this is tried again.
func (m *Master) outputRetried(j *jobInfo, err error) {
	what := "removed"
	if j.core.State() == job.Committing {
		what = "published"
	}
	if j.trouble == "" {
		m.log.Warn("output of a job: it is tried again", "job", j.id.String(), "error", err)
	}
	j.trouble = "its output cannot be " + what + " now and is tried again: " + clip(err.Error())
	j.changed = true
}

// cancelOutput stops retrying to commit or abort a job's output.
func (j *jobInfo) cancelOutput() {
	select {
	case <-j.giveUp:
	default:
		close(j.giveUp)
	}
}

// outputFinished reports to the tracker how the commit or abort of a job's output
// ended.
func (m *Master) outputFinished(j *jobInfo, commit bool, err error) {
	j.trouble = ""
	text := ""
	if err != nil {
		m.log.Error("output of a job", "job", j.id.String(), "error", err)
		text = clip(err.Error())
	}
	if commit {
		m.step(&tracker.CommitEnded{Job: j.id, Error: text})
	} else {
		m.step(&tracker.AbortEnded{Job: j.id, Error: text})
	}
}

// conclude makes the entry of a job that has ended and writes it to the history.
func (m *Master) conclude(j *jobInfo, end *tracker.FactJobEnded) {
	j.end = end
	st := m.status(j)
	st.State, st.Message, st.EndedMs, st.Waiting = wireState(end.State), end.Message, m.millis(end.At), ""
	entry := &slotwisev1.HistoryJob{Job: proto.CloneOf(st), Held: heldBack(j, func(tracker.Hold) bool { return true })}
	for k := range job.Kind(job.Kinds) {
		entry.Tasks = append(entry.Tasks, m.tasksOf(j, k, "")...)
	}
	m.after = append(m.after, func() {
		m.beside.Go(func() {
			if err := m.history.Put(entry); err != nil {
				m.log.Error("a job is not in the history", "job", entry.Job.Id, "error", err)
			}
			m.insist(func() { m.finished(j, st) })
		})
	})
}

// finished gives a job its final state.
func (m *Master) finished(j *jobInfo, st *slotwisev1.JobStatus) {
	m.note(finishedRecord(j.id, j.request))
	m.remember(pastRequest{j.id, j.request})
	m.tasks -= j.maps + int(j.spec.Reduces)
	m.files.hold(j.spec.Program, -1)
	m.drop(j)
	m.log.Info("job ended", "job", st.Id, "name", st.Name, "state", state(st.State), "message", st.Message)
	m.stats.ended(st.State)
	m.ended = append(m.ended, j.id)
	m.after = append(m.after, func() {
		j.final = st
		j.tell()
		st.Revision = j.revision
		j.spec.Splits, j.reading = nil, nil
		m.forget()
	})
}

// state is a job's state in a word.
func state(s slotwisev1.JobState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "JOB_STATE_"))
}

// drop tells the workers that a job is over.
func (m *Master) drop(j *jobInfo) {
	for name := range j.nodes {
		if s := m.nodes[name]; s != nil {
			m.send(s, &slotwisev1.Action{What: &slotwisev1.Action_DropJob{DropJob: j.id.String()}})
		}
	}
}

// forget drops the oldest ended jobs beyond those to be kept.
func (m *Master) forget() {
	for len(m.ended) > max(0, m.cfg.KeepEnded) {
		j := m.jobs[m.ended[0]]
		m.ended = m.ended[1:]
		delete(m.jobs, j.id)
	}
}

// status describes a job as it is now.
func (m *Master) status(j *jobInfo) *slotwisev1.JobStatus {
	if j.final != nil {
		return j.final
	}
	s := &slotwisev1.JobStatus{
		Id: j.id.String(), Name: j.spec.Name, User: j.spec.User, Pool: j.spec.Pool, Priority: j.spec.Priority,
		Output: j.spec.Output, InputBytes: j.input, Revision: j.revision, LastError: j.lastError,
		MapCounters: j.totals(job.Map), ReduceCounters: j.totals(job.Reduce), Locality: j.levels[cluster.NODE:],
		Maps: &slotwisev1.TaskCounts{}, Reduces: &slotwisev1.TaskCounts{},
	}
	t := j.core
	s.State = j.state()
	if t == nil {
		return s
	}
	s.Message = t.Message()
	s.Pool, s.Priority = t.Pool(), t.Priority().String()
	s.SubmittedMs, s.StartedMs = m.millis(max(1, t.Submitted())), m.millis(t.Started())
	s.Maps, s.Reduces = j.counts(t, job.Map), j.counts(t, job.Reduce)
	return s
}

// state is the state that clients see of a job that is not in the history yet. A job
// counts as committing until it is.
func (j *jobInfo) state() slotwisev1.JobState {
	if j.decided() {
		return slotwisev1.JobState_JOB_STATE_COMMITTING
	}
	return wireState(j.core.State())
}

// counts describes the tasks of a kind.
func (j *jobInfo) counts(t *job.Job, k job.Kind) *slotwisev1.TaskCounts {
	return &slotwisev1.TaskCounts{
		Total: int32(t.Total(k)), Pending: int32(t.Pending(k)), Running: int32(t.Running(k)),
		Done: int32(t.Done(k)), Failed: j.failures[k], Progress: t.Progress(k),
	}
}

// totals returns a copy of what attempts of a kind counted. What running maps
// have read counts as read.
func (j *jobInfo) totals(k job.Kind) *slotwisev1.Counters {
	set := j.counters[k].Clone()
	if k == job.Map {
		for n := range maps.Values(j.reading) {
			set.Add(counters.BytesRead, n)
		}
	}
	return counterspb.Encode(&set)
}

// addCounters adds the counters of attempts of a kind that have succeeded.
func (j *jobInfo) addCounters(k job.Kind, m *slotwisev1.Counters) {
	set := counterspb.Decode(m)
	j.counters[k].AddSet(&set)
}
