package cli

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/live/feature"
	"github.com/slotwise/slotwise/internal/live/journal"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched/job"
)

// What a submitted job asks of the scheduler reaches the master, and so it does from each step
// of a chain. A slow start that is no share is refused.
func TestRequestReachesTheMaster(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	c.StartWorker("w1")
	c.Write("p.txt", "1,2\n3,4\n")
	c.Must("wordcount", "p.txt", "--output", "a", "--reduces", "1", "--slow-start", "0.75")
	c.Must("kmeans", "p.txt", "--output", "b", "--param", "k=1", "--param", "iterations=1", "--slow-start", "1", "--task-cpus", "1")
	for _, bad := range []string{"-0.1", "1.5", "NaN", "x"} {
		if status, out := c.Submit("wordcount", "p.txt", "--output", "x", "--slow-start", bad); status != exitMisuse || !strings.Contains(out, "slow-start") {
			t.Errorf("--slow-start %s: %d %s", bad, status, out)
		}
	}
	c.Master.Kill()
	l, err := journal.OpenStore(filepath.Join(c.Dir, "m", "journal"), journal.Options{}, &slotwisev1.RaftBase{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var got []float64
	var cpus []int32
	last, err := l.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	for b, err := range l.Records(last) {
		r := &slotwisev1.JournalRecord{}
		if err == nil {
			err = proto.Unmarshal(b, r)
		}
		if err != nil {
			t.Fatal(err)
		}
		if a := r.GetAccepted(); a != nil {
			got = append(got, a.SlowStart)
		}
		if j := r.GetJob(); j != nil {
			cpus = append(cpus, j.Spec.TaskCpus)
		}
	}
	if want := []float64{0.75, 1, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("jobs were accepted with the slow starts %v, want %v", got, want)
	}
	if want := []int32{0, 1, 1, 1}; !slices.Equal(cpus, want) {
		t.Errorf("tasks ask for %v processors, want %v", cpus, want)
	}
}

// --task-timeout 0 is no limit, as in Hadoop. The field's 0 is the default.
func TestTaskTimeoutFlag(t *testing.T) {
	var r job.Request
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	feature.DeclareRequest(jobFlagSet{flags}, &r)
	for text, want := range map[string]time.Duration{"0": -1, "0s": -1, "-1s": -time.Second, "90s": 90 * time.Second} {
		if err := flags.Set("task-timeout", text); r.TaskTimeout != want || err != nil {
			t.Errorf("%s is %v, %v; want %v", text, r.TaskTimeout, err, want)
		}
	}
	if flags.Set("task-timeout", "10") == nil {
		t.Error("a number without a unit is accepted")
	}
}

// TestEveryRequestHasAFlag sets every flag about what a job asks of the scheduler, and finds a
// value in each field of a request. A new field without a flag fails here.
func TestEveryRequestHasAFlag(t *testing.T) {
	without := map[string]string{ // fields that have no flag, and why
		"NoSpeculation": "programs in Go state it",
		"Hints":         "files of jobs and programs in Go state them",
	}
	var r job.Request
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	feature.DeclareRequest(jobFlagSet{flags}, &r)
	flags.VisitAll(func(f *pflag.Flag) {
		for _, text := range []string{"5", "0.5", "high", "2GiB", "5m"} { // each flag accepts at least one
			if f.Value.Set(text) == nil {
				return
			}
		}
		t.Errorf("--%s takes none of the values of this test", f.Name)
	})
	v := reflect.ValueOf(r)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if _, left := without[name]; v.Field(i).IsZero() != left {
			t.Errorf("field %s: has a flag: %v, and the test's list leaves it out: %v", name, !v.Field(i).IsZero(), left)
		}
	}
}
