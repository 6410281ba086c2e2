package workload

import (
	"fmt"
	"slices"
	"strings"
)

// InstanceType is a type of virtual machine of Amazon EC2 of about 2012 to 2014, on which
// the papers ran their clusters. docs/formats/cluster.md names the sources.
type InstanceType struct {
	Name string
	// Cores is the number of virtual cores, and ECU the compute units of one core. A unit
	// is a 1.0 to 1.2 GHz Opteron or Xeon of 2007.
	Cores int
	ECU   float64
	// Memory is in bytes.
	Memory int64
	// Disks is the number of instance disks, without a small root partition.
	Disks int
}

// normalECU is the number of compute units of a core of speed 1: an m1.xlarge's.
const normalECU = 2

// Speed returns the speed of a core relative to a core of an m1.xlarge.
func (t *InstanceType) Speed() float64 { return t.ECU / normalECU }

// gb is the unit in which Amazon states memory.
const gb = 1 << 30

// instanceTypes are in the order of Amazon's families.
var instanceTypes = []InstanceType{
	// Not 1.7 * gb, which is no whole number of bytes.
	{"m1.small", 1, 1, 17 * gb / 10, 1},
	{"m1.medium", 1, 2, 375 * gb / 100, 1},
	{"m1.large", 2, 2, 75 * gb / 10, 2},
	{"m1.xlarge", 4, 2, 15 * gb, 4},
	{"m2.xlarge", 2, 3.25, 171 * gb / 10, 1},
	{"m2.2xlarge", 4, 3.25, 342 * gb / 10, 1},
	{"m2.4xlarge", 8, 3.25, 684 * gb / 10, 2},
	{"c1.medium", 2, 2.5, 17 * gb / 10, 1},
	{"c1.xlarge", 8, 2.5, 7 * gb, 4},
}

// FindInstance returns the instance type of a name. The error lists the names.
func FindInstance(name string) (InstanceType, error) {
	i := slices.IndexFunc(instanceTypes, func(t InstanceType) bool { return t.Name == name })
	if i >= 0 {
		return instanceTypes[i], nil
	}
	names := make([]string, len(instanceTypes))
	for i := range instanceTypes {
		names[i] = instanceTypes[i].Name
	}
	return InstanceType{}, fmt.Errorf("unknown instance type %q; there are %s", name, strings.Join(names, ", "))
}

// fill sets the cores, speed and memory of a group that does not state them.
func (t *InstanceType) fill(g *NodeGroup) {
	if g.Cores == 0 {
		g.Cores = t.Cores
	}
	if g.Speed == 0 {
		g.Speed = t.Speed()
	}
	if g.Memory == 0 {
		g.Memory = t.Memory
	}
}
