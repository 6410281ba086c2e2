package sortbuf

import "unsafe"

// Prefetch makes the processor load the records behind entries in the background: span bytes from
// base[position<<shift] for each. Records are scattered over far more memory than the caches hold, and
// waiting for them one after the other is most of what reading in sorted order costs.
func Prefetch(entries []Entry, base []byte, shift uint, span int) {
	if len(entries) > 0 {
		prefetch(unsafe.Pointer(unsafe.SliceData(base)), &entries[0], len(entries), uint64(shift), uint64(span))
	}
}

// Ahead returns the entries to prefetch for a reader that takes its entries
// one by one, remaining being those it has not yet taken: once in a while a
// batch some way ahead, and most times none. With start set it returns the
// batch to begin with.
func Ahead(remaining []Entry, start bool) []Entry {
	const batch = 8
	switch {
	case start:
		return remaining[:min(len(remaining), 2*batch)]
	// A batch at a time, because one call for eight entries costs less than eight calls.
	case len(remaining)%batch != 0 || len(remaining) <= batch:
		return nil
	}
	return remaining[batch:min(len(remaining), 2*batch)]
}
