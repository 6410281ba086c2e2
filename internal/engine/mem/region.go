package mem

import "fmt"

// Step is the unit, in bytes, in which a Region's charge grows. A Region may
// be charged for up to Step-1 bytes more than was asked for.
const Step = 1 << 20

// page is what a trimmed Region's charge is rounded up to, in bytes: a multiple
// of all systems' pages. Map outputs that stay in memory may be many and small.
const page = 64 << 10

// hugePage is the size and alignment of a transparent huge page on the usual
// platforms. With them a scattered walk over hundreds of megabytes stays
// within the TLB, which halves the time of sorting and hash probing. The pages
// of a Region that is being filled may be up to one of them more than its
// charge.
const hugePage = 2 << 20

// Region is a contiguous range of memory outside the Go heap. Its whole size
// is reserved as addresses at once and its pages come into being when first
// written, so growing never moves what is already there.
//
// The owner writes only below Charged; the pages above are not paid for. A
// Region belongs to one goroutine at a time, its bytes to whoever the owner
// shares them with.
type Region struct {
	pool    *Pool
	mapping []byte // as the operating system gave it; nil after Release
	buf     []byte // the usable, aligned part of mapping
	charged int64
}

// Reserve sets aside addresses for size bytes, of which none is charged yet.
func Reserve(pool *Pool, size int64) (*Region, error) {
	if size < 0 {
		return nil, fmt.Errorf("mem: reserve %d bytes", size)
	}
	size = roundUp(size)
	mapping, buf, err := reserve(size)
	if err != nil {
		return nil, fmt.Errorf("mem: reserve %d bytes: %w", size, err)
	}
	return &Region{pool: pool, mapping: mapping, buf: buf}, nil
}

// Bytes is the whole reservation, zero where nothing was written yet. It is
// nil after Release; a copy kept beyond that must not be touched.
func (r *Region) Bytes() []byte { return r.buf }

// Charged is how many bytes, from the start, are paid for.
func (r *Region) Charged() int64 { return r.charged }

// Size is how far the Region can grow, in bytes.
func (r *Region) Size() int64 { return int64(len(r.buf)) }

// Grow makes at least the first n bytes usable. It returns false, having
// changed nothing, if the reservation or the Pool's budget is too small.
func (r *Region) Grow(n int64) bool {
	if n <= r.charged {
		return true
	}
	if n > r.Size() {
		return false
	}
	more := roundUp(n) - r.charged
	if !r.pool.TryGrow(more) {
		return false
	}
	r.charged += more
	return true
}

// ForceGrow is Grow for what must be stored at any price: the Pool may end up
// above its limit. It panics if the reservation is too small.
func (r *Region) ForceGrow(n int64) {
	if n <= r.charged {
		return
	}
	if n > r.Size() {
		panic("mem: region grown beyond its reservation")
	}
	more := roundUp(n) - r.charged
	r.pool.Grow(more)
	r.charged += more
}

// Populate has the pages of the first n bytes, as far as they are charged, made
// now: a fraction of what it costs to run into them one by one. It is for
// memory that will be written all over.
func (r *Region) Populate(n int64) { populate(r.buf[:min(n, r.charged)]) }

// Trim returns everything above the first n bytes to the operating system and
// to the Pool, to the page. The addresses stay reserved, so the Region can grow
// again; what was there is lost.
func (r *Region) Trim(n int64) {
	n = (n + page - 1) &^ (page - 1)
	if n >= r.charged {
		return
	}
	// The last huge page came whole when its first byte was written, and
	// reaches beyond what is charged.
	discard(r.buf[n:min(r.Size(), (r.charged+hugePage-1)&^(hugePage-1))])
	r.pool.Shrink(r.charged - n)
	r.charged = n
}

// Release gives back memory, addresses and charge. Calling it again does
// nothing.
func (r *Region) Release() {
	if r.mapping == nil {
		return
	}
	unmap(r.mapping)
	r.pool.Shrink(r.charged)
	r.mapping, r.buf, r.charged = nil, nil, 0
}

func roundUp(n int64) int64 { return (n + Step - 1) &^ (Step - 1) }
