package workload

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadClusterOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want Cluster
	}{
		"SLS": {`{"rack":"rack1","nodes":[{"node":"node1","memory-mb":2048,"vcores":6,"labels":"l1, l2(exclusive=false)"},{"node":"node2"}]}
{"rack":"rack2","nodes":[{"node":"node3"}]}`,
			Cluster{Racks: 2, Heartbeat: slsHeartbeat, Groups: []NodeGroup{{Count: 1, Hosts: []string{"node1"}, Rack: 1, Cores: 6, Memory: 2 << 30}, {Count: 1, Hosts: []string{"node2"}, Rack: 1},
				{Count: 1, Hosts: []string{"node3"}, Rack: 2}}}},
		"topology": {`{"name":"<root>","children":[{"name":"194\\.6\\.133\\.192","children":[{"name":"a\\.b","children":null},{"name":"c","children":null}]},
{"name":"dc2","children":[{"name":"r1","children":[{"name":"d"}]}]}]}`,
			Cluster{Racks: 2, Heartbeat: topologyHeartbeat, Groups: []NodeGroup{{Count: 2, Hosts: []string{"a.b", "c"}, Rack: 1}, {Count: 1, Hosts: []string{"d"}, Rack: 2}}}},
		"slotwise nodes": {`[
{"name":"w1","address":"h:1","host":"h","rack":"/r1","state":"alive","map_slots":4,"reduce_slots":2,"slot_memory":100,"cpus":8,"reserved_for":[]},
{"name":"w2","rack":"/r2","state":"lost","map_slots":4,"reduce_slots":2},
{"name":"w3","rack":"/r1","state":"disk full","map_slots":4,"reduce_slots":2,"slot_memory":100,"cpus":8}
]`, Cluster{Racks: 1, Groups: []NodeGroup{{Count: 2, Hosts: []string{"w1", "w3"}, Rack: 1, MapSlots: 4, ReduceSlots: 2, Cores: 8, Memory: 600}}}},
		"ours": {`{"racks": 1, "nodes": [{"maps": 3}]}`, Cluster{Racks: 1, Groups: []NodeGroup{{Count: 1, MapSlots: 3}}}},
	} {
		got, err := ReadCluster("c.json", strings.NewReader(c.text))
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
	for text, want := range map[string]string{
		`{"rack":"r","nodes":[{"node":"n"},{"node":"n"}]}`:                              "c.json: two nodes are called n",
		`{"rack":"r","nodes":[{"node":"n"}]} {"rack":"s"}`:                              `c.json: an object without "rack" and "nodes"`,
		`{"rack":"r","nodes":[{"node":"n"}]} {`:                                         "c.json: unexpected EOF",
		`{"rack":"r","nodes":[{"vcores":1}]}`:                                           `c.json: a node of rack "r" has no name`,
		`{"rack":"r","nodes":[{"node":"n","vcores":-1}]}`:                               "c.json: node n has slots, processors or memory below 0",
		`[{"name":"n","state":"lost","map_slots":1}]`:                                   "c.json: no node that can run tasks",
		`{"children":[{"name":"","children":[]}]}`:                                      `c.json: a node of rack "" has no name`,
		strings.Repeat(`{"children":[`, 20) + strings.Repeat("]}", 20):                  "c.json: a topology of more than 16 levels",
		strings.Repeat(`{"children":[`, 20) + `{"name":"h"}` + strings.Repeat("]}", 20): "c.json: a topology of more than 16 levels",
	} {
		_, err := ReadCluster("c.json", strings.NewReader(text))
		wantError(t, err, want)
	}
}

func TestAmend(t *testing.T) {
	c := Cluster{Racks: 1, Groups: []NodeGroup{{Count: 2}, {Count: 1, MapSlots: 9}}}
	if err := c.Amend("maps=4, reduces=2,heartbeat=fixed:1s"); err != nil {
		t.Fatal(err)
	}
	if maps, reduces := c.Slots(); maps != 12 || reduces != 6 || c.Heartbeat != "fixed:1s" {
		t.Errorf("%d maps, %d reduces, %s", maps, reduces, c.Heartbeat)
	}
	for spec, want := range map[string]string{"maps": `"maps" is not key=value`, "nodes=3": "nodes: the file states", "maps=x": "maps:", "colour=red": "colour: unknown"} {
		wantError(t, c.Amend(spec), want)
	}
}
