package house

import (
	"path"
	"strconv"
	"strings"
)

// A layer says which packages of the module a group of packages may import;
// the group's own packages are always among them. Entries cover the packages
// below them. A package in no layer may import anything but commands.
type layer struct {
	name  string
	dirs  []string
	allow []string
	// deny is used instead of allow if allow is nil: all but these.
	deny []string
	// except lists directories below dirs that do not belong to the layer.
	except []string
	// selfContained packages may import nothing outside the standard library
	// and the module.
	selfContained bool
}

var (
	scheduling = []string{"sched", "internal/sched", "internal/tracker", "sched/cluster"}
	shells     = []string{"internal/local", "internal/master", "internal/worker", "internal/sim", "internal/workload", "internal/repro", "internal/history"}
	surface    = []string{"mapreduce", "apps", "cli", "sim", "cmd", "examples", "bench"}
)

// conformance is the directory of the suite that tests policies. It runs the
// tracker, unlike the scheduling code that it tests.
const conformance = "sched/schedtest"

// layers is the picture in docs/architecture.md, from the bottom up.
var layers = []layer{
	{name: "bounds", dirs: []string{"internal/bounds"}, allow: []string{}, selfContained: true},
	{name: "counters", dirs: []string{"internal/counters"}, allow: []string{"internal/bounds"}, selfContained: true},
	{name: "share", dirs: []string{"internal/share"}, allow: []string{}, selfContained: true},
	{name: "job", dirs: []string{"sched/job"}, allow: []string{"internal/counters"}, selfContained: true},
	{name: "cluster", dirs: []string{"sched/cluster"}, allow: []string{"sched/job", "internal/counters"}, selfContained: true},
	{name: "autoscale", dirs: []string{"internal/machines/autoscale"}, allow: []string{"sched/job", "internal/counters"}, selfContained: true},
	{name: "portable", dirs: []string{"sched/portable"}, allow: []string{}, selfContained: true},
	{name: "sched", dirs: []string{"sched", "internal/sched"}, except: []string{conformance}, allow: []string{"sched/job", "internal/counters", "sched/cluster", "internal/suggest", "sched/portable"}},
	{name: "tracker", dirs: []string{"internal/tracker"}, allow: []string{"sched/job", "internal/counters", "sched/cluster", "sched"}},
	{name: "workload", dirs: []string{"internal/workload"}, allow: []string{"sched/job", "internal/counters", "sched/cluster", "sched/portable"}},
	{name: "sim", dirs: []string{"internal/sim"}, allow: append([]string{"sched/job", "internal/counters", "internal/workload", "sched/portable", "internal/machines/autoscale"}, scheduling...)},
	{name: "forecast", dirs: []string{"internal/forecast"}, allow: append([]string{"sched/job", "internal/counters", "sched/portable"}, scheduling...)},
	{name: "repro", dirs: []string{"internal/repro"}, allow: append([]string{"sched/job", "internal/counters", "internal/workload", "internal/sim", "internal/metrics"}, scheduling...)},

	{name: "kv", dirs: []string{"internal/kv"}, allow: []string{}, selfContained: true},
	{name: "data plane", dirs: []string{"internal/storage", "internal/shuffle", "internal/input", "internal/output"},
		deny: concat([]string{"sched/job"}, scheduling, shells, surface)},
	{name: "engine", dirs: []string{"internal/engine"}, deny: concat(scheduling, shells, surface)},

	{name: "local", dirs: []string{"internal/local"}, deny: append([]string{"internal/master", "internal/worker", "internal/sim", "internal/repro"}, surface...)},
	{name: "master", dirs: []string{"internal/master"}, deny: append([]string{"internal/local", "internal/worker", "internal/sim", "internal/repro"}, surface...)},
	// Policies come in as values, and errors get their RPC codes in the shell.
	{name: "master's protocol", dirs: []string{"internal/master/protocol"},
		allow: []string{"sched/job", "sched/cluster", "internal/counters", "internal/counterspb", "internal/bounds", "internal/share", "internal/tracker", "internal/machines/autoscale", "sched", "proto"}},
	{name: "worker", dirs: []string{"internal/worker"}, deny: append([]string{"internal/local", "internal/master", "internal/sim", "internal/repro"}, surface...)},
	// The API takes a policy by its name and hands it on.
	{name: "api", dirs: []string{"mapreduce"}, deny: []string{"internal/tracker", "sched/cluster", "apps", "cmd", "examples", "bench", "internal/sim", "internal/repro"}},
	{name: "apps", dirs: []string{"apps"}, allow: []string{"mapreduce", "internal/linematch", "internal/suggest"}, selfContained: true},
	// Simulations are values in, values out: the caller opens the files.
	{name: "simulations", dirs: []string{"sim"}, allow: append([]string{"sched/job", "internal/workload", "internal/sim", "internal/metrics"}, scheduling...), selfContained: true},
	// Examples import public packages only.
	{name: "examples", dirs: []string{"examples"}, allow: []string{"mapreduce", "cli", "sched", "sim"}, selfContained: true},
}

func concat(lists ...[]string) []string {
	var out []string
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// checkImports compares the imports of every file with its layer. Tests may import
// anything.
func checkImports(t *Tree) ([]Finding, error) {
	var found []Finding
	for _, f := range t.gos {
		if f.test {
			continue
		}
		for _, spec := range f.ast.Imports {
			target, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return nil, err
			}
			if why := forbidden(f.dir, target); why != "" {
				found = append(found, t.at(spec.Pos(), "%s imports %s: %s", f.dir, target, why))
			}
		}
	}
	return found, nil
}

// forbidden returns the reason why the package in dir may not import target, or "" if
// it may.
func forbidden(dir, target string) string {
	own, ours := strings.CutPrefix(target, Module+"/")
	if ours && within(own, []string{"cmd"}) && !within(dir, []string{"cmd"}) {
		return "commands must not be imported"
	}
	if ours && strings.HasSuffix(path.Base(own), "test") && !strings.HasSuffix(path.Base(dir), "test") {
		return "only tests may import test helpers"
	}
	for _, l := range layers {
		if !within(dir, l.dirs) || within(dir, l.except) {
			continue
		}
		switch {
		case !ours && l.selfContained && strings.Contains(firstElem(target), "."):
			return "the layer " + l.name + " may import only the standard library and this module"
		case !ours || within(own, l.dirs):
		case l.allow != nil && !within(own, l.allow):
			return "the layer " + l.name + " may import only " + orNothing(l.allow)
		case l.allow == nil && within(own, l.deny):
			return "the layer " + l.name + " must not depend on it"
		}
	}
	return ""
}

// firstElem returns the first element of an import path. It contains a dot unless the
// package is in the standard library.
func firstElem(p string) string {
	first, _, _ := strings.Cut(p, "/")
	return first
}

func orNothing(list []string) string {
	if len(list) == 0 {
		return "the standard library"
	}
	return strings.Join(list, ", ")
}
