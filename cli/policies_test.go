package cli

import (
	"strings"
	"testing"

	"github.com/slotwise/slotwise/policies"
)

// The description of a policy is the only place where users find its parameters. It has each
// with its default, the names it is also known by and a text, and each profile's settings.
func TestPolicyDescriptions(t *testing.T) {
	for _, name := range policies.Names() {
		info, err := policies.Describe(name)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := (&setup{program: "slotwise", policies: policies.Builtin}).describePolicy(&b, info); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		for _, part := range info.Parts {
			for _, p := range part.Params {
				_, rest, ok := strings.Cut(text, "\n  "+p.Name+"="+p.Default+"  ("+part.Part+")")
				heading, _, _ := strings.Cut(rest, "\n")
				if !ok || p.Help == "" {
					t.Errorf("%s: %s=%s (%s) is missing or has no text", name, p.Name, p.Default, part.Part)
				}
				for _, alias := range p.Aliases {
					if !strings.Contains(heading, alias) {
						t.Errorf("%s: %s does not mention %s", name, p.Name, alias)
					}
				}
			}
		}
		for _, p := range info.Profiles {
			for k, v := range p.Set {
				if !strings.Contains(text, "\n      "+k+"="+v+"\n") {
					t.Errorf("%s: profile %s does not mention %s=%s", name, p.Name, k, v)
				}
			}
		}
	}
}
