package policies

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/slotwise/slotwise/internal/tracker/trackertest"
	"github.com/slotwise/slotwise/sched"
)

// Queues with limits below the whole cluster, and slots without kinds under
// every order, keep the promises of trackertest.FakeCluster and end every job: with
// limits on both kinds together reduces could keep their own maps out.
func TestQueuesAndUntypedSlotsKeepTheirPromises(t *testing.T) {
	const queues = "p1,capacity=30,maximum-capacity=50,user-limit-factor=2;" +
		"p2,capacity=20,supports-priority=true,minimum-user-limit-percent=30"
	for i, c := range []struct {
		spec string
		set  map[string]string
	}{
		{"capacity", map[string]string{"queues": queues}},
		{"capacity", map[string]string{"queues": queues, "profile": "hadoop-1.2", "tiny-limits": "one"}},
		{"yarn", map[string]string{"queues": queues}},
		{"yarn", map[string]string{"queues": queues, "reduce-rampup-limit": "1"}},
		{"yarn", map[string]string{"reduce-rampup-limit": "0"}},
		{"yarn,order=fair", nil},
		{"yarn,order=fifo,place=missed,speculate=gap", nil},
		{"capacity,slots=tumm", map[string]string{"queues": queues}},
		{"capacity,slots=htumm,speculate=late", map[string]string{"queues": queues}},
	} {
		t.Run(fmt.Sprint(i, " ", c.spec), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				build := func() sched.Policy {
					p, err := Build(c.spec, sched.Options{Seed: 7, Set: c.set})
					if err != nil {
						t.Fatal(err)
					}
					return p
				}
				w := trackertest.NewFakeCluster(t, build())
				w.Join("n1", 2, 1)
				for range rapid.IntRange(1, 80).Draw(t, "steps") {
					w.Act()
				}
				w.Settle(false)
				w.Replay(build())
			})
		})
	}
}
