package sim

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// rack is a group of nodes behind one uplink.
type rack struct {
	name   string
	nodes  []int32
	uplink float64 // bytes a second from other racks; 0 is no limit
	dirty  bool
	// demand is the rate at which the rack's nodes could receive from other racks.
	// level is the highest rate that the uplink allows a transfer.
	demand, level float64
}

// network shares the links above the NICs.
//
// With caps c_i for the transfers from other racks into node i, W_i their total
// weight, rates are min(c_i, λ), where λ is the largest for which Σ W_i·min(c_i,
// λ) is within the link. Filling the NICs first, then the uplinks, then the core
// gives the max-min fair rates, since each transfer's links lie on one path.
//
// A change costs the number of nodes of its rack, if uplinks or the core are
// limited; while the core link is full, the rate of every node.
type network struct {
	core  float64 // bytes a second between racks in all; 0 is no limit
	level float64 // the highest rate that the core link allows a transfer
	racks []int32 // racks whose users have changed
	nodes []int32 // nodes whose users have changed, where uplinks and the core are not limited
	fills []fill
}

// fill is a demand on a link.
type fill struct{ limit, weight float64 }

// touch records that the users of a node's network have changed.
func (w *network) touch(s *sim, nd *node) {
	// The whole rack is computed again anyway.
	if r := &s.racks[nd.rack]; r.dirty {
		return
	} else if r.uplink > 0 || w.core > 0 {
		r.dirty = true
		w.racks = append(w.racks, nd.rack)
		return
	}
	w.nodes = append(w.nodes, nd.index)
}

// share computes the rates of nodes and racks whose users have changed.
func (w *network) share(s *sim) {
	for _, n := range w.nodes {
		s.nodes[n].plant.shareNIC(math.Inf(1), s.now)
	}
	w.nodes = w.nodes[:0]
	if len(w.racks) == 0 {
		return
	}
	for _, r := range w.racks {
		w.fillRack(s, &s.racks[r])
	}
	// A new level of the core changes the rates in all racks. Otherwise only the racks with changed
	// users are computed again.
	if level := w.fillCore(s); level != w.level {
		w.level = level
		w.racks = w.racks[:0]
		for r := range s.racks {
			w.racks = append(w.racks, int32(r))
		}
	}
	for _, r := range w.racks {
		k := &s.racks[r]
		k.dirty = false
		for _, n := range k.nodes {
			w.shareNode(s, n, min(k.level, w.level))
		}
	}
	w.racks = w.racks[:0]
}

// shareNode sets the rates of a node whose transfers from other racks get at most
// level.
func (w *network) shareNode(s *sim, n int32, level float64) {
	p := &s.nodes[n].plant
	near, far := &p.station[useNear], &p.station[useFar]
	if len(near.users)+len(far.users) == 0 {
		return
	}
	p.shareNIC(level, s.now)
	// share reschedules the nodes on its list itself.
	if !p.dirty {
		s.reschedule(n)
	}
}

// fair returns the rate of each of the node's transfers if only the NIC limits them.
func (p *plant) fair() float64 {
	return limit(p.nic) / float64(len(p.station[useNear].users)+len(p.station[useFar].users))
}

// shareNIC sets the rates of a node's transfers. Transfers from other racks get at most
// level; transfers within the rack share the rest.
func (p *plant) shareNIC(level float64, now time.Duration) {
	near, far := &p.station[useNear], &p.station[useFar]
	if len(near.users)+len(far.users) == 0 {
		return
	}
	near.advance(now)
	far.advance(now)
	rate := p.fair()
	near.rate, far.rate = rate, min(rate, level)
	// Transfers from other racks cannot use their share, so those within the rack get the rest.
	if far.rate < rate && len(near.users) > 0 {
		near.rate = (p.nic - float64(far.rate*float64(len(far.users)))) / float64(len(near.users))
	}
}

// fillRack computes level and demand of a rack.
func (w *network) fillRack(s *sim, r *rack) {
	w.fills = w.fills[:0]
	for _, n := range r.nodes {
		if p := &s.nodes[n].plant; p.station[useFar].weight > 0 {
			w.fills = append(w.fills, fill{p.fair(), p.station[useFar].weight})
		}
	}
	r.level, r.demand = pour(w.fills, limit(r.uplink))
}

// fillCore returns the level of the core link.
func (w *network) fillCore(s *sim) float64 {
	if w.core == 0 {
		return math.Inf(1)
	}
	demand := 0.
	for r := range s.racks {
		demand += s.racks[r].demand
	}
	// Not full, so no transfer is slowed by the core. Sorting all demands would find the same.
	if demand <= w.core {
		return math.Inf(1)
	}
	w.fills = w.fills[:0]
	for r := range s.racks {
		k := &s.racks[r]
		for _, n := range k.nodes {
			if p := &s.nodes[n].plant; p.station[useFar].weight > 0 {
				w.fills = append(w.fills, fill{min(k.level, p.fair()), p.station[useFar].weight})
			}
		}
	}
	level, _ := pour(w.fills, w.core)
	return level
}

// pour returns the greatest level λ with Σ weight·min(limit, λ) ≤ capacity, which
// is infinite if the link is not full, and that sum. It sorts the demands.
func pour(fills []fill, capacity float64) (level, used float64) {
	total, weight := 0., 0.
	for _, f := range fills {
		total += float64(f.limit * f.weight)
		weight += f.weight
	}
	if total <= capacity || len(fills) == 0 {
		return math.Inf(1), total
	}
	slices.SortFunc(fills, func(a, b fill) int { return cmp.Compare(a.limit, b.limit) })
	left := capacity
	// The last one is not poured out: rounding alone could bring us there.
	for _, f := range fills[:len(fills)-1] {
		if float64(f.limit*weight) >= left {
			break
		}
		left -= float64(f.limit * f.weight)
		weight -= f.weight
	}
	return left / weight, capacity
}
