package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/slotwise/slotwise/sched/cluster"
)

// node is a virtual node. The fields that an idle heartbeat reads come first, so that
// they share a cache line.
type node struct {
	name     string
	attempts []int32 // running, or ended and not reported yet; oldest first
	beatGen  uint32
	users    int32 // users of its stations
	machine  int32 // the node whose resources it uses: itself, unless its group is Together
	mates    int32 // nodes on its machine, including itself
	// regularAt is the time from which on a heartbeat counts as regular, not as early.
	regularAt time.Duration
	cores     float64
	load      load
	life      uint32 // number of crashes and returns; the gen of such events
	index     int32
	rack      int32
	up        bool
	free      []int32 // its unused entries of sim.attempts
	holds     []hold  // slots that overheads occupy
	idle      []process
	spec      cluster.Spec
	plant     plant
}

// placeBlock appends the hosts of a block, as HDFS chooses them for a client
// outside the cluster: the first at random, the second in another rack, the
// third in the rack of the second, on another node. If there is no such node, any node
// without a copy serves.
func (s *sim) placeBlock(g *rand.PCG, hosts []string, copies int) []string {
	first := s.anyNode(g)
	hosts = append(hosts, s.nodes[first].spec.Host)
	if copies == 1 {
		return hosts
	}
	second := s.anyNode(g)
	// Not the number of racks: a cluster may state racks without nodes, and then no node fits.
	others := len(s.racks[s.nodes[first].rack].nodes) < len(s.nodes)
	// Drawn again until it fits: a draw among the fitting nodes would need a list for each block.
	for !s.fits(second, first, others) {
		second = s.anyNode(g)
	}
	hosts = append(hosts, s.nodes[second].spec.Host)
	if copies == 2 {
		return hosts
	}
	mates := s.racks[s.nodes[second].rack].nodes
	third := mates[pick(g, len(mates))]
	// Two nodes of a rack suffice only if the first copy is in another one.
	if enough := len(mates) > 2 || len(mates) == 2 && s.nodes[first].rack != s.nodes[second].rack; enough {
		for third == second || third == first {
			third = mates[pick(g, len(mates))]
		}
	} else {
		for third = s.anyNode(g); third == second || third == first; {
			third = s.anyNode(g)
		}
	}
	return append(hosts, s.nodes[third].spec.Host)
}

// fits reports whether a second copy may go to a node: it must be in another rack, or
// another node if all nodes are in one rack.
func (s *sim) fits(n, first int32, racks bool) bool {
	if racks {
		return s.nodes[n].rack != s.nodes[first].rack
	}
	return n != first
}

func (s *sim) anyNode(g *rand.PCG) int32 { return int32(pick(g, len(s.nodes))) }

// pick draws a number from 0 to n-1. Its bias, below n/2⁶⁴, is negligible.
func pick(g *rand.PCG, n int) int { return int(g.Uint64() % uint64(n)) }

// build makes the nodes and racks. Nodes go to the racks in turn, so that each
// group is spread over all.
func (s *sim) build() error {
	c := &s.cfg.Cluster
	racks := max(1, c.Racks)
	s.racks = make([]rack, racks)
	for r := range s.racks {
		s.racks[r] = rack{name: fmt.Sprintf("/rack%d", r+1), uplink: float64(c.RackUplink)}
	}
	s.net = network{core: float64(c.CoreLink), level: math.Inf(1)}
	for _, x := range []float64{float64(c.RackUplink), s.net.core} {
		if !(x >= 0 && x <= math.MaxFloat64) {
			return fmt.Errorf("cluster: bandwidth between racks is %v, must not be negative", x)
		}
	}
	if err := c.CheckBeside(); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	for i := range c.Groups {
		if err := s.addGroup(i); err != nil {
			return err
		}
	}
	if len(s.nodes) == 0 {
		return fmt.Errorf("cluster: no nodes")
	}
	s.addBeside()
	for i := range s.nodes {
		nd := &s.nodes[i]
		// The part of a shuffle that crosses racks, if map outputs are spread evenly over the other
		// nodes.
		if others := len(s.nodes) - 1; others > 0 {
			nd.plant.outside = float64(len(s.nodes)-len(s.racks[nd.rack].nodes)) / float64(others)
		}
	}
	if s.remote {
		s.addLinks()
	}
	// Applied to the machine: nodes of a group that is together share it.
	for _, x := range s.model.Slow {
		if x.Node >= 0 && x.Node < len(s.nodes) && x.Factor > 0 {
			p := &s.nodes[s.nodes[x.Node].machine].plant
			p.speed, p.disk, p.nic = p.speed/x.Factor, p.disk/x.Factor, p.nic/x.Factor
		}
	}
	return nil
}

// addBeside counts the nodes on each machine of several groups, and adds the slots and the memory of
// the later groups to the machine of the first.
func (s *sim) addBeside() {
	after := 0 // number of nodes up to the end of the group
	for i := range s.cfg.Cluster.Groups {
		g := &s.cfg.Cluster.Groups[i]
		after += g.Count
		if !g.Beside || g.Count == 0 {
			continue
		}
		first := s.nodes[after-1].machine
		m := &s.nodes[first].plant
		m.memory += float64(g.Memory) * float64(g.Count)
		slots := 0
		for n := first; int(n) < after; n++ {
			s.nodes[n].mates = int32(after) - first
			slots += s.nodes[n].spec.MapSlots + s.nodes[n].spec.ReduceSlots
		}
		// The slots of all groups: recorded durations contain the cost of tasks to each other within the slots.
		m.room = max(m.room, float64(slots))
	}
}

// addGroup makes the nodes of a group.
func (s *sim) addGroup(i int) error {
	g := &s.cfg.Cluster.Groups[i]
	first := int32(len(s.nodes))
	if g.Beside {
		first = s.nodes[first-1].machine
		beside := *g
		beside.Speed = s.nodes[first].spec.Speed
		g = &beside
	}
	name := g.Name
	if name == "" {
		name = "node"
	}
	for _, x := range []float64{g.Speed, float64(g.Cores), float64(g.DiskBandwidth), float64(g.NICBandwidth)} {
		if !(x >= 0 && x <= math.MaxFloat64) {
			return fmt.Errorf("cluster: group %s: cores, speed and bandwidths are %v, must not be negative", name, x)
		}
	}
	// One network card cannot be in two racks, so limits between racks would be meaningless.
	if g.Together && len(s.racks) > 1 && (g.NICBandwidth > 0 || s.net.core > 0 || s.racks[0].uplink > 0) {
		return fmt.Errorf("cluster: the nodes of group %s are together on one machine, so they cannot be in %d racks with limited bandwidths",
			name, len(s.racks))
	}
	if g.Rack < 0 || g.Rack > len(s.racks) || g.Hosts != nil && len(g.Hosts) != g.Count {
		return fmt.Errorf("cluster: group %s: rack %d of %d, and %d names for %d nodes", name, g.Rack, len(s.racks), len(g.Hosts), g.Count)
	}
	for k := range g.Count {
		n := int32(len(s.nodes))
		r := int(n) % len(s.racks)
		// A recorded cluster says which rack a group is in. Otherwise groups are spread, as nodes
		// of one kind usually are.
		if g.Rack > 0 {
			r = g.Rack - 1
		}
		host := fmt.Sprintf("%s%d", name, n+1)
		if g.Hosts != nil {
			host = g.Hosts[k]
		}
		spec := cluster.Spec{Name: host, Rack: s.racks[r].name, MapSlots: g.MapSlots,
			ReduceSlots: g.ReduceSlots, Cores: s.cfg.Cluster.NodeCores(i), Speed: g.Speed, MemoryBytes: g.Memory}
		spec.Host = spec.Name
		if err := spec.Check(); err != nil {
			return fmt.Errorf("cluster: %w", err)
		}
		// Names are the tracker's identity of nodes: the second would replace the first without a
		// sign.
		if _, twice := s.byName[spec.Name]; twice {
			return fmt.Errorf("cluster: two nodes are called %s", spec.Name)
		}
		nd := node{name: spec.Name, cores: float64(float64(g.Processors()) * (1 - s.model.CoreOverhead)), spec: spec, index: n, rack: int32(r), up: true,
			machine: n, mates: 1}
		if g.Together || g.Beside {
			nd.machine, nd.mates = first, int32(g.Count)
		}
		nd.plant = plant{speed: g.Speed, disk: float64(g.DiskBandwidth),
			nic: float64(g.NICBandwidth), memory: float64(machineMemory(g)), slower: 1, crowded: 1, room: room(g), next: never}
		// 0 is a normal speed in cluster.Spec, but here it is a divisor.
		if g.Speed == 0 {
			nd.plant.speed = 1
		}
		s.byName[spec.Name] = n
		s.racks[r].nodes = append(s.racks[r].nodes, n)
		if nd.machine == n {
			s.machines++
		}
		s.nodes = append(s.nodes, nd)
	}
	return nil
}
