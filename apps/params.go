package apps

import (
	"fmt"
	"strconv"

	"github.com/slotwise/slotwise/mapreduce"
)

// boolParam returns a parameter as a truth value.
func boolParam(p mapreduce.Params, name string) (bool, error) {
	// Like a flag of Go: 1, t and TRUE are accepted, too.
	b, err := strconv.ParseBool(p.Get(name))
	if err != nil {
		return false, fmt.Errorf("parameter %s: %q is neither true nor false", name, p.Get(name))
	}
	return b, nil
}
