package hadoopconf

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/policies/hadoop/capacity"
	"github.com/slotwise/slotwise/policies/hadoop/fair"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

const fairXML = `<?xml version="1.0"?>
<!-- who gets what -->
<allocations>
  <pool name="p1">
    <minMaps>3</minMaps> <minReduces>1</minReduces>
    <maxMaps>2</maxMaps>
    <maxRunningJobs>4</maxRunningJobs>
    <weight> 2.5 </weight>
    <minSharePreemptionTimeout>30</minSharePreemptionTimeout>
    <schedulingMode>FIFO</schedulingMode>
    <colour>red</colour>
  </pool>
  <pool name="p2"/>
  <user name="ann"><maxRunningJobs>6</maxRunningJobs></user>
  <userMaxJobsDefault>3</userMaxJobsDefault>
  <poolMaxJobsDefault>9</poolMaxJobsDefault>
  <fairSharePreemptionTimeout>600</fairSharePreemptionTimeout>
  <defaultMinSharePreemptionTimeout>60</defaultMinSharePreemptionTimeout>
  <quota name="q"/>
</allocations>`

func TestReadAllocations(t *testing.T) {
	got, warnings, err := ReadAllocations(strings.NewReader(fairXML))
	if err != nil {
		t.Fatal(err)
	}
	unlimited := [job.Kinds]int{fair.NoLimit, fair.NoLimit}
	want := fair.Allocations{
		Pools: map[string]fair.PoolLimits{
			"p1": {Min: [job.Kinds]int{3, 1}, Max: [job.Kinds]int{2, fair.NoLimit}, MaxJobs: 4, Weight: 2.5,
				MinTimeout: 30 * time.Second, FIFO: true},
			"p2": {Max: unlimited, MaxJobs: 9, Weight: 1, MinTimeout: time.Minute},
		},
		UserJobs: map[string]int{"ann": 6}, MaxUserJobs: 3, MaxPoolJobs: 9,
		FairTimeout: 10 * time.Minute, MinTimeout: time.Minute,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	var lines []string
	for _, w := range warnings {
		lines = append(lines, w.String())
	}
	wantLines := []string{
		"line 19: <quota>: is unknown and was passed over",
		"line 11: <colour>: is unknown and was passed over",
		`line 4: <pool>: pool "p1": at most 2 maps is less than at least 3, and wins`,
	}
	if d := cmp.Diff(wantLines, lines); d != "" {
		t.Error(d)
	}
}

// The error of an invalid file gives the line and the element.
func TestBadAllocations(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "0 top-level elements",
		"<allocations>":                        "line 1: <allocations>: unexpected EOF",
		"<configuration/>":                     "line 1: <configuration>: the top-level element must be <allocations>",
		"<allocations>\n<pool>\n</pool>":       "unexpected EOF",
		"<allocations>\n<pool/></allocations>": "line 2: <pool>: has no attribute name",
		"<allocations>\n<pool name='p'>\n<minMaps>x</minMaps></pool></allocations>":             "line 3: <minMaps>: \"x\" is not a whole number",
		"<allocations>\n<pool name='p'>\n<minMaps>-1</minMaps></pool></allocations>":            "line 3: <minMaps>",
		"<allocations>\n<pool name='p'>\n<weight>0</weight></pool></allocations>":               "line 3: <weight>: \"0\" is not a number above 0",
		"<allocations>\n\n<poolMaxJobsDefault/></allocations>":                                  "line 3: <poolMaxJobsDefault>: \"\" is not",
		"<allocations><a></b></allocations>":                                                    "element <a> closed by </b>",
		"<allocations><user name='u'><maxRunningJobs>1e3</maxRunningJobs></user></allocations>": "<maxRunningJobs>",
		strings.Repeat("<a>", 200):                                                              "nested too deeply",
	} {
		a, _, err := ReadAllocations(strings.NewReader(text))
		var e *Error
		if err == nil || !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: error %v, want %q", text, err, want)
		}
		if a.Pools != nil || a.MaxUserJobs != 0 {
			t.Errorf("%.60q: half-read %+v", text, a)
		}
	}
}

const siteXML = `<configuration>
<property><name>mapred.fairscheduler.preemption</name><value>true</value></property>
<property><name>mapred.fairscheduler.locality.delay</name><value>4000</value></property>
<property><name>mapred.fairscheduler.locality.delay.rack</name><value>-1</value></property>
<property><name>mapred.fairscheduler.update.interval</name><value>250</value><final>true</final></property>
<property><name>mapred.fairscheduler.poolnameproperty</name><value>pool</value></property>
<property><name>mapred.fairscheduler.nonsense</name><value>1</value></property>
<property><name>mapred.fairscheduler.sizebasedweight</name></property>
<property><name>io.sort.mb</name><value>100</value><unit>MB</unit></property>
<note/>
</configuration>`

func TestFairSettings(t *testing.T) {
	props, warnings, err := ReadProperties(strings.NewReader(siteXML))
	if err != nil || len(props) != 7 || len(warnings) != 3 {
		t.Fatalf("%d properties, warnings %v, error %v", len(props), warnings, err)
	}
	set, warnings, err := FairSettings(props)
	want := map[string]string{"preemption": "true", "node-wait": "4s", "rack-wait": "auto", "update-interval": "250ms"}
	if err != nil || !maps.Equal(set, want) {
		t.Errorf("got %v, %v, want %v", set, err, want)
	}
	if len(warnings) != 2 || warnings[0].Line != 6 || !strings.Contains(warnings[1].Text, "not a property") {
		t.Errorf("warnings %v", warnings)
	}
	if _, err := policies.Build("fair", sched.Options{Set: set}); err != nil {
		t.Errorf("the policy refuses its settings: %v", err)
	}
	for _, text := range []string{"soon", "-2", "99999999999999999999"} {
		_, _, err := FairSettings([]Property{{"mapred.fairscheduler.update.interval", text, 5}})
		if err == nil || !strings.Contains(err.Error(), "line 5: <mapred.fairscheduler.update.interval>") {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

// Of a property that occurs twice the last one counts, even if an earlier one is wrong.
func TestRepeatedProperties(t *testing.T) {
	var props []Property
	for i, value := range []string{"never", "7000", "9000"} {
		props = append(props, Property{"mapred.fairscheduler.locality.delay", value, i + 1})
	}
	got, _, err := FairSettings(props)
	if want := map[string]string{"node-wait": "9s", "rack-wait": "9s"}; err != nil || !maps.Equal(got, want) {
		t.Errorf("fair: %v, %v, want %v", got, err, want)
	}
	const queue = "mapred.capacity-scheduler.queue."
	got, _, err = CapacitySettings([]Property{{"mapred.queue.names", "a,b,c", 1}, {queue + "a.capacity", "many", 2},
		{queue + "b.capacity", "60", 3}, {queue + "a.capacity", "40", 4}, {"mapred.queue.names", "b,a", 5}}, nil)
	if want := map[string]string{"queues": "b,capacity=60;a,capacity=40"}; err != nil || !maps.Equal(got, want) {
		t.Errorf("capacity: %v, %v, want %v", got, err, want)
	}
	const yarn = yarnPrefix + "root."
	_, warnings, err := CapacitySettings([]Property{{yarn + "queues", "a,b", 1}, {yarn + "queues", "a", 2}, {yarn + "a.capacity", "100", 3},
		{yarn + "a.priority", "1", 4}, {yarn + "a.priority", "2", 5}}, nil)
	if err != nil || len(warnings) != 1 || warnings[0].Line != 5 {
		t.Errorf("YARN: %v, %v", warnings, err)
	}
}

// Every parameter to which a Hadoop property is mapped exists.
func TestFairNamesAreParameters(t *testing.T) {
	info, err := policies.Describe("fair")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, part := range info.Parts {
		for _, p := range part.Params {
			known[p.Name] = true
		}
	}
	for _, names := range []map[string]string{fairNames, fairTimes} {
		for property, param := range names {
			if !known[param] {
				t.Errorf("%s stands for %s, which fair does not have", property, param)
			}
		}
	}
}

func TestReadPropertiesRefusesOtherFiles(t *testing.T) {
	for text, want := range map[string]string{
		"<allocations/>": "must be <configuration>",
		"<configuration>\n<property><value>1</value></property></configuration>": "line 2: <property>: has no name",
		"<configuration":                     "line 1",
		"<configuration/><configuration/>":   "2 top-level elements",
		"<?xml version='1.0' encoding='x'?>": "encoding",
	} {
		if _, _, err := ReadProperties(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func TestCapacitySettings(t *testing.T) {
	p := func(name, value string) Property { return Property{"mapred." + name, value, 1} }
	props := []Property{
		p("queue.names", "b, a"),
		p("capacity-scheduler.queue.a.capacity", "30"),
		p("capacity-scheduler.queue.b.capacity", " 70 "),
		p("capacity-scheduler.queue.b.supports-priority", "true"),
		p("capacity-scheduler.default-supports-priority", "false"),
		p("capacity-scheduler.default-user-limit-factor", "2"),
		p("capacity-scheduler.maximum-tasks-per-heartbeat", "5"),
		p("capacity-scheduler.maximum-system-jobs", "3000"),
		p("capacity-scheduler.queue.a.maximum-initialized-active-tasks", "1"),
		p("capacity-scheduler.queue.a", "1"),
		p("capacity-scheduler.colour", "red"),
		p("capacity-scheduler.queue.a.maximum-tasks-per-heartbeat", "7"),
		p("capacity-scheduler.default-maximum-tasks-per-heartbeat", "8"),
	}
	set, warnings, err := CapacitySettings(props, nil)
	want := map[string]string{"maximum-tasks-per-heartbeat": "5",
		"queues": "b,user-limit-factor=2,capacity=70,supports-priority=true;a,user-limit-factor=2,supports-priority=false,capacity=30"}
	if err != nil || !maps.Equal(set, want) {
		t.Errorf("got %v, %v, want %v", set, err, want)
	}
	if len(warnings) != 6 {
		t.Errorf("warnings %v", warnings)
	}
	if _, err := policies.Build("capacity", sched.Options{Set: set}); err != nil {
		t.Errorf("the policy refuses its settings: %v", err)
	}
	if _, _, err := CapacitySettings([]Property{p("capacity-scheduler.queue.a.capacity", "1;b")}, nil); err == nil {
		t.Error("a semicolon was let through")
	}
}

// A changed file affects a running policy. An invalid file, and a file for another
// scheduler, change nothing.
func TestReconfigureWhileJobsRun(t *testing.T) {
	p, err := policies.Build("fair", sched.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tr := tracker.New(tracker.Config{}, p)
	reload := func(text string) (bool, error) {
		a, _, err := ReadAllocations(strings.NewReader(text))
		if err != nil {
			return false, err
		}
		return tr.Reconfigure(a)
	}
	launches := func(node string) (n int) {
		tr.Step(0, &tracker.Join{Node: cluster.Spec{Name: node, MapSlots: 4}})
		for _, e := range tr.Step(0, &tracker.Heartbeat{Node: node}) {
			if e.Kind == tracker.Launch {
				n++
			}
		}
		return n
	}
	tr.Step(0, &tracker.Submit{Spec: job.Spec{Request: job.Request{Pool: "p"}, Splits: make([]job.Split, 20)}})
	if known, err := reload("<allocations><pool name='p'><maxMaps>5</maxMaps></pool></allocations>"); !known || err != nil {
		t.Fatal(known, err)
	}
	if got := launches("n1") + launches("n2"); got != 5 {
		t.Errorf("%d maps under a limit of 5", got)
	}
	if _, err := reload("<allocations><pool name='p'><maxMaps>many</maxMaps></pool></allocations>"); err == nil {
		t.Error("a bad file was taken")
	}
	if known, _ := tr.Reconfigure(capacity.Config{}); known {
		t.Error("fair took a configuration of capacity")
	}
	if got := launches("n3"); got != 0 {
		t.Errorf("%d maps more than the old limit", got)
	}
	if _, err := reload("<allocations/>"); err != nil {
		t.Fatal(err)
	}
	if got := launches("n4"); got != 4 {
		t.Errorf("%d maps on four free slots without limit", got)
	}
}
