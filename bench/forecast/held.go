package main

import (
	"fmt"
	"math"
	"time"

	"github.com/slotwise/slotwise/internal/sim"
	"github.com/slotwise/slotwise/internal/workload"
)

// heldOut returns workloads that had no part in choosing the model's constants: other seeds
// of three measured mixes, and two mixes of other shapes. Do not change the model to suit
// these workloads; a change that looks at them needs new ones.
func heldOut(jobs int) ([]scene, error) {
	var list []scene
	for _, s := range []struct {
		generator string
		policies  []string
	}{{"tyrex-hvw", []string{"fifo", "fair"}}, {"tumm-mixed-random", []string{"tumm"}}} {
		more, err := generated(s.generator, s.policies, 2, jobs)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	for _, p := range []string{"fifo", "fair"} {
		list = append(list, scene{"noisy mix, other seed", p, noisy(jobs, 1234)}, scene{"bursts", p, bursts(jobs)}, scene{"rounds", p, rounds(jobs)})
	}
	return list, nil
}

// bursts is a mix in which some jobs arrive together, and the number of tasks has a heavy
// tail: most jobs have some tasks, a few have hundreds. One in four has a name that no other
// job has.
func bursts(jobs int) sim.Config {
	c := workload.Cluster{Racks: 3, Heartbeat: "fixed:1s", Groups: []workload.NodeGroup{{Name: "n", Count: 24, Cores: 8, Speed: 1, MapSlots: 4, ReduceSlots: 2}}}
	next := generator(99)
	var list []workload.Job
	at := time.Duration(0)
	for i := range jobs {
		if i%6 == 0 {
			at += time.Duration((60 + 240*next()) * float64(time.Second))
		}
		app := fmt.Sprint("query", int(5*next()))
		if next() < 0.25 {
			app = fmt.Sprintf("adhoc%cx", 'a'+rune(i%26))
		}
		maps := int(min(600, 6/math.Pow(1-next(), 0.9)))
		mean := 5 + 40*next()
		list = append(list, workload.Job{Name: fmt.Sprintf("%s-%d", app, i), User: fmt.Sprint("user", int(4*next())), SlowStart: -1, Submit: at,
			Maps: spread(next, maps, mean, 0.5), Reduces: spread(next, 1+maps/8, 1.5*mean, 0.5)})
	}
	return sim.Config{Cluster: c, Jobs: list, Seed: 9}
}

// rounds repeats eight jobs with varying sizes of input. Four of them are small and have no
// reduces. The nodes have three speeds.
func rounds(jobs int) sim.Config {
	c := workload.Cluster{Racks: 2, Heartbeat: "fixed:1s", Groups: []workload.NodeGroup{
		{Name: "a", Count: 6, Cores: 4, Speed: 1.2, MapSlots: 4, ReduceSlots: 2}, {Name: "b", Count: 6, Cores: 4, Speed: 1, MapSlots: 4, ReduceSlots: 2},
		{Name: "c", Count: 4, Cores: 4, Speed: 0.6, MapSlots: 4, ReduceSlots: 2}}}
	next := generator(4242)
	var list []workload.Job
	at := time.Duration(0)
	for i := range jobs {
		at += time.Duration(70 * next() * float64(time.Second))
		app := i % 8
		j := workload.Job{Name: fmt.Sprintf("step%d-%03d", app, i/8), User: fmt.Sprint("team", app%2), SlowStart: -1, Submit: at}
		if app < 4 {
			n := int((40 + 60*float64(app)) * (0.7 + 0.6*next()))
			j.Maps, j.Reduces = spread(next, n, 10+6*float64(app), 0.3), spread(next, 4+4*app, 25+10*float64(app), 0.3)
		} else {
			j.Maps = spread(next, 4+int(20*next()), 12, 0.6)
		}
		list = append(list, j)
	}
	return sim.Config{Cluster: c, Jobs: list, Seed: 5, Model: sim.ModelConfig{Straggler: sim.Straggler{Probability: 0.03, Factor: 2, Alpha: 2}}}
}

// spread draws n tasks whose times have a mean in seconds and vary by a factor.
func spread(next func() float64, n int, mean, by float64) []workload.Task {
	out := make([]workload.Task, max(1, n))
	for i := range out {
		noise := math.Exp(by * (next() + next() + next() + next() - 2) * math.Sqrt(3))
		out[i].Duration = time.Duration(mean * noise * float64(time.Second))
	}
	return out
}
