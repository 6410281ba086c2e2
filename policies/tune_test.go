package policies

import (
	"slices"
	"testing"

	"github.com/slotwise/slotwise/sched"
)

// Every value that is worth trying is valid, the default is among them, and every policy
// but Hadoop's policies without parameters has something to tune.
func TestTune(t *testing.T) {
	for _, name := range Names() {
		info, err := Describe(name)
		if err != nil {
			t.Fatal(err)
		}
		tunable := 0
		for _, part := range info.Parts {
			for _, p := range part.Params {
				if len(p.Tune) == 0 {
					continue
				}
				tunable++
				var normal []string
				for _, v := range p.Tune {
					x, err := p.Normalize(v)
					if err != nil {
						t.Errorf("%s: %s: %v", name, p.Name, err)
					}
					normal = append(normal, x)
					if _, err := Build(name, sched.Options{Set: map[string]string{p.Name: v}}); err != nil {
						t.Errorf("%s: %s=%s: %v", name, p.Name, v, err)
					}
				}
				if d, err := p.Normalize(p.Default); err != nil || !slices.Contains(normal, d) {
					t.Errorf("%s: %s: the default %s is not among %v", name, p.Name, p.Default, normal)
				}
			}
		}
		if tunable == 0 {
			t.Errorf("%s has nothing to tune", name)
		}
	}
}
