package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxNodes bounds the number of nodes, so that a typing error does not fill the
// memory.
const maxNodes = 1 << 20

// ReadCluster reads a cluster; docs/formats/cluster.md describes the file. It also takes
// the nodes of SLS and the topologies of Rumen and Mumak, whose nodes have no slots until
// Amend states them, and what slotwise nodes -o json prints. Errors name the file and, in
// YAML, the line. The simulator checks the name of the heartbeat profile.
func ReadCluster(file string, in io.Reader) (Cluster, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxClusterFile+1))
	switch {
	case err != nil:
		return Cluster{}, fmt.Errorf("%s: %w", file, err)
	case len(text) > maxClusterFile:
		return Cluster{}, fmt.Errorf("%s: has more than %d bytes", file, maxClusterFile)
	}
	// JSON first, because every JSON text is also YAML.
	if c, ok, err := readJSONCluster(text); ok {
		if err != nil {
			return Cluster{}, fmt.Errorf("%s: %w", file, err)
		}
		return c, nil
	}
	r := &reader{file: file}
	o := r.open(bytes.NewReader(text), "cluster")
	if o == nil {
		return Cluster{}, r.err()
	}
	c := Cluster{Racks: field(o, "racks", 1, whole(1, maxNodes)), Heartbeat: o.text("heartbeat"),
		RackUplink: field(o, "rack-uplink", 0, ParseRate), CoreLink: field(o, "core-link", 0, ParseRate)}
	nodes := o.list("nodes")
	for i, n := range nodes {
		c.Groups = append(c.Groups, r.group(n, i))
	}
	o.end()
	if len(nodes) == 0 {
		r.fail(o.node, "cluster: no nodes")
	}
	// A count that could not be read makes the sums wrong, too. One mistake gets one error.
	if err := c.check(); err != nil && len(r.errs) == 0 {
		r.fail(o.node, "cluster: %s", err)
	}
	return c, r.err()
}

// group reads the i-th group of nodes.
func (r *reader) group(n *yaml.Node, i int) NodeGroup {
	o := r.object(n, fmt.Sprintf("nodes %d", i+1))
	if o == nil {
		return NodeGroup{}
	}
	g := NodeGroup{Name: field(o, "name", "", nonEmpty), Count: field(o, "count", 1, whole(1, maxNodes)),
		Cores: field(o, "cores", 0, whole(0, 1<<16)), Speed: field(o, "speed", 0, number(minSpeed, maxSpeed)),
		Memory:   field(o, "memory", 0, ParseBytes),
		MapSlots: field(o, "maps", 0, whole(0, 1<<16)), ReduceSlots: field(o, "reduces", 0, whole(0, 1<<16)),
		Rack:          field(o, "rack", 0, whole(1, maxNodes)),
		DiskBandwidth: field(o, "disk", 0, ParseRate), NICBandwidth: field(o, "nic", 0, ParseRate)}
	where := field(o, "together", "false", parseTogether)
	g.Together, g.Beside = where == "true", where == "previous"
	kind := field(o, "type", InstanceType{}, FindInstance)
	o.end()
	// After all keys: a type fills what the group does not state, wherever the mapping has the key type.
	kind.fill(&g)
	// Both may be 0: such nodes hold data and run nothing. A group that names neither is a mistake.
	if o.value["maps"] == nil && o.value["reduces"] == nil {
		r.fail(n, "%s: has no slots: neither maps nor reduces", o.what)
	}
	return g
}

// parseTogether checks a value of together.
func parseTogether(text string) (string, error) {
	if text == "true" || text == "false" || text == "previous" {
		return text, nil
	}
	return "", fmt.Errorf("%q, must be true, false or previous", text)
}

// minSpeed and maxSpeed bound the relative speed of a node. On a slower node a task of seconds would
// take longer than times can be, and a simulation of all its heartbeats would not end.
const minSpeed, maxSpeed = 1e-6, 1e6

// check returns an error in the cluster as a whole.
func (c *Cluster) check() error {
	total := 0
	for i := range c.Groups {
		total += c.Groups[i].Count
	}
	switch {
	case total == 0:
		return errors.New("no nodes")
	case total > maxNodes:
		return fmt.Errorf("%d nodes, at most %d", total, maxNodes)
	// Node i is in rack i mod racks, so a rack would stay empty, and a transfer to it be impossible.
	case c.Racks > total:
		return fmt.Errorf("%d racks for %d nodes", c.Racks, total)
	}
	for i := range c.Groups {
		if r := c.Groups[i].Rack; r > max(1, c.Racks) {
			return fmt.Errorf("nodes %d: rack %d of %d", i+1, r, max(1, c.Racks))
		}
	}
	return c.CheckBeside()
}

// Resize gives the only group of a cluster another number of nodes and the cluster another number of racks.
// The names of hosts and the rack belong to the nodes of the file, so Resize drops them where they do not fit.
func (c *Cluster) Resize(nodes, racks int) {
	g := &c.Groups[0]
	g.Count, c.Racks = nodes, racks
	if len(g.Hosts) != nodes {
		g.Hosts = nil
	}
	if g.Rack > racks {
		g.Rack = 0
	}
}

// ParseCluster reads the short form of a cluster of equal nodes, for command
// lines: nodes=600,maps=4,reduces=2,racks=20. The keys are nodes, maps and
// reduces (slots per node), racks, cores, memory, together, speed, disk, nic, uplink,
// core, type and heartbeat. The key nodes and one kind of slots are required.
func ParseCluster(spec string) (Cluster, error) {
	c := Cluster{Racks: 1, Groups: []NodeGroup{{Name: "node"}}}
	g := &c.Groups[0]
	seen := make(map[string]bool)
	for part := range strings.SplitSeq(spec, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || value == "" {
			return Cluster{}, fmt.Errorf("cluster %q: %q is not key=value", spec, part)
		}
		if seen[key] {
			return Cluster{}, fmt.Errorf("cluster %q: %s twice", spec, key)
		}
		seen[key] = true
		if err := c.set(g, key, value); err != nil {
			return Cluster{}, fmt.Errorf("cluster %q: %s: %w", spec, key, err)
		}
	}
	switch {
	case !seen["nodes"]:
		return Cluster{}, fmt.Errorf("cluster %q: no nodes=", spec)
	case g.MapSlots+g.ReduceSlots == 0:
		return Cluster{}, fmt.Errorf("cluster %q: no slots: it needs maps= or reduces= above 0", spec)
	}
	if err := c.check(); err != nil {
		return Cluster{}, fmt.Errorf("cluster %q: %w", spec, err)
	}
	return c, nil
}

// set sets one key of the short form.
func (c *Cluster) set(g *NodeGroup, key, value string) (err error) {
	switch key {
	case "nodes":
		g.Count, err = whole(1, maxNodes)(value)
	case "maps":
		g.MapSlots, err = whole(0, 1<<16)(value)
	case "reduces":
		g.ReduceSlots, err = whole(0, 1<<16)(value)
	case "cores":
		g.Cores, err = whole(1, 1<<16)(value)
	case "memory":
		g.Memory, err = ParseBytes(value)
	case "racks":
		c.Racks, err = whole(1, maxNodes)(value)
	case "speed":
		g.Speed, err = number(minSpeed, maxSpeed)(value)
	case "together":
		g.Together, err = strconv.ParseBool(value)
	case "disk":
		g.DiskBandwidth, err = ParseRate(value)
	case "nic":
		g.NICBandwidth, err = ParseRate(value)
	case "type":
		var t InstanceType
		t, err = FindInstance(value)
		// It fills what the group does not state so far; a later key overrides it.
		t.fill(g)
	case "uplink":
		c.RackUplink, err = ParseRate(value)
	case "core":
		c.CoreLink, err = ParseRate(value)
	case "heartbeat":
		c.Heartbeat = value
	default:
		err = errors.New("unknown; there are nodes, maps, reduces, racks, cores, memory, together, speed, disk, nic, uplink, core, type, heartbeat")
	}
	return err
}
