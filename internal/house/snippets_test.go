package house

import "strings"

// tree is a small repository by file name.
type tree map[string]string

// badTrees are trees that violate one rule each or, if want is empty, only look like
// it.
var badTrees = []struct {
	rule string
	what string
	tree tree
	want string // in the one finding; "" for none
}{
	{"imports", "the tracker opens files", tree{"internal/tracker/a.go": `package tracker; import _ "` + Module + `/internal/storage"`}, "may import only"},
	{"imports", "sched looks at the tracker", tree{"policies/hadoop/order/a.go": `package order; import _ "` + Module + `/internal/tracker"`}, "may import only"},
	{"imports", "the tracker asks sched", tree{"internal/tracker/a.go": `package tracker; import _ "` + Module + `/sched"`}, ""},
	{"imports", "the engine schedules", tree{"internal/engine/a.go": `package engine; import _ "` + Module + `/policies/hadoop/order"`}, "must not depend"},
	{"imports", "the engine names attempts", tree{"internal/engine/a.go": `package engine; import _ "` + Module + `/sched/job"`}, ""},
	{"imports", "storage names jobs", tree{"internal/storage/a.go": `package storage; import _ "` + Module + `/sched/job"`}, "must not depend"},
	{"imports", "input reads runs", tree{"internal/input/a.go": `package input; import _ "` + Module + `/internal/engine/runfile"`}, ""},
	{"imports", "the API runs the tracker itself", tree{"mapreduce/a.go": `package mapreduce; import _ "` + Module + `/internal/tracker"`}, "must not depend"},
	{"imports", "an app goes behind the API", tree{"apps/a.go": `package apps; import _ "` + Module + `/internal/engine"`}, "may import only"},
	{"imports", "an app's test may", tree{"apps/a_test.go": `package apps; import _ "` + Module + `/internal/engine"`}, ""},
	{"imports", "an app with a library", tree{"apps/a.go": `package apps; import _ "golang.org/x/sys/unix"`}, "standard library"},
	{"imports", "a similar name is another package", tree{"internal/engineer/a.go": `package engineer; import _ "` + Module + `/internal/sched"`}, ""},
	{"imports", "a command imported", tree{"internal/local/a.go": `package local; import _ "` + Module + `/cmd/slotwise"`}, "must not be imported"},
	{"imports", "a test helper in production", tree{"cmd/x/a.go": `package main; import _ "` + Module + `/mapreduce/mrtest"`}, "only tests may"},

	{"purity", "a logarithm of the processor", tree{"internal/workload/a.go": `package workload; import "math"; var X = math.Log(3)`}, "math.Log: its last bit"},
	{"purity", "a normal variate of the processor", tree{"internal/sim/a.go": `package sim; import "math/rand/v2"; func F(g *rand.Rand) float64 { return g.NormFloat64() }`}, "rand/v2.NormFloat64"},
	{"purity", "a square root", tree{"internal/sim/a.go": `package sim; import "math"; var X = math.Sqrt(3)`}, ""},
	{"purity", "goroutines", tree{"internal/repro/a.go": `package repro; func F() { go F() }`}, "go statement"},
	{"purity", "goroutines of the simulator", tree{"internal/sim/a.go": `package sim; func F() { go F() }`}, ""},
	{"purity", "a map's order", tree{"internal/sched/a.go": "package sched\nfunc F(m map[int]int) (s []int) {\n\tfor k := range m {\n\t\ts = append(s, k)\n\t}\n\treturn\n}"}, "range over a map"},
	{"purity", "the order of another package's map", tree{
		"sched/job/j.go":      "package job\ntype Set map[int]bool\ntype J struct{ S Set }",
		"internal/sched/a.go": "package sched\nimport \"" + Module + "/sched/job\"\nfunc F(j job.J) (s []int) {\n\tfor k := range j.S {\n\t\ts = append(s, k)\n\t}\n\treturn\n}",
	}, "range over a map"},
	{"purity", "a copied map's order", tree{"internal/sched/a.go": "package sched\nimport \"maps\"\nfunc F(m map[int]int) (s []int) {\n\tc := maps.Clone(m)\n\tfor k := range c {\n\t\ts = append(s, k)\n\t}\n\treturn\n}"}, "range over a map"},
	{"purity", "a generic map's order", tree{"internal/sched/a.go": "package sched\nfunc F[M ~map[int]int](m M) (s []int) {\n\tfor k := range m {\n\t\ts = append(s, k)\n\t}\n\treturn\n}"}, "range over a map"},
	{"purity", "an excused order", tree{"internal/sched/a.go": "package sched\nfunc F(m map[int]int) (n int) {\n\t//house:sorted a sum has no order\n\tfor _, v := range m {\n\t\tn += v\n\t}\n\treturn\n}"}, ""},
	{"purity", "an excuse without a reason", tree{"internal/sched/a.go": "package sched\nfunc F(m map[int]int) (n int) {\n\t//house:sorted \n\tfor _, v := range m {\n\t\tn += v\n\t}\n\treturn\n}"}, "range over a map"},
	{"purity", "a slice's order", tree{"internal/sched/a.go": "package sched\nfunc F(m []int) (n int) {\n\tfor _, v := range m {\n\t\tn += v\n\t}\n\treturn\n}"}, ""},
	{"purity", "keys as they come", tree{"internal/sched/a.go": `package sched; import ("maps"; "slices"); func F(m map[int]int) []int { return slices.Collect(maps.Keys(m)) }`}, "maps.Keys"},
	{"purity", "keys sorted", tree{"internal/sched/a.go": `package sched; import ("maps"; "slices"); func F(m map[int]int) []int { return slices.Sorted(maps.Keys(m)) }`}, ""},

	{"words", "unfinished", tree{"x.txt": "fine\nTO" + "DO: the rest"}, "finish it"},
	{"words", "missing", tree{"x.go": `package x; var E = "sorting: not impl` + `emented"`}, "finish it"},
	{"words", "one machine's path", tree{"run.sh": "cd /wo" + "rk/main"}, "one machine"},
	{"words", "a quoted one", tree{"x.go": `package x; var P = "/ho` + `me/me"`}, "one machine"},
	{"words", "a relative path", tree{"x.md": "see docs/wo" + "rk/a.md and $DIR/ho" + "me/x"}, ""},
	{"words", "a job's output", tree{"counts/_SUCCESS": "", "counts/part-r-00000": "TO" + "DO\t99"}, ""},
	{"words", "big data", tree{"words.txt": strings.Repeat("TO"+"DO\n", maxSize/5+1)}, ""},
	{"words", "binary", tree{"x": "\x00 TO" + "DO"}, ""},
}
