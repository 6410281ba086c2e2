package sim

import "github.com/slotwise/slotwise/internal/virtual/workload"

// This file models what the distance of a map's data costs where a trace states the map's time
// (ModelConfig.Distance). The time comes from a map beside its data, or from an average that is
// mostly such maps. A map that runs on another node must bring its input over the network while
// it computes, so it takes the larger one of its time and the transfer's. Transfers
// share the links of network.go: the NIC of the reading node, and between racks the uplink too.
//
// Jobs of a mix are exempt, because tasks of a stated time sleep in a real run and read nothing.
// Traces without bytes, such as SLS and Google's, read nothing either. A history of slotwise is
// exempt because its times contain its reads, from wherever they were: its maps are fast enough for
// a guessed network card to matter.

// Distance describes the links of a cluster that states none. The zero value makes the distance
// of data free for tasks of given duration.
type Distance struct {
	// NIC is the bandwidth of a node in bytes a second. 0 turns the model off.
	NIC float64
	// Oversubscription is the bandwidth of all NICs of a rack over the bandwidth of the rack's
	// uplink. 0 leaves uplinks without a limit.
	Oversubscription float64
}

// remote reports whether the run charges tasks of given duration for reads from other nodes:
// the world says so, and some job comes from a trace.
func remote(cfg *Config) bool {
	if cfg.Model.Distance.NIC == 0 {
		return false
	}
	for i := range cfg.Jobs {
		if readsFar(cfg.Jobs[i].Origin) {
			return true
		}
	}
	return false
}

// readsFar reports whether maps of given duration read from other nodes if their durations come
// from there.
func readsFar(o workload.Origin) bool { return o == workload.Computed || o == workload.Recorded }

// addLinks gives nodes and racks without stated bandwidths the world's. Nodes that are
// together on one machine have no network between them.
func (s *sim) addLinks() {
	d := &s.model.Distance
	for i := range s.nodes {
		if nd := &s.nodes[i]; nd.plant.nic == 0 && nd.mates == 1 {
			nd.plant.nic = d.NIC
		}
	}
	// Within one rack no transfer crosses an uplink.
	if len(s.racks) == 1 || d.Oversubscription == 0 {
		return
	}
	for r := range s.racks {
		k := &s.racks[r]
		if k.uplink > 0 {
			continue
		}
		all := 0.
		for _, n := range k.nodes {
			all += s.nodes[n].plant.nic
		}
		k.uplink = all / d.Oversubscription
	}
}

// addRead adds the transfer of a map's input from another node before its work. nextStage
// subtracts the transfer's time from the work, since both run at the same time.
func (s *sim) addRead(a *attempt, t *workload.Task) {
	u := readFrom(a.level)
	if !s.remote || u == useDisk || t.Input == 0 || !readsFar(a.job.spec.Origin) || s.unlimited(&s.nodes[a.node], u) {
		return
	}
	amount := float64(t.Input)
	a.reads = true
	a.add(stage{use: u, amount: amount, alone: amount / s.alone(&s.nodes[a.node], u)})
}

// reading reports whether an attempt of given duration is in its transfer from another node.
func (a *attempt) reading() bool { return a.reads && a.current+2 == a.count }

// overlapRead shortens the work of an attempt by the time of its transfer, which has just ended.
func (s *sim) overlapRead(a *attempt) {
	took := s.now - a.from
	a.read = took
	st := &a.stages[a.count-1]
	// Both run at the same time, so the attempt takes the longer of work and transfer.
	st.span = max(0, st.span-took)
	// On a machine with limited memory the work is an amount of the clock. A rest of zero would
	// divide by zero in the computation of progress.
	st.amount = max(1e-9, st.amount-took.Seconds())
	st.alone = st.amount
}

// readProgress returns the progress of an attempt in its transfer: as far as both its work and
// its bytes allow.
func (s *sim) readProgress(a *attempt) float64 {
	st := &a.stages[a.current]
	left := s.machine(a).plant.station[a.station].left(a.self, s.now)
	return min(fraction(s.now-a.from, a.span), 1-left/st.amount)
}
