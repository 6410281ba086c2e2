package workload

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/slotwise/slotwise/internal/job"
)

// listed reads jobs one by one, as WriteJobs writes them.
func (r *reader) listed(nodes []*yaml.Node) []Job {
	jobs := make([]Job, 0, len(nodes))
	total := 0
	for i, n := range nodes {
		j := r.job(n, i)
		if total += len(j.Maps) + len(j.Reduces); total > MaxTotal || i >= MaxJobs {
			r.fail(n, "more than %d tasks, or %d jobs", MaxTotal, MaxJobs)
			break
		}
		jobs = append(jobs, j)
	}
	if len(nodes) == 0 {
		r.errs = append(r.errs, fmt.Errorf("%s: no jobs", r.file))
	}
	return jobs
}

// job reads the i-th listed job.
func (r *reader) job(n *yaml.Node, i int) Job {
	o := r.object(n, fmt.Sprintf("job %d", i))
	if o == nil {
		return Job{}
	}
	j := Job{Name: field(o, "name", fmt.Sprintf("job%d", i), anyText)}
	o.what = fmt.Sprintf("job %q", j.Name)
	j.App, j.User, j.Pool, j.Class = o.text("app"), o.text("user"), o.text("pool"), o.text("class")
	j.Priority = field(o, "priority", job.Normal, parsePriority)
	j.Submit, j.Plan = o.duration("submit"), o.duration("plan")
	j.SlowStart = field(o, "slow-start", -1, number(0, 1))
	j.Profile = o.hints()
	for _, c := range o.list("after") {
		if k := scalar(r, c, o.what+": after", whole(0, MaxJobs)); k < i {
			j.After = append(j.After, k)
		} else {
			r.fail(c, "%s: after: %d is not a job before it (they count from 0, this is %d)", o.what, k, i)
		}
	}
	j.Maps = r.tasks(o, "maps", job.Map)
	j.Reduces = r.tasks(o, "reduces", job.Reduce)
	o.end()
	if len(j.Maps)+len(j.Reduces) == 0 {
		r.fail(n, "%s: has no tasks", o.what)
	}
	return j
}

// tasks reads groups of equal tasks.
func (r *reader) tasks(o *object, key string, kind job.Kind) []Task {
	var list []Task
	for _, n := range o.list(key) {
		in := r.object(n, o.what+": "+key)
		if in == nil {
			continue
		}
		many := field(in, "count", 1, whole(1, MaxTasks))
		t := Task{Duration: in.duration("time"), CPU: in.duration("cpu"),
			Input: field(in, "input", 0, ParseBytes), Output: field(in, "output", 0, ParseBytes)}
		if kind == job.Map {
			t.Hosts = in.texts("hosts")
		}
		in.end()
		if err := checkTasks(kind, float64(len(list)+many)); err != nil {
			r.fail(n, "%s: %s", o.what, err)
			break
		}
		list = append(list, slices.Repeat([]Task{t}, many)...)
	}
	return list
}

// WriteJobs writes jobs as a job mix that ReadMix reads back as the same; equal
// tasks that follow each other become one line. Text that is not UTF-8 is
// mended. Jobs without tasks, and chains that lead forward, are written and will
// be refused by ReadMix.
func WriteJobs(out io.Writer, jobs []Job) error {
	w := bufio.NewWriter(out)
	fmt.Fprintln(w, "# Times of submission since the start of the run; after: places in this list, from 0.")
	fmt.Fprintln(w, "jobs:")
	for i := range jobs {
		writeJob(w, &jobs[i])
	}
	return w.Flush()
}

func writeJob(w *bufio.Writer, j *Job) {
	fmt.Fprintf(w, "  - name: %s\n", quote(j.Name))
	for _, f := range []struct{ key, text string }{{"app", j.App}, {"user", j.User}, {"pool", j.Pool}, {"class", j.Class}} {
		if f.text != "" {
			fmt.Fprintf(w, "    %s: %s\n", f.key, quote(f.text))
		}
	}
	if j.Priority != job.Normal {
		fmt.Fprintf(w, "    priority: %s\n", priorities[min(max(j.Priority, job.VeryLow), job.VeryHigh)-job.VeryLow])
	}
	fmt.Fprintf(w, "    submit: %s\n", j.Submit)
	if j.Plan != 0 {
		fmt.Fprintf(w, "    plan: %s\n", j.Plan)
	}
	if j.SlowStart >= 0 {
		fmt.Fprintf(w, "    slow-start: %s\n", strconv.FormatFloat(j.SlowStart, 'g', -1, 64))
	}
	if text := hintsText(&j.Profile); text != "" {
		fmt.Fprintf(w, "    hints: %s\n", text)
	}
	if len(j.After) > 0 {
		fmt.Fprintf(w, "    after: [%s]\n", strings.Trim(strings.ReplaceAll(fmt.Sprint(j.After), " ", ", "), "[]"))
	}
	writeTasks(w, "maps", j.Maps)
	writeTasks(w, "reduces", j.Reduces)
}

func writeTasks(w *bufio.Writer, key string, tasks []Task) {
	if len(tasks) == 0 {
		return
	}
	fmt.Fprintf(w, "    %s:\n", key)
	for len(tasks) > 0 {
		t, n := &tasks[0], 1
		for n < len(tasks) && same(t, &tasks[n]) {
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

// same reports whether two tasks are equal.
func same(a, b *Task) bool {
	return a.Duration == b.Duration && a.Input == b.Input && a.Output == b.Output && a.CPU == b.CPU &&
		slices.Equal(a.Hosts, b.Hosts)
}

// plainText reports whether YAML takes a text as it is in every place.
func plainText(s string) bool {
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_') {
			return false
		}
	}
	return !slices.Contains([]string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(s))
}

// quote writes a text for YAML: as it is if that is safe, or else between
// double quotes, with escapes that YAML shares with Go.
func quote(s string) string {
	if plainText(s) {
		return s
	}
	return strconv.QuoteToASCII(strings.ToValidUTF8(s, "\uFFFD"))
}
