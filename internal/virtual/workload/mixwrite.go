package workload

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/sched/job"
)

// WriteJobs writes jobs as a listed job mix. ReadMix and Mix.Jobs give back equal
// jobs; equal tasks that follow each other share a line. Invalid UTF-8 is
// replaced. WriteJobs does not check the jobs: ReadMix rejects one without
// tasks and one that waits for a later job.
//
// It returns an error for a job with a value that no key of a mix can state: read again, the job would run
// differently. So the jobs of traces, whose Origin is not Stated, cannot be written.
func WriteJobs(out io.Writer, jobs []Job) error {
	w := bufio.NewWriter(out)
	fmt.Fprintln(w, "# Times of submission since the start of the run; after: positions in this list, from 0.")
	fmt.Fprintln(w, "jobs:")
	for i := range jobs {
		j := &jobs[i]
		tasks := j.Tasks()
		if field := withoutKey(j, &tasks); field != "" {
			return fmt.Errorf("job %d, %q: a job mix has no key for its %s", i, j.Name, field)
		}
		writeJob(w, j, &tasks)
	}
	return w.Flush()
}

// withoutKey names a value of a job that no key of a mix can state, or returns "".
func withoutKey(j *Job, tasks *[job.Kinds][]Task) string {
	fetches := func(t Task) bool { return t.Fetch != 0 }
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"Origin", j.Origin != Stated}, {"MaxAttempts", j.MaxAttempts != 0}, {"TaskTimeout", j.TaskTimeout != 0},
		{"NoSpeculation", j.NoSpeculation}, {"Priority", !j.Priority.Valid()},
		{"Fetch of a map", slices.ContainsFunc(tasks[job.Map], fetches)}, {"Fetch of a reduce", slices.ContainsFunc(tasks[job.Reduce], fetches)},
		{"Hosts of a reduce", slices.ContainsFunc(tasks[job.Reduce], func(t Task) bool { return len(t.Hosts) > 0 })},
	} {
		if f.set {
			return f.name
		}
	}
	return ""
}

// writeJob writes a job without the keys that have their default values.
func writeJob(w *bufio.Writer, j *Job, tasks *[job.Kinds][]Task) {
	fmt.Fprintf(w, "  - name: %s\n", quote(j.Name))
	for _, f := range []struct{ key, text string }{{"app", j.App}, {"class", j.Class}} {
		if f.text != "" {
			fmt.Fprintf(w, "    %s: %s\n", f.key, quote(f.text))
		}
	}
	writeRequest(w, &j.Request)
	fmt.Fprintf(w, "    submit: %s\n", j.Submit)
	if j.Plan != 0 {
		fmt.Fprintf(w, "    plan: %s\n", j.Plan)
	}
	if j.Resident != 0 {
		fmt.Fprintf(w, "    resident: %d\n", j.Resident)
	}
	if len(j.After) > 0 {
		fmt.Fprintf(w, "    after: [%s]\n", strings.Trim(strings.ReplaceAll(fmt.Sprint(j.After), " ", ", "), "[]"))
	}
	writeTasks(w, "maps", tasks[job.Map])
	writeTasks(w, "reduces", tasks[job.Reduce])
}

// writeTasks writes a list of tasks, equal ones that follow each other as one line.
func writeTasks(w *bufio.Writer, key string, tasks []Task) {
	if len(tasks) == 0 {
		return
	}
	fmt.Fprintf(w, "    %s:\n", key)
	for len(tasks) > 0 {
		t, n := &tasks[0], 1
		// Traces have thousands of equal tasks in a row, and a line for each would make files of
		// gigabytes.
		for n < len(tasks) && equalTasks(t, &tasks[n]) {
			n++
		}
		tasks = tasks[n:]
		fmt.Fprintf(w, "      - {count: %d", n)
		if t.Duration != 0 {
			fmt.Fprintf(w, ", time: %s", t.Duration)
		}
		if t.Input != 0 {
			fmt.Fprintf(w, ", input: %d", t.Input)
		}
		if t.Output != 0 {
			fmt.Fprintf(w, ", output: %d", t.Output)
		}
		if t.CPU != 0 {
			fmt.Fprintf(w, ", cpu: %s", t.CPU)
		}
		for i, h := range t.Hosts {
			sep := ", "
			if i == 0 {
				sep = ", hosts: ["
			}
			fmt.Fprintf(w, "%s%s", sep, quote(h))
		}
		if len(t.Hosts) > 0 {
			w.WriteByte(']')
		}
		fmt.Fprintln(w, "}")
	}
}

// equalTasks reports whether two tasks are equal.
func equalTasks(a, b *Task) bool {
	return a.Duration == b.Duration && a.Input == b.Input && a.Output == b.Output && a.CPU == b.CPU &&
		slices.Equal(a.Hosts, b.Hosts)
}

// plainText reports whether a text needs no quotes in YAML, wherever it stands.
func plainText(s string) bool {
	// YAML would read 007, 1e3 and 12:30 as numbers.
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_') {
			return false
		}
	}
	// YAML 1.1 readers, Ruby's and PyYAML among them, take y and no for truth values.
	return !slices.Contains([]string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(s))
}

// quote writes a text for YAML: bare if that is safe, else in double quotes with
// the escapes that YAML shares with Go.
func quote(s string) string {
	if plainText(s) {
		return s
	}
	return strconv.QuoteToASCII(strings.ToValidUTF8(s, "\uFFFD"))
}
