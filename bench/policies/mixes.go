package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// mix is some jobs and the ways to run them, the one to compare with first.
type mix struct {
	experiment, name, what string
	jobs                   string // the file of --jobs
	flags                  []string
	ways                   []way
	// must is how many times as fast as the first way each other must be, by
	// the median; 0 is no demand.
	must float64
}

// way is a policy and its settings.
type way struct {
	name  string
	flags []string
}

func policy(name string, settings ...string) way {
	w := way{name: name, flags: []string{"--policy", name}}
	for _, s := range settings {
		w.flags = append(w.flags, "--policy-set", s)
	}
	return w
}

// with adds flags that are no settings of the policy.
func (w way) with(name string, flags ...string) way {
	w.name, w.flags = name, append(slices.Clip(w.flags), flags...)
	return w
}

// inputs says where inputs are.
type inputs struct{ dir string }

// textSizes are the sizes of generated texts by name.
var textSizes = map[string]string{"text": "32MiB", "small": "1MiB"}

func (in *inputs) text(name string) string { return filepath.Join(in.dir, name) }

// everyMix lists the mixes in the order in which they are run.
func everyMix(in *inputs) []mix {
	return slices.Concat(typedMixes(in), overloadMixes(in), behindMixes(in))
}

// typedWays are policies on one worker with a map slot and a reduce slot, set as
// their pages tell for such workers. What learning looks at must not depend on
// what else the machine does, and show within a second: so it is memory, and the
// most tasks at once are as many as there are processors.
var typedWays = []way{
	policy("fifo"),
	policy("tumm", "fallback=any", "early-reduces=off"),
	policy("htumm"),
	policy("dynamicmr-pi", "early-reduces=off"),
	policy("dynamicmr-pd", "early-reduces=off"),
	policy("yarn"),
	policy("learning-nb", "profile=quick", "target=0", "memory-limit=0.98", "max-tasks=2").with("learning-nb", "--heartbeat", "5ms"),
}

// typedMixes are jobs bound by the processor. The demand of 1.3 is for those that
// mostly map.
func typedMixes(in *inputs) []mix {
	entry := func(app, more string) string {
		text := in.text("text")
		if app == "sort" { // it is quick
			text = fmt.Sprintf("[%[1]s, %[1]s, %[1]s]", text)
		}
		return fmt.Sprintf("  - {app: %s, input: %s, split-size: 2MiB%s}\n", app, text, more)
	}
	count := entry("wordcount", "")
	order := entry("sort", ", reduces: 8")
	find := entry("grep", `, params: {regex: '(?i)\b[a-m]+ing\b.*\b[n-z]+ed\b'}`)
	index := entry("invertedindex", ", reduces: 8")
	make := func(name, what string, must float64, jobs ...string) mix {
		return mix{"typed", name, what, "jobs:\n" + strings.Join(jobs, ""),
			[]string{"--workers", "1", "--map-slots", "1", "--reduce-slots", "1"}, typedWays, must}
	}
	return []mix{
		make("wordcount", "WordCount, alone", 0.97, count),
		make("sort", "Sort, alone", 0.97, order),
		make("grep", "a Grep of a costly pattern, without reduces, alone", 1.3, find),
		make("invertedindex", "InvertedIndex, whose reduces do as much as its maps, alone", 0.97, index),
		make("map-heavy", "Grep, WordCount and Grep again", 1.3, find, count, find),
		make("reduce-heavy", "Sort and InvertedIndex", 0.97, order, index),
		make("all", "all four", 0.97, count, order, find, index),
	}
}

// overloadWays are a fixed number of tasks and learning policies on workers of 2
// map and 2 reduce slots. The processors' busy share says what overload is: a
// load average of a minute would say nothing of runs of seconds.
func overloadWays() []way {
	learn := func(name string) way {
		return policy(name, "profile=quick", "target=0", "cpu-limit=0.95", "max-tasks=12").
			with(name, "--map-slots", "2", "--reduce-slots", "2", "--heartbeat", "100ms")
	}
	return []way{
		policy("fifo").with("fixed: 5 tasks", "--map-slots", "5", "--reduce-slots", "2"),
		learn("learning-nb"), learn("learning-perceptron"),
	}
}

// pageCount is the number of pages to fetch, one for each map.
const pageCount = 40

func overloadMixes(in *inputs) []mix {
	fetch := "  - {app: urlget, input: " + in.text("urls") + ", split-size: 40, params: {timeout: 20s}," +
		" profile: {map: {cpu: 3, memory: 4, disk: 6, network: 7}}}\n"
	compute := "  - {app: cpuload, params: {maps: '40', records: '100', iterations: '40000'}," +
		" profile: {map: {cpu: 10, memory: 5, disk: 5, network: 3}}}\n"
	make := func(name, what string, jobs ...string) mix {
		return mix{"overload", name, what, "jobs:\n" + strings.Join(jobs, ""), []string{"--workers", "4"}, overloadWays(), 0}
	}
	return []mix{
		make("urlget", fmt.Sprintf("URLGet of %d pages from a server that takes 1.5 s on average", pageCount), fetch),
		make("cpuactivity", "CPUActivity", compute),
		make("urlget+cpu", "URLGet beside CPUActivity", fetch, compute),
	}
}

// behindMixes are small jobs after a large one, on two workers of a slot of each
// kind. Times of the policies are set for jobs of a second.
func behindMixes(in *inputs) []mix {
	ways := []way{policy("fifo"), policy("fair"), policy("modfair"), policy("statictags", "timers=300ms"), policy("dynamictags")}
	make := func(name, what, small string) mix {
		jobs := fmt.Sprintf("jobs:\n  - {name: large, app: invertedindex, input: [%[1]s, %[1]s], split-size: 1MiB, reduces: 16, pool: large, user: ann}\n"+
			"  - {name: small, %[2]s, input: %[3]s, pool: small, user: bob, delay: 100ms, repeat: 10, every: 40ms}\n",
			in.text("text"), small, in.text("small"))
		return mix{"behind", name, what + " after an InvertedIndex of 64 MiB", jobs, []string{"--workers", "2", "--alone"}, ways, 0}
	}
	return []mix{
		make("behind-count", "ten WordCounts of 1 MiB", "app: wordcount, reduces: 1"),
		make("behind-grep", "ten Greps of 1 MiB, without reduces,", `app: grep, params: {regex: '(?i)\b[a-m]+ing\b.*\b[n-z]+ed\b'}`),
	}
}
