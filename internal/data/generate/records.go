package generate

import "io"

// The fields of a record: key, two spaces, row number, two spaces, filler, a
// full stop and a line feed. They are all printable, so a file of records is a
// text file too, with a record on each line.
const (
	recordLen  = 100
	keyLen     = 10
	rowStart   = keyLen + 2
	rowLen     = 32
	fillStart  = rowStart + rowLen + 2
	fillGroup  = 4 // equal letters in a row
	fillGroups = 13

	recordsPerBlock = 2048
)

// records writes as many records as p.size holds. Rows are numbered through
// all parts, in hexadecimal.
func records(w io.Writer, p part, _ Params) error {
	r := rng{p.seed}
	buf := make([]byte, 0, recordsPerBlock*recordLen)
	first := uint64(p.offset / recordLen)
	for row, end := first, first+uint64(p.size/recordLen); row < end; {
		buf = buf[:0]
		for ; row < end && len(buf) < cap(buf); row++ {
			buf = buf[:len(buf)+recordLen]
			putRecord((*[recordLen]byte)(buf[len(buf)-recordLen:]), row, &r)
		}
		if _, err := w.Write(buf); err != nil {
			return err
		}
	}
	return nil
}

// putRecord fills one record.
func putRecord(b *[recordLen]byte, row uint64, r *rng) {
	putKey(b[:keyLen/2], r.next())
	putKey(b[keyLen/2:keyLen], r.next())
	b[keyLen], b[keyLen+1] = ' ', ' '
	const hex = "0123456789ABCDEF"
	for i, n := rowStart+rowLen-1, row; i >= rowStart; i, n = i-1, n>>4 {
		b[i] = hex[n&15]
	}
	b[fillStart-2], b[fillStart-1] = ' ', ' '
	x := r.next()
	for i := range fillGroups {
		c := hex[x&15]
		x >>= 4
		g := b[fillStart+i*fillGroup:][:fillGroup]
		g[0], g[1], g[2], g[3] = c, c, c, c
	}
	b[recordLen-2], b[recordLen-1] = '.', '\n'
}

// putKey fills b, at most nine bytes, with the printable ASCII characters,
// space to tilde, that x spells in base 95.
func putKey(b []byte, x uint64) {
	const printable = '~' - ' ' + 1
	for i := range b {
		b[i] = ' ' + byte(x%printable)
		x /= printable
	}
}
