package job

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// fullRequest returns a request in which no field has its zero value. It fails the test for a
// field that is missing here.
func fullRequest(t *testing.T) Request {
	r := Request{
		User: "ann", Pool: "p", Priority: High, Deadline: time.Hour, SlowStart: 0.5, MaxAttempts: 7, TaskTimeout: time.Minute, NoSpeculation: true,
		TaskMemory: 1 << 30, TaskCPUs: 2, Hints: [Kinds]Ratings{{CPU: 1}, {Network: 10}},
	}
	v := reflect.ValueOf(r)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Fatalf("this test needs a value of the field %s", v.Type().Field(i).Name)
		}
	}
	return r
}

// A job takes the fields that it does not set, and no others, from the other request.
func TestRequestOr(t *testing.T) {
	full := fullRequest(t)
	if got := (Request{}).Or(full); got != full {
		t.Errorf("an empty request becomes %+v", got)
	}
	if got := full.Or(Request{User: "bob", SlowStart: 1, TaskCPUs: 9}); got != full {
		t.Errorf("a full request becomes %+v", got)
	}
	if got := (Request{Pool: "q", SlowStart: -1}).Or(full); got.Pool != "q" || got.SlowStart != -1 || got.User != "ann" {
		t.Errorf("a request with a pool and a slow start becomes %+v", got)
	}
}

// The error names the field as flags and mix files spell it.
func TestRequestCheck(t *testing.T) {
	full := fullRequest(t)
	for _, good := range []Request{{}, full, {Deadline: MaxDeadline}, {SlowStart: -1, TaskTimeout: -1}, {TaskMemory: MinTaskMemory}, {TaskMemory: MaxTaskMemory, TaskCPUs: MaxTaskCPUs}} {
		if err := good.Check(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	for _, bad := range []struct {
		r    Request
		name string
	}{
		{Request{SlowStart: 1.01}, "slow-start"}, {Request{SlowStart: math.NaN()}, "slow-start"}, {Request{MaxAttempts: -1}, "max-attempts"},
		{Request{Priority: VeryHigh + 1}, "priority"}, {Request{TaskMemory: MinTaskMemory - 1}, "task-memory"}, {Request{TaskMemory: -1}, "task-memory"},
		{Request{Deadline: -1}, "deadline"}, {Request{Deadline: 1}, "deadline"}, {Request{Deadline: MaxDeadline + 1}, "deadline"}, {Request{TaskMemory: MaxTaskMemory + 1}, "task-memory"}, {Request{TaskCPUs: -1}, "task-cpus"}, {Request{TaskCPUs: MaxTaskCPUs + 1}, "task-cpus"},
	} {
		if err := bad.r.Check(); err == nil || !strings.HasPrefix(err.Error(), bad.name+" ") {
			t.Errorf("%+v: %v, want an error about %s", bad.r, err, bad.name)
		}
	}
}

// A stated share and an unstated one stay apart, also when the defaults are filled in twice.
func TestSlowStart(t *testing.T) {
	for _, share := range []float64{0, 0.05, 0.5, 1} {
		r := Request{SlowStart: StartAfter(share)}
		for range 2 {
			if got, stated := r.StartsAfter(); got != share || !stated {
				t.Errorf("the share %g becomes %g, stated: %v", share, got, stated)
			}
			r.fillDefaults()
		}
	}
	r := Request{}
	if _, stated := r.StartsAfter(); stated {
		t.Error("the zero value states a share")
	}
	r.fillDefaults()
	if got, _ := r.StartsAfter(); got != DefaultSlowStart {
		t.Errorf("the default is %g", got)
	}
}

// A priority has Hadoop's spelling and the flags'.
func TestParsePriority(t *testing.T) {
	for _, s := range []string{"VERY_HIGH", "very-high", "very_high"} {
		if p, ok := ParsePriority(s); p != VeryHigh || !ok {
			t.Errorf("%s is read as %v, %v", s, p, ok)
		}
	}
	for _, s := range []string{"", "HIGHEST", "very high"} {
		if p, ok := ParsePriority(s); ok {
			t.Errorf("%q is read as %v", s, p)
		}
	}
}
