package protocol

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/bounds"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/cluster"
)

// driverState is the state of a chain's driver.
type driverState struct {
	try      int32  // of the driver that runs or ran last; 0 before the first
	worker   string // that runs it; "" if none does
	token    []byte // SHA-256 of its token
	failures int32  // drivers that have failed; lost ones do not count
	ran      string // the worker of the latest driver, also after its end
	// lost counts the drivers that were lost since the last step ended.
	lost    int32
	err     string // of the latest failure
	logTail string // the end of that driver's log
	// notBefore is the time before which no driver is started, after a failure.
	notBefore time.Duration
}

// A driver that fails is started again, because its error may be the storage's. After
// maxDriverFailures the chain fails. The pauses are driverPause, twice that, and so on.
const (
	maxDriverFailures = 4
	driverPause       = 500 * time.Millisecond
)

// maxDriversLost is the number of drivers that a chain may lose without a step ending in
// between. Workers are restarted and lost for many reasons. But a function may also be what
// takes its worker down, and such a chain must not do so for ever.
const maxDriversLost = 10

// maxDriverSlots bounds what a worker may claim as its number of drivers.
const maxDriverSlots = 1000

// ref names the chain's current driver.
func (ch *chainEntry) ref() *slotwisev1.DriverRef {
	return &slotwisev1.DriverRef{Chain: ch.id.String(), Try: ch.driver.try}
}

// assignDrivers chooses a worker for each chain whose driver is due, the first chain
// first.
func (c *Core) assignDrivers() {
	for _, ch := range c.chains.live {
		// notBefore spaces out the tries of a function that fails, for example because the storage
		// is down.
		if ch.outcome != nil || ch.driver.worker != "" || c.now < ch.driver.notBefore {
			continue
		}
		w := c.freeForDriver()
		// No later chain finds a worker either.
		if w == nil {
			return
		}
		c.drive(ch, w)
	}
}

// freeForDriver returns the worker with the fewest drivers among the workers that may run
// another driver, or nil.
func (c *Core) freeForDriver() (best *worker) {
	for _, w := range c.list {
		// The fewest, because drivers occupy no slots: nothing else would spread them.
		if c.takesDrivers(w) && len(w.drivers) < w.session.driverSlots && (best == nil || len(w.drivers) < len(best.drivers)) {
			best = w
		}
	}
	return best
}

// takesDrivers reports whether a worker is alive and takes new work.
func (c *Core) takesDrivers(w *worker) bool {
	n := c.tracker.Nodes().Get(w.name)
	return w.session != nil && n != nil && n.State() == cluster.StateAlive
}

// drive orders a worker to start a driver. The journal gets the hash of its token.
func (c *Core) drive(ch *chainEntry, w *worker) {
	d := &ch.driver
	d.try++
	d.worker, d.ran = w.name, w.name
	// The journal has only the hash, so a copy of the journal does not let its reader act for
	// the chain.
	token := c.driverToken(ch)
	sum := sha256.Sum256([]byte(token))
	d.token = sum[:]
	c.changeToken(d, true)
	// Users see the start of the chain, not of its latest driver.
	if ch.started == 0 {
		ch.started = c.now
	}
	// Before the record and the order, which must describe the same assignment.
	w.drivers = append(w.drivers, ch)
	ch.changed = true
	c.record(ch.driverRecord(c.now))
	c.logInfo("driver started", "chain", ch.id.String(), "try", d.try, "worker", w.name)
	c.send(w.session, &slotwisev1.Action{What: &slotwisev1.Action_Drive{Drive: &slotwisev1.Drive{
		Driver: ch.ref(), Spec: proto.CloneOf(ch.spec), Dir: c.chainDir(ch), Token: token, Owner: ownerOf(ch.job(), ch.authenticated),
	}}})
}

// TokenPrefix is the beginning of every driver's token. Servers recognise such tokens by
// it.
const TokenPrefix = "slwd_"

// driverToken returns the token of the current driver: the name of its chain, and 160
// bits that follow from Config.Secret, which no other process knows.
func (c *Core) driverToken(ch *chainEntry) string {
	h := hmac.New(sha256.New, c.cfg.Secret)
	fmt.Fprintf(h, "%s %d", ch.id, ch.driver.try)
	return fmt.Sprintf("%s%d_%s", TokenPrefix, ch.id, hex.EncodeToString(h.Sum(nil)[:20]))
}

// DriverRights are the permissions that a driver's token grants to its bearer.
type DriverRights struct {
	Chain   ChainID // submit steps of this chain
	Owner   string  // as this user
	AnyFile bool    // over files outside the storage roots
}

// Driver returns the rights of a token's bearer. It returns false unless the token
// belongs to the current driver of a chain that runs.
func (c *Core) Driver(token string) (DriverRights, bool) {
	number, _, _ := strings.Cut(strings.TrimPrefix(token, TokenPrefix), "_")
	id, err := ParseChain(chainPrefix + number)
	if err != nil {
		return DriverRights{}, false
	}
	// The token of an earlier driver must fail here even if its process still runs, or two
	// drivers would submit steps of one chain.
	ch := c.chains.byID[id]
	if ch == nil || ch.outcome != nil || ch.driver.worker == "" {
		return DriverRights{}, false
	}
	sum := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(sum[:], ch.driver.token) != 1 {
		return DriverRights{}, false
	}
	return DriverRights{id, ch.job().User, ch.anyFile}, true
}

// changeToken reports to the shell that a driver's token is valid or invalid from now on.
func (c *Core) changeToken(d *driverState, valid bool) {
	if len(d.token) == sha256.Size {
		c.out.Tokens = append(c.out.Tokens, TokenChange{[sha256.Size]byte(d.token), valid})
	}
}

// driverGone takes the current driver off its worker.
func (c *Core) driverGone(ch *chainEntry) {
	c.changeToken(&ch.driver, false)
	if w := c.workers[ch.driver.worker]; w != nil {
		w.drivers = slices.DeleteFunc(w.drivers, func(x *chainEntry) bool { return x == ch })
	}
	ch.driver.worker = ""
	ch.changed = true
}

// stopDriver orders the current driver to end, if there is one, and does not wait for
// that: its token is not valid any more.
func (c *Core) stopDriver(ch *chainEntry, reason string) {
	if ch.driver.worker == "" {
		return
	}
	// A worker without a session lists the driver when it registers, and is ordered to stop it
	// then.
	if s := c.sessionOf(ch.driver.worker); s != nil {
		c.sendStop(s, ch.ref(), reason)
	}
	c.driverGone(ch)
}

// sendStop orders a worker to stop a driver, once for as long as the driver runs. A worker
// reports at once when an order arrives, so a second order for the same driver would make
// both sides send messages without a pause until its process has ended.
func (c *Core) sendStop(s *session, ref *slotwisev1.DriverRef, reason string) {
	if containsRef(s.stopping, ref) {
		return
	}
	s.stopping = append(s.stopping, ref)
	c.send(s, &slotwisev1.Action{What: &slotwisev1.Action_StopDriver{StopDriver: &slotwisev1.StopDriver{Driver: ref, Reason: reason}}})
}

// loseDriver records that the current driver was lost through no known fault of its
// function. Another driver may start at once. After maxDriversLost the chain fails.
func (c *Core) loseDriver(ch *chainEntry, why string) {
	d := &ch.driver
	worker := d.worker
	c.logWarn("driver lost", "chain", ch.id.String(), "try", d.try, "worker", worker, "why", why)
	// Before the record, which says that no worker runs the driver. The lost process may still
	// run, but its token is not valid any more.
	c.driverGone(ch)
	d.lost++
	c.record(ch.driverRecord(c.now))
	if d.lost >= maxDriversLost {
		c.decideChain(ch, slotwisev1.JobState_JOB_STATE_FAILED, fmt.Sprintf(
			"its driver was lost %d times and no step ended in between, so the chain may be what ends its workers; the last time on worker %s: %s", d.lost, worker, why))
	}
}

// keepDrivers loses the drivers of a worker that are not in running.
func (c *Core) keepDrivers(w *worker, running []*slotwisev1.DriverRef, why string) {
	// A clone, because loseDriver takes the chain off this list.
	for _, ch := range slices.Clone(w.drivers) {
		if !containsRef(running, ch.ref()) {
			c.loseDriver(ch, why)
		}
	}
	c.assignDrivers()
}

// containsRef reports whether ref is in refs.
func containsRef(refs []*slotwisev1.DriverRef, ref *slotwisev1.DriverRef) bool {
	return slices.ContainsFunc(refs, func(r *slotwisev1.DriverRef) bool { return proto.Equal(r, ref) })
}

// registerDrivers compares the drivers that a worker lists with the drivers that the core
// has assigned to it.
func (c *Core) registerDrivers(w *worker, listed []*slotwisev1.DriverRef) {
	c.keepDrivers(w, listed, "the worker has registered without it")
	for _, ref := range listed {
		if c.currentDriver(w, ref) == nil {
			c.sendStop(w.session, ref, "another driver has taken over")
		}
	}
}

// currentDriver returns the chain whose current driver is ref on w, or nil.
func (c *Core) currentDriver(w *worker, ref *slotwisev1.DriverRef) *chainEntry {
	id, err := ParseChain(ref.GetChain())
	ch := c.chains.byID[id]
	if err != nil || ch == nil || ch.driver.worker != w.name || ch.driver.try != ref.GetTry() {
		return nil
	}
	return ch
}

// reportDrivers takes in what a heartbeat says about drivers. A complete heartbeat lists
// all drivers of the worker, except drivers whose orders may not have arrived yet.
func (c *Core) reportDrivers(s *session, r *slotwisev1.HeartbeatRequest, complete bool) {
	w := s.worker
	var listed []*slotwisev1.DriverRef
	// Ends count also in an overtaken heartbeat: currentDriver ignores the ones that are known.
	for _, report := range r.Drivers {
		listed = append(listed, report.GetDriver())
		c.reportDriver(s, report)
	}
	// An overtaken heartbeat may lack drivers that have started since.
	if !complete {
		return
	}
	// The worker no longer lists these drivers, so their orders are carried out.
	s.stopping = slices.DeleteFunc(s.stopping, func(ref *slotwisev1.DriverRef) bool { return !containsRef(listed, ref) })
	// These orders may not have arrived yet, so the drivers count as listed, as the launches
	// of attempts do.
	for _, a := range s.outbox {
		if d := a.GetDrive(); d != nil {
			listed = append(listed, d.Driver)
		}
	}
	if len(w.drivers) > 0 {
		c.keepDrivers(w, listed, "the worker does not know it")
	}
	// A worker that leaves would take its drivers down with it, and each loss costs the chain
	// a start from the beginning of its function.
	if s.condition != cluster.Ready {
		c.moveDrivers(w)
	}
}

// reportDriver takes in the state of one driver.
func (c *Core) reportDriver(s *session, r *slotwisev1.DriverReport) {
	ch := c.currentDriver(s.worker, r.GetDriver())
	running := r.State == slotwisev1.AttemptState_ATTEMPT_STATE_RUNNING
	switch {
	// The driver was replaced while its worker was cut off. Its token is refused, but the
	// process occupies a place.
	case ch == nil && running:
		c.sendStop(s, r.GetDriver(), "another driver has taken over")
	case ch == nil || running:
	// The driver is taken off first, because decideChain would order the worker to stop a
	// process that has ended.
	case r.State == slotwisev1.AttemptState_ATTEMPT_STATE_SUCCEEDED:
		c.driverGone(ch)
		c.decideChain(ch, slotwisev1.JobState_JOB_STATE_SUCCEEDED, "")
	case r.State == slotwisev1.AttemptState_ATTEMPT_STATE_FAILED:
		c.driverFailed(ch, r)
	default:
		c.loseDriver(ch, bounds.Cut(r.Error, bounds.Text))
	}
	c.assignDrivers()
}

// driverFailed fails the chain, or starts another driver after a pause.
func (c *Core) driverFailed(ch *chainEntry, r *slotwisev1.DriverReport) {
	d, text := &ch.driver, bounds.Cut(r.Error, bounds.Text)
	c.logInfo("driver failed", "chain", ch.id.String(), "try", d.try, "worker", d.worker, "final", r.Final, "error", text)
	c.driverGone(ch)
	d.failures++
	d.err, d.logTail = text, bounds.Cut(r.LogTail, bounds.Text)
	c.record(ch.driverRecord(c.now))
	// The failure is one that no further try repairs.
	if r.Final {
		c.decideChain(ch, slotwisev1.JobState_JOB_STATE_FAILED, text)
		return
	}
	// Failures count over the whole chain and are never reset: a function that fails in each third step would
	// run for ever.
	if d.failures >= maxDriverFailures {
		c.decideChain(ch, slotwisev1.JobState_JOB_STATE_FAILED, fmt.Sprintf("its driver failed %d times; the last error: %s", d.failures, text))
		return
	}
	// The pause is not in the journal. After a restart the driver starts sooner, and its failures
	// still count.
	d.notBefore = c.now + driverPause<<(d.failures-1)
}

// moveDrivers starts the drivers of a worker that takes no more work elsewhere, as far as
// there is room.
func (c *Core) moveDrivers(w *worker) {
	for _, ch := range slices.Clone(w.drivers) {
		to := c.freeForDriver()
		if to == nil {
			return // it continues until the worker ends it
		}
		c.logInfo("driver moves", "chain", ch.id.String(), "from", w.name, "to", to.name)
		// The function starts again from its beginning elsewhere and meets its ended steps, so a
		// move costs little but time.
		c.stopDriver(ch, "the worker is being drained")
		c.drive(ch, to)
	}
}

// driverWait says why a chain has no driver, "" if it has one or needs none.
func (c *Core) driverWait(ch *chainEntry) string {
	d := &ch.driver
	if ch.outcome != nil || d.worker != "" {
		return ""
	}
	if c.now < d.notBefore {
		return fmt.Sprintf("its driver failed (%d of %d tries) and starts again soon: %s", d.failures, maxDriverFailures, d.err)
	}
	alive, open := 0, 0
	for _, w := range c.list {
		if n := c.tracker.Nodes().Get(w.name); w.session != nil && n != nil && n.Alive() {
			alive++
			if c.takesDrivers(w) && w.session.driverSlots > 0 {
				open++
			}
		}
	}
	switch {
	case alive == 0:
		return "its driver waits for a worker: none is alive"
	case open == 0:
		return fmt.Sprintf("its driver waits for a worker: of %d alive, none takes drivers (all are drained, graylisted, short of disk space, or started with --drivers -1)", alive)
	}
	return fmt.Sprintf("its driver waits for a worker: all %d that take drivers run as many as they may (--drivers)", open)
}
