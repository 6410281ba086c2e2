package sched

import (
	"strings"
	"testing"
)

// Every code has a name of its own, because programs read it.
func TestCodeNames(t *testing.T) {
	seen := map[string]bool{}
	for c := NoReason; c <= NoValue; c++ {
		name := c.Name()
		if strings.HasPrefix(name, "code-") || seen[name] {
			t.Errorf("code %d is named %q", c, name)
		}
		seen[name] = true
	}
}
