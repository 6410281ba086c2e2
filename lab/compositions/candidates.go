package main

import (
	"slices"
	"strings"

	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
)

// candidate is a policy with settings.
type candidate struct {
	spec string
	set  string // name=value, with spaces between them
}

func (c candidate) String() string { return strings.TrimSpace(c.spec + " " + c.set) }

// settings returns the parameters of the candidate.
func (c candidate) settings() map[string]string {
	set := map[string]string{}
	for _, word := range strings.Fields(c.set) {
		name, value, _ := strings.Cut(word, "=")
		set[name] = value
	}
	return set
}

// slotsOf are the slots parts with the settings that suit compositions with many jobs: unused
// slots go to either kind. overload is left out because only one order works with it.
var slotsOf = []candidate{
	{"static", ""},
	{"unified", ""},
	{"tumm", "fallback=any"},
	{"htumm", "fallback=any remaining=unfinished min-per-type=1"},
	{"dhsa-pi", ""},
	{"dhsa-pd", ""},
}

// everyComposition returns the compositions of the search. The orders need no
// settings of an operator and no sizes in advance.
func everyComposition() (all []candidate) {
	for _, slots := range slotsOf {
		for _, early := range []string{"own", "gate", "off"} {
			for _, order := range []string{"fair", "fifo", "modfair", "tags-dynamic"} {
				for _, place := range []string{"greedy", "delay", "preschedule"} {
					for _, copies := range []string{"none", "gap", "late", "sepb"} {
						c := candidate{"slots=" + slots.spec + ",order=" + order + ",place=" + place + ",speculate=" + copies,
							strings.TrimSpace(slots.set + " early-reduces=" + early)}
						// Some parts work with certain others only; they say so.
						if _, err := policies.Build(c.spec, sched.Options{Set: c.settings()}); err == nil {
							all = append(all, c)
						}
					}
				}
			}
		}
	}
	return all
}

// named returns the named policies that a running cluster can have.
func named() (all []candidate) {
	for _, name := range policies.Names() {
		if _, err := policies.Build(name, sched.Options{Live: true}); err == nil {
			all = append(all, candidate{spec: name})
		}
	}
	return all
}

// unique returns the candidates without repetitions, in order.
func unique(all []candidate) (out []candidate) {
	for _, c := range all {
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}
