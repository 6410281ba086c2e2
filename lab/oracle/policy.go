package main

import (
	"fmt"
	"maps"
	"strings"

	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/policies/hadoop/fair"
	"github.com/slotwise/slotwise/policies/hadoop/hadoopconf"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// profile is the policy profile that imitates the recorded version of Hadoop.
const profile = "hadoop-1.2"

// policy builds the policy that a script describes.
func (s *setup) policy() (sched.Policy, error) {
	set := map[string]string{"profile": profile}
	switch s.scheduler {
	case "fair":
		own, _, err := hadoopconf.FairSettings(s.props)
		if err != nil {
			return nil, err
		}
		// The recordings were made with Hadoop's automatic wait at its
		// shortest interval of heartbeats, 300 ms.
		set["node-wait"], set["rack-wait"] = "450ms", "450ms"
		maps.Copy(set, own)
		set["pools"] = strings.Join(s.pools, "; ")
	case "capacity":
		own, _, err := hadoopconf.CapacitySettings(s.props, s.queues)
		if err != nil {
			return nil, err
		}
		maps.Copy(set, own)
	case "fifo":
	default:
		return nil, fmt.Errorf("unknown scheduler %q", s.scheduler)
	}
	return policies.Build(s.scheduler, sched.Options{Set: set})
}

// queued is implemented by orders that serve queues in a certain order.
type queued interface{ QueueOrder(k job.Kind) []string }

// show prints the shares of pools and users and the order of queues. At the start it
// prints only the order.
func (p *player) show(running bool) {
	for _, part := range p.tr.Policy().(sched.Parted).Parts() {
		switch o := part.(type) {
		case *fair.Order:
			if running {
				p.showShares(o)
			}
		case queued:
			at := ""
			if running {
				at = fmt.Sprintf(" t=%d", millis(p.now))
			}
			fmt.Fprintf(p.out, "queueorder%s map [%s] reduce [%s]\n", at,
				strings.Join(o.QueueOrder(job.Map), ", "), strings.Join(o.QueueOrder(job.Reduce), ", "))
		}
	}
}

func (p *player) showShares(f *fair.Order) {
	for _, s := range f.Shares() {
		what := fmt.Sprintf("pool t=%d %s", millis(p.now), s.Pool)
		if s.Job != nil {
			what = fmt.Sprintf("jobshare t=%d %s", millis(p.now), p.names[s.Job.ID()-1])
		}
		fmt.Fprintf(p.out, "%s %s min=%d demand=%d share=%.6f running=%d weight=%.6f\n", what,
			strings.ToUpper(s.Kind.String()), s.Min, s.Demand, s.Share, s.Running, s.Weight)
	}
}
