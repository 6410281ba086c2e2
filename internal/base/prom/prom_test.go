package prom

import (
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// TestPage compares a page with the text that client_golang 1.25 makes of the same metrics.
func TestPage(t *testing.T) {
	jobs := NewCounts("b_jobs_total", "Jobs\nby \\state.", "state", "pool")
	jobs.Inc("failed", `a "b" \c`)
	jobs.Inc("done", "x\ny")
	jobs.Inc("done", "x\ny")
	none := NewCounts("d_none_total", "Nothing.")
	times := NewHistogram("a_seconds", "Times.", Powers(0.25, 4, 3)...)
	for _, v := range []float64{0.1, 0.25, 0.5, 1000000, 5} {
		times.Observe(v)
	}
	size := &Desc{Kind: Gauge, Name: "c_bytes", Help: "Bytes."}
	set := Set{jobs, none, times, SourceFunc(func(p *Page) { p.Add(size, 1<<40) })}
	w := httptest.NewRecorder()
	set.ServeHTTP(w, nil)
	const want = `# HELP a_seconds Times.
# TYPE a_seconds histogram
a_seconds_bucket{le="0.25"} 2
a_seconds_bucket{le="1"} 3
a_seconds_bucket{le="4"} 3
a_seconds_bucket{le="+Inf"} 5
a_seconds_sum 1.00000585e+06
a_seconds_count 5
# HELP b_jobs_total Jobs\nby \\state.
# TYPE b_jobs_total counter
b_jobs_total{pool="a \"b\" \\c",state="failed"} 1
b_jobs_total{pool="x\ny",state="done"} 2
# HELP c_bytes Bytes.
# TYPE c_bytes gauge
c_bytes 1.099511627776e+12
# HELP d_none_total Nothing.
# TYPE d_none_total counter
d_none_total 0
`
	if got := w.Body.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := w.Header().Get("Content-Type"); got != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("content type %s", got)
	}
}

// TestProcess looks for the process's numbers, of which none can be 0.
func TestProcess(t *testing.T) {
	names := []string{"process_cpu_seconds_total", "process_start_time_seconds", "process_max_fds"}
	if runtime.GOOS == "linux" {
		names = append(names, "process_open_fds", "process_virtual_memory_bytes", "process_resident_memory_bytes")
	}
	p := &Page{families: map[string]*family{}}
	Process.Collect(p)
	for _, name := range names {
		if !regexp.MustCompile(`(?m)^` + name + ` [1-9.e+0-9]*[1-9]`).MatchString(p.String()) {
			t.Errorf("%s is missing or 0 in\n%s", name, p)
		}
	}
	if strings.Count(p.String(), "# TYPE") != len(names) {
		t.Errorf("other metrics in\n%s", p)
	}
}
