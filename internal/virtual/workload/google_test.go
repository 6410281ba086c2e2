package workload

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/sched/job"
)

// googleEvent is a row of instance_events in the form of BigQuery's export.
func googleEvent(at int64, kind, collection, index int) string {
	return fmt.Sprintf(`{"time":"%d","type":%d,"collection_id":"%d","scheduling_class":0,"missing_type":null,"collection_type":0,"priority":103,"alloc_collection_id":"0",`+
		`"instance_index":%d,"machine_id":"77","alloc_instance_index":"-1","resource_request":{"cpus":0.01,"memory":0.002},"constraint":[]}`+"\n", at, kind, collection, index)
}

// googleRows hold a job of two instances, of which one is evicted and runs again, a job
// after it that is only known by its instances, one that was killed, and an alloc set. The
// last two rows come from a public sample.
var googleRows = `{"time":600000000,"type":"SUBMIT","collection_id":11,"collection_type":0,"priority":103,"scheduler":"BATCH","user":"u1","collection_name":"n","collection_logical_name":"app","parent_collection_id":null,"start_after_collection_ids":[],"vertical_scaling":3}
{"time":601000000,"type":0,"collection_id":12,"collection_type":0,"priority":200,"scheduler":0,"user":"u2","start_after_collection_ids":["11","999"]}
` + googleEvent(602e6, 3, 11, 1) + googleEvent(603e6, 3, 11, 0) + googleEvent(605e6, 4, 11, 1) + googleEvent(606e6, 3, 11, 1) +
	googleEvent(613e6, 6, 11, 0) + googleEvent(626e6, 6, 11, 1) +
	googleEvent(0, 3, 12, 0) + googleEvent(630e6, 6, 12, 0) + googleEvent(630e6, 3, 12, 1) + googleEvent(633e6, 6, 12, 1) +
	googleEvent(630e6, 3, 13, 0) + googleEvent(634e6, 7, 13, 0) +
	`{"time":640000000,"type":6,"collection_id":11,"collection_type":0}
{"time":1965263509076,"type":3,"collection_id":394454435790,"scheduling_class":1,"missing_type":null,"collection_type":0,"priority":200,"parent_collection_id":394454434726,"start_after_collection_ids":[],"vertical_scaling":3,"scheduler":0}
{"time":535439029406,"type":0,"collection_id":380676713775,"missing_type":3,"collection_type":1,"machine_id":null,"alloc_instance_index":-1,"resource_request":null,"constraint":[]}
`

func TestGoogle(t *testing.T) {
	const s = time.Second
	trace, err := Read("google", "f", strings.NewReader(googleRows), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []Job{
		{Name: "11", App: "app", Request: job.Request{User: "u1", Priority: job.Low}, Maps: []Task{{Duration: 10 * s}, {Duration: 20 * s}}},
		{Name: "12", Request: job.Request{User: "u2", Priority: job.Low}, Submit: s, After: []int{0}, Maps: []Task{{Duration: 3 * s}}},
	}
	if diff := cmp.Diff(want, recorded(t, jobsOf(t, trace, 1))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"f: 1 collections are alloc sets, or not of the batch scheduler if that was asked for, and are left out",
		"f: 2 jobs without an instance that ran and finished within the trace are left out",
		"f: 2 runs that were evicted, killed or lost, or failed, are left out",
		"f: 1 instances that were scheduled before the trace began, or without a row, are left out",
		"f:1: fields that the importer does not use: vertical_scaling, resource_request, parent_collection_id, scheduling_class",
	}, trace.(*Trace).Warnings); diff != "" {
		t.Errorf("warnings (-want +got)\n%s", diff)
	}
	batch, err := Read("google", "f", strings.NewReader(googleRows), Options{Batch: true})
	if err != nil || len(jobsOf(t, batch, 1)) != 1 {
		t.Errorf("the batch scheduler's jobs: %v, %v", batch, err)
	}
}

// The same rows as tables with a header, in two files.
func TestGoogleCSV(t *testing.T) {
	const collections = "time,type,collection_id,collection_type,priority,scheduler,user,collection_logical_name,start_after_collection_ids\n" +
		"600000000,0,11,0,103,1,u1,app,\n" + "601000000,SUBMIT,12,0,103,,u2,,\"[11,999]\"\r\n"
	const instances = "time,type,collection_id,priority,instance_index,machine_id,resource_request.cpus\n" +
		"602000000,3,11,103,1,5,0.5\n603000000,3,11,103,0,5,0.5\n613000000,6,11,103,0,5,\n626000000,FINISH,11,103,1,5,\n" +
		"630000000,3,12,103,0,,\n633000000,6,12,103,0,,\n"
	trace, err := ReadFolder("google", "d", files("d/collection_events.csv", collections, "d/instance_events.csv", instances), Options{})
	if err != nil {
		t.Fatal(err)
	}
	const s = time.Second
	want := []Job{
		{Name: "11", App: "app", Request: job.Request{User: "u1", Priority: job.Low}, Maps: []Task{{Duration: 10 * s}, {Duration: 24 * s}}},
		{Name: "12", Request: job.Request{User: "u2", Priority: job.Low}, Submit: s, After: []int{0}, Maps: []Task{{Duration: 3 * s}}},
	}
	if diff := cmp.Diff(want, recorded(t, jobsOf(t, trace, 1))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if w := trace.(*Trace).Warnings; len(w) != 1 || w[0] != "d/instance_events.csv:2: fields that the importer does not use: resource_request.cpus" {
		t.Errorf("warnings %q", w)
	}
}

func TestGoogleErrors(t *testing.T) {
	for text, want := range map[string]string{
		"": "f: no jobs",
		`{"time":1,"type":"BORN","collection_id":1}`:                    `f:1: "BORN" is neither a number nor the name of a value`,
		`{"time":1,"type":3}`:                                           "f:1: has no time, no type or no collection_id",
		googleEvent(5e6, 3, 1, 0) + googleEvent(2e6, 6, 1, 0):           "f:2: collection 1, instance 0: it finished at 2000, before it started at 5000; the rows of an instance must be in the order of time",
		googleEvent(5e6, 3, 1, 1<<30):                                   "f:1: instance_index 1073741824, must be from 0",
		"a,b\n1,2\n":                                                    "f:1: should be a header with time, type and collection_id",
		"time,type,collection_id\n1,2\n":                                "f:2: has 2 values, the header 3",
		"time,type,collection_id\n1,x,3\n":                              `f:2: type: "x" is neither`,
		"time,type,collection_id\n1,\"x,3\n":                            "f:2: is no row of values with commas between them",
		"time,type,collection_id,start_after_collection_ids\n1,0,3,[\n": `f:2: start_after_collection_ids: "[" is no list`,
		googleEvent(1e6, 3, 1, 0) + googleEvent(9e15, 6, 1, 0):          "f:2: collection 1, instance 0: it took",
	} {
		_, err := Read("google", "f", strings.NewReader(text), Options{})
		wantError(t, err, want)
	}
}

// A limit takes the first jobs, and the rows of others need no memory.
func TestGoogleLimit(t *testing.T) {
	g := &google{im: &importer{options: TraceOptions{Limit: 1}}, index: map[googleInt]int{}}
	for i := range 1000 {
		if err := g.table(strings.NewReader(googleEvent(int64(i+1)*1e6, 3, i%10, i/10) + googleEvent(int64(i+2)*1e6, 6, i%10, i/10))); err != nil {
			t.Fatal(err)
		}
	}
	if len(g.jobs) != 1 || len(g.index) != 1 || len(g.jobs[0].runs) != 100 || len(g.jobs[0].running) != 0 {
		t.Errorf("%d jobs, %d runs, %d running", len(g.jobs), len(g.jobs[0].runs), len(g.jobs[0].running))
	}
}

// Rows of different instances have any order, so the submission of a job is its earliest row, and not its first.
func TestGoogleEarliestRow(t *testing.T) {
	const table = `time,type,collection_id,instance_index
9000000,3,1,0
19000000,6,1,0
2000000,0,1,1
3000000,3,1,1
4000000,6,1,1
5000000,3,2,0
6000000,6,2,0
`
	trace, err := ReadFolder("google", "d", files("d/i.csv", table), Options{})
	if err != nil {
		t.Fatal(err)
	}
	jobs := jobsOf(t, trace, 1)
	if jobs[0].Name != "1" || jobs[0].Submit != 0 || jobs[1].Submit != 3*time.Second {
		t.Errorf("%+v", jobs)
	}
}
