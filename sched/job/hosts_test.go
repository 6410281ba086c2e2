package job

import (
	"slices"
	"strconv"
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

// hostNames is a topology of hosts named by numbers, without racks.
type hostNames struct{}

func (hostNames) Host(name string) int32 {
	n, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		panic(err)
	}
	return int32(n)
}

func (hostNames) RackOf(int32) int32 { return -1 }

// FreshOn finds what a walk over all tasks finds, while jobs come and go and take each
// other's seats, with room for the bits of all jobs, of some and of none.
func TestFreshOnAgainstWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewBook(hostNames{}, 0)
		b.near.most = rapid.SampledFrom([]int{maxNear, 40, 8, 0}).Draw(t, "words")
		hosts := rapid.Int32Range(1, 20).Draw(t, "hosts")
		var live, ended []*Job
		for range rapid.IntRange(1, 400).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 9).Draw(t, "step"); {
			case step < 3:
				splits := make([]Split, rapid.IntRange(0, 4).Draw(t, "maps"))
				for i := range splits {
					for range rapid.IntRange(0, 3).Draw(t, "replicas") {
						splits[i].Hosts = append(splits[i].Hosts, strconv.Itoa(int(rapid.Int32Range(0, hosts-1).Draw(t, "host"))))
					}
				}
				for range rapid.SampledFrom([]int{1, 1, 1, 70}).Draw(t, "jobs") {
					live = append(live, b.Add(Spec{Splits: splits}, 0))
				}
			case step == 3 && len(live) > 0:
				i := rapid.IntRange(0, len(live)-1).Draw(t, "ends")
				b.Decide(live[i], Failed, nil, "", 0)
				ended = append(ended, live[i])
				live = slices.Delete(live, i, i+1)
			case len(live) > 0:
				host := rapid.Int32Range(-1, hosts).Draw(t, "asked")
				if len(ended) > 0 && ended[len(ended)-1].FreshOn(host) != nil {
					t.Fatalf("a job that has ended has a task on host %d", host)
				}
				j := live[rapid.IntRange(0, len(live)-1).Draw(t, "job")]
				want := slices.IndexFunc(j.tasks[Map], func(task Task) bool {
					return j.pending[Map].fresh.has(task.id.Index) && slices.Contains(j.spec.Splits[task.id.Index].Hosts, strconv.Itoa(int(host)))
				})
				got := j.FreshOn(host)
				if want < 0 && got == nil {
					continue
				}
				if want < 0 || got != &j.tasks[Map][want] {
					t.Fatalf("host %d of job %d: got %v, want task %d", host, j.id, got, want)
				}
				b.Start(got, Launch{}, 0)
				for try := range got.tries {
					b.Succeed(got.Attempt(try), 0, 0)
				}
			}
		}
	})
}
