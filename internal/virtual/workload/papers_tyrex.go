package workload

import (
	"fmt"
	"math"
)

// tyrexMix is one of Tyrex's workloads: its row of Table II, and its small and
// middle jobs, which are the majority.
type tyrexMix struct {
	name          string
	cpuHours, cv2 float64 // Table II: total work, squared coefficient of variation
	small, middle int     // jobs
	smallMean     float64 // seconds
	middleMean    float64
}

// tyrexJobs is the number of jobs of each workload.
const tyrexJobs = 300

var tyrexMixes = []tyrexMix{
	{"hvw", 63.6, 20, 222, 64, 28, 100},
	{"mvw", 124.6, 10, 165, 108, 28, 150},
	{"lvw", 306.9, 4, 90, 146, 30, 180},
}

// tyrexTask is the mean task of Table II: total work over tasks, in seconds.
const tyrexTask = 33

// TyrexReduceShare is the fraction of a job's work that is in its reduces. The
// paper does not state it. Under its load of 0.9 of all slots, three quarters of which are
// map slots, maps fit into these only if reduces have a sixth of the work, and reduces into
// theirs only if they have at most 0.28.
const TyrexReduceShare = 0.2

// tyrexGenerators returns the workloads of Ghit and Epema, Tyrex.
func tyrexGenerators() []Generator {
	var list []Generator
	for i := range tyrexMixes {
		t := &tyrexMixes[i]
		for _, load := range []float64{0.7, 0.9} {
			name := "tyrex-" + t.name
			if load != 0.7 {
				name = fmt.Sprintf("%s-%g", name, load)
			}
			list = append(list, Generator{Name: name, Cluster: "tyrex",
				Summary: fmt.Sprintf("Tyrex, Table II: 300 jobs, %g h of work, squared CV of sizes %g; Poisson arrivals at load %g", t.cpuHours, t.cv2, load),
				Assumptions: []string{
					fmt.Sprintf("sizes are a mixture of three log-normal classes that meets mean and squared CV, and has more than 60 %% of jobs below 10 min where stated: %d jobs of mean %g s and %d of mean %g s (squared CV 1 each), the rest solved for; a draw differs from Table II as samples do",
						t.small, t.smallMean, t.middle, t.middleMean),
					"tasks last about 33 s (work over tasks in Table II), a fifth of the work is in reduces, so that maps and reduces both fit into their slots at a load of 0.9",
					"load is total work over 160 slots and the span of submission; the mean gap follows from the jobs drawn"},
				Source: t.mix(load)})
		}
	}
	big := bench{"overhead", 600, 60, tyrexTask, tyrexTask}
	return append(list, Generator{Name: "tyrex-overhead", Cluster: "tyrex",
		Summary:     "Tyrex, Figure 3: one job of 600 maps and 60 reduces",
		Assumptions: []string{"tasks of 33 s, the mean of Table II; the four benchmarks' times are not given"},
		Source:      &Mix{Classes: []Class{big.class("overhead", 1)}}})
}

// mix makes the classes. With shares p, means m and squared CVs c, the large
// jobs follow from Σ p·m = M and Σ p·m²·(1+c) = M²·(1+C).
func (t *tyrexMix) mix(load float64) *Mix {
	mean := t.cpuHours * 3600 / tyrexJobs
	large := tyrexJobs - t.small - t.middle
	p1, p2, p3 := float64(t.small)/tyrexJobs, float64(t.middle)/tyrexJobs, float64(large)/tyrexJobs
	const cv2 = 1 // of the small and the middle
	// From the first equation.
	m3 := (mean - float64(p1*t.smallMean) - float64(p2*t.middleMean)) / p3
	// From the second. Below 0 the small and middle jobs alone would have more spread than Table II; none of
	// the three rows does, so the bound only guards a row that somebody adds.
	second := float64(mean*mean*(1+t.cv2)) - float64(p1*t.smallMean*t.smallMean*(1+cv2)) - float64(p2*t.middleMean*t.middleMean*(1+cv2))
	c3 := max(0, second/float64(p3*m3*m3)-1)
	class := func(name string, n int, work Dist) Class {
		return Class{Name: name, Count: n, App: name, Work: work, TaskTime: tyrexTask, ReduceShare: TyrexReduceShare}
	}
	// 160 slots of both kinds together, since the load is of maps and reduces.
	return &Mix{Sequence: Shuffled, Arrivals: Arrivals{Kind: AtLoad, Load: load, Slots: 160}, Classes: []Class{
		class("small", t.small, Dist{Shape: LogNormal, A: t.smallMean, B: t.smallMean * math.Sqrt(cv2)}),
		class("middle", t.middle, Dist{Shape: LogNormal, A: t.middleMean, B: t.middleMean * math.Sqrt(cv2)}),
		class("large", large, LogNormalCV2(m3, c3)),
	}}
}
