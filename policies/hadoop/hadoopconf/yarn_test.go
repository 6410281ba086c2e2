package hadoopconf

import (
	"strings"
	"testing"

	"github.com/slotwise/slotwise/policies/hadoop/capacity"
)

// yarn returns properties for lines "name=value", without the prefix of the names.
func yarn(lines string) (props []Property) {
	for i, line := range strings.Fields(lines) {
		name, value, _ := strings.Cut(line, "=")
		props = append(props, Property{yarnPrefix + name, strings.ReplaceAll(value, "_", " "), i + 1})
	}
	return props
}

func TestYarnCapacity(t *testing.T) {
	tree := "root.queues=a,b root.a.capacity=40 root.b.capacity=60 root.b.queues=c,d root.b.c.capacity=25 root.b.d.capacity=75 root.b.maximum-capacity=80 root.b.c.maximum-capacity=50 root.b.c.user-limit-factor=2"
	set, _, err := CapacitySettings(yarn(tree+" maximum-applications=10000"), nil)
	if err != nil {
		t.Fatal(err)
	}
	queues, err := capacity.ParseQueues(set["queues"])
	if err != nil || len(queues) != 3 {
		t.Fatalf("%s: %v", set["queues"], err)
	}
	for i, want := range []struct {
		name           string
		capacity, most float32
		factor         float32
	}{{"a", 40, -1, 1}, {"c", 15, 40, 2}, {"d", 45, 80, 1}} {
		q := queues[i]
		if q.Name != want.name || q.Capacity != want.capacity || q.MaxCapacity != want.most || q.UserLimitFactor != want.factor {
			t.Errorf("%+v, want %+v", q, want)
		}
	}
	for text, want := range map[string]string{
		"maximum-applications=5":                                                                      "declares no queue",
		"root.queues=a,b root.a.capacity=40":                                                          "illegal capacity sum of 40",
		"root.queues=a root.a.capacity=2w":                                                            "weights and amounts",
		"root.queues=a root.a.capacity=[memory=1]":                                                    "weights and amounts",
		"root.queues=a root.a.capacity=100 root.a.state=STOPPED":                                      "cannot be stopped",
		"root.queues=a root.a.capacity=100 root.a.acl_submit_applications=ann":                        "no lists of users",
		"root.queues=a root.a.capacity=100 root.a.ordering-policy=fair":                               "policy fair",
		"root.queues=a root.a.capacity=100 queue-mappings=u:ann:a":                                    "rules that choose queues",
		"root.queues=a root.a.capacity=100 root.b.capacity=5":                                         "not a property of a queue",
		"root.queues=a root.a.capacity=100 nonsense=5":                                                "not a property of a queue",
		"root.queues=a root.a.capacity=100 root.a.maximum-capacity=50":                                "less than the capacity",
		"root.queues=a root.a.capacity=101":                                                           "illegal capacity of 101",
		"root.queues=a,b root.a.capacity=50 root.b.capacity=50 root.b.queues=a root.b.a.capacity=100": "two queues have the name a",
	} {
		if _, _, err := CapacitySettings(yarn(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestYarnAllocations(t *testing.T) {
	a, warnings, err := ReadAllocations(strings.NewReader(`<allocations>
		<queue name="root"><queue name="a"><weight>2</weight><maxRunningApps>3</maxRunningApps><schedulingPolicy>fifo</schedulingPolicy></queue>
		<queue name="b"><aclSubmitApps>*</aclSubmitApps></queue></queue>
		<userMaxAppsDefault>5</userMaxAppsDefault></allocations>`))
	if err != nil || len(warnings) != 1 {
		t.Fatal(warnings, err)
	}
	if p := a.Pool("a"); p.Weight != 2 || p.MaxJobs != 3 {
		t.Errorf("%+v", p)
	}
	for text, want := range map[string]string{
		`<queue name="a"><queue name="b"/></queue>`:                           "one level of queues",
		`<queue name="a" type="parent"/>`:                                     "one level of queues",
		`<queue name="a"><minResources>1 mb, 1 vcores</minResources></queue>`: "write minMaps",
		`<queue name="a"><schedulingPolicy>drf</schedulingPolicy></queue>`:    "one resource",
		`<queue name="a"><aclSubmitApps>ann</aclSubmitApps></queue>`:          "no lists of users",
		`<queuePlacementPolicy/>`:                                             "rules that choose queues",
	} {
		if _, _, err := ReadAllocations(strings.NewReader("<allocations>" + text + "</allocations>")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
