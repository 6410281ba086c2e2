package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/sched/job"
)

// lookedAt returns the workloads that were held out until the model was changed after looking
// at them. The constants are now chosen on these workloads, too.
func lookedAt(jobs int) ([]scene, error) {
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
		list = append(list, scene{name: "noisy mix, seed 1234", policy: p, cfg: noisy(jobs, 1234)}, scene{name: "bursts", policy: p, cfg: bursts(jobs, 99)}, scene{name: "rounds", policy: p, cfg: rounds(jobs, 4242)})
	}
	return list, nil
}

// heldOut returns workloads that had no part in choosing the model's constants: other seeds
// of measured mixes, and two mixes of other shapes. Do not change the model to suit these
// workloads; a change that looks at them needs new ones, and moves these to lookedAt.
func heldOut(jobs int) ([]scene, error) {
	list, err := generated("tyrex-hvw", []string{"fair"}, 31, jobs)
	if err != nil {
		return nil, err
	}
	more, err := generated("tumm-mixed-random", []string{"tumm"}, 31, jobs)
	if err != nil {
		return nil, err
	}
	list = append(list, more...)
	for _, p := range []string{"fifo", "fair"} {
		list = append(list, scene{name: "noisy mix, seed 777", policy: p, cfg: noisy(jobs, 777)}, scene{name: "bursts, seed 778", policy: p, cfg: bursts(jobs, 778)},
			scene{name: "rounds, seed 779", policy: p, cfg: rounds(jobs, 779)}, scene{name: "departments", policy: p, cfg: departments(jobs)}, scene{name: "nights", policy: p, cfg: nights(jobs)})
	}
	return list, nil
}

// departments is a mix of three pools. One runs many small queries, one medium jobs of five
// programs, and one a large job now and then. The times of a program's runs differ by a
// fifth, and nodes have two speeds.
func departments(jobs int) sim.Config {
	c := workload.Cluster{Racks: 2, Heartbeat: "fixed:1s", Groups: []workload.NodeGroup{
		{Name: "a", Count: 12, Cores: 4, Speed: 1, MapSlots: 3, ReduceSlots: 2}, {Name: "b", Count: 8, Cores: 4, Speed: 1.5, MapSlots: 3, ReduceSlots: 2}}}
	next := generator(20261123)
	var list []workload.Job
	at := time.Duration(0)
	for i := range jobs {
		at -= time.Duration(38 * math.Log(1-next()) * float64(time.Second))
		day := math.Exp(0.2 * (next() + next() + next() + next() - 2) * math.Sqrt(3))
		j := workload.Job{Submit: at}
		switch kind := next(); {
		case kind < 0.5:
			j.Name, j.User = fmt.Sprintf("query-%d", i), "web"
			j.Maps, j.Reduces = spread(next, 3+int(12*next()), 9*day, 0.4), spread(next, 1, 12*day, 0.4)
		case kind < 0.9:
			app := int(5 * next())
			j.Name, j.User = fmt.Sprintf("report%c_%d", 'a'+rune(app), i), "sales"
			j.Maps, j.Reduces = spread(next, 30+15*app, (8+5*float64(app))*day, 0.35), spread(next, 3+2*app, (20+8*float64(app))*day, 0.35)
		default:
			j.Name, j.User = fmt.Sprintf("load-%d", i), "warehouse"
			j.Maps, j.Reduces = spread(next, 250+int(250*next()), 25*day, 0.25), spread(next, 20, 70*day, 0.3)
		}
		list = append(list, j)
	}
	return sim.Config{Cluster: c, Jobs: list, Seed: 11, Model: sim.ModelConfig{Straggler: sim.Straggler{Probability: 0.015, Factor: 2.5, Alpha: 2}}}
}

// nights is a batch of the same eight jobs that is submitted at once, again and again, with
// inputs that grow and shrink by a third. Some nights begin before the last one has ended.
func nights(jobs int) sim.Config {
	c := workload.Cluster{Racks: 2, Heartbeat: "fixed:3s", Groups: []workload.NodeGroup{{Name: "n", Count: 16, Cores: 8, Speed: 1, MapSlots: 5, ReduceSlots: 3}}}
	next := generator(8128)
	var list []workload.Job
	for i := range jobs {
		night, app := i/8, i%8
		size := 0.7 + 0.6*next()
		j := workload.Job{Name: fmt.Sprintf("stage%c-%04d", 'a'+rune(app), night), Request: job.Request{User: fmt.Sprint("batch", app%3)},
			Submit: time.Duration(night)*420*time.Second + time.Duration(app)*500*time.Millisecond}
		j.Maps = spread(next, int((20+40*float64(app%5))*size), 14+4*float64(app), 0.3)
		if app%3 != 2 {
			j.Reduces = spread(next, 4+3*app, (18+9*float64(app))*size, 0.3)
		}
		list = append(list, j)
	}
	return sim.Config{Cluster: c, Jobs: list, Seed: 13}
}

// bursts is a mix in which some jobs arrive together, and the number of tasks has a heavy
// tail: most jobs have some tasks, a few have hundreds. One in four has a name that no other
// job has.
func bursts(jobs int, seed uint64) sim.Config {
	c := workload.Cluster{Racks: 3, Heartbeat: "fixed:1s", Groups: []workload.NodeGroup{{Name: "n", Count: 24, Cores: 8, Speed: 1, MapSlots: 4, ReduceSlots: 2}}}
	next := generator(seed)
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
		list = append(list, workload.Job{Name: fmt.Sprintf("%s-%d", app, i), Request: job.Request{User: fmt.Sprint("user", int(4*next()))}, Submit: at,
			Maps: spread(next, maps, mean, 0.5), Reduces: spread(next, 1+maps/8, 1.5*mean, 0.5)})
	}
	return sim.Config{Cluster: c, Jobs: list, Seed: 9}
}

// rounds repeats eight jobs with varying sizes of input. Four are small and have no
// reduces. The nodes have three speeds.
func rounds(jobs int, seed uint64) sim.Config {
	c := workload.Cluster{Racks: 2, Heartbeat: "fixed:1s", Groups: []workload.NodeGroup{
		{Name: "a", Count: 6, Cores: 4, Speed: 1.2, MapSlots: 4, ReduceSlots: 2}, {Name: "b", Count: 6, Cores: 4, Speed: 1, MapSlots: 4, ReduceSlots: 2},
		{Name: "c", Count: 4, Cores: 4, Speed: 0.6, MapSlots: 4, ReduceSlots: 2}}}
	next := generator(seed)
	var list []workload.Job
	at := time.Duration(0)
	for i := range jobs {
		at += time.Duration(70 * next() * float64(time.Second))
		app := i % 8
		j := workload.Job{Name: fmt.Sprintf("step%d-%03d", app, i/8), Request: job.Request{User: fmt.Sprint("team", app%2)}, Submit: at}
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

// sleeping is the mix of live on simulated workers.
func sleeping(jobs, workers int, seed uint64) (scene, error) {
	every := 60 * time.Second / time.Duration(workers)
	r := liveRun{every: every, span: time.Duration(jobs) * every, seed: seed}
	mix, err := workload.ReadMix("mix", strings.NewReader(r.mix()))
	if err != nil {
		return scene{}, err
	}
	list, err := mix.Jobs(seed)
	if err != nil {
		return scene{}, err
	}
	for _, j := range list {
		for i := range j.Reduces {
			j.Reduces[i].Fetch = -1
		}
	}
	c := workload.Cluster{Heartbeat: "fixed:1s", Groups: []workload.NodeGroup{{Name: "n", Count: workers, Cores: 4, Speed: 1, MapSlots: 2, ReduceSlots: 1}}}
	return scene{name: fmt.Sprintf("sleeping jobs on %d workers, seed %d", workers, seed), policy: "fair", workAlone: true, often: 3 * time.Second,
		cfg: sim.Config{Cluster: c, Jobs: list, Seed: seed, Model: sim.ModelConfig{OutOfBand: true}}}, nil
}
