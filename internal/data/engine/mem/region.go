package mem

import "fmt"

// Step is the unit in bytes by which a Region's charge grows. The charge is up to
// Step-1 bytes larger than the requested size.
const Step = 1 << 20

// page is the unit in bytes of a trimmed Region's charge, a multiple of the page
// size of every system. It is smaller than Step because map outputs that stay in
// memory may be many and small.
const page = 64 << 10

// hugePage is the size and alignment of a transparent huge page on the usual
// platforms. With huge pages, random accesses to hundreds of megabytes stay within
// the TLB, which halves the time of sorting and hash probing. While a Region is
// being filled its pages may exceed its charge by up to one huge page.
//
// A Region that grows is in small pages until it exceeds hugePage, because clearing a huge
// page takes longer than a whole task that sorts ten records.
const hugePage = 2 << 20

// Region is a contiguous range of memory outside the Go heap. Reserve reserves the
// addresses for its whole size, and the system adds pages when they are first
// written. So a Region grows without moving its content.
//
// The owner must write only below Charged, because the pages above are not charged
// to the Pool. Only one goroutine at a time may call the methods. The owner decides
// which goroutines may access the bytes.
type Region struct {
	pool    *Pool
	mapping []byte // as returned by the operating system; nil after Release
	buf     []byte // the usable, aligned part of mapping
	charged int64
	huge    bool // the Region has asked for huge pages
}

// Reserve reserves addresses for size bytes. Nothing is charged yet.
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

// ReserveUncleared is Reserve for an owner that never reads a byte before writing it. The
// Region may be one that the Pool has kept. Its pages are then charged at once, and hold
// the bytes of an earlier owner.
func ReserveUncleared(pool *Pool, size int64) (*Region, error) {
	if r := pool.reuse(roundUp(size)); r != nil {
		return r, nil
	}
	return Reserve(pool, size)
}

// Bytes returns the whole reservation, which is zero where nothing was written. It
// returns nil after Release, and slices from before must then not be accessed.
func (r *Region) Bytes() []byte { return r.buf }

// Charged returns the number of bytes, from the start, that are charged.
func (r *Region) Charged() int64 { return r.charged }

// Size returns the number of bytes to which the Region can grow.
func (r *Region) Size() int64 { return int64(len(r.buf)) }

// Grow makes at least the first n bytes usable. If the reservation or the Pool's
// budget is too small it changes nothing and returns false.
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
	r.charge(more)
	return true
}

// ForceGrow is Grow for data that must be stored even beyond the Pool's limit. It
// panics if the reservation is too small.
func (r *Region) ForceGrow(n int64) {
	if n <= r.charged {
		return
	}
	if n > r.Size() {
		panic("mem: region grown beyond its reservation")
	}
	more := roundUp(n) - r.charged
	r.pool.Grow(more)
	r.charge(more)
}

// charge adds to the charge, and asks for huge pages when the Region proves to be large.
func (r *Region) charge(more int64) {
	before := r.charged
	r.charged += more
	if r.charged <= hugePage || r.huge {
		return
	}
	r.huge = true
	start := int64(0)
	if before > 0 { // the pages below are in use
		start = hugePage
	}
	adviseHuge(r.buf[min(start, r.Size()):])
}

// Populate allocates the pages of the first n bytes that are charged. That costs a
// fraction of the page faults that writing would cause. It is for memory that will
// be written completely.
func (r *Region) Populate(n int64) { populate(r.buf[:min(n, r.charged)]) }

// Trim returns the memory above the first n bytes, rounded up to a page, to the
// operating system and to the Pool. Its content is lost. The addresses stay
// reserved, so the Region can grow again.
func (r *Region) Trim(n int64) {
	n = (n + page - 1) &^ (page - 1)
	if n >= r.charged {
		return
	}
	// The last huge page was allocated as a whole when its first byte was written,
	// so it may reach beyond the charge.
	discard(r.buf[n:min(r.Size(), (r.charged+hugePage-1)&^(hugePage-1))])
	r.pool.Shrink(r.charged - n)
	r.charged = n
}

// Release returns the memory, the addresses and the charge. Further calls do
// nothing.
func (r *Region) Release() {
	if r.mapping == nil {
		return
	}
	// The memory is unmapped before its charge is returned. The other way round another owner could
	// take the budget while the pages are still there.
	if !r.pool.keep(r) {
		unmap(r.mapping)
		r.pool.Shrink(r.charged)
	}
	r.mapping, r.buf, r.charged = nil, nil, 0
}

func roundUp(n int64) int64 { return (n + Step - 1) &^ (Step - 1) }
