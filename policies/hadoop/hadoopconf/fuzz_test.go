package hadoopconf

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/policies"
	"github.com/slotwise/slotwise/sched"
)

// FuzzXML reads any text as each of Hadoop's files. Errors must be of type Error, limits
// must make sense, and a policy must be built from the settings or refuse them.
func FuzzXML(f *testing.F) {
	for _, text := range []string{"", fairXML, siteXML, "<allocations>", "<a><b/></a>", "\xff\xfe<\x00",
		`<configuration><property><name>mapred.queue.names</name><value>a,b</value></property>` +
			`<property><name>mapred.capacity-scheduler.queue.a.capacity</name><value>40</value></property></configuration>`,
		`<!DOCTYPE x [<!ENTITY a "aaaa">]><configuration><property><name>&a;</name></property></configuration>`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, _, err := ReadAllocations(strings.NewReader(text))
		checkError(t, err)
		for name, p := range a.Pools {
			if p.Weight <= 0 || math.IsInf(p.Weight, 0) || p.MaxJobs < 0 || p.MinTimeout < 0 {
				t.Errorf("pool %q: %+v", name, p)
			}
		}
		props, _, err := ReadProperties(strings.NewReader(text))
		checkError(t, err)
		if err != nil {
			return
		}
		if set, _, err := FairSettings(props); err == nil {
			buildAny("fair", set)
		}
		if set, _, err := CapacitySettings(props, nil); err == nil {
			buildAny("capacity", set)
		}
	})
}

// buildAny builds a policy, which may refuse the settings but must not panic.
func buildAny(name string, set map[string]string) {
	policies.Build(name, sched.Options{Seed: 1, Set: set})
}

func checkError(t *testing.T, err error) {
	if err != nil && !errors.As(err, new(*Error)) {
		t.Errorf("an error without a place: %v", err)
	}
}
