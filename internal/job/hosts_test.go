package job

import (
	"testing"

	"pgregory.net/rapid"
)

// The lists equal the lists of a Go map, for hosts close together and far apart, known
// and unknown.
func TestHostListsAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int32{0, 3, 40, 10000}).Draw(t, "highest")
		host := rapid.Int32Range(0, most)
		splits := make([]Split, rapid.IntRange(0, 40).Draw(t, "maps"))
		var at []int32
		want := map[int32][]int32{}
		for i := range splits {
			splits[i].Hosts = make([]string, rapid.IntRange(0, 3).Draw(t, "replicas"))
			for range splits[i].Hosts {
				h := host.Draw(t, "host")
				if n := len(want[h]); n == 0 || want[h][n-1] != int32(i) {
					want[h] = append(want[h], int32(i))
				}
				at = append(at, h)
			}
		}
		l := listHosts(splits, at)
		if l.count != len(want) {
			t.Fatalf("%d hosts, want %d", l.count, len(want))
		}
		fresh := allTasks(len(splits))
		for range 60 {
			h := rapid.Int32Range(-1, 2*most+2).Draw(t, "asked")
			for len(want[h]) > 0 && !fresh.has(want[h][0]) {
				want[h] = want[h][1:]
			}
			got := l.first(h, fresh)
			if len(want[h]) == 0 && got < 0 {
				continue
			}
			if len(want[h]) == 0 || got != want[h][0] {
				t.Fatalf("host %d: want %v", h, want[h])
			}
			if rapid.Bool().Draw(t, "launched") {
				fresh.remove(got)
			}
		}
	})
}
