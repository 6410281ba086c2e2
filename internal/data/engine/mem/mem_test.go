package mem

import (
	"slices"
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
		if rapid.Bool().Draw(t, "keep") {
			pool.KeepReleased()
		}
		defer pool.DropKept()
		var regions []*Region
		reserve := func() *Region {
			how := rapid.SampledFrom([]func(*Pool, int64) (*Region, error){Reserve, ReserveUncleared}).Draw(t, "how")
			size := rapid.Int64Range(0, 12*Step).Draw(t, "size")
			r, err := how(pool, size)
			if err != nil || r.Size() < size {
				t.Fatal(r.Size(), err)
			}
			return r
		}
		for range 2 {
			regions = append(regions, reserve())
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
				if n < 4*Step {
					i := slices.Index(regions, r)
					r.Release()
					regions[i] = reserve()
				}
			}
			if sum := regions[0].Charged() + regions[1].Charged(); sum != pool.Used() {
				t.Fatalf("regions hold %d, pool says %d", sum, pool.Used())
			}
			if kept := pool.kept(); kept > 0 && kept+pool.Used() > pool.Limit() {
				t.Fatalf("%d bytes are kept and %d used of %d", kept, pool.Used(), pool.Limit())
			}
		}
		for _, r := range regions {
			r.Release()
			r.Release()
			if r.Bytes() != nil || r.Grow(1) {
				t.Fatal("a released region can still be used")
			}
		}
		pool.DropKept()
		if pool.Used() != 0 || pool.kept() != 0 {
			t.Fatalf("%d bytes never came back, %d are kept", pool.Used(), pool.kept())
		}
	})
}

// kept returns the number of bytes in kept Regions.
func (p *Pool) kept() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.mu.kept {
		n += r.charged
	}
	if n != p.mu.keptBytes {
		panic("the sum of kept bytes is wrong")
	}
	return n
}

// The pages of a released Region serve the next one, without their content for Reserve.
func TestKeepReleased(t *testing.T) {
	pool := NewPool(4 * Step)
	pool.KeepReleased()
	fill := func(reserve func(*Pool, int64) (*Region, error)) (first byte) {
		r, err := reserve(pool, 2*Step)
		if err != nil {
			t.Fatal(err)
		}
		first = r.Bytes()[0]
		if !r.Grow(2 * Step) {
			t.Fatal("no room")
		}
		r.Bytes()[0] = 7
		r.Release()
		return first
	}
	fill(ReserveUncleared)
	if got := fill(ReserveUncleared); got != 7 {
		t.Errorf("kept memory begins with %d, want 7", got)
	}
	if got := fill(Reserve); got != 0 {
		t.Errorf("new memory begins with %d, want 0", got)
	}
	if !pool.TryGrow(3*Step) || pool.kept() != 0 {
		t.Errorf("%d bytes are kept although the budget is needed", pool.kept())
	}
	pool.Shrink(3 * Step)
	pool.DropKept()
}

func TestReserveRejectsNonsense(t *testing.T) {
	for _, size := range []int64{-1, 1 << 60} {
		if r, err := Reserve(NewPool(1), size); err == nil {
			t.Errorf("reserving %d bytes gave %v", size, r)
		}
	}
}
