package compression

import (
	"encoding/binary"
	"math/bits"
)

// magicMask covers the bits of a magic number.
const magicMask = 1<<magicBits - 1

// second maps the second of the bytes that a magic number covers to the positions, within
// the first byte, at which the number can begin: bit s for position s. The number always
// covers the second byte entirely, so the table excludes nearly all positions.
var second = func() (t [256]uint8) {
	for _, magic := range []uint64{blockMagic, endMagic} {
		for s := range 8 {
			t[byte(magic>>(magicBits-16+s))] |= 1 << s
		}
	}
	return t
}()

// find returns the position in bits of the first magic number that begins in [from, limit),
// or errNoMagic. ends says that the end of a stream counts, too. Without it, find drops the
// bytes that it has searched.
func (r *Bzip2Reader) find(from, limit int64, ends bool) (int64, error) {
	// A number needs 48 bits, so none begins in the last bits of the file.
	limit = min(limit, 8*r.size-magicBits+1)
	for pos := from / 8; 8*pos < limit; pos += chunk {
		if !ends {
			r.keep = pos
		}
		end := min(pos+chunk, (limit+7)/8)
		b, err := r.load(pos, end+magicBits/8) // a number that begins in the chunk may end beyond it
		if err != nil {
			return 0, err
		}
		for i := range min(int(end-pos), len(b)-1) {
			at := 8 * (pos + int64(i))
			// Of random bytes one in sixteen passes this table, and only these are compared in full.
			for set := second[b[i+1]]; set != 0; set &= set - 1 {
				s := bits.TrailingZeros8(set)
				if p := at + int64(s); p >= from && p < limit && isMagic(b[i:], s, ends) {
					return p, nil
				}
			}
		}
	}
	return 0, errNoMagic
}

// isMagic reports whether a magic number begins at bit s of b.
func isMagic(b []byte, s int, ends bool) bool {
	var word [8]byte
	copy(word[:], b)
	magic := binary.BigEndian.Uint64(word[:]) >> (64 - magicBits - s) & magicMask
	return magic == blockMagic || ends && magic == endMagic
}

// bitWriter appends bits to bytes.
type bitWriter struct {
	b   []byte
	acc uint64 // the last n bits that do not make a byte yet
	n   uint
}

// put appends the n low bits of v, at most 48.
func (w *bitWriter) put(v uint64, n uint) {
	w.acc, w.n = w.acc<<n|v, w.n+n
	for ; w.n >= 8; w.n -= 8 {
		w.b = append(w.b, byte(w.acc>>(w.n-8)))
	}
	w.acc &= 1<<w.n - 1
}

// appendStream appends a block and the end of a stream to the stream's header in dst. The block has n bits,
// from bit shift of b on. Its checksum crc is the checksum of the stream.
func appendStream(dst, b []byte, shift, n uint, crc uint32) []byte {
	w := bitWriter{b: dst}
	// Whole bytes first, without the bit writer, which would take most of the time.
	for i := range n / 8 {
		c := b[i] << shift
		if shift > 0 {
			c |= b[i+1] >> (8 - shift)
		}
		w.b = append(w.b, c)
	}
	for at := shift + n/8*8; at < shift+n; at++ {
		w.put(uint64(b[at/8]>>(7-at%8)&1), 1)
	}
	w.put(endMagic, magicBits)
	w.put(uint64(crc), crcBits)
	// The decoder reads whole bytes.
	w.put(0, (8-w.n)%8)
	return w.b
}
