package report

import (
	"fmt"
	"io"
	"unicode/utf8"
)

// JobSpread holds the variation of a job's response time over seeds that all run the same jobs. Times are
// in seconds.
type JobSpread struct {
	Policy string  `json:"policy"`
	Job    string  `json:"job"`
	Median float64 `json:"median_s"`
	// P5 and P95 are quantiles, Least and Most the range.
	P5    float64 `json:"p5_s"`
	P95   float64 `json:"p95_s"`
	Least float64 `json:"least_s"`
	Most  float64 `json:"most_s"`
	// Runs counts the seeds in which the job succeeded.
	Runs int `json:"runs"`
}

// mostSpreads bounds the lines that spreads prints. More jobs than that are for -o json.
const mostSpreads = 40

// spreads writes a line for each job.
func spreads(w io.Writer, list []JobSpread) {
	if len(list) == 0 || len(list) > mostSpreads {
		return
	}
	policies, jobs := len("policy"), len("job")
	for _, x := range list {
		policies, jobs = max(policies, utf8.RuneCountInString(x.Policy)), max(jobs, utf8.RuneCountInString(x.Job))
	}
	fmt.Fprintf(w, "\nresponse times of each job over the seeds\n%-*s  %-*s  %8s  %8s  %8s  %8s  %8s\n", policies, "policy", jobs, "job", "median", "least", "5 %", "95 %", "most")
	last := ""
	for _, x := range list {
		name := x.Policy
		if name == last {
			name = ""
		}
		last = x.Policy
		fmt.Fprintf(w, "%-*s  %-*s  %8s  %8s  %8s  %8s  %8s\n", policies, name, jobs, x.Job, number(x.Median), number(x.Least), number(x.P5), number(x.P95), number(x.Most))
	}
}
