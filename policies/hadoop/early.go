package hadoop

import (
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Early says in which slots, and from when on, a reduce may wait for the maps of its
// job. A job's slow start holds in addition. Every slots part has the parameter
// early-reduces, which sets it.
type Early uint8

// The values of Early.
const (
	// EarlyOn permits waiting in every slot that the part offers.
	EarlyOn Early = iota
	// EarlyOwn permits waiting in reduce slots, as Hadoop 1 does. A reduce that waits
	// in a map slot occupies a slot that those maps need.
	EarlyOwn
	// EarlyGate permits waiting once no map of the job waits for a slot. Reduces then
	// fetch while the last maps run, and keep no slot from their own job's maps.
	EarlyGate
	// EarlyOff permits no waiting: a reduce starts when all maps of its job are done.
	EarlyOff
)

// BindEarly declares the parameter early-reduces with a default.
func BindEarly(field *Early, value string) sched.Binding {
	return sched.Bind(field, sched.Enum[Early]("on", "own", "gate", "off"), sched.Param{Name: "early-reduces", Default: value,
		Tune: []string{"on", "own", "gate", "off"},
		Help: "Where a reduce may wait for the maps of its job, once the job's slow start permits: on (in any slot), own (in reduce " +
			"slots), gate (in any slot, once no map of the job waits for one) or off (nowhere: reduces start when all maps are done). " +
			"A reduce that waits fetches map outputs sooner, and keeps its slot from tasks that could run."})
}

// Restrict keeps an offer of a slot from the reduces that must not wait in it.
func (e Early) Restrict(o sched.Offer, slot job.Kind) sched.Offer {
	o.MapsDone = o.MapsDone || e == EarlyOff || e == EarlyOwn && slot == job.Map
	o.MapsStarted = o.MapsStarted || e == EarlyGate
	o.OwnSlot = e == EarlyOwn && o.Either
	return o
}

// Admits reports whether reduces of the job may start in some slot.
func (e Early) Admits(j *job.Job) bool {
	// Some slot, so EarlyOwn admits all: whether a node has a reduce slot left is the offer's business.
	return e < EarlyGate || j.MapsDone() || e == EarlyGate && j.MapsStarted()
}
