package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/virtual/sim"
	"github.com/slotwise/slotwise/internal/virtual/study"
	"github.com/slotwise/slotwise/internal/virtual/workload"
	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/policies/hadoop/hadoopconf"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// recorded is a run of a real cluster, ready to be replayed.
type recorded struct {
	name     string
	jobs     []recordedJob
	makespan float64 // seconds

	cluster  workload.Cluster
	workload []workload.Job
	model    sim.ModelConfig
	// background is the share of the machine that other programs took; nil is unknown.
	background []sim.Background
	policy     func() (sched.Policy, error)
}

// recordedJob holds the measured times of a real job.
type recordedJob struct {
	id       string
	response float64 // seconds from submission to end, by the job history
	moments  moments
}

// workloadFile holds the used fields of workload.json. Times are in ms.
type workloadFile struct {
	Name, Scheduler string
	Properties      map[string]any `json:"schedulerProperties"`
	Files           []string       `json:"schedulerFiles"`
	Queues          []string
	Heartbeat       int64 `json:"heartbeatMs"`
	Expiry          int64 `json:"trackerExpiryMs"`
	Speculative     bool
	JVMReuse        int `json:"jvmReuse"`
	Trackers        []struct {
		Name, Rack            string
		MapSlots, ReduceSlots int
	}
	Events []struct {
		At      int64 `json:"atMs"`
		Event   string
		Tracker string
	}
	Jobs []struct {
		ID                string
		Submit            int64 `json:"submitMs"`
		Maps, Reduces     int
		Map               int64 `json:"mapMs"`
		Reduce            int64 `json:"reduceMs"`
		User, Pool, Queue string
		Priority          string
		SlowStart         float64
		SplitHosts        [][]string
	}
}

// resultFile holds the used fields of result.json.
type resultFile struct {
	Jobs []struct {
		ID     string
		Submit int64 `json:"submitMs"`
		Finish int64 `json:"finishMs"`
	}
	Attempts []struct {
		Job, Kind, State string
		Assign           int64 `json:"assignMs"`
		Learned          int64 `json:"learnedMs"`
		Start            int64 `json:"startMs"`
		Finish           int64 `json:"finishMs"`
	}
}

// read reads the folder of a run. If history is set, the tasks come from the job history,
// as ReadHistory imports it, and not from the nominal times.
func read(folder string, history bool) (*recorded, error) {
	var w workloadFile
	var result resultFile
	for name, v := range map[string]any{"workload.json": &w, "result.json": &result} {
		b, err := os.ReadFile(filepath.Join(folder, name))
		if err == nil {
			err = json.Unmarshal(b, v)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(folder, name), err)
		}
	}
	r := &recorded{name: filepath.Base(folder)}
	first, last := int64(1<<62), int64(0)
	for _, j := range w.Jobs {
		i := slices.IndexFunc(result.Jobs, func(x struct {
			ID     string
			Submit int64 `json:"submitMs"`
			Finish int64 `json:"finishMs"`
		}) bool {
			return x.ID == j.ID
		})
		if i < 0 {
			return nil, fmt.Errorf("%s: result.json lacks the job %s", folder, j.ID)
		}
		x := result.Jobs[i]
		first, last = min(first, x.Submit), max(last, x.Finish)
		r.jobs = append(r.jobs, recordedJob{j.ID, float64(x.Finish-x.Submit) / 1e3, recordedMoments(&result, j.ID, x.Submit, x.Finish)})
	}
	r.makespan = float64(last-first) / 1e3
	hosts, err := r.setCluster(&w)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	if err := r.setJobs(&w, hosts); err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	if err := r.setModel(&w, hosts); err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	if r.background, err = readBackground(folder, &w, &result); err != nil {
		return nil, err
	}
	if history {
		if err := r.useHistory(folder, &w); err != nil {
			return nil, err
		}
	}
	if err := r.setPolicy(&w, folder); err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	return r, nil
}

// useHistory replaces the nominal tasks by the recorded tasks. Their times contain
// the starts of processes and the ends of shuffles, so the world must not add these again.
func (r *recorded) useHistory(folder string, w *workloadFile) error {
	read, err := study.ReadWorkload(context.Background(), "hadoop:"+filepath.Join(folder, "history"), &r.cluster, study.WorkloadOptions{})
	if err != nil {
		return err
	}
	jobs, err := read.Source.Jobs(1)
	if err != nil {
		return err
	}
	for i := range r.workload {
		k := slices.IndexFunc(jobs, func(j workload.Job) bool { return j.Name == r.workload[i].Name })
		if k < 0 {
			return fmt.Errorf("%s: the history lacks the job %s", folder, r.workload[i].Name)
		}
		j := jobs[k]
		tasks := j.Tasks()
		j.Maps, j.Reduces, j.Outline = tasks[job.Map], tasks[job.Reduce], nil
		if want := &r.workload[i]; len(j.Maps) != len(want.Maps) || len(j.Reduces) != len(want.Reduces) || j.SlowStart != want.SlowStart ||
			j.User != want.User || w.Scheduler == "capacity" && j.Pool != want.Pool {
			return fmt.Errorf("%s: job %s of the history has %d+%d tasks, slow start %v, user %s, pool %s", folder, j.Name,
				len(j.Maps), len(j.Reduces), j.SlowStart, j.User, j.Pool)
		}
		for m := range j.Maps {
			j.Maps[m].Hosts = r.workload[i].Maps[m].Hosts
		}
		r.workload[i].Maps, r.workload[i].Reduces = j.Maps, j.Reduces
	}
	o := &r.model.Overheads
	o.Start, o.Restart, o.FetchPoll, o.FetchStart, o.EventPoll = 0, 0, 0, 0, 0
	return nil
}

// heartbeatTakes is the time in ms that a tracker's heartbeat adds to the interval: the medians of
// fifo-c-1, fifo-c-2 and fifo-hb3 are 5, 5 and 3.
const heartbeatTakes = 4

// setCluster describes the trackers: processes on one machine, with racks and slots of their own.
// It returns the index of each tracker's node.
func (r *recorded) setCluster(w *workloadFile) (map[string]int, error) {
	var racks []string
	nodes := map[string]int{}
	r.cluster = workload.Cluster{Heartbeat: fmt.Sprintf("fixed:%dms", w.Heartbeat+heartbeatTakes)}
	for i, t := range w.Trackers {
		if !slices.Contains(racks, t.Rack) {
			racks = append(racks, t.Rack)
		}
		rack := slices.Index(racks, t.Rack) + 1
		if _, twice := nodes[t.Name]; twice {
			return nil, fmt.Errorf("tracker %s is there twice", t.Name)
		}
		nodes[t.Name] = i
		list := r.cluster.Groups
		// Equal neighbours are a group, all groups are on one machine.
		if n := len(list) - 1; n >= 0 && list[n].Rack == rack && list[n].MapSlots == t.MapSlots && list[n].ReduceSlots == t.ReduceSlots {
			list[n].Count++
			list[n].Hosts = append(list[n].Hosts, t.Name)
			continue
		}
		g := workload.NodeGroup{Hosts: []string{t.Name}, Count: 1, Rack: rack, MapSlots: t.MapSlots, ReduceSlots: t.ReduceSlots}
		if i == 0 {
			g.Together, g.Cores = true, cores
		} else {
			g.Beside = true
		}
		r.cluster.Groups = append(list, g)
	}
	r.cluster.Racks = len(racks)
	return nodes, nil
}

// setJobs makes the jobs, whose tasks sleep. The duration of a reduce is its sleep, which
// begins after its shuffle.
func (r *recorded) setJobs(w *workloadFile, nodes map[string]int) error {
	for _, j := range w.Jobs {
		x := workload.Job{Name: j.ID, Request: job.Request{User: j.User, Pool: j.Pool + j.Queue, SlowStart: job.StartAfter(j.SlowStart)}, Submit: ms(j.Submit),
			Maps: make([]workload.Task, j.Maps), Reduces: make([]workload.Task, j.Reduces)}
		if j.Priority != "" {
			var ok bool
			if x.Priority, ok = job.ParsePriority(j.Priority); !ok {
				return fmt.Errorf("job %s: unknown priority %q", j.ID, j.Priority)
			}
		}
		for i := range x.Maps {
			x.Maps[i] = workload.Task{Duration: ms(j.Map)}
			if n := len(j.SplitHosts); n > 0 {
				for _, h := range j.SplitHosts[i%n] {
					if _, ok := nodes[h]; !ok {
						return fmt.Errorf("job %s: splits on %s, which is no tracker", j.ID, h)
					}
					x.Maps[i].Hosts = append(x.Maps[i].Hosts, h)
				}
			}
		}
		for i := range x.Reduces {
			x.Reduces[i] = workload.Task{Duration: ms(j.Reduce), Fetch: -1}
		}
		r.workload = append(r.workload, x)
	}
	return nil
}

// setModel describes what the daemons add, and the trackers that were killed or stopped.
func (r *recorded) setModel(w *workloadFile, nodes map[string]int) error {
	r.model = sim.ModelConfig{Replicas: -1, NodeTimeout: ms(w.Expiry), Overheads: sim.Hadoop121(w.JVMReuse < 0)}
	if w.Scheduler == "capacity" {
		r.model.Overheads.InitPoll = 3 * time.Second // CapacitySchedulerConf's default, unless a file has another
	}
	if w.Scheduler == "fair" {
		r.model.Overheads.ReadyPoll = 500 * time.Millisecond // FairScheduler's default, unless a file has another
	}
	for _, e := range w.Events {
		n, known := nodes[e.Tracker]
		switch {
		case !known:
			return fmt.Errorf("event %s of %s, which is no tracker", e.Event, e.Tracker)
		case !slices.Contains([]string{"kill", "start", "stop", "cont"}, e.Event):
			return fmt.Errorf("event %q of tracker %s, must be kill, start, stop or cont", e.Event, e.Tracker)
		}
		switch e.Event {
		case "kill":
			r.model.Crashes = append(r.model.Crashes, sim.Crash{Node: n, At: ms(e.At)})
		case "stop":
			r.model.Stops = append(r.model.Stops, sim.Stop{Node: n, At: ms(e.At)})
		case "cont":
			for i := range r.model.Stops {
				if x := &r.model.Stops[i]; x.Node == n && x.Until == 0 {
					x.Until = ms(e.At)
				}
			}
		case "start":
			for i := range r.model.Crashes {
				if c := &r.model.Crashes[i]; c.Node == n && c.Return == 0 {
					c.Return = ms(e.At)
				}
			}
		}
	}
	return nil
}

// setPolicy prepares the scheduler with the run's files and properties. A file is an allocation file
// of the Fair Scheduler, or a list of properties such as capacity-scheduler.xml and mapred-site.xml;
// a list of queues (mapred-queues.xml) has nothing that decides who runs.
func (r *recorded) setPolicy(w *workloadFile, folder string) error {
	set := map[string]string{"profile": "hadoop-1.2"}
	spec := w.Scheduler
	if !w.Speculative {
		spec += ",speculate=none"
	}
	var pools any
	var props []hadoopconf.Property
	for _, name := range w.Files {
		b, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		switch {
		case bytes.Contains(b, []byte("<queues")):
		case bytes.Contains(b, []byte("<allocations")):
			if pools, _, err = hadoopconf.ReadAllocations(bytes.NewReader(b)); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		default:
			list, _, err := hadoopconf.ReadProperties(bytes.NewReader(b))
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			props = append(props, list...)
		}
	}
	// What the JobTracker was started with counts before its files.
	for _, name := range slices.Sorted(maps.Keys(w.Properties)) {
		v := w.Properties[name]
		if number, ok := v.(float64); ok {
			v = strconv.FormatFloat(number, 'f', -1, 64)
		}
		props = append(props, hadoopconf.Property{Name: name, Value: fmt.Sprint(v)})
	}
	var more map[string]string
	var err error
	switch w.Scheduler {
	case "fair":
		more, _, err = hadoopconf.FairSettings(props)
	case "capacity":
		more, _, err = hadoopconf.CapacitySettings(props, w.Queues)
	}
	if err != nil {
		return err
	}
	maps.Copy(set, more)
	if w.Scheduler != "fair" {
		pools = nil // FIFO and Capacity read no allocation file
	}
	polls := map[string]*time.Duration{
		"mapred.capacity-scheduler.init-poll-interval": &r.model.Overheads.InitPoll,
		"mapred.fairscheduler.update.interval":         &r.model.Overheads.ReadyPoll,
	}
	for _, x := range props {
		poll := polls[x.Name]
		if poll == nil || !strings.HasPrefix(x.Name, "mapred."+w.Scheduler) {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(x.Value), 10, 64)
		if err != nil || n < 0 || n > 3600_000 {
			return fmt.Errorf("%s: %q, want a number of ms", x.Name, x.Value)
		}
		*poll = ms(n)
	}
	r.policy = func() (sched.Policy, error) {
		p, err := policies.Build(spec, sched.Options{Seed: 1, Set: set})
		if err != nil || pools == nil {
			return p, err
		}
		for _, c := range sched.HooksOf(p).Configs {
			if _, err := c.Reconfigure(pools); err != nil {
				return nil, err
			}
		}
		return p, nil
	}
	_, err = r.policy()
	return err
}

// replay simulates the run with a phase of the heartbeats.
func (r *recorded) replay(phase uint64, observer sim.Observer) (*sim.Result, error) {
	p, err := r.policy()
	if err != nil {
		return nil, err
	}
	m := r.model
	m.Phase = phase
	result, err := sim.Run(sim.Config{Cluster: r.cluster, Policy: p, Jobs: r.workload, Seed: phase, Model: m, Details: true, Observer: observer})
	if err != nil {
		return nil, err
	}
	for i, j := range result.Jobs {
		if j.State != job.Succeeded {
			return nil, fmt.Errorf("job %s is %v: %s", r.jobs[i].id, j.State, j.Text)
		}
	}
	return result, nil
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
