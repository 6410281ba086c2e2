package report

import (
	"strings"
	"testing"
)

func TestSpreads(t *testing.T) {
	var b strings.Builder
	spreads(&b, []JobSpread{{Policy: "fifo", Job: "a", Median: 10, Least: 8, P5: 9, P95: 11, Most: 12}, {Policy: "fifo", Job: "long name", Median: 1}})
	want := `
response times of each job over the seeds
policy  job          median     least       5 %      95 %      most
fifo    a              10.0       8.0       9.0      11.0      12.0
        long name       1.0         0         0         0         0
`
	if b.String() != want {
		t.Errorf("got %s, want %s", b.String(), want)
	}
	b.Reset()
	spreads(&b, make([]JobSpread, mostSpreads+1))
	if b.Len() > 0 {
		t.Error("more lines than the bound")
	}
}
