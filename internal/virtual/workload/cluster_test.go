package workload

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestReadCluster(t *testing.T) {
	got, err := ReadCluster("c.yaml", strings.NewReader(`
racks: 2
heartbeat: hadoop-1.2
rack-uplink: 10Gbit/s
nodes:
  - {name: fast, count: 3, cores: 8, speed: 2, maps: 6, reduces: 2, disk: 100MB/s, nic: 1Gbit}
  - {count: 2, maps: 1}
`))
	want := Cluster{Racks: 2, Heartbeat: "hadoop-1.2", RackUplink: 1.25e9, Groups: []NodeGroup{
		{Name: "fast", Count: 3, Cores: 8, Speed: 2, MapSlots: 6, ReduceSlots: 2, DiskBandwidth: 1e8, NICBandwidth: 1.25e8},
		{Count: 2, MapSlots: 1}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

func TestParseCluster(t *testing.T) {
	got, err := ParseCluster("nodes=600,maps=4, reduces=2,racks=20,nic=1Gbit,uplink=10Gbit,heartbeat=fixed:1s")
	want := Cluster{Racks: 20, Heartbeat: "fixed:1s", RackUplink: 1.25e9,
		Groups: []NodeGroup{{Name: "node", Count: 600, MapSlots: 4, ReduceSlots: 2, NICBandwidth: 1.25e8}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	for spec, want := range map[string]string{
		"":                             `"" is not key=value`,
		"nodes":                        `"nodes" is not key=value`,
		"nodes=,maps=1":                `"nodes=" is not key=value`,
		"maps=4":                       "no nodes=",
		"nodes=3":                      "no slots",
		"nodes=3,maps=0":               "no slots",
		"nodes=0,maps=1":               "nodes: 0, must be at least 1",
		"nodes=-1,maps=1":              "nodes: -1, must be at least 1",
		"nodes=99999999,maps=1":        "must be at most",
		"nodes=many,maps=1":            `nodes: "many" is not a whole number`,
		"nodes=3,nodes=4,maps=1":       "nodes twice",
		"nodes=3,maps=1,racks=4":       "4 racks for 3 nodes",
		"nodes=3,maps=1,speed=NaN":     `speed: "NaN" is not a number`,
		"nodes=3,maps=1,speed=0":       "speed: 0, must be at least 1e-06",
		"nodes=3,maps=1,speed=1e-300":  "speed: 1e-300, must be at least 1e-06", // its simulation did not end
		"nodes=3,maps=1,speed=1e7":     "speed: 1e+07, must be at most 1e+06",
		"nodes=3,maps=1,disk=fast":     `disk: "fast" is not a size`,
		"nodes=3,maps=1,colour=orange": "colour: unknown; there are nodes,",
	} {
		if _, err := ParseCluster(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want something with %s", spec, err, want)
		}
	}
}

// A type of instance gives a group the cores, the speed of a core and the memory that the
// file does not state. Table 3 of the TuMM paper prints the compute units per slot of the
// same machines with 3 and 4 slots.
func TestInstanceTypes(t *testing.T) {
	got, err := ReadCluster("c.yaml", strings.NewReader("nodes:\n  - {type: c1.xlarge, maps: 2, reduces: 2}\n  - {type: m2.xlarge, maps: 1, cores: 1, speed: 3, memory: 1GiB}\n"))
	want := []NodeGroup{{Count: 1, Cores: 8, Speed: 1.25, Memory: 7 << 30, MapSlots: 2, ReduceSlots: 2}, {Count: 1, Cores: 1, Speed: 3, Memory: 1 << 30, MapSlots: 1}}
	if diff := cmp.Diff(want, got.Groups); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	short, err := ParseCluster("nodes=2,maps=2,cores=3,type=m1.large,speed=4")
	if g := short.Groups[0]; err != nil || g.Cores != 3 || g.Speed != 4 || g.Memory != 15<<29 {
		t.Errorf("%v: %+v", err, g)
	}
	for name, perSlot := range map[string]map[int]float64{"m1.xlarge": {3: 2.67, 4: 2}, "m1.large": {3: 1.33}, "c1.xlarge": {4: 5}, "m2.xlarge": {4: 1.63}} {
		i, err := FindInstance(name)
		if err != nil {
			t.Fatal(err)
		}
		for slots, printed := range perSlot {
			if u := float64(i.Cores) * i.ECU / float64(slots); u < printed-0.006 || u > printed+0.006 {
				t.Errorf("%s with %d slots: %.3f compute units per slot, printed %g", name, slots, u, printed)
			}
		}
	}
	for _, bad := range []string{"nodes=1,maps=1,type=m9.huge", "nodes=1,maps=1,type=M1.large"} {
		if _, err := ParseCluster(bad); err == nil || !strings.Contains(err.Error(), "unknown instance type") || !strings.Contains(err.Error(), "m1.xlarge") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestClusterErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                                    "c.yaml: is empty",
		"racks: 3\n":                                          "c.yaml:1: cluster: no nodes",
		"racks: 3\nnodes: [{maps: 1}]\n":                      "c.yaml:1: cluster: 3 racks for 1 nodes",
		"racks: 0\nnodes: [{maps: 1}]\n":                      "c.yaml:1: cluster: racks: 0, must be at least 1",
		"nodes:\n  - count: 3\n":                              "c.yaml:2: nodes 1: has no slots",
		"nodes:\n  - maps: 1\n    speed: 1e7\n":               "c.yaml:3: nodes 1: speed: 1e+07, must be at most 1e+06",
		"nodes:\n  - maps: 1\n    speed: 0\n":                 "c.yaml:3: nodes 1: speed: 0, must be at least 1e-06",
		"nodes: [{maps: 1, nic: 3 apples}]\n":                 `"3 apples" is not a size`,
		"nodes: [{maps: 1, spede: 1}]\n":                      `unknown key "spede"; there are name, count,`,
		"nodes: {maps: 1}\n":                                  "c.yaml:1: cluster: nodes: should be a list, is a mapping",
		"nodes: [{maps: 1, rack: 2}]\n":                       "nodes 1: rack 2 of 1",
		"nodes: [{maps: 1, together: yes}]\n":                 `"yes", must be true, false or previous`,
		"nodes: [{maps: 1}, {maps: 1, together: previous}]\n": "nodes 2: the group before is not together on one machine",
		"nodes: [{maps: 1, together: true}, {maps: 1, together: previous}]\n":                     "nodes 2: state the cores of its machine",
		"nodes: [{maps: 1, together: true, cores: 2}, {maps: 1, cores: 1, together: previous}]\n": "nodes 2: cores, speed, disk and nic of its machine",
		"nodes: [3]\n": "nodes 1: should be a mapping",
	} {
		if _, err := ReadCluster("c.yaml", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want something with %s", text, err, want)
		}
	}
}

func TestClusterRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0, 1e12)
		c := Cluster{Racks: 1, Heartbeat: anyName(t, "heartbeat"), RackUplink: rate.Draw(t, "up"), CoreLink: rate.Draw(t, "core")}
		for range rapid.IntRange(1, 3).Draw(t, "groups") {
			c.Groups = append(c.Groups, NodeGroup{Name: anyName(t, "name") + "n", Count: rapid.IntRange(1, 9).Draw(t, "count"),
				Cores: rapid.IntRange(0, 9).Draw(t, "cores"), Speed: rapid.Float64Range(0.1, 9).Draw(t, "speed"), MapSlots: 1,
				DiskBandwidth: rate.Draw(t, "disk"), NICBandwidth: rate.Draw(t, "nic")})
		}
		var b bytes.Buffer
		if err := writeCluster(&b, &c); err != nil {
			t.Fatal(err)
		}
		got, err := ReadCluster("c.yaml", &b)
		if diff := cmp.Diff(c, got); diff != "" || err != nil {
			t.Fatalf("%v (-written +read)\n%s", err, diff)
		}
	})
}

// writeCluster writes a file from which ReadCluster reads an equal cluster.
func writeCluster(out io.Writer, c *Cluster) error {
	w := bufio.NewWriter(out)
	fmt.Fprintln(w, "# Bandwidths in bytes a second; what is not there has no limit.")
	fmt.Fprintf(w, "racks: %d\n", max(1, c.Racks))
	if c.Heartbeat != "" {
		fmt.Fprintf(w, "heartbeat: %s\n", quote(c.Heartbeat))
	}
	writeNumber(w, "", "rack-uplink", c.RackUplink)
	writeNumber(w, "", "core-link", c.CoreLink)
	fmt.Fprintln(w, "nodes:")
	for i := range c.Groups {
		g := &c.Groups[i]
		fmt.Fprintf(w, "  - count: %d\n", g.Count)
		if g.Name != "" {
			fmt.Fprintf(w, "    name: %s\n", quote(g.Name))
		}
		fmt.Fprintf(w, "    maps: %d\n    reduces: %d\n", g.MapSlots, g.ReduceSlots)
		writeNumber(w, "    ", "cores", float64(g.Cores))
		writeNumber(w, "    ", "memory", float64(g.Memory))
		if g.Together {
			fmt.Fprintln(w, "    together: true")
		}
		writeNumber(w, "    ", "speed", g.Speed)
		writeNumber(w, "    ", "disk", g.DiskBandwidth)
		writeNumber(w, "    ", "nic", g.NICBandwidth)
	}
	return w.Flush()
}

// writeNumber writes a key unless its value is 0, the default.
func writeNumber(w *bufio.Writer, indent, key string, v float64) {
	if v != 0 {
		fmt.Fprintf(w, "%s%s: %s\n", indent, key, strconv.FormatFloat(v, 'f', -1, 64))
	}
}
