package place

import (
	"cmp"
	"errors"
	"slices"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// OffRack is the parameter that ParseOffRack reads.
var OffRack = sched.Param{Name: "off-rack", Default: "first", Help: "Which map goes to a node in whose rack no map has " +
	"data. first: the first in order. by-rack: the first with data in the first rack by name, maps without any place " +
	"last; so Hadoop 1.2.1 does."}

// ParseOffRack reads first or by-rack, and reports whether it is the latter.
func ParseOffRack(s string) (bool, error) {
	if s != "first" && s != "by-rack" {
		return false, errors.New("must be first or by-rack")
	}
	return s == "by-rack", nil
}

// search finds the best map never launched for a node.
type search struct {
	byRack bool
	racks  []int32 // all racks by name
}

// best is job.BestFresh with a choice of the order among far maps.
func (s *search) best(r *sched.Round, j *job.Job, within cluster.Level) (*job.Task, cluster.Level) {
	host, rack := r.Node().Host(), r.Node().Rack()
	if !s.byRack || within < cluster.ANY {
		return j.BestFresh(host, rack, within)
	}
	if t, level := j.BestFresh(host, rack, cluster.RACK); t != nil {
		return t, level
	}
	s.sortRacks(r.Nodes())
	for _, other := range s.racks {
		if t := j.FreshIn(other); t != nil {
			return t, cluster.ANY
		}
	}
	return j.BestFresh(host, rack, within)
}

// sortRacks brings the list of racks up to date; racks are never forgotten.
func (s *search) sortRacks(nodes *cluster.List) {
	if len(s.racks) == nodes.Racks() {
		return
	}
	for i := len(s.racks); i < nodes.Racks(); i++ {
		s.racks = append(s.racks, int32(i))
	}
	slices.SortFunc(s.racks, func(a, b int32) int { return cmp.Compare(nodes.RackName(a), nodes.RackName(b)) })
}
