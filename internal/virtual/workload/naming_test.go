package workload

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/sched/job"
)

func TestNaming(t *testing.T) {
	jobs := []Job{{Name: "a", Maps: make([]Task, 10)}, {Name: "b", Maps: make([]Task, 10), Reduces: make([]Task, 1), Request: job.Request{SlowStart: -1}}, {Name: "a", Maps: make([]Task, 101)}}
	for text, want := range map[string][]string{
		"x, y":   {"x", "y", "x"},
		"size":   {"small", "medium", "large"},
		"hash:1": {"1", "1", "1"},
	} {
		n, err := ParseNaming(text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range jobs {
			got = append(got, n.name("", &jobs[i], i))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", text, diff)
		}
		if own := n.name("own", &jobs[0], 0); own != "own" {
			t.Errorf("%s: the job's own name became %s", text, own)
		}
	}
	// A hash gives the same name to the same job and uses all names about equally.
	n, counts := Naming{Hash: 8}, map[string]int{}
	for i := range 8000 {
		j := Job{Name: fmt.Sprint("job", i)}
		first := n.name("", &j, i)
		if again := n.name("", &j, i+1); again != first {
			t.Fatalf("%s is named %s, then %s", j.Name, first, again)
		}
		counts[first]++
	}
	for name, c := range counts {
		if c < 800 || c > 1200 {
			t.Errorf("%s has %d of 8000 jobs", name, c)
		}
	}
	if len(counts) != 8 {
		t.Errorf("%d names, want 8", len(counts))
	}
	for text, want := range map[string]string{"": "empty name", "a,,b": "empty name", "hash:0": "must be at least 1", "hash:99999": "must be", "hash:x": "is not a whole number"} {
		if _, err := ParseNaming(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// The number of reduces follows the larger of shuffle and output: 282 kB of shuffle and
// 1.49 TB of output were one reduce that wrote for five days.
func TestSWIMReducesFollowTheOutput(t *testing.T) {
	trace, err := ReadSWIM("t.tsv", strings.NewReader("a\t1\t1\t1000000\t282000\t1490000000000\nb\t2\t1\t1000000\t3000000000\t5\n"), SWIMOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a, b := trace.List[0].Reduces, trace.List[1].Reduces
	if len(a) != 1388 || len(b) != 3 { // 1.49e12 / 2³⁰, 3e9 / 2³⁰
		t.Errorf("%d and %d reduces, want 1388 and 3", len(a), len(b))
	}
	if d := a[0].Duration; d > 320*time.Second {
		t.Errorf("a reduce takes %v", d)
	}
}

// Jobs of a trace that states no slow start get the one of the options.
func TestTraceSlowStart(t *testing.T) {
	var o Options
	if err := o.SetTrace("slow-start", "0.8"); err != nil {
		t.Fatal(err)
	}
	trace, err := ReadSWIM("t.tsv", strings.NewReader("a\t1\t1\t1000000\t282000\t1\n"), SWIMOptions{TraceOptions: o.Trace})
	if err != nil || trace.List[0].SlowStart != 0.8 {
		t.Errorf("%+v, %v", trace, err)
	}
}

// Every option has an effect, and a wrong value is an error that names the option.
func TestTraceOptions(t *testing.T) {
	values := map[string]string{"pools": "a,b", "users": "hash:3", "all": "true", "batch": "true", "keep-hosts": "true", "stages": "true", "block": "128MiB",
		"reduce-bytes": "2GiB", "reduces-per-map": "0.5", "max-reduces": "7", "map-output": "3GiB", "rate": "5MB/s", "startup": "0s", "slow-start": "0.8"}
	for _, o := range TraceOptionNames() {
		var opts Options
		value, ok := values[o[0]]
		if !ok {
			t.Errorf("%s: no value in this test", o[0])
			continue
		}
		if err := opts.SetTrace(o[0], value); err != nil {
			t.Errorf("%s: %v", o[0], err)
		}
		if cmp.Equal(opts, Options{}) {
			t.Errorf("%s=%s changed nothing", o[0], value)
		}
		if err := opts.SetTrace(o[0], ""); err == nil || !strings.HasPrefix(err.Error(), o[0]+": ") {
			t.Errorf("%s without a value: %v", o[0], err)
		}
	}
	if err := new(Options).SetTrace("pool", "a"); err == nil || !strings.Contains(err.Error(), "unknown option of a trace; there are pools") {
		t.Errorf("unknown option: %v", err)
	}
}
