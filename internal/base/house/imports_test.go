package house

import (
	"path"
	"strconv"
	"strings"
)

// A room is a folder with a purpose. The list of rooms is the list of docs/architecture.md,
// from the bottom up: a package imports its own room and the rooms that it names.
type room struct {
	// dirs are the room's folders, with all folders below them.
	dirs []string
	// except lists folders below dirs that belong to another room.
	except []string
	// may lists what the room's packages may import besides the room itself.
	may []string
	// alone rooms import nothing but the standard library and the module.
	alone bool
}

// conformance is the directory of the suite that tests policies. It runs the tracker and
// the simulator, unlike the contract beside it.
const conformance = "sched/schedtest"

// daemons are programs of their own, which meet only on the wire.
var daemons = []string{"internal/live/master", "internal/live/worker", "internal/live/client"}

// core is the scheduling core and what describes it.
var core = []string{"internal/tracker", "policies", "sched", "internal/base"}

// rooms are checked from the first to the last; each package is in one room, or in none
// (commands, tests of whole programs), and then it may import anything.
var rooms = []room{
	{dirs: []string{"internal/base"}},
	{dirs: []string{"sched"}, except: []string{conformance}, may: []string{"internal/base"}, alone: true},
	{dirs: []string{"policies"}, may: []string{"sched"}, alone: true},
	{dirs: []string{"internal/tracker"}, may: []string{"sched", "internal/base"}},
	{dirs: []string{"internal/data/engine"}, may: []string{"internal/data", "internal/base", "sched/job"}},
	{dirs: []string{"internal/data"}, except: []string{"internal/data/engine"}, may: []string{"internal/data/engine", "internal/base"}},
	// The core of the master's and of the worker's conversation has no storage and no sockets.
	{dirs: []string{"internal/live/master/protocol", "internal/live/worker/agent"},
		may: []string{"internal/tracker", "sched", "internal/base", "internal/live/wire", "proto"}},
	{dirs: []string{"internal/virtual"}, may: core},
	{dirs: []string{"internal/live"}, except: []string{"internal/live/master/protocol", "internal/live/worker/agent"},
		may: append([]string{"internal/live", "internal/data", "internal/virtual/forecast", "internal/console/source", "proto"}, core...)},
	// The contract between the console and the masters, runs and histories that it shows.
	{dirs: []string{"internal/console/source"}, may: []string{"sched", "proto"}},
	{dirs: []string{"internal/console"}, except: []string{"internal/console/source"}, may: []string{"internal/console/source", "sched", "internal/base", "proto"}},
	{dirs: []string{"mapreduce"}, may: []string{"internal/live", "internal/data", "internal/base", "policies", "sched", "proto"}},
	{dirs: []string{"apps"}, may: []string{"mapreduce", "internal/data/linematch", "internal/base/suggest"}, alone: true},
	{dirs: []string{"sim"}, may: append([]string{"internal/virtual"}, core...), alone: true},
	{dirs: []string{"examples"}, may: []string{"mapreduce", "cli", "sched", "sim"}, alone: true},
}

// debts are arrows that run up and are not removed yet, with what would remove each. A test
// fails when a debt has been paid and is still listed.
var debts = []struct{ from, to, remedy string }{
	{"internal/live/profile", "internal/virtual/workload", "the measurement has a place above mapreduce that the command and the lab may both import; cli/internal is closed to the lab"},
	{"internal/live/profile", "mapreduce", "the same: it runs whole jobs"},
}

// checkImports compares the imports of every file with its room. Tests may import
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
			if why := forbidden(f.dir, target); why != "" && !owed(f.dir, target) {
				found = append(found, t.at(spec.Pos(), "%s imports %s: %s", f.dir, target, why))
			}
		}
	}
	return found, nil
}

// owed reports whether a forbidden arrow is one of the debts.
func owed(dir, target string) bool {
	own := strings.TrimPrefix(target, Module+"/")
	for _, d := range debts {
		if within(dir, []string{d.from}) && within(own, []string{d.to}) {
			return true
		}
	}
	return false
}

// forbidden returns the reason why the package in dir must not import target, or "" if
// it may.
func forbidden(dir, target string) string {
	own, ours := strings.CutPrefix(target, Module+"/")
	if ours {
		if why := forbiddenAnywhere(dir, own); why != "" {
			return why
		}
	}
	for _, r := range rooms {
		if !within(dir, r.dirs) || within(dir, r.except) {
			continue
		}
		mine := within(own, r.dirs) && !within(own, r.except)
		switch {
		case !ours && r.alone && strings.Contains(firstElem(target), "."):
			return "packages here import only the standard library and this module"
		case ours && !mine && !within(own, r.may):
			return "packages here may import only " + orNothing(r.may)
		}
	}
	return ""
}

// forbiddenAnywhere returns the reason why no package of dir's kind may import own, a path
// in the module, whatever its room.
func forbiddenAnywhere(dir, own string) string {
	switch {
	case within(own, []string{"cmd"}) && !within(dir, []string{"cmd"}):
		return "commands must not be imported"
	case within(own, []string{"lab"}) && !within(dir, []string{"lab"}):
		return "the lab measures the product, which must not need it"
	case isHelper(own) && !isHelper(dir):
		return "only tests may import test helpers"
	}
	// A paper's folder stands alone on the common base: that way each can be read and removed by
	// itself, and the table is the only place that knows them all.
	if mine, yours := paper(dir), paper(own); mine != "" && yours != "" && mine != yours && yours != "hadoop" {
		return "a paper's folder imports only policies/hadoop, the common base"
	}
	for _, d := range daemons {
		// The history is read by more than the master; the daemons themselves meet on the wire.
		if within(dir, daemons) && !within(dir, []string{d}) && within(own, []string{d}) {
			return "master, worker and client do not import each other"
		}
	}
	return ""
}

// paper returns the folder of a policy package's source, or "" for other packages and for
// the table of policies.
func paper(dir string) string {
	rest, ok := strings.CutPrefix(dir, "policies/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// isHelper reports whether a package exists for tests: its name ends in "test", or it is in
// the test kit or the lab.
func isHelper(dir string) bool {
	return strings.HasSuffix(path.Base(dir), "test") || within(dir, []string{"internal/testkit", "lab"})
}

// firstElem returns the first element of an import path. It contains a dot unless the
// package is in the standard library.
func firstElem(p string) string {
	first, _, _ := strings.Cut(p, "/")
	return first
}

func orNothing(list []string) string {
	if len(list) == 0 {
		return "the standard library and each other"
	}
	return strings.Join(list, ", ")
}
