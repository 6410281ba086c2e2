package house

import "strings"

// tree is a small repository by file name.
type tree map[string]string

// imports is a tree of one package that imports another one of the module.
func imports(dir, target string) tree {
	return tree{dir + "/a.go": `package a; import _ "` + Module + "/" + target + `"`}
}

// badTrees are trees that violate one rule each or, if want is empty, only look like
// it.
var badTrees = []struct {
	rule string
	what string
	tree tree
	want string // in the one finding; "" for none
}{
	{"imports", "the tracker opens files", imports("internal/tracker", "internal/data/storage"), "may import only"},
	{"imports", "a policy looks at the tracker", imports("policies/hadoop", "internal/tracker"), "may import only"},
	{"imports", "a policy uses a library", tree{"policies/tumm/a.go": `package tumm; import _ "golang.org/x/exp/rand"`}, "standard library"},
	{"imports", "a paper on another paper", imports("policies/tumm", "policies/tyrex"), "the common base"},
	{"imports", "a paper on the common base", imports("policies/tumm", "policies/hadoop"), ""},
	{"imports", "the table of policies", imports("policies", "policies/tyrex"), ""},
	{"imports", "the tracker asks sched", imports("internal/tracker", "sched"), ""},
	{"imports", "the engine schedules", imports("internal/data/engine", "policies/hadoop"), "may import only"},
	{"imports", "the engine names attempts", imports("internal/data/engine", "sched/job"), ""},
	{"imports", "storage names jobs", imports("internal/data/storage", "sched/job"), "may import only"},
	{"imports", "input reads runs", imports("internal/data/input", "internal/data/engine/runfile"), ""},
	{"imports", "the base looks up", imports("internal/base/retry", "sched"), "may import only"},
	{"imports", "the simulator runs processes", imports("internal/virtual/sim", "internal/live/worker"), "may import only"},
	{"imports", "the master forecasts", imports("internal/live/master", "internal/virtual/forecast"), ""},
	{"imports", "the master simulates", imports("internal/live/master", "internal/virtual/sim"), "may import only"},
	{"imports", "the master calls the worker", imports("internal/live/master", "internal/live/worker"), "do not import each other"},
	{"imports", "the protocol opens files", imports("internal/live/master/protocol", "internal/data/storage"), "may import only"},
	{"imports", "the console asks the engine", imports("internal/console", "internal/data/engine"), "may import only"},
	{"imports", "the console reads the history", imports("internal/console", "internal/live/history"), "may import only"},
	{"imports", "the master makes pages", imports("internal/live/master", "internal/console"), "may import only"},
	{"imports", "the master fills pages", imports("internal/live/master", "internal/console/source"), ""},
	{"imports", "a debt", imports("internal/live/profile", "mapreduce"), ""},
	{"imports", "the API runs the tracker itself", imports("mapreduce", "internal/tracker"), "may import only"},
	{"imports", "an app goes behind the API", imports("apps", "internal/data/engine"), "may import only"},
	{"imports", "an app's test may", tree{"apps/a_test.go": `package apps; import _ "` + Module + `/internal/data/engine"`}, ""},
	{"imports", "an app with a library", tree{"apps/a.go": `package apps; import _ "golang.org/x/sys/unix"`}, "standard library"},
	{"imports", "a similar name is another package", imports("internal/database", "policies"), ""},
	{"imports", "a command imported", imports("internal/live/local", "cmd/slotwise"), "must not be imported"},
	{"imports", "a test helper in production", imports("cmd/x", "mapreduce/mrtest"), "only tests may"},
	{"imports", "the lab in production", imports("cli", "lab/harness"), "must not need it"},
	{"imports", "the lab looks everywhere", imports("lab/harness", "internal/testkit/faultfs"), ""},

	{"purity", "a logarithm of the processor", tree{"internal/virtual/workload/a.go": `package workload; import "math"; var X = math.Log(3)`}, "math.Log: its last bit"},
	{"purity", "a normal variate of the processor", tree{"internal/virtual/sim/a.go": `package sim; import "math/rand/v2"; func F(g *rand.Rand) float64 { return g.NormFloat64() }`}, "rand/v2.NormFloat64"},
	{"purity", "a square root", tree{"internal/virtual/sim/a.go": `package sim; import "math"; var X = math.Sqrt(3)`}, ""},
	{"purity", "goroutines", tree{"internal/virtual/repro/a.go": `package repro; func F() { go F() }`}, "go statement"},
	{"purity", "goroutines of the simulator", tree{"internal/virtual/sim/a.go": `package sim; func F() { go F() }`}, ""},
	{"purity", "a map's order", tree{"policies/tumm/a.go": "package tumm\nfunc F(m map[int]int) (s []int) {\n\tfor k := range m {\n\t\ts = append(s, k)\n\t}\n\treturn\n}"}, "range over a map"},
	{"purity", "the order of another package's map", tree{
		"sched/job/j.go":     "package job\ntype Set map[int]bool\ntype J struct{ S Set }",
		"policies/tumm/a.go": "package tumm\nimport \"" + Module + "/sched/job\"\nfunc F(j job.J) (s []int) {\n\tfor k := range j.S {\n\t\ts = append(s, k)\n\t}\n\treturn\n}",
	}, "range over a map"},
	{"purity", "a copied map's order", tree{"policies/tumm/a.go": "package tumm\nimport \"maps\"\nfunc F(m map[int]int) (s []int) {\n\tc := maps.Clone(m)\n\tfor k := range c {\n\t\ts = append(s, k)\n\t}\n\treturn\n}"}, "range over a map"},
	{"purity", "a generic map's order", tree{"policies/tumm/a.go": "package tumm\nfunc F[M ~map[int]int](m M) (s []int) {\n\tfor k := range m {\n\t\ts = append(s, k)\n\t}\n\treturn\n}"}, "range over a map"},
	{"purity", "an excused order", tree{"policies/tumm/a.go": "package tumm\nfunc F(m map[int]int) (n int) {\n\t//house:sorted a sum has no order\n\tfor _, v := range m {\n\t\tn += v\n\t}\n\treturn\n}"}, ""},
	{"purity", "an excuse without a reason", tree{"policies/tumm/a.go": "package tumm\nfunc F(m map[int]int) (n int) {\n\t//house:sorted \n\tfor _, v := range m {\n\t\tn += v\n\t}\n\treturn\n}"}, "range over a map"},
	{"purity", "a slice's order", tree{"policies/tumm/a.go": "package tumm\nfunc F(m []int) (n int) {\n\tfor _, v := range m {\n\t\tn += v\n\t}\n\treturn\n}"}, ""},
	{"purity", "keys as they come", tree{"policies/tumm/a.go": `package tumm; import ("maps"; "slices"); func F(m map[int]int) []int { return slices.Collect(maps.Keys(m)) }`}, "maps.Keys"},
	{"purity", "keys sorted", tree{"policies/tumm/a.go": `package tumm; import ("maps"; "slices"); func F(m map[int]int) []int { return slices.Sorted(maps.Keys(m)) }`}, ""},

	{"readings", "a private label", tree{"policies/tumm/a.go": "// Package tumm keeps the last split (A5).\npackage tumm"}, "A5: cite"},
	{"readings", "an example's label", tree{"policies/a_test.go": "package policies\n\n// E7.9: without work there is no new split.\nvar X int"}, "E7.9: cite"},
	{"readings", "a private section", tree{"internal/virtual/repro/a.go": "package repro // as in §3.6 step 2"}, "§3.6: cite"},
	{"readings", "a reading that the README lacks", tree{"policies/tumm/sub/a.go": "// Package tumm follows readings 1 and\n// 3 in README.md.\npackage tumm", "policies/tumm/README.md": "## Readings of the paper\n\n1. One.\n2. Two.\n"}, "has 2"},
	{"readings", "a reading without a README", tree{"policies/tumm/a.go": "package tumm // reading 1"}, "has 0"},
	{"readings", "a README that cites what it lacks", tree{"policies/tumm/README.md": "See reading 2.\n## Readings of the paper\n1. One.\n"}, "has 1"},
	{"readings", "a gap in the numbers", tree{"policies/tumm/README.md": "## Readings of the paper\n1. One.\n3. Three.\n"}, "follows reading 1"},
	{"readings", "good citations", tree{"policies/tumm/a.go": "package tumm // Eq. 6, readings 1\n\n// as in reading 2 and §IV-B, P2 and M1", "policies/tumm/README.md": "## Readings of the paper\n1. One.\n2. Two.\n## Code\n7. x\n"}, ""},
	{"readings", "another room's words", tree{"internal/data/a.go": "package data // A4 paper, §3"}, ""},

	{"words", "unfinished", tree{"x.txt": "fine\nTO" + "DO: the rest"}, "finish it"},
	{"words", "missing", tree{"x.go": `package x; var E = "sorting: not impl` + `emented"`}, "finish it"},
	{"words", "one machine's path", tree{"run.sh": "cd /wo" + "rk/main"}, "one machine"},
	{"words", "a quoted one", tree{"x.go": `package x; var P = "/ho` + `me/me"`}, "one machine"},
	{"words", "a relative path", tree{"x.md": "see docs/wo" + "rk/a.md and $DIR/ho" + "me/x"}, ""},
	{"words", "a job's output", tree{"counts/_SUCCESS": "", "counts/part-r-00000": "TO" + "DO\t99"}, ""},
	{"words", "big data", tree{"words.txt": strings.Repeat("TO"+"DO\n", maxSize/5+1)}, ""},
	{"words", "binary", tree{"x": "\x00 TO" + "DO"}, ""},
}
