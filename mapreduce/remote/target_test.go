package remote

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/live/attempt"
	"github.com/slotwise/slotwise/internal/live/feature"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// URIs sent to a cluster mean the same on every machine.
func TestURIs(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	r := &target{Cluster: &Cluster{}}
	for in, want := range map[string]string{
		"a/b": "file://" + here + "/a/b", "/x/y": "file:///x/y", "../z*": "file://" + filepath.Dir(here) + "/z*",
		"file:///q": "file:///q", "hdfs://nn:8020/a": "hdfs://nn:8020/a",
	} {
		if got, err := r.URI(in); got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", in, got, err, want)
		}
	}
}

// A job that no other process can build is not submitted.
func TestRefuseJobWithoutRecipe(t *testing.T) {
	r := &target{Cluster: &Cluster{}}
	_, err := r.Run(t.Context(), &feature.PlannedJob{Name: "mine"})
	if err == nil || !strings.Contains(err.Error(), "mine cannot run on a cluster") {
		t.Errorf("got %v", err)
	}
}

// The feature's description of a job and the message that workers receive hold
// the same.
func TestRecipe(t *testing.T) {
	p := &slotwisev1.Program{App: "a", Step: "s", Params: map[string]string{"k": "v"}, Cuts: [][]byte{{1}},
		Streaming: &slotwisev1.Streaming{Mapper: "m", Reducer: "r", Combiner: "c"}}
	want := &feature.Recipe{App: "a", Step: "s", Params: map[string]string{"k": "v"}, Cuts: [][]byte{{1}},
		Streaming: &feature.Streaming{Mapper: "m", Reducer: "r", Combiner: "c"}}
	if got := recipe(p); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := recipe(&slotwisev1.Program{App: "a"}); got.Streaming != nil {
		t.Error("a job without commands is a streaming job")
	}
}

// Package mapreduce looks for the variable that the worker sets, without
// importing the package that runs attempts.
func TestAttemptVariable(t *testing.T) {
	if attempt.Env != feature.AttemptVariable {
		t.Errorf("workers set %s, programs look for %s", attempt.Env, feature.AttemptVariable)
	}
}

// Named inputs survive the message of a chain, in their order, and paths with equals signs stay paths.
func TestNamedInputs(t *testing.T) {
	plain := []string{"file:///d/part=0", "/d/x=1"}
	spec := &slotwisev1.ChainSpec{Job: &slotwisev1.JobSpec{}, Inputs: plain, NamedInputs: []*slotwisev1.NamedInput{
		{Name: "left", Uri: "file:///d/y=2"}, {Name: "right", Uri: "/r"}, {Name: "left", Uri: "hdfs://h/z"},
	}}
	c := (&driverTarget{order: &slotwisev1.Drive{Spec: spec}}).chain()
	want := map[string][]string{"left": {"file:///d/y=2", "hdfs://h/z"}, "right": {"/r"}}
	if !slices.Equal(c.Inputs, plain) || !reflect.DeepEqual(c.NamedInputs, want) {
		t.Errorf("plain %q, named %q", c.Inputs, c.NamedInputs)
	}
}
