package trackertest

import (
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// pending holds reports and loads for the nodes' next heartbeats.
// Scripts say first what happened on a node and then send its heartbeat, as reports wait for one on a worker.
type pending struct {
	reports map[string][]tracker.Report
	loads   map[string]cluster.Load
}

func newPending() *pending {
	return &pending{map[string][]tracker.Report{}, map[string]cluster.Load{}}
}

func (p *pending) add(node string, r tracker.Report) {
	p.reports[node] = append(p.reports[node], r)
}

// heartbeat returns a node's heartbeat with all that it has to report.
func (p *pending) heartbeat(node string) *tracker.Heartbeat {
	hb := &tracker.Heartbeat{Node: node, Reports: p.reports[node], Load: p.loads[node]}
	// Reports are sent once. The load stays, as a node's load does between two heartbeats.
	delete(p.reports, node)
	return hb
}

// words splits a line at spaces that are not within double quotes, which go.
func words(line string) (list []string) {
	word, quoted := "", false
	for _, c := range line + " " {
		switch {
		case c == '"':
			quoted = !quoted
		case c != ' ' || quoted:
			word += string(c)
		// Also at the end, because a space was added to the line.
		case word != "":
			list, word = append(list, word), ""
		}
	}
	return list
}

// argMap holds the key=value arguments of a command. A value that is absent or
// no number counts as zero.
type argMap map[string]string

func args(fields []string) argMap {
	m := argMap{}
	for _, f := range fields {
		if k, v, ok := strings.Cut(f, "="); ok {
			m[k] = v
		}
	}
	return m
}

func (m argMap) int(key string) int { n, _ := strconv.Atoi(m[key]); return n }

func (m argMap) float(key string) float64 { x, _ := strconv.ParseFloat(m[key], 64); return x }

func (m argMap) duration(key string) time.Duration { d, _ := time.ParseDuration(m[key]); return d }

func (m argMap) join(name string) *tracker.Join {
	return &tracker.Join{Node: cluster.Spec{Name: name, Host: m["host"], Rack: m["rack"],
		MapSlots: m.int("maps"), ReduceSlots: m.int("reduces"), Cores: m.int("cores"), Speed: m.float("speed"),
		MemoryBytes: int64(m.int("memory"))}}
}

// list splits a value at commas.
func (m argMap) list(key string) []string {
	if m[key] == "" {
		return nil
	}
	return strings.Split(m[key], ",")
}

func (m argMap) load() cluster.Load {
	return cluster.Load{CPU: m.float("cpu"), LoadAverage: m.float("avg"), MemoryFree: m.float("mem"),
		DiskRate: m.float("disk"), NetworkRate: m.float("net"), Processes: m.int("procs")}
}

func (m argMap) job(name string) job.Spec {
	spec := job.Spec{Name: name, Splits: make([]job.Split, m.int("maps")), Reduces: m.int("reduces"), Request: job.Request{
		User: m["user"], Pool: m["pool"], MaxAttempts: m.int("attempts"), TaskTimeout: m.duration("timeout"),
		NoSpeculation: m["nospec"] != "", TaskMemory: int64(m.int("memory")) << 20, TaskCPUs: m.int("cpus")}}
	if m["slowstart"] != "" {
		spec.SlowStart = job.StartAfter(m.float("slowstart"))
	}
	spec.Priority, _ = job.ParsePriority(m["priority"])
	placeSplits(spec.Splits, m["loc"])
	for i := range spec.Splits {
		spec.Splits[i].Bytes = int64(m.int("bytes"))
	}
	if v := strings.Split(m["profile"], ","); len(v) == 4 {
		var rate [4]uint8
		for i := range rate {
			n, _ := strconv.Atoi(v[i])
			rate[i] = uint8(n)
		}
		spec.Hints[job.Map] = job.Ratings{CPU: rate[0], Memory: rate[1], Disk: rate[2], Network: rate[3]}
		spec.Hints[job.Reduce] = spec.Hints[job.Map]
	}
	return spec
}

// placeSplits gives splits the hosts of a list such as h1,h2;h3;-, cyclically.
func placeSplits(splits []job.Split, list string) {
	if list == "" {
		return
	}
	loc := strings.Split(list, ";")
	for i := range splits {
		if h := loc[i%len(loc)]; h != "-" {
			splits[i].Hosts = strings.Split(h, ",")
		}
	}
}
