package bounds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// Whatever users take and give back, one who holds nothing gets a unit while one is free,
// no user passes his share by Take, and the counts add up.
func TestPool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Int64Range(1, 100).Draw(t, "total")
		p, held := NewPool(total), map[string]int64{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			user := rapid.SampledFrom([]string{"ann", "bob", "eve"}).Draw(t, "user")
			n := rapid.Int64Range(1, 40).Draw(t, "n")
			if rapid.Bool().Draw(t, "give") {
				n = min(n, held[user])
				p.Add(user, -n)
				held[user] -= n
				continue
			}
			others := p.Used() - held[user]
			want := 2*(held[user]+n) <= total-others+1
			if got := p.Take(user, n); got != want {
				t.Fatalf("%s holds %d of %d, others %d: Take(%d) = %t", user, held[user], total, others, n, got)
			} else if got {
				held[user] += n
			}
		}
		sum := int64(0)
		for user, n := range held {
			if sum += n; p.Held(user) != n {
				t.Fatalf("%s holds %d, counted as %d", user, n, p.Held(user))
			}
		}
		if p.Used() != sum || sum > total {
			t.Fatalf("%d of %d are held, counted as %d", sum, total, p.Used())
		}
		if p.Fits("a new one", 1) != (sum < total) {
			t.Fatalf("%d of %d are held, and a new one gets nothing", sum, total)
		}
	})
}

// A user who takes all that he can leaves half, and twenty such users leave something.
func TestGreedy(t *testing.T) {
	p := NewPool(2_000_000)
	for i := range 20 {
		greedy := fmt.Sprint("greedy", i)
		for _, n := range []int64{100_000, 1000, 1} {
			for p.Take(greedy, n) {
			}
		}
		if i == 0 && p.Held(greedy) != 1_000_000 {
			t.Errorf("a user who is alone gets %d", p.Held(greedy))
		}
		if !p.Fits("modest", 1) {
			t.Fatalf("%d greedy users leave nothing", i+1)
		}
	}
}

// A modest user passes the waiting requests of a greedy one at once, and equal users take
// turns.
func TestGateOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(4)
		var mu sync.Mutex
		var admitted []string
		take := func(user string, n int) {
			for range n {
				go func() {
					if err := g.Take(t.Context(), user, 1); err != nil {
						return
					}
					mu.Lock()
					defer mu.Unlock()
					admitted = append(admitted, user)
				}()
				synctest.Wait()
			}
		}
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(admitted, want) {
				t.Fatalf("admitted %v, want %v", admitted, want)
			}
			admitted = nil
		}
		take("greedy", 10)
		expect("greedy", "greedy")
		take("bob", 3)
		expect("bob")
		take("eve", 2) // the last one
		expect("eve")
		g.Give("greedy", 1) // three hold one each; the other requests wait for the fourth
		expect()            // a second one of four would be more than half of the rest
		g.Give("bob", 1)
		expect("bob")
		g.Give("greedy", 1) // he holds nothing now, and the others one
		expect("greedy")
		g.Give("eve", 1)
		expect("eve")
		if g.Used() != 3 || g.Held("greedy") != 1 || g.Waiting() != 2 {
			t.Errorf("%d are held, greedy holds %d, %d users wait", g.Used(), g.Held("greedy"), g.Waiting())
		}
	})
}

// A request for more than a share fails at once, one whose context ends leaves the gate as
// it was, and Yield lets another user pass.
func TestGateEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(1)
		if err := g.Take(t.Context(), "ann", 2); err == nil {
			t.Error("a request for more than everything waits or is admitted")
		}
		if err := g.Take(t.Context(), "ann", 1); err != nil {
			t.Fatal(err)
		}
		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		if err := g.Take(ctx, "bob", 1); !errors.Is(err, cause) || g.Waiting() != 0 {
			t.Errorf("%v, and %d wait", err, g.Waiting())
		}
		var order []string
		for _, user := range []string{"ann", "bob"} {
			go func() {
				if g.Take(t.Context(), user, 1) == nil {
					order = append(order, user)
					g.Give(user, 1)
				}
			}()
			synctest.Wait()
		}
		if g.Try("eve", 1) {
			t.Error("Try passes requests that wait")
		}
		if err := g.Yield(t.Context(), "ann", 1); err != nil || !slices.Equal(order, []string{"ann", "bob"}) {
			t.Errorf("%v: the turns are %v", err, order)
		}
		g.Give("ann", 1)
		if g.Used() != 0 || !g.Try("eve", 1) {
			t.Errorf("%d are held", g.Used())
		}
	})
}

// Many users with random requests: nothing is held in the end, no request waits for ever, and
// the total is never passed.
func TestGateRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Int64Range(2, 20).Draw(t, "total")
		g := NewGate(total)
		sizes := rapid.SliceOfN(rapid.Int64Range(1, total/2), 1, 60).Draw(t, "sizes")
		patient := rapid.SliceOfN(rapid.Bool(), len(sizes), len(sizes)).Draw(t, "patient")
		var all sync.WaitGroup
		for i, n := range sizes {
			all.Go(func() {
				ctx := context.Background()
				if !patient[i] {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, time.Microsecond)
					defer cancel()
				}
				user := fmt.Sprint(i % 5)
				if g.Take(ctx, user, n) != nil {
					return
				}
				if g.Used() > total {
					panic("more than the total is held")
				}
				if g.Yield(ctx, user, n) == nil {
					g.Give(user, n)
				}
			})
		}
		all.Wait()
		if g.Used() != 0 || g.Waiting() != 0 {
			t.Fatalf("%d are held, %d users wait", g.Used(), g.Waiting())
		}
	})
}

// A line gives what a naive one would: the users in turn, each one's items in order.
func TestLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := NewLine[int]()
		items, turns := map[string][]int{}, []string(nil)
		for i := range rapid.IntRange(0, 200).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "push") {
				user := rapid.SampledFrom([]string{"ann", "bob", "eve"}).Draw(t, "user")
				if len(items[user]) == 0 {
					turns = append(turns, user)
				}
				items[user] = append(items[user], i)
				l.Push(user, i)
				continue
			}
			item, user, ok := l.Pop()
			if ok != (len(turns) > 0) {
				t.Fatalf("Pop says %t, %d users have items", ok, len(turns))
			}
			if !ok {
				continue
			}
			if user != turns[0] || item != items[user][0] {
				t.Fatalf("Pop = %d of %s, want %d of %s", item, user, items[turns[0]][0], turns[0])
			}
			items[user], turns = items[user][1:], turns[1:]
			if len(items[user]) > 0 {
				turns = append(turns, user)
			}
		}
		size := 0
		for _, list := range items {
			size += len(list)
		}
		if l.Len() != size {
			t.Fatalf("%d items, counted as %d", size, l.Len())
		}
	})
}

// Ready wakes the reader for every item, also for items that Pop has left.
func TestLineReady(t *testing.T) {
	l := NewLine[int]()
	for i := range 3 {
		l.Push("ann", i)
	}
	for range 3 {
		<-l.Ready()
		if _, _, ok := l.Pop(); !ok {
			t.Fatal("Ready without an item")
		}
		l.Again()
	}
	select {
	case <-l.Ready():
		t.Error("Ready without an item")
	default:
	}
}
