package merge

import (
	"errors"
	"fmt"
	"testing"
)

// TestWatch: the watch function sees the number of records inside a large group as well as
// over many small ones, and its error ends the iteration. A reduce is stopped and reports its
// progress that way.
func TestWatch(t *testing.T) {
	for _, keys := range []int{1, 100, 5000} {
		const records = 5 * watchEvery
		var all []record
		for i := range records {
			all = append(all, record{fmt.Sprintf("%04d", i*keys/records), "v"})
		}
		stop := errors.New("stop")
		var seen []int64
		g := NewGroups(newStream(2, all), nil)
		g.Watch(func(read int64) error {
			if seen = append(seen, read); read == 3*watchEvery {
				return stop
			}
			return nil
		})
		values := 0
		for g.Next() {
			for range g.Values() {
				values++
			}
		}
		if len(seen) != 3 || seen[0] != watchEvery || !errors.Is(g.Err(), stop) || values >= 3*watchEvery {
			t.Errorf("%d keys: watched at %v, error %v after %d values", keys, seen, g.Err(), values)
		}
	}
}
