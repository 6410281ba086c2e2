package compression

import (
	"compress/bzip2"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"github.com/slotwise/slotwise/internal/base/retry"
)

// The magic numbers.
const (
	blockMagic = 0x314159265359 // begins a block
	endMagic   = 0x177245385090 // ends a stream
)

// Lengths in bits.
const (
	magicBits = 48
	crcBits   = 32
)

// headerLen is the length of a stream's header in bytes.
const headerLen = 4

// maxBlock bounds a compressed block, in bytes. A block has at most 900,000 symbols of at
// most 20 bits each, and its code tables.
const maxBlock = 3 << 20

// maxRetries bounds the false magic numbers within one block. Two are most unlikely.
const maxRetries = 3

// errNoMagic reports that no magic number was found.
var errNoMagic = errors.New("nothing marks its end")

// chunk is the number of bytes that are read at once.
const chunk = 128 << 10

// Bzip2Reader decompresses the blocks that begin in a range of a file, and then the blocks after
// them. One goroutine uses it.
//
// A bzip2 file is one stream or several. A stream is
//
//	"BZh" and a digit, 4 bytes
//	blocks: a magic number of 48 bits, a checksum of 32 bits, and at most 900 kB of content
//	another magic number, a checksum of the whole stream, zero bits up to a whole byte
//
// Blocks are compressed independently of each other, but they begin at any bit and do not
// state their length. A Reader therefore searches for the next magic number and treats the
// bits before it as one block. For the decoder it makes a stream of one block: header, block,
// end, and the block's checksum as the checksum of the stream.
//
// The bits of a magic number can occur by chance within a block, once in 2^48 positions. A
// block that ends there cannot be decoded; the Reader then tries the following magic
// number. If the first block of a part cannot be decoded at all, its magic number may be
// false. The Reader then decodes the file from its start, to find out where blocks begin.
//
// Of two readers of neighbouring ranges each decodes the blocks that begin in its own range, and the first
// one continues beyond it for the record that crosses the border. Both find the same blocks: a block belongs
// to a range by the byte in which its magic number begins.
type Bzip2Reader struct {
	f        io.ReaderAt
	size     int64 // of the file in bytes
	from, to int64 // the range in bytes
	rangeEnd func(n int64)

	buf  []byte // bytes of the file
	base int64  // offset of buf[0] in the file
	keep int64  // offset of the first byte that is still needed

	located  bool      // at is valid
	searched bool      // a search has found the current block, and no block has been decoded yet
	at       int64     // position of the next magic number, in bits
	start    int64     // position of the current block, in bits
	retries  int       // false magic numbers within the current block
	again    bool      // stream holds the current block up to another magic number, after a failure
	stream   []byte    // a stream that has only the current block
	fed      int       // bytes of stream that the decoder has taken
	dec      io.Reader // takes streams; nil before the first block and after an error
	blockCRC uint32
	produced int64 // content of the current block so far, in bytes
	total    int64 // content of all blocks so far, in bytes
	left     bool  // rangeEnd has been called

	level    byte   // the digit of the last header, '9' before the first
	crc      uint32 // checksum of the blocks since the stream's header
	crcKnown bool   // the stream's header has been read
	err      error
}

// NewBzip2Reader returns a reader of a file of size bytes. Its content begins with the first
// block whose magic number begins at one of the bytes [from, to). The content of a range
// that begins at 0 begins with the file's first block, wherever that is.
//
// Before Read returns content of a block beyond the range, or io.EOF, it calls rangeEnd with
// the length of the content of all blocks that begin in the range.
func NewBzip2Reader(f io.ReaderAt, size, from, to int64, rangeEnd func(n int64)) *Bzip2Reader {
	return &Bzip2Reader{f: f, size: size, from: from, to: to, rangeEnd: rangeEnd, keep: from, base: from, level: '9'}
}

// Read implements io.Reader. Errors state the offset of the damaged block in the file.
func (r *Bzip2Reader) Read(p []byte) (int, error) {
	for r.err == nil {
		if r.dec == nil {
			if r.err = r.next(); r.err != nil {
				break
			}
			r.dec = bzip2.NewReader((*feed)(r))
		}
		n, err := r.dec.Read(p)
		r.produced += int64(n)
		r.total += int64(n)
		if n > 0 {
			return n, nil
		}
		// r.err is set if feed has met the end of the file or damage, which no other magic number can
		// change.
		if err != nil && r.err == nil {
			r.dec = nil
			r.err = r.retry(err)
		}
	}
	if r.err == io.EOF {
		r.leaveRange()
	}
	return 0, r.err
}

// feed gives a Reader's blocks to the decoder, one stream after the other. The decoder is
// kept between blocks, because each one allocates 3.6 MB.
type feed Bzip2Reader

// ReadByte implements io.ByteReader. When the decoder asks for more than a stream has, it
// has either returned all of the block's content, or not begun to, because the block ends at
// a false magic number. No block is empty.
func (f *feed) ReadByte() (byte, error) {
	r := (*Bzip2Reader)(f)
	if r.fed == len(r.stream) {
		// io.EOF makes the decoder fail before it has returned a byte, and Read tries the next magic number.
		if r.produced == 0 {
			return 0, io.EOF
		}
		// The decoder has verified the block's checksum: it asks for the next byte only behind it.
		r.endBlock()
		if r.err = r.next(); r.err != nil {
			return 0, r.err
		}
	}
	c := r.stream[r.fed]
	r.fed++
	return c, nil
}

// Read implements io.Reader. The decoder calls ReadByte instead.
func (f *feed) Read(p []byte) (n int, err error) {
	if len(p) > 0 {
		if p[0], err = f.ReadByte(); err == nil {
			n = 1
		}
	}
	return n, err
}

// next prepares the decoding of the next block. It returns io.EOF at the end of the file,
// and for a range without blocks.
func (r *Bzip2Reader) next() error {
	if r.again {
		r.again = false
		return nil
	}
	if !r.located {
		if err := r.locate(); err != nil {
			return err
		}
	}
	for {
		magic, err := r.bits(r.at, magicBits)
		if err != nil {
			return err
		}
		switch magic {
		// Files may be joined: after the end of a stream another one may begin.
		case endMagic:
			if err := r.endStream(); err != nil {
				return err
			}
		case blockMagic:
			r.start, r.retries, r.keep = r.at, 0, r.at/8
			// This block belongs to the next range. Reading continues all the same, because a
			// record may cross the border.
			if r.start/8 >= r.to {
				r.leaveRange()
			}
			switch err = r.decode(r.start + magicBits + crcBits); {
			// Within the last possible block nothing but the end of the file can be missing.
			case errors.Is(err, errNoMagic) && r.size-r.start/8 < maxBlock:
				err = fmt.Errorf("the file ends within the block at byte %d: %w", r.start/8, io.ErrUnexpectedEOF)
			case errors.Is(err, errNoMagic):
				err = r.damaged(err)
			}
			return err
		default:
			return fmt.Errorf("no block begins at byte %d", r.at/8)
		}
	}
}

// locate finds the first magic number of the range.
func (r *Bzip2Reader) locate() error {
	r.located = true
	if r.from == 0 {
		return r.header()
	}
	at, err := r.find(r.from*8, min(r.to, r.size)*8, false)
	if errors.Is(err, errNoMagic) {
		return io.EOF
	}
	r.at, r.searched = at, true
	return err
}

// header reads the header of a stream.
func (r *Bzip2Reader) header() error {
	h, err := r.bits(r.at, 8*headerLen)
	if err != nil {
		return err
	}
	// Zeros or other bytes behind the last stream are an error, too: bzip2 itself warns about them, and they
	// may be a second file that was damaged.
	if h>>8 != 'B'<<16|'Z'<<8|'h' || byte(h) < '1' || byte(h) > '9' {
		return fmt.Errorf("no stream begins at byte %d", r.at/8)
	}
	r.at += 8 * headerLen
	r.level, r.crc, r.crcKnown = byte(h), 0, true
	return nil
}

// endStream reads the end of a stream, and the header of the stream that follows. At the
// end of the file it returns io.EOF.
func (r *Bzip2Reader) endStream() error {
	crc, err := r.bits(r.at+magicBits, crcBits)
	if err != nil {
		return err
	}
	// A range that begins within a stream has not seen all of its blocks.
	if r.crcKnown && uint32(crc) != r.crc {
		return fmt.Errorf("the checksum of the stream that ends at byte %d is wrong", r.at/8)
	}
	// The end of a stream is padded to a whole byte.
	r.at = (r.at + magicBits + crcBits + 7) / 8 * 8
	r.keep = r.at / 8 // without it the buffer grows with the number of empty streams
	if r.at == 8*r.size {
		return io.EOF
	}
	return r.header()
}

// decode makes a stream of the current block. The block's end is the first magic number from
// a position on. Without such a number the error is errNoMagic.
func (r *Bzip2Reader) decode(from int64) error {
	end, err := r.find(from, r.start+8*maxBlock, true)
	if err != nil {
		return err
	}
	crc, err := r.bits(r.start+magicBits, crcBits)
	if err != nil {
		return err
	}
	// Last, because each load may move the buffer that an earlier result points into.
	block, err := r.load(r.start/8, (end+7)/8)
	if err != nil {
		return err
	}
	r.blockCRC, r.at = uint32(crc), end
	r.stream = append(r.stream[:0], 'B', 'Z', 'h', r.level)
	r.stream = appendStream(r.stream, block, uint(r.start%8), uint(end-r.start), r.blockCRC)
	r.fed = 0
	return nil
}

// endBlock notes that the current block has been decoded and its checksum is right.
func (r *Bzip2Reader) endBlock() {
	// The format's rule for the checksum of a stream.
	r.crc = bits.RotateLeft32(r.crc, 1) ^ r.blockCRC
	r.produced, r.searched = 0, false
}

// leaveRange reports the length of the range's content, once.
func (r *Bzip2Reader) leaveRange() {
	if !r.left {
		r.left = true
		r.rangeEnd(r.total)
	}
}

// retry prepares the current block again, up to the magic number after the one where it
// seemed to end. If that is impossible, it returns the reason.
func (r *Bzip2Reader) retry(cause error) error {
	if r.produced == 0 && r.retries < maxRetries {
		r.retries++
		// r.at is the number that has proved false.
		if err := r.decode(r.at + 1); !errors.Is(err, errNoMagic) {
			r.again = err == nil
			return err
		}
	}
	if r.searched && r.produced == 0 {
		return r.walk(cause)
	}
	return r.damaged(cause)
}

// walk decodes the file from its start up to the range, to find the first block that begins
// in the range. The block that a search has found could not be decoded, for the given
// reason.
func (r *Bzip2Reader) walk(cause error) error {
	found := false
	// Its range ends where this one begins, so its first block beyond is the first block of this range.
	w := NewBzip2Reader(r.f, r.size, 0, r.from, func(int64) { found = true })
	buf := make([]byte, chunk)
	for !found {
		if _, err := w.Read(buf); err != nil && err != io.EOF {
			return err
		}
	}
	switch {
	case w.err == io.EOF:
		return io.EOF
	// The block does begin there, so its content is damaged.
	case w.start == r.start:
		return r.damaged(cause)
	}
	// The walk has proved the position, so a failure there is damage and no false magic number.
	r.at, r.searched = w.start, false
	return nil
}

// errRandomised is the error of the standard library for a block whose bytes were mixed up
// before they were sorted, as bzip2 did until 1997 with repetitive data. Hadoop's own codec in
// Java still does.
const errRandomised = bzip2.StructuralError("deprecated randomized files")

// damaged returns the error for the current block.
func (r *Bzip2Reader) damaged(cause error) error {
	if cause == errRandomised {
		return retry.Permanent(fmt.Errorf("the block at byte %d is randomised, as Hadoop's codec in Java writes repetitive data, "+
			"and such blocks are not read: write the file again, with bzcat FILE | bzip2", r.start/8))
	}
	return fmt.Errorf("the block at byte %d is damaged: %w", r.start/8, cause)
}

// bits returns n bits, at most 48, from a position on.
func (r *Bzip2Reader) bits(at int64, n uint) (uint64, error) {
	end := (at + int64(n) + 7) / 8
	if end > r.size {
		return 0, fmt.Errorf("the file ends within a stream: %w", io.ErrUnexpectedEOF)
	}
	b, err := r.load(at/8, end)
	if err != nil {
		return 0, err
	}
	var word [8]byte
	copy(word[:], b)
	return binary.BigEndian.Uint64(word[:]) << uint(at%8) >> (64 - n), nil
}

// load returns the bytes [from, to) of the file, as far as it has them. They are valid
// until the next call.
func (r *Bzip2Reader) load(from, to int64) ([]byte, error) {
	to = min(to, r.size)
	if have := r.base + int64(len(r.buf)); to > have {
		if drop := min(r.keep, have) - r.base; drop > 0 {
			r.buf = append(r.buf[:0], r.buf[drop:]...)
			r.base += drop
		}
		// Bytes before keep are skipped without reading them.
		if len(r.buf) == 0 {
			r.base = max(r.base, r.keep)
		}
		have = r.base + int64(len(r.buf))
		// At least a chunk, since find and bits ask for a few bytes at a time.
		more := min(max(to-have, chunk), r.size-have)
		r.buf = slices.Grow(r.buf, int(more))
		n, err := r.f.ReadAt(r.buf[len(r.buf):len(r.buf)+int(more)], have)
		r.buf = r.buf[:len(r.buf)+n]
		if int64(n) < more {
			if err == nil || err == io.EOF {
				err = fmt.Errorf("it became shorter while it was read: %w", io.ErrUnexpectedEOF)
			}
			return nil, err
		}
	}
	return r.buf[from-r.base : to-r.base], nil
}
