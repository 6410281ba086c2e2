package kubetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMeasure prints the numbers that lab/results/kubernetes.md gives. It runs by command only, and on
// a quiet machine:
//
//	SLOTWISE_KUBE_MEASURE=1 lab/kubetest/run -run TestMeasure
func TestMeasure(t *testing.T) {
	if os.Getenv("SLOTWISE_KUBE_MEASURE") == "" {
		t.Skip("SLOTWISE_KUBE_MEASURE is not set")
	}
	load := func() string {
		text, _ := os.ReadFile("/proc/loadavg") // other systems have no such file
		return strings.Join(strings.Fields(string(text))[:3], " ")
	}
	t.Logf("load averages at the beginning: %s", load())
	t.Run("starts", measureStarts)
	t.Run("word count", measureWords)
	t.Run("autoscale", measureAutoscale)
	t.Logf("load averages at the end: %s", load())
}

// measureStarts measures how long the cluster, an attempt and a pod take to start.
func measureStarts(t *testing.T) {
	for i := range 3 {
		t.Run(fmt.Sprint("cluster ", i+1), func(t *testing.T) {
			c := prepare(t, fmt.Sprint("slotwise-starts", i))
			manifest := c.manifest(os.Getenv("SLOTWISE_KUBE_IMAGE"), "--workers", "1")
			began := time.Now()
			c.apply(manifest)
			c.awaitMaster()
			ready := time.Since(began)
			c.await("the master accepts a job, which ends", func() bool {
				_, err := c.exec("submit", "sleep", "--output", "/shared/first", "--param", "maps=1x1ms", "--wait", "-q")
				return err == nil
			})
			t.Logf("from apply to a ready master %.1f s, to the end of a job with one task of 1 ms %.1f s", ready.Seconds(), time.Since(began).Seconds())
			if i == 2 {
				measureTask(t, c)
			}
		})
	}
}

// measureTask compares the start of an attempt with the start of a pod.
func measureTask(t *testing.T, c *cluster) {
	var attempts, pods []float64
	for i := range 5 {
		id := c.submit("sleep", "--output", fmt.Sprintf("/shared/one%d", i), "--param", "maps=1x1ms")
		c.awaitEnd(id)
		a := c.tasks(id)[0].Attempts[0]
		attempts = append(attempts, float64(a.EndedMs-a.StartedMs))
		pod := fmt.Sprintf("one%d", i)
		began := time.Now()
		c.apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s}, spec: {restartPolicy: Never, automountServiceAccountToken: false,
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}},
  containers: [{name: one, image: %q, args: [version], securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}}`, pod, c.namespace, os.Getenv("SLOTWISE_KUBE_IMAGE")))
		c.must("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/"+pod, "--timeout=120s")
		pods = append(pods, time.Since(began).Seconds()*1000)
	}
	slices.Sort(attempts)
	slices.Sort(pods)
	t.Logf("an attempt of 1 ms in a new process: %.0f ms; a pod that does nothing, from apply to its end: %.0f ms (sorted)", attempts, pods)
}

// measureWords compares a word count on two worker pods with one in a process, on the same
// files of this machine.
func measureWords(t *testing.T) {
	c := start(t, "slotwise-words", "", "--workers", "2", "--slots", "1", "--memory", "1Gi")
	c.await("two workers have registered", func() bool {
		out, err := c.exec("nodes", "-o", "json")
		return err == nil && strings.Count(out, `"state":"alive"`) == 2
	})
	in := filepath.Join(c.shared, "text")
	output(t, exec.Command(c.slotwise, "generate", "text", "--size", "1GiB", "--output", in, "-q"))
	var alone, pods []float64
	for i := range 5 {
		out := fmt.Sprintf("/run%d", i)
		began := time.Now()
		output(t, exec.Command(c.slotwise, "run", "wordcount", in, "--output", c.shared+out, "-q"))
		alone = append(alone, time.Since(began).Seconds())
		began = time.Now()
		c.submit("wordcount", "/shared/text", "--output", "/shared/pods"+out, "--wait")
		pods = append(pods, time.Since(began).Seconds())
		if result(t, filepath.Join(c.shared, "pods", out)) != result(t, c.shared+out) {
			t.Error("the results differ")
		}
	}
	slices.Sort(alone)
	slices.Sort(pods)
	t.Logf("word count of 1 GiB, 5 rounds in turns: run %.1f s, two worker pods %.1f s with kubectl exec; ratio of the medians %.2f", alone, pods, pods[2]/alone[2])
}

// measureAutoscale runs a mix of sleeping jobs on a cluster that scales, and simulates it.
func measureAutoscale(t *testing.T) {
	c := start(t, "slotwise-auto", "", "--workers", "1", "--max-workers", "4")
	id := c.submit("sleep", "--output", "/shared/demand", "--param", "maps=16x2s")
	c.awaitEnd(id)
	first := map[string]int64{} // when each worker began its first task
	begun := int64(0)
	for _, task := range c.tasks(id) {
		a := task.Attempts[0]
		if at, seen := first[a.Node]; !seen || a.StartedMs < at {
			first[a.Node] = a.StartedMs
		}
		if begun == 0 || a.StartedMs < begun {
			begun = a.StartedMs
		}
	}
	var waits []float64
	for _, at := range first { //house:sorted sorted below
		if at > begun {
			waits = append(waits, float64(at-begun)/1000)
		}
	}
	slices.Sort(waits)
	if len(waits) < 2 {
		t.Fatalf("the job ran on %d workers", len(first))
	}
	t.Logf("from demand to the first task of each new worker: %.1f s", waits[1:])
	c.await("one worker stays", func() bool { return len(c.pods()) == 1 })

	mix := "jobs:\n- {name: nap, maps: 48, map-time: 5s, output: /shared/nap, repeat: 3, every: 45s}\n"
	file := filepath.Join(c.shared, "mix.yaml")
	if err := os.WriteFile(file, []byte(mix), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := c.exec("submit", "--jobs", "/shared/mix.yaml", "-q"); err != nil {
		t.Fatal(err)
	}
	var jobs []struct {
		Job struct {
			SubmittedMs int64 `json:"submitted_ms"`
			EndedMs     int64 `json:"ended_ms"`
		}
	}
	c.await("the jobs of the mix have ended, after the first one", func() bool {
		out, err := c.exec("history", "-o", "json")
		return err == nil && json.Unmarshal([]byte(out), &jobs) == nil && len(jobs) == 4
	})
	responses := make([]float64, 3)
	for i := range responses { // the history begins with the last job
		responses[2-i] = float64(jobs[i].Job.EndedMs-jobs[i].Job.SubmittedMs) / 1000
	}
	makespan := float64(jobs[0].Job.EndedMs-jobs[2].Job.SubmittedMs) / 1000

	// The largest wait but the decision's interval is the start of a machine.
	setting := fmt.Sprintf("min=1,max=4,cool-down=5s,start-up=%.1fs", waits[len(waits)/2])
	dir := filepath.Join(c.dir, "sim")
	output(t, exec.Command(c.slotwise, "sim", "--workload", file, "--cluster", "nodes=4,maps=2,reduces=1", "--policy", "fifo", "--autoscale", setting, "--out", dir))
	text, err := os.ReadFile(filepath.Join(dir, "jobs.csv"))
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(string(text)), "\n")
	column := func(row, name string) float64 {
		v, err := strconv.ParseFloat(strings.Split(row, ",")[slices.Index(strings.Split(rows[0], ","), name)], 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	var simulated []float64
	end := 0.0
	for _, row := range rows[1:] {
		simulated = append(simulated, column(row, "response_s"))
		end = max(end, column(row, "ended_s"))
	}
	t.Logf("three jobs of 48 tasks of 5 s, 45 s apart, --autoscale %s: responses %.1f s, simulated %.1f s; makespan %.1f s, simulated %.1f s (%+.1f %%)",
		setting, responses, simulated, makespan, end, 100*(end/makespan-1))
}

// TestSchedules counts words under random schedules of scaling and kills, and compares the
// results. It runs by command only:
//
//	SLOTWISE_KUBE_SCHEDULES=20 lab/kubetest/run -run TestSchedules
func TestSchedules(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("SLOTWISE_KUBE_SCHEDULES"))
	if err != nil || n < 1 {
		t.Skip("SLOTWISE_KUBE_SCHEDULES is not set to a number of schedules")
	}
	c := start(t, "slotwise-random", "", "--workers", "1", "--max-workers", "4")
	want := c.words(600)
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 0))
		out := fmt.Sprintf("random%d", seed)
		id := c.submit("wordcount", "/shared/in", "--output", "/shared/"+out, "--split-size", "64KiB", "--reduces", "3")
		var actions []string
		for len(actions) < 8 { // a schedule without an end can keep a job from its own
			time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
			if s, ok := c.job(id); ok && s.State != "waiting" && s.State != "running" {
				break
			}
			pods := c.pods()
			slices.Sort(pods)
			switch action := r.IntN(4); {
			case action == 0 && len(pods) > 0:
				victim := r.IntN(len(pods))
				if c.killed(pods[victim]) {
					actions = append(actions, fmt.Sprintf("kill worker %d of %d", victim+1, len(pods)))
				}
			case action == 1 && len(pods) > 0:
				victim := r.IntN(len(pods))
				actions = append(actions, fmt.Sprintf("delete pod %d of %d", victim+1, len(pods)))
				_, _ = c.kubectl("delete", "pod", pods[victim], "--wait=false", "--ignore-not-found")
			case action == 2:
				scale := 1 + r.IntN(4)
				actions = append(actions, fmt.Sprintf("scale to %d", scale))
				c.must("scale", "deployment/slotwise-worker", fmt.Sprintf("--replicas=%d", scale))
			case action == 3 && r.IntN(3) == 0:
				actions = append(actions, "delete the master's pod")
				_, _ = c.kubectl("delete", "pod", "slotwise-master-0", "--wait=false", "--ignore-not-found")
			}
		}
		s := c.awaitEnd(id)
		if got := result(t, filepath.Join(c.shared, out)); got != want {
			t.Errorf("seed %d: %d bytes of result differ from the %d of a run in one process", seed, len(got), len(want))
		}
		t.Logf("seed %d: %d failed attempts; %s", seed, s.Maps.Failed, strings.Join(actions, ", "))
	}
}
