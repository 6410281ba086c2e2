// Package nodeload lets a program run jobs under policies that learn from how
// busy the machine is.
//
//	mapreduce.Run(ctx, job, mapreduce.Options{
//		Cluster:  mapreduce.ClusterOptions{Policy: "learning-nb"},
//		Features: []mapreduce.Feature{nodeload.Meter()},
//		…
//	})
package nodeload

import (
	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/internal/live/nodeload"
	"github.com/slotwise/slotwise/mapreduce"
)

// Meter returns the feature that measures this machine's processors, memory,
// disks and network while jobs run.
func Meter() mapreduce.Feature {
	return feature.Feature{NewLoadMeter: nodeload.Meter}
}
