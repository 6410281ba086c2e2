package generate

import (
	"context"
	"runtime"
)

// Tables are made row by row from generators of their own: a row depends on
// its number and not on the rows before it, so rows can be made in any order
// and by any goroutine.

// stream is a family of generators, one for each row of a table.
type stream uint64

// newStream returns the family of that name.
func newStream(seed uint64, name string) stream { return stream(derive(seed, name, 0)) }

// at returns the generator of row i. The multiplier spreads neighbouring
// numbers; one round then mixes them, or rows would share their sequences.
func (s stream) at(i int64) rng {
	r := rng{uint64(s) + uint64(i)*0xd1342543de82ef95}
	return rng{r.next()}
}

// between returns a whole number from lo to hi, both included.
func (r *rng) between(lo, hi int64) int64 { return lo + int64(r.below(uint64(hi-lo+1))) }

// unit returns a number from 0 to 1, 1 excluded.
func (r *rng) unit() float64 { return float64(r.next()>>11) / (1 << 53) }

// pick returns one of a list, each with the same probability.
func pick[T any](r *rng, list []T) T { return list[r.below(uint64(len(list)))] }

// inOrder has chunks 0 to n-1 filled on all cores and written in their order.
// fill appends to the buffer it is given. As many chunks as there are cores
// wait to be written, and one more is being written. It returns the first
// error of write, or ctx's; goroutines that still fill then end by themselves.
func inOrder(ctx context.Context, n int64, fill func(chunk int64, out []byte) []byte, write func([]byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pending := make(chan chan []byte, runtime.GOMAXPROCS(0))
	free := make(chan []byte, cap(pending)+2)
	for range cap(free) {
		free <- nil
	}
	go func() {
		defer close(pending)
		for i := range n {
			// With room for the chunk, so that fill also ends when the reader has gone.
			done := make(chan []byte, 1)
			select {
			case pending <- done:
			case <-ctx.Done():
				return
			}
			// As many buffers as chunks can be under way: this never waits.
			out := <-free
			go func() { done <- fill(i, out[:0]) }()
		}
	}()
	for done := range pending {
		out := <-done
		// The deferred cancel ends the goroutine above. Chunks that are being filled end in their buffered
		// channels.
		if err := write(out); err != nil {
			return err
		}
		free <- out
	}
	return ctx.Err()
}
