package protocol

import (
	"slices"
	"time"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// The methods below make the journal records of chains. Restore reads them in
// replay.applyChain.

func (ch *chainEntry) record() *slotwisev1.JournalRecord {
	return &slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Chain{Chain: &slotwisev1.JournalChain{
		Chain: int32(ch.id), Request: ch.request, Spec: ch.spec, At: int64(ch.at), AnyFile: ch.anyFile, Authenticated: ch.authenticated,
	}}}
}

// driverRecord holds the whole state of the driver. at is the time of its start or end.
func (ch *chainEntry) driverRecord(at time.Duration) *slotwisev1.JournalRecord {
	d := &ch.driver
	return &slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_Driver{Driver: &slotwisev1.JournalDriver{
		Chain: int32(ch.id), Try: d.try, Worker: d.worker, Token: d.token, Failures: d.failures, Error: d.err, LogTail: d.logTail, Lost: d.lost, Ran: d.ran, At: int64(at),
	}}}
}

func (ch *chainEntry) endedRecord(s *chainStep) *slotwisev1.JournalRecord {
	return &slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_StepEnded{StepEnded: &slotwisev1.JournalStepEnded{
		Chain: int32(ch.id), Status: s.ended, Digest: s.digest,
	}}}
}

func (ch *chainEntry) outcomeRecord() *slotwisev1.JournalRecord {
	o := ch.outcome
	return &slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_ChainOutcome{ChainOutcome: &slotwisev1.JournalChainOutcome{
		Chain: int32(ch.id), State: o.state, Message: o.message, At: int64(o.at),
	}}}
}

func (ch *chainEntry) changedRecord() *slotwisev1.JournalRecord {
	return &slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_ChainChanged{ChainChanged: &slotwisev1.JournalChainChanged{
		Chain: int32(ch.id), Pool: ch.job().Pool, Priority: ch.job().Priority,
	}}}
}

func chainFinishedRecord(p pastChain) *slotwisev1.JournalRecord {
	return &slotwisev1.JournalRecord{What: &slotwisev1.JournalRecord_ChainFinished{ChainFinished: &slotwisev1.JournalChainFinished{
		Chain: int32(p.id), Request: p.request,
	}}}
}

// chainRecords returns the records of a snapshot. They precede the records of jobs,
// because the steps of a chain name it.
func (c *Core) chainRecords() (out []*slotwisev1.JournalRecord) {
	for _, p := range c.chains.past {
		out = append(out, chainFinishedRecord(p))
	}
	for _, ch := range c.chains.live {
		out = append(out, ch.record())
		for _, s := range ch.steps {
			if s.ended != nil {
				out = append(out, ch.endedRecord(s))
			}
		}
		// After the steps: replaying the end of a step resets driver.lost, which this record
		// restores.
		if ch.driver.try > 0 {
			out = append(out, ch.driverRecord(ch.started))
		}
		if ch.outcome != nil {
			out = append(out, ch.outcomeRecord())
		}
	}
	return out
}

// applyChain applies a record of a chain. It reports whether the record is one.
func (r *replay) applyChain(rec *slotwisev1.JournalRecord) bool {
	c := r.c
	switch w := rec.What.(type) {
	case *slotwisev1.JournalRecord_Chain:
		c.addChain(w.Chain)
		r.last = max(r.last, time.Duration(w.Chain.At))
	case *slotwisev1.JournalRecord_Driver:
		r.last = max(r.last, time.Duration(w.Driver.At))
		// The last record of a driver holds its whole state, so it replaces the earlier ones. The
		// token is kept as a hash: a driver that outlived the master stays valid with it.
		if ch := c.chains.byID[ChainID(w.Driver.Chain)]; ch != nil {
			ch.driver = driverState{try: w.Driver.Try, worker: w.Driver.Worker, token: w.Driver.Token, failures: w.Driver.Failures, lost: w.Driver.Lost, ran: w.Driver.Ran, err: w.Driver.Error, logTail: w.Driver.LogTail}
			// A snapshot's record has the first driver's start, and no later one may move it.
			if ch.started == 0 {
				ch.started = time.Duration(w.Driver.At)
			}
		}
	case *slotwisev1.JournalRecord_StepEnded:
		r.applyStepEnded(w.StepEnded)
	case *slotwisev1.JournalRecord_ChainOutcome:
		o := w.ChainOutcome
		r.last = max(r.last, time.Duration(o.At))
		if ch := c.chains.byID[ChainID(o.Chain)]; ch != nil {
			ch.outcome = &chainOutcome{o.State, o.Message, time.Duration(o.At)}
			// A decided chain has no driver, and its token is not valid any more. The worker is
			// ordered to stop the process when it lists it.
			ch.driver.worker = ""
		}
	case *slotwisev1.JournalRecord_ChainChanged:
		if ch := c.chains.byID[ChainID(w.ChainChanged.Chain)]; ch != nil {
			ch.job().Pool, ch.job().Priority = w.ChainChanged.Pool, w.ChainChanged.Priority
		}
	case *slotwisev1.JournalRecord_ChainFinished:
		p := pastChain{ChainID(w.ChainFinished.Chain), w.ChainFinished.Request}
		// Nil in a snapshot, which has no other records of a finished chain.
		if ch := c.chains.byID[p.id]; ch != nil {
			delete(c.chains.byID, p.id)
			c.removeLiveChain(ch)
		}
		c.chains.remember(p)
	default:
		return false
	}
	return true
}

// applyStepEnded enters a step whose job has ended.
func (r *replay) applyStepEnded(w *slotwisev1.JournalStepEnded) {
	ch := r.c.chains.byID[ChainID(w.Chain)]
	id, err := job.ParseID(w.Status.GetId())
	if ch == nil || err != nil {
		return
	}
	ch.insert(&chainStep{job: id, name: w.Status.Step, output: w.Status.Output, digest: w.Digest, ended: w.Status})
	ch.driver.lost = 0
}

// resumeChains continues the live chains. A driver is expected on its worker until the
// worker registers without it or is lost.
func (c *Core) resumeChains() {
	for _, ch := range slices.Clone(c.chains.live) {
		// Later than every revision that the former master gave, so a client's next wait is answered at once.
		ch.revision = c.epoch.Add(c.base).UnixMilli()
		c.order(&HoldFiles{ch.job().Program})
		// The earlier life may have died between the outcome's record and the kills that follow it.
		if ch.outcome != nil {
			c.killSteps(ch)
			c.finishChain(ch)
			continue
		}
		// The driver waits with its steps while the master is away. To start another one at once
		// would make the running one useless.
		if ch.driver.worker != "" {
			w := c.worker(ch.driver.worker)
			w.drivers = append(w.drivers, ch)
			c.changeToken(&ch.driver, true)
		}
	}
}
