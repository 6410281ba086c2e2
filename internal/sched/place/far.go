package place

import (
	"cmp"
	"slices"

	"github.com/slotwise/slotwise/internal/cluster"
	"github.com/slotwise/slotwise/internal/job"
	"github.com/slotwise/slotwise/sched"
)

// bindOffRack declares the parameter "off-rack", which all places share.
func bindOffRack(byRack *bool) sched.Binding {
	return sched.Bind(byRack, sched.Switch("first", "by-rack"), sched.Param{Name: "off-rack", Default: "first",
		Help: "Which map a node gets if no map has data in its rack: first (the first in order) or by-rack (the first with data in " +
			"the alphabetically first rack, and maps without locations last, as in Hadoop 1.2.1)."})
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
