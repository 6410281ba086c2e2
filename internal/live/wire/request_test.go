package wire

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// Every field of a request, and its zero value, arrives unchanged.
func TestRequest(t *testing.T) {
	full := job.Request{
		User: "ann", Pool: "p", Priority: job.High, Deadline: time.Hour, SlowStart: 0.5, MaxAttempts: 7, TaskTimeout: time.Minute, NoSpeculation: true,
		TaskMemory: 1 << 30, TaskCPUs: 2, Hints: [job.Kinds]job.Ratings{{CPU: 1, Memory: 2, Disk: 3, Network: 4}, {CPU: 5, Memory: 6, Disk: 7, Network: 10}},
	}
	if r, err := DecodeRequest(nil); err != nil || r != (job.Request{}) {
		t.Errorf("no message: %+v, %v", r, err)
	}
	cases := []job.Request{{}, full, {SlowStart: -1, TaskTimeout: -time.Millisecond}}
	for i := range reflect.ValueOf(full).NumField() {
		if reflect.ValueOf(full).Field(i).IsZero() {
			t.Errorf("this test needs a value of the field %s", reflect.TypeFor[job.Request]().Field(i).Name)
		}
		var one job.Request
		reflect.ValueOf(&one).Elem().Field(i).Set(reflect.ValueOf(full).Field(i))
		cases = append(cases, one)
	}
	for _, sent := range cases {
		m := &slotwisev1.JobSpec{SlowStart: proto.Float64(1)} // of a step that is sent with another request
		EncodeRequest(m, &sent)
		if got, err := DecodeRequest(m); got != sent || err != nil {
			t.Errorf("%+v arrives as %+v, %v", sent, got, err)
		}
	}
}

// A request without a time-out has none at the master. Most callers write -1, which is a nanosecond.
func TestRequestWithoutTimeout(t *testing.T) {
	m := new(slotwisev1.JobSpec)
	EncodeRequest(m, &job.Request{TaskTimeout: -1})
	if got, err := DecodeRequest(m); got.TaskTimeout >= 0 || err != nil {
		t.Errorf("a time-out of %v, %v", got.TaskTimeout, err)
	}
}

// Values that only a foreign client sends are limited or refused.
func TestForeignRequest(t *testing.T) {
	m := &slotwisev1.JobSpec{MapProfile: &slotwisev1.Profile{Cpu: 1000, Disk: -1}}
	want := job.Request{Hints: [job.Kinds]job.Ratings{{CPU: 10}}}
	if got, err := DecodeRequest(m); got != want || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []*slotwisev1.JobSpec{{Priority: "HIGHEST"}, {SlowStart: proto.Float64(-0.5)}} {
		if r, err := DecodeRequest(bad); err == nil {
			t.Errorf("%v is accepted as %+v", bad, r)
		}
	}
	// In nanoseconds this deadline wraps around to one hour.
	r, err := DecodeRequest(&slotwisev1.JobSpec{DeadlineMs: time.Hour.Milliseconds() + 1<<58})
	if err != nil || r.Check() == nil {
		t.Errorf("%+v is accepted, %v", r, err)
	}
}
