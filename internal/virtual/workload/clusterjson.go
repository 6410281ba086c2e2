package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxClusterFile bounds the bytes of a cluster file.
const maxClusterFile = 64 << 20

// jsonNode is a node in the files of other tools, and in what slotwise nodes prints.
type jsonNode struct {
	// SLS: {"rack":"r1","nodes":[{"node":"n1","memory-mb":2048,"vcores":6}]}
	Node     string `json:"node"`
	MemoryMB int64  `json:"memory-mb"`
	VCores   int    `json:"vcores"`
	// slotwise nodes -o json
	Name        string `json:"name"`
	Rack        string `json:"rack"`
	State       string `json:"state"`
	MapSlots    int    `json:"map_slots"`
	ReduceSlots int    `json:"reduce_slots"`
	SlotMemory  int64  `json:"slot_memory"`
	CPUs        int    `json:"cpus"`
}

// jsonRack is a rack of SLS, or a level of a topology of Rumen and Mumak. The last level
// has no children: its names are hosts.
type jsonRack struct {
	Rack     string          `json:"rack"`
	Nodes    []jsonNode      `json:"nodes"`
	Name     string          `json:"name"`
	Children []jsonRack      `json:"children"`
	Racks    json.RawMessage `json:"racks"` // only in clusters of this project
}

// usableStates are the states of slotwise's nodes that run tasks or soon do again.
var usableStates = []string{"", "alive", "graylisted", "disk full"}

// clusterBuilder collects the nodes of a file.
type clusterBuilder struct {
	c     Cluster
	racks map[string]int
	names map[string]bool
	total int
}

// readJSONCluster reads the nodes of SLS, a topology of Rumen and Mumak, or what slotwise
// nodes -o json prints. It reports false if the text is none of these.
func readJSONCluster(text []byte) (Cluster, bool, error) {
	b := &clusterBuilder{racks: map[string]int{}, names: map[string]bool{}}
	text = bytes.TrimSpace(text)
	switch {
	case len(text) > 0 && text[0] == '[':
		var nodes []jsonNode
		// Not an error here: the text may be a cluster file of this project in JSON, which the
		// caller reads as YAML.
		if json.Unmarshal(text, &nodes) != nil || len(nodes) == 0 || nodes[0].Name == "" {
			return b.c, false, nil
		}
		for _, n := range nodes {
			// Nodes that are lost or being drained will run nothing.
			if !slices.Contains(usableStates, n.State) {
				continue
			}
			err := b.add(n.Rack, n.Name, NodeGroup{MapSlots: n.MapSlots, ReduceSlots: n.ReduceSlots, Cores: n.CPUs,
				Memory: n.SlotMemory * int64(n.MapSlots+n.ReduceSlots)})
			if err != nil {
				return b.c, true, err
			}
		}
	case len(text) > 0 && text[0] == '{':
		dec := json.NewDecoder(bytes.NewReader(text))
		// The tools write one object after another, without a list around them. Only the first
		// decides whether the file is theirs.
		for first := true; ; first = false {
			var r jsonRack
			err := dec.Decode(&r)
			if errors.Is(err, io.EOF) {
				break
			}
			// "racks" is a key of this project's own files, which are YAML and may be written as JSON.
			known := r.Racks == nil && (r.Rack != "" && len(r.Nodes) > 0 || len(r.Children) > 0)
			if first && (err != nil || !known) {
				return b.c, false, nil
			}
			if err == nil && !known {
				err = errors.New(`an object without "rack" and "nodes", or "children"`)
			}
			if err == nil {
				err = b.rack(&r)
			}
			if err != nil {
				return b.c, true, err
			}
		}
	default:
		return b.c, false, nil
	}
	if b.total == 0 {
		return b.c, true, errors.New("no node that can run tasks")
	}
	b.c.Racks = max(1, len(b.racks))
	return b.c, true, b.c.check()
}

// The heartbeats of clusters whose files come from Hadoop: SLS's default, and the rule of
// the JobTrackers whose logs Rumen reads.
const (
	slsHeartbeat      = "fixed:1s"
	topologyHeartbeat = "hadoop-0.20.2"
)

// rack adds a rack of SLS or a topology.
func (b *clusterBuilder) rack(r *jsonRack) error {
	b.c.Heartbeat = topologyHeartbeat
	if len(r.Nodes) > 0 {
		b.c.Heartbeat = slsHeartbeat
	}
	for _, n := range r.Nodes {
		if err := b.add(r.Rack, n.Node, NodeGroup{Cores: n.VCores, Memory: n.MemoryMB << 20}); err != nil {
			return err
		}
	}
	return b.level(r, "", 0)
}

// maxLevels bounds the levels of a topology.
const maxLevels = 16

// level adds the hosts below a level of a topology. The path of a host without its name is
// its rack.
func (b *clusterBuilder) level(r *jsonRack, above string, depth int) error {
	if depth > maxLevels {
		return fmt.Errorf("a topology of more than %d levels", maxLevels)
	}
	for i := range r.Children {
		c := &r.Children[i]
		name := strings.ReplaceAll(c.Name, `\`, "") // old files escape dots
		if len(c.Children) > 0 {
			if err := b.level(c, above+"/"+name, depth+1); err != nil {
				return err
			}
			continue
		}
		if err := b.add(above, name, NodeGroup{}); err != nil {
			return err
		}
	}
	return nil
}

// add adds a node. Nodes that follow each other and are equal form a group.
func (b *clusterBuilder) add(rack, name string, g NodeGroup) error {
	switch {
	case name == "" || len(name) > 255:
		return fmt.Errorf("a node of rack %.40q has no name, or one of more than 255 bytes", rack)
	case b.names[name]:
		return fmt.Errorf("two nodes are called %s", name)
	case g.MapSlots < 0 || g.ReduceSlots < 0 || g.Cores < 0 || g.Memory < 0 || max(g.MapSlots, g.ReduceSlots, g.Cores) > 1<<16 || g.Memory > maxBytes:
		return fmt.Errorf("node %s has slots, processors or memory below 0 or beyond all bounds", name)
	case b.total == maxNodes:
		return fmt.Errorf("more than %d nodes", maxNodes)
	}
	b.total++
	b.names[name] = true
	// Numbers in the order in which racks appear, since a map's order would differ in each run.
	number, ok := b.racks[rack]
	if !ok {
		number = len(b.racks) + 1
		b.racks[rack] = number
	}
	g.Rack = number
	if n := len(b.c.Groups); n > 0 {
		last := &b.c.Groups[n-1]
		// Equal neighbours alone: the order of nodes is the order of heartbeats, which must not change with
		// the form of the file.
		if last.Rack == g.Rack && last.MapSlots == g.MapSlots && last.ReduceSlots == g.ReduceSlots && last.Cores == g.Cores && last.Memory == g.Memory {
			last.Count++
			last.Hosts = append(last.Hosts, name)
			return nil
		}
	}
	g.Count, g.Hosts = 1, []string{name}
	b.c.Groups = append(b.c.Groups, g)
	return nil
}

// Amend sets keys of the short form, such as maps=4,reduces=2,heartbeat=hadoop-1.2, in all
// groups of a cluster. nodes and racks cannot be changed.
func (c *Cluster) Amend(spec string) error {
	for part := range strings.SplitSeq(spec, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || value == "" {
			return fmt.Errorf("%q is not key=value", part)
		}
		if key == "nodes" || key == "racks" {
			return fmt.Errorf("%s: the file states the nodes and racks", key)
		}
		for i := range c.Groups {
			if err := c.set(&c.Groups[i], key, value); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	return nil
}

// Nodes returns the number of nodes.
func (c *Cluster) Nodes() (n int) {
	for i := range c.Groups {
		n += c.Groups[i].Count
	}
	return n
}

// Slots returns the numbers of slots of both kinds.
func (c *Cluster) Slots() (maps, reduces int) {
	for i := range c.Groups {
		maps += c.Groups[i].Count * c.Groups[i].MapSlots
		reduces += c.Groups[i].Count * c.Groups[i].ReduceSlots
	}
	return maps, reduces
}
