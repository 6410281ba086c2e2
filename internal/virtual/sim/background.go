package sim

import (
	"fmt"
	"time"
)

// Background is the share of the processors that other programs take on machines from a time on,
// until the next entry of the machine. Tasks share the rest: with a share of a half, as many
// processes as processors compute at half speed. The load that nodes report contains it.
//
// A measured share was taken while the others competed with the tasks, so it is also right
// on a machine whose processors are all busy.
type Background struct {
	At time.Duration
	// Node is the index of a node of the machine, or -1 for all machines.
	Node int
	// Share is at least 0 and at most mostBackground.
	Share float64
}

// mostBackground keeps tasks from standing still: a run whose tasks get no processor never ends.
const mostBackground = 0.99

// check returns an error for an entry that a cluster of n nodes cannot have.
func (b *Background) check(n int) error {
	switch {
	case b.Node < -1 || b.Node >= n:
		return fmt.Errorf("model: background of node %d, there are %d", b.Node, n)
	case b.At < 0:
		return fmt.Errorf("model: background at %v, must not be negative", b.At)
	case !(b.Share >= 0 && b.Share <= mostBackground):
		return fmt.Errorf("model: background takes a share of %g, must be from 0 to %g", b.Share, mostBackground)
	}
	return nil
}

// setBackground begins an entry of ModelConfig.Background.
func (s *sim) setBackground(i int32) {
	b := &s.model.Background[i]
	if b.Node >= 0 {
		s.takeShare(&s.nodes[s.nodes[b.Node].machine], b.Share)
		return
	}
	for n := range s.nodes {
		if nd := &s.nodes[n]; nd.machine == int32(n) {
			s.takeShare(nd, b.Share)
		}
	}
}

// takeShare changes the share of a machine's processors that other programs take.
func (s *sim) takeShare(nd *node, share float64) {
	p := &nd.plant
	if share == p.others {
		return
	}
	s.disturb(nd.index) // its heartbeats so far have measured the former load
	// The load so far belongs to the former share.
	s.advanceLoad(nd)
	p.others = share
	if s.model.Contention {
		s.crowd(nd)
	}
	p.station[useCPU].advance(s.now)
	s.touched(nd, useCPU)
}

// wanted returns the number of processors that all processes of a machine want, if its tasks
// want n.
func (nd *node) wanted(n float64) float64 {
	return n + float64(nd.plant.others*nd.cores)
}
