package policies

import (
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/slotwise/slotwise/sched"
)

// FuzzBuild builds a policy with the parameters of any --policy-config. A policy is
// built or refused, and the same settings give the same answer.
func FuzzBuild(f *testing.F) {
	for _, name := range Names() {
		f.Add(name, "{}")
	}
	f.Add("slots=static,order=fifo,place=delay,speculate=late", "{locality-delay: 5s}")
	f.Add("fair", "{preemption: true, pools: 'pool p1 minMaps=2; fairSharePreemptionTimeout=10'}")
	f.Add("capacity", "{queues: 'a capacity=50; b'}")
	f.Add("slots=", "a: [1]")
	f.Fuzz(func(t *testing.T, name, text string) {
		set := map[string]string{}
		if err := yaml.Unmarshal([]byte(text), &set); err != nil {
			return
		}
		p, err := Build(name, sched.Options{Seed: 1, Set: set})
		if (p == nil) != (err != nil) {
			t.Errorf("policy %v, error %v", p, err)
		}
		if _, again := Build(name, sched.Options{Seed: 1, Set: set}); (again == nil) != (err == nil) {
			t.Errorf("%v, then %v", err, again)
		}
	})
}
