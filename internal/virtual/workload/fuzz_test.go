package workload

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// long matches numbers that could stand for a large number of jobs or tasks.
var long = regexp.MustCompile(`[0-9]{4}|[0-9][eE]|[TGPM]i?B|h`)

// FuzzReaders gives any bytes to every reader: none may panic, and what one
// takes must make jobs without negative numbers, or say why not.
func FuzzReaders(f *testing.F) {
	for _, s := range []string{"", twoClasses, swimRows, rumenJobs, synthText, "nodes: [{count: 3, maps: 1}]\n",
		"a: &a [*a]\n", "jobs: &x\n  - maps: [{time: 1s}]\n", "classes: [&c {maps: {table: [1, 2]}, count: 1, map-time: 1s}, *c]\n",
		`{"job.tasks": [{"container.type": "map", "duration.ms": 1}]}`, "jobs:\n  - {app: a, input: f, repeat: 2, every: 1s, output: o, params: {k: 1}, after: []}\n  - {mapper: m, reduces: 2, after: a, map-time: 1s}\nswap: [{at: 1s, policy: p, set: {x: 1}}]\n", "jobs:\n  - &x {maps: 1, map-time: 1s}\n  - {<<: *x, name: y}\n",
		"a\t1\t1\t1\t1\t1\n", "{", "[1]", "null", "\xff\xfe"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := ReadCluster("f", bytes.NewReader(data)); err == nil && c.check() != nil {
			t.Errorf("a cluster that makes no sense: %+v", c)
		}
		ReadProfiles("f", bytes.NewReader(data))
		ParseCluster(string(data))
		// Numbers of jobs and tasks far below the limits keep this fast.
		few := !long.Match(data)
		var sources []Source
		for i, read := range []func() (Source, error){
			func() (Source, error) { return ReadRumen("f", bytes.NewReader(data), RumenOptions{}) },
			func() (Source, error) { return ReadMix("f", bytes.NewReader(data)) },
			func() (Source, error) { return ReadSWIM("f", bytes.NewReader(data), SWIMOptions{}) },
			func() (Source, error) { return ReadSLS("f", bytes.NewReader(data), TraceOptions{}) },
			func() (Source, error) { return ReadSynth("f", bytes.NewReader(data)) },
		} {
			if !few && i > 0 {
				break
			}
			switch s, err := read(); {
			case err == nil:
				sources = append(sources, s)
			case !strings.HasPrefix(err.Error(), "f:"):
				t.Errorf("an error that does not name the file: %v", err)
			}
		}
		for _, s := range sources {
			jobs, err := s.Jobs(1)
			if err != nil {
				continue
			}
			for i := range jobs {
				checkJob(t, &jobs[i], i)
			}
		}
	})
}

func checkJob(t *testing.T, j *Job, index int) {
	if j.Submit < 0 || j.Submit > maxTime || len(j.Maps)+len(j.Reduces) == 0 {
		t.Errorf("job %q at %v with %d+%d tasks", j.Name, j.Submit, len(j.Maps), len(j.Reduces))
	}
	for _, p := range j.After {
		if p < 0 || p >= index {
			t.Errorf("job %d after %d", index, p)
		}
	}
	for _, task := range append(append([]Task(nil), j.Maps...), j.Reduces...) {
		if task.Duration < 0 || task.CPU < 0 || task.Input < 0 || task.Output < 0 {
			t.Errorf("job %q: %+v", j.Name, task)
		}
	}
}

// FuzzTraces gives any bytes to the importers that read folders: none may panic, and what
// one takes must make jobs without negative numbers, or say why not.
func FuzzTraces(f *testing.F) {
	for _, s := range []string{historyLog, jhistLog, sparkLog, googleRows, "time,type,collection_id,instance_index\n1,3,1,0\n5,6,1,0\n", alibabaTasks,
		"ins_1,M1,j_3,1,Terminated,157213,157233,m_1,1,1,50,80,0.1,0.2\n", "", "{", "Avro-Json\n{}\n{}"} {
		for form := range 4 {
			f.Add(form, []byte(s))
		}
	}
	names := []string{"hadoop", "spark", "google", "alibaba"}
	f.Fuzz(func(t *testing.T, form int, data []byte) {
		name := names[uint(form)%uint(len(names))]
		if huge.Match(data) {
			return // numbers of tasks far below the limits keep this fast
		}
		s, err := Read(name, "f", bytes.NewReader(data), Options{})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("%s: an error that does not name the file: %v", name, err)
			}
			return
		}
		jobs, err := s.Jobs(1)
		if err != nil {
			t.Fatal(err)
		}
		for i := range jobs {
			checkJob(t, &jobs[i], i)
		}
	})
}

// huge matches texts that state large numbers of tasks.
var huge = regexp.MustCompile(`(TOTAL_(MAPS|REDUCES)="|total(Maps|Reduces)":|Number of Tasks":|"Index":|^[^,]*,)\s*[0-9.]*[0-9eE]{5}`)
