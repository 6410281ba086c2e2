package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/lab/harness"
)

// mix is a set of jobs and the contestants that run it.
type mix struct {
	experiment, name, what string
	jobs                   string       // content of the file for --jobs
	flags                  []string     // of every contestant; --workers comes first
	contestants            []contestant // the one that others are compared with first
	// must is the least median gain that every other contestant must have over
	// the first. 0 requires nothing.
	must float64
}

// workers returns the value of the --workers flag.
func (m mix) workers() (n int) {
	fmt.Sscan(m.flags[1], &n)
	return max(1, n)
}

// contestant is a policy with its settings and other flags of "slotwise run".
type contestant struct {
	name  string
	flags []string
}

// policy returns a contestant that sets parameters of a policy.
func policy(name string, settings ...string) contestant {
	c := contestant{name: name, flags: []string{"--policy", name}}
	for _, s := range settings {
		c.flags = append(c.flags, "--policy-set", s)
	}
	return c
}

// with returns the contestant under another name with more flags.
func (c contestant) with(name string, flags ...string) contestant {
	c.name, c.flags = name, append(slices.Clip(c.flags), flags...)
	return c
}

// textSizes has the sizes in bytes of the generated inputs by name.
var textSizes = map[string]int64{"text": 32 * harness.MiB, "small": harness.MiB}

// everyMix returns the mixes in the order in which the benchmark runs them. Their
// inputs are in the directory data.
func everyMix(data string) []mix {
	return slices.Concat(typedMixes(data), overloadMixes(data), behindMixes(data))
}

// typedPolicies are policies on one worker with a map slot and a reduce slot, with
// the parameters that their documentation recommends for such workers. The
// learning policy decides by memory use, because other work on the machine hardly
// changes it and it shows within a second. It may run as many tasks at once as a
// small machine has processors.
var typedPolicies = []contestant{
	policy("fifo"),
	policy("tumm", "fallback=any", "early-reduces=off"),
	policy("htumm"),
	policy("dynamicmr-pi", "early-reduces=off"),
	policy("dynamicmr-pd", "early-reduces=off"),
	policy("yarn"),
	policy("learning-nb", "profile=quick", "target=0", "memory-limit=0.98", "max-tasks=2").with("learning-nb", "--heartbeat", "5ms"),
}

// typedMixes are jobs bound by the processor. Mixes that consist mostly of maps
// must gain 1.3; the others must not lose more than 3 %.
func typedMixes(data string) []mix {
	entry := func(app, more string) string {
		text := filepath.Join(data, "text")
		if app == "sort" { // a single sort would be too short to measure
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
			[]string{"--workers", "1", "--map-slots", "1", "--reduce-slots", "1"}, typedPolicies, must}
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

// overloadPolicies are a fixed number of tasks and learning policies on workers of
// 2 map and 2 reduce slots. Overload is defined by the busy share of the
// processors, because a load average over a minute means nothing in runs of
// seconds.
func overloadPolicies() []contestant {
	learn := func(name string) contestant {
		return policy(name, "profile=quick", "target=0", "cpu-limit=0.95", "max-tasks=12").
			with(name, "--map-slots", "2", "--reduce-slots", "2", "--heartbeat", "100ms")
	}
	return []contestant{
		policy("fifo").with("fixed: 5 tasks", "--map-slots", "5", "--reduce-slots", "2"),
		learn("learning-nb"), learn("learning-perceptron"),
	}
}

// pageCount is the number of pages to fetch. Each map fetches one.
const pageCount = 40

// overloadMixes are jobs that wait for the network, jobs that compute, and both.
func overloadMixes(data string) []mix {
	fetch := "  - {app: urlget, input: " + filepath.Join(data, "urls") + ", split-size: 40, params: {timeout: 20s}," +
		" hints: {map: {cpu: 3, memory: 4, disk: 6, network: 7}}}\n"
	compute := "  - {app: cpuload, params: {maps: '40', records: '100', iterations: '40000'}," +
		" hints: {map: {cpu: 10, memory: 5, disk: 5, network: 3}}}\n"
	make := func(name, what string, jobs ...string) mix {
		return mix{"overload", name, what, "jobs:\n" + strings.Join(jobs, ""), []string{"--workers", "4"}, overloadPolicies(), 0}
	}
	return []mix{
		make("urlget", fmt.Sprintf("URLGet of %d pages from a server that takes 1.5 s on average", pageCount), fetch),
		make("cpuactivity", "CPUActivity", compute),
		make("urlget+cpu", "URLGet beside CPUActivity", fetch, compute),
	}
}

// behindMixes are small jobs after a large one, on two workers with a slot of each
// kind. The timers of the policies are set for jobs that take about a second.
func behindMixes(data string) []mix {
	policies := []contestant{policy("fifo"), policy("fair"), policy("modfair"), policy("statictags", "timers=300ms"), policy("dynamictags")}
	make := func(name, what, small string) mix {
		jobs := fmt.Sprintf("jobs:\n  - {name: large, app: invertedindex, input: [%[1]s, %[1]s], split-size: 1MiB, reduces: 16, pool: large, user: ann}\n"+
			"  - {name: small, %[2]s, input: %[3]s, pool: small, user: bob, submit: 100ms, repeat: 10, every: 40ms}\n",
			filepath.Join(data, "text"), small, filepath.Join(data, "small"))
		return mix{"behind", name, what + " after an InvertedIndex of 64 MiB", jobs, []string{"--workers", "2", "--alone"}, policies, 0}
	}
	return []mix{
		make("behind-count", "ten WordCounts of 1 MiB", "app: wordcount, reduces: 1"),
		make("behind-grep", "ten Greps of 1 MiB, without reduces,", `app: grep, params: {regex: '(?i)\b[a-m]+ing\b.*\b[n-z]+ed\b'}`),
	}
}
