package workload

import (
	"bytes"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slotwise/slotwise/sched/job"
)

func generated(t *testing.T, name string, seed uint64) []Job {
	t.Helper()
	g, ok := FindGenerator(name)
	if !ok {
		t.Fatalf("no generator %s", name)
	}
	return jobsOf(t, g.Source, seed)
}

// TestGenerators: every generator has a unique name, a known cluster, stated
// assumptions, and jobs that survive writing and reading.
func TestGenerators(t *testing.T) {
	clusters := make(map[string]bool)
	for _, c := range PaperClusters() {
		if err := c.Cluster.check(); err != nil || clusters[c.Name] || c.Summary == "" {
			t.Errorf("cluster %s: %v", c.Name, err)
		}
		clusters[c.Name] = true
	}
	seen := make(map[string]bool)
	for _, g := range Generators() {
		if seen[g.Name] || g.Summary == "" || !clusters[g.Cluster] {
			t.Errorf("%s: twice, without summary, or on no cluster (%q)", g.Name, g.Cluster)
		}
		if len(g.Assumptions) == 0 && g.Name != "modfair-example" {
			t.Errorf("%s assumes nothing", g.Name)
		}
		seen[g.Name] = true
		jobs := jobsOf(t, g.Source, 1)
		var b bytes.Buffer
		if err := WriteJobs(&b, jobs); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		m, err := ReadMix(g.Name, &b)
		if err != nil {
			t.Fatal(err)
		}
		var again bytes.Buffer
		if err := WriteJobs(&again, jobsOf(t, m, 2)); err != nil {
			t.Fatal(err)
		}
		if again.String() != text {
			t.Errorf("%s: written, read and written again it is another", g.Name)
		}
	}
	if _, ok := FindGenerator("nobody"); ok {
		t.Error("found a generator that there is not")
	}
}

func counts(jobs []Job) (n [job.Kinds]int) {
	for _, j := range jobs {
		n[job.Map] += len(j.Maps)
		n[job.Reduce] += len(j.Reduces)
	}
	return n
}

// TestPapers compares the workloads with the numbers that the papers state.
func TestPapers(t *testing.T) {
	for _, tt := range []struct {
		name                string
		jobs, maps, reduces int
	}{
		{"tumm-invertedindex", 3, 3 * 128, 3 * 150},
		{"tumm-mixed-johnson", 10, 1280, 2*150 + 8*80},
		{"tumm-mixed-random", 10, 1280, 2*150 + 8*80},
		{"tumm-tpch", 15, 3 * 124, 3 * 9},
		{"modfair-example", 3, 9, 9},
		{"modfair-a-18-15", 15, 270, 15},
		{"modfair-b-10", 10, 156, 10},
		{"tyrex-overhead", 1, 600, 60},
		{"learning-behaviour", 1, 1120, 0},
		{"learning-target", 3, 480, 0},
		{"dynamicmr-sort", 1, 320, 200},
		{"dynamicmr-5", 5, 320 + 4*128, 200 + 150 + 3*80},
		{"dynamicmr-30", 30, 3*320 + 27*128, 3*200 + 4*150 + 23*80},
	} {
		jobs := generated(t, tt.name, 1)
		if n := counts(jobs); len(jobs) != tt.jobs || n != [job.Kinds]int{tt.maps, tt.reduces} {
			t.Errorf("%s: %d jobs, tasks %d; want %d, %d and %d", tt.name, len(jobs), n, tt.jobs, tt.maps, tt.reduces)
		}
	}
	apps := make(map[string]int)
	for _, app := range dynamicJobs {
		apps[app]++
	}
	want := map[string]int{"wordcount": 3, "sort": 3, "grep": 3, "invertedindex": 4, "classification": 4,
		"histogrammovies": 2, "histogramratings": 4, "sequencecount": 4, "selfjoin": 3}
	if diff := cmp.Diff(want, apps); diff != "" {
		t.Errorf("apps of DynamicMR (-want +got)\n%s", diff)
	}
	var pools []string
	for _, j := range generated(t, "modfair-b-5", 1) {
		pools = append(pools, j.Pool)
	}
	if want := []string{"P1", "P2", "P3", "P1", "P2"}; !slices.Equal(pools, want) {
		t.Errorf("pools of modfair-b-5: %s", pools)
	}
}

// The list of benchmarks is in Johnson's order, as a sort by the rule says.
func TestJohnson(t *testing.T) {
	sorted := slices.Clone(benches)
	slices.Reverse(sorted)
	slices.SortStableFunc(sorted, func(a, b bench) int {
		am, ar := float64(a.maps)*a.mapTime, float64(a.reduces)*a.reduceTime
		bm, br := float64(b.maps)*b.mapTime, float64(b.reduces)*b.reduceTime
		if min(am, br) < min(bm, ar) {
			return -1
		}
		return 1
	})
	if !slices.Equal(sorted, benches) {
		t.Errorf("Johnson's order is %v", sorted)
	}
}

// Over many draws Tyrex's workloads have the mean, the squared CV, the share of
// jobs below 10 minutes and the load that the paper states.
func TestTyrex(t *testing.T) {
	for i := range tyrexMixes {
		tm := &tyrexMixes[i]
		m := tm.mix(0.7)
		var sum, squares, n, short, loads float64
		for seed := range uint64(40) {
			jobs := jobsOf(t, m, seed)
			work := 0.
			for k := range jobs {
				x := jobs[k].Work().Seconds()
				sum, squares, n, work = sum+x, squares+x*x, n+1, work+x
				if x < 600 {
					short++
				}
			}
			loads += work / 160 / jobs[len(jobs)-1].Submit.Seconds()
		}
		mean := sum / n
		cv2 := squares/n/(mean*mean) - 1
		if want := tm.cpuHours * 3600 / 300; math.Abs(mean/want-1) > 0.05 || math.Abs(cv2/tm.cv2-1) > 0.15 {
			t.Errorf("%s: mean %g s, squared CV %g; want %g and %g", tm.name, mean, cv2, want, tm.cv2)
		}
		if short/n < 0.6 || math.Abs(loads/40-0.7) > 0.05 {
			t.Errorf("%s: %.0f %% below 10 min, load %g", tm.name, 100*short/n, loads/40)
		}
	}
}

// The learning scheduler's jobs weigh what makes the stated number fill a node.
func TestLearningWeights(t *testing.T) {
	j := generated(t, "learning-wordcount-delay", 1)[0]
	if got := 10.52 * j.Maps[0].CPU.Seconds() / j.Maps[0].Duration.Seconds(); math.Abs(got-4) > 0.01 || j.Maps[0].Duration != time.Minute {
		t.Errorf("10.52 tasks weigh %g", got)
	}
}
