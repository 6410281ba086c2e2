package place

import (
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

func (c *DelayConfig) bind() sched.Bindings {
	waits := sched.Or("auto", -1, sched.DurationFrom(0))
	return sched.Bindings{
		sched.Bind(&c.NodeWait, waits, sched.Param{Name: "node-wait", Default: "auto",
			Help: "How long a job waits for a slot on a machine that holds its data. auto is 1.5 times the time between two heartbeats " +
				"of a node, at most 15s. Long waits leave slots free."}),
		sched.Bind(&c.RackWait, waits, sched.Param{Name: "rack-wait", Default: "auto",
			Help: "How much longer a job waits for a slot in the same rack as its data before it takes any slot; auto as in node-wait."}),
		bindWaitUntil(&c.AnyHeartbeat),
		bindOffRack(&c.ByRack),
	}
}

// bindWaitUntil declares the parameter "wait-until", which Delay and Dynamic
// share.
func bindWaitUntil(anyHeartbeat *bool) sched.Binding {
	return sched.Bind(anyHeartbeat, sched.Switch("turn", "heartbeat"), sched.Param{Name: "wait-until", Default: "turn",
		Help: "How much time counts as waiting after a job has declined a slot: turn (until its next turn, but at most twice the time " +
			"between two heartbeats of a node) or heartbeat (until the next heartbeat of any node, as in Hadoop 1.2.1; on large " +
			"clusters that counts so little that a job waits far longer than configured)."})
}

// DelayParams documents the parameters of Delay.
var DelayParams = new(DelayConfig).bind().Params()

// ReadDelay returns Delay with the parameters that the user has set.
func ReadDelay(k *sched.Kit) (sched.Place, error) {
	var c DelayConfig
	if err := k.Read(c.bind()); err != nil {
		return nil, err
	}
	return NewDelay(c), nil
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
