package console

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/slotwise/slotwise/internal/console/source"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// nodeLoads records the slots in use and the load of each node for the last half hour.
type nodeLoads struct {
	mu struct {
		sync.Mutex
		nodes map[string][]nodeSample
	}
}

// nodeSample is a node's load at a time.
type nodeSample struct {
	at            int64   // ms since the Unix epoch
	cpu, memory   float32 // shares in use
	maps, reduces int32   // slots in use
}

// Bounds of the record. All nodes are sampled at once. The time between two samples is at
// least insightRest times as long as the last one took.
const (
	nodeStep   = 10 * time.Second
	nodeLength = 180
	mostLoads  = 2000 // nodes
)

// follow samples the source until ctx ends.
func (l *nodeLoads) follow(ctx context.Context, source source.Source) {
	sampleEach(ctx, nodeStep, func(now time.Time) {
		if list, _, err := source.Nodes(ctx, ""); err == nil {
			l.add(now, list)
		}
	})
}

// add records a sample of all nodes and forgets nodes that are gone.
func (l *nodeLoads) add(at time.Time, list []*slotwisev1.NodeStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// A new map each time: the nodes of a cluster that scales have new names for ever, and a map never
	// shrinks.
	before := l.mu.nodes
	l.mu.nodes = make(map[string][]nodeSample, min(len(list), mostLoads))
	for _, n := range list[:min(len(list), mostLoads)] {
		ring := before[n.Name]
		if len(ring) >= nodeLength {
			// Moved to the front of its array. If the front were cut off instead, append would need a new
			// array now and then.
			ring = ring[:copy(ring, ring[len(ring)-nodeLength+1:])]
		}
		l.mu.nodes[n.Name] = append(ring, nodeSample{at.UnixMilli(), float32(n.Cpu), float32(n.Memory), n.Maps, n.Reduces})
	}
}

// sections draws the record of a node.
func (l *nodeLoads) sections(name string, now time.Time) (out []*section) {
	const span = nodeLength * nodeStep
	lines := []line{{"Slots in use", "", "maps"}, {"Slots in use", "", "reduces"}, {"Load", "%", "processors"}, {"Load", "%", "memory"}}
	var list []insightSample
	l.mu.Lock()
	for _, s := range l.mu.nodes[name] {
		if s.at >= now.Add(-span).UnixMilli() {
			list = append(list, insightSample{time.UnixMilli(s.at), []float64{float64(s.maps), float64(s.reduces), 100 * float64(s.cpu), 100 * float64(s.memory)}})
		}
	}
	l.mu.Unlock()
	for i, chart := range []string{"Load", "Slots in use"} {
		if c := lineChart(chart, lines, list, now, span); c != nil {
			out = append(out, &section{ID: "load" + strconv.Itoa(i), Title: c.Title + ", last 30 minutes", Half: true, Chart: c})
		}
	}
	return out
}
