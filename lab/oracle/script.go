package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/slotwise/slotwise/policies/hadoop/hadoopconf"
	"github.com/slotwise/slotwise/sched/cluster"
	"github.com/slotwise/slotwise/sched/job"
)

// replay plays a script and writes the decisions.
func replay(w io.Writer, script io.Reader) error {
	out := bufio.NewWriter(w)
	p := &player{out: out, setup: setup{}, ids: map[string]job.ID{}, reports: newReports()}
	lines := bufio.NewScanner(script)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		f := strings.Fields(text)
		if len(f) == 0 {
			continue
		}
		if err := p.run(f); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return errors.Join(lines.Err(), out.Flush())
}

// setup holds the commands of a script before start.
type setup struct {
	scheduler string
	props     []hadoopconf.Property
	nodes     []cluster.Spec
	pools     []string // in the short form of the parameter "pools"
	queues    []string // by name
}

// add takes one command before start.
func (s *setup) add(f []string) error {
	if len(f) < 2 {
		return fmt.Errorf("%s: an argument is missing", f[0])
	}
	a := parseArgs(f[2:])
	switch f[0] {
	case "scheduler":
		s.scheduler = f[1]
	case "set":
		s.set(f[1], strings.Join(f[2:], " "))
	case "tracker":
		s.nodes = append(s.nodes, cluster.Spec{Name: f[1], Host: a.text["host"], Rack: a.text["rack"],
			MapSlots: a.count("maps"), ReduceSlots: a.count("reduces")})
	case "pool", "user":
		s.pools = append(s.pools, strings.Join(f, " "))
	case "alloc":
		s.pools = append(s.pools, f[1]+"="+strings.Join(f[2:], ""))
	case "queue":
		s.queues = append(s.queues, f[1])
		for _, word := range f[2:] {
			name, value, _ := strings.Cut(word, "=")
			s.set("mapred.capacity-scheduler.queue."+f[1]+"."+name, value)
		}
	default:
		return fmt.Errorf("unknown command %q before start", f[0])
	}
	return a.err
}

func (s *setup) set(name, value string) {
	s.props = append(s.props, hadoopconf.Property{Name: name, Value: value})
}

// args are the key=value arguments of a command.
type args struct {
	text map[string]string
	err  error
}

func parseArgs(words []string) *args {
	a := &args{text: map[string]string{}}
	for _, w := range words {
		if k, v, ok := strings.Cut(w, "="); ok {
			a.text[k] = v
		}
	}
	return a
}

func (a *args) count(key string) int {
	if a.text[key] == "" {
		return 0
	}
	n, err := strconv.Atoi(a.text[key])
	a.err = errors.Join(a.err, err)
	return n
}

// spec reads the arguments of a job.
func (a *args) spec(name string) job.Spec {
	s := job.Spec{Name: name, Splits: make([]job.Split, a.count("maps")), Reduces: a.count("reduces"),
		Request: job.Request{User: a.text["user"], Pool: a.text["pool"], NoSpeculation: true, TaskTimeout: -1}}
	if q := a.text["queue"]; q != "" {
		s.Pool = q
	}
	if s.Pool == "" {
		s.Pool = "default"
	}
	if v := a.text["slowstart"]; v != "" {
		var err error
		var share float64
		share, err = strconv.ParseFloat(v, 64)
		s.SlowStart = job.StartAfter(share)
		a.err = errors.Join(a.err, err)
	}
	if v := a.text["priority"]; v != "" {
		var ok bool
		if s.Priority, ok = job.ParsePriority(v); !ok {
			a.err = errors.Join(a.err, fmt.Errorf("bad priority %q", v))
		}
	}
	if loc := a.text["loc"]; loc != "" {
		hosts := strings.Split(loc, ";")
		for i := range s.Splits {
			if h := hosts[i%len(hosts)]; h != "-" {
				s.Splits[i].Hosts = strings.Split(h, ",")
			}
		}
	}
	return s
}

func millis(d time.Duration) int64 { return d.Milliseconds() }
