package cli

import (
	"maps"
	"os"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/slotwise/slotwise/internal/sched/policies"
	"github.com/slotwise/slotwise/sched"
)

// policyFlags say which policy decides: of a run, or of a cluster.
type policyFlags struct {
	setup                       *setup
	policy, policyConfig        string
	policySet                   []string
	fairScheduler, capacityFile string
	seed                        uint64
}

// register declares the flags.
func (f *policyFlags) register(c *cobra.Command) {
	s := c.Flags()
	s.StringVar(&f.policy, "policy", "", "scheduling `policy` (slotwise policies lists them; default fifo)")
	s.StringVar(&f.policyConfig, "policy-config", "", "`file` with settings of the policy: a YAML mapping of names to values")
	s.StringArrayVar(&f.policySet, "policy-set", nil, "one setting of the policy, `name=value` (repeatable)")
	s.StringVar(&f.fairScheduler, "fair-scheduler", "", "Hadoop's allocation `file` of pools, for the policy fair; reloaded when it changes")
	s.StringVar(&f.capacityFile, "capacity-scheduler", "", "Hadoop's `file` of queues, for the policy capacity; reloaded when it changes")
	s.Uint64Var(&f.seed, "seed", 1, "`seed` of what is random in scheduling")
	completeWith(c, "policy", f.setup.completePolicies)
}

// policySettings returns the policy's settings: those of the file of
// --policy-config, a YAML mapping of names to values, and over them those of
// --policy-set.
func (f *policyFlags) policySettings() (map[string]string, error) {
	set := map[string]string{}
	if f.policyConfig != "" {
		text, err := os.ReadFile(f.policyConfig)
		if err != nil {
			return nil, misuse("--policy-config %s: %w", f.policyConfig, reason(err))
		}
		if err := yaml.Unmarshal(text, &set); err != nil {
			return nil, misuse("--policy-config %s: %w", f.policyConfig, err)
		}
	}
	given, err := parseAssignments("policy-set", f.policySet)
	if err != nil {
		return nil, err
	}
	maps.Copy(set, given)
	return set, nil
}

// checkPolicy refuses a policy that cannot be made, before anything is started.
func (f *policyFlags) checkPolicy(set map[string]string) error {
	if f.policy == "" && len(set) == 0 {
		return nil
	}
	spec := f.policy
	if spec == "" {
		spec = policies.Default
	}
	if _, err := f.setup.policies.Build(spec, sched.Options{Seed: f.seed, Set: set}); err != nil {
		return misuse("--policy %s: %w", spec, err)
	}
	return nil
}
