package mem

import (
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestPoolNeverExceedsLimit(t *testing.T) {
	p := NewPool(1000)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 1000 {
				n := int64(100*g + i%300)
				if p.TryGrow(n) {
					if used := p.Used(); used > 1000 {
						t.Errorf("used %d of 1000", used)
					}
					p.Shrink(n)
				}
			}
		})
	}
	wg.Wait()
	if p.Used() != 0 || p.Peak() > 1000 || p.Peak() == 0 {
		t.Errorf("afterwards used %d, peak %d", p.Used(), p.Peak())
	}
}

func TestPoolGrowIsForced(t *testing.T) {
	p := NewPool(10)
	p.Grow(50)
	if p.Used() != 50 || p.Peak() != 50 || p.TryGrow(1) {
		t.Errorf("used %d, peak %d", p.Used(), p.Peak())
	}
	p.Shrink(50)
	defer func() {
		if recover() == nil {
			t.Error("returning more than was taken went unnoticed")
		}
	}()
	p.Shrink(1)
}

// After any sequence of calls, the pool's charge is the sum of the regions' charges,
// bytes written below the charge are unchanged, and trimmed bytes read as zero.
func TestRegionsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool := NewPool(8 * Step)
		var regions []*Region
		for range 2 {
			r, err := Reserve(pool, rapid.Int64Range(0, 12*Step).Draw(t, "size"))
			if err != nil {
				t.Fatal(err)
			}
			regions = append(regions, r)
		}
		for range rapid.IntRange(0, 20).Draw(t, "ops") {
			r := regions[rapid.IntRange(0, 1).Draw(t, "region")]
			n := rapid.Int64Range(0, 13*Step).Draw(t, "n")
			switch rapid.IntRange(0, 4).Draw(t, "op") {
			case 0, 1:
				before, free := r.Charged(), pool.Limit()-pool.Used()
				ok := r.Grow(n)
				want := n <= before || n <= r.Size() && roundUp(n)-before <= free
				if ok != want {
					t.Fatalf("Grow(%d) with %d free: %v", n, free, ok)
				}
				if ok && n > before {
					r.Bytes()[before], r.Bytes()[n-1] = 1, 1
				}
			case 2:
				before := r.Charged()
				r.Trim(n)
				if r.Charged() < before && r.Bytes()[r.Charged()] != 0 {
					t.Fatal("trimmed memory is not zero")
				}
			case 3:
				r.ForceGrow(min(n, r.Size()))
				r.Populate(n)
			case 4:
				if n < Step {
					r.Release()
				}
			}
			if sum := regions[0].Charged() + regions[1].Charged(); sum != pool.Used() {
				t.Fatalf("regions hold %d, pool says %d", sum, pool.Used())
			}
		}
		for _, r := range regions {
			r.Release()
			r.Release()
			if r.Bytes() != nil || r.Grow(1) {
				t.Fatal("a released region can still be used")
			}
		}
		if pool.Used() != 0 {
			t.Fatalf("%d bytes never came back", pool.Used())
		}
	})
}

func TestReserveRejectsNonsense(t *testing.T) {
	for _, size := range []int64{-1, 1 << 60} {
		if r, err := Reserve(NewPool(1), size); err == nil {
			t.Errorf("reserving %d bytes gave %v", size, r)
		}
	}
}
