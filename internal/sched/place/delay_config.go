package place

import (
	"errors"
	"time"

	"github.com/slotwise/slotwise/sched"
)

// DelayConfig configures Delay.
type DelayConfig struct {
	// NodeWait is how long a job waits for a node that holds its data, RackWait
	// how much longer for one in the same rack. Negative is 1.5 times the mean
	// time between two heartbeats of a node, but at most 15 s. 0 does not wait.
	// Waits of many heartbeats leave slots free.
	NodeWait, RackWait time.Duration
	// AnyHeartbeat ends the time that counts with the next heartbeat of any
	// node, as Hadoop 1.2.1 does; see Delay.
	AnyHeartbeat bool
	// ByRack orders far maps by rack; see OffRack.
	ByRack bool
}

// DelayParams are the parameters that ReadDelay reads.
var DelayParams = []sched.Param{
	{Name: "node-wait", Default: "auto", Help: "How long a job waits for a slot on a machine that holds its data, a duration; " +
		"auto is 1.5 times the time between two heartbeats of a node, at most 15s. Long waits leave slots free."},
	{Name: "rack-wait", Default: "auto", Help: "How much longer a job waits for a slot in the same rack as its data before it " +
		"takes any; as node-wait."},
	{Name: "wait-until", Default: "turn", Help: "When the time that counts as waiting ends. turn: with the job's next turn, " +
		"but at most twice the time between two heartbeats of a node. heartbeat: with the next heartbeat of any node, as in Hadoop " +
		"1.2.1, by which a job may wait much longer than it should."},
	OffRack,
}

// ReadDelay makes a delaying placer from its parameters.
func ReadDelay(k *sched.Kit) (sched.Place, error) {
	var c DelayConfig
	var errs [4]error
	c.NodeWait, errs[0] = sched.Setting(k, "node-wait", ParseWait)
	c.RackWait, errs[1] = sched.Setting(k, "rack-wait", ParseWait)
	c.AnyHeartbeat, errs[3] = sched.Setting(k, "wait-until", parseUntil)
	c.ByRack, errs[2] = sched.Setting(k, OffRack.Name, ParseOffRack)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return NewDelay(c), nil
}

// ParseWait reads a duration of at least 0, or auto as -1.
func ParseWait(s string) (time.Duration, error) {
	if s == "auto" {
		return -1, nil
	}
	d, err := time.ParseDuration(s)
	if err == nil && d < 0 {
		err = errors.New("must be auto or at least 0")
	}
	return d, err
}

func parseUntil(s string) (bool, error) {
	if s != "turn" && s != "heartbeat" {
		return false, errors.New("must be turn or heartbeat")
	}
	return s == "heartbeat", nil
}

// maxAutoWait bounds the wait that is measured.
const maxAutoWait = 15 * time.Second

// interval measures the time between two heartbeats of a node, as a mean over
// all nodes in which old values fade and the silence of one node counts little.
type interval struct {
	last []time.Duration // by node, -1 before its first heartbeat
	mean time.Duration
}

func (v *interval) heard(node int32, now time.Duration) {
	for int(node) >= len(v.last) {
		v.last = append(v.last, -1)
	}
	if before := v.last[node]; before >= 0 {
		gap := now - before
		if v.mean == 0 {
			v.mean = gap
		}
		v.mean += (min(gap, 4*v.mean) - v.mean) / 16
	}
	v.last[node] = now
}

// wait is Hadoop's automatic wait.
func (v *interval) wait() time.Duration { return min(v.mean*3/2, maxAutoWait) }
