package sched

import (
	"strings"
	"testing"
)

// Every code has a unique name, because programs read the names.
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
