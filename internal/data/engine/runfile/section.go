package runfile

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"

	"github.com/slotwise/slotwise/internal/data/kv"
)

// Section describes the blocks of one partition, so that they can be read without
// the rest of their file, on another machine or from memory.
type Section struct {
	Offset  int64 // in the file; the blocks' checksums cover it
	Length  int64 // bytes of all blocks
	Records int64
	Bytes   int64 // of keys and values, without framing
	// The largest block of the whole file, as in its footer.
	MaxRaw, MaxStored int
}

// sectionLen is the length of a section's description: six integers and their
// checksum.
const sectionLen = 7 * 8

// Section describes partition p; false if there is no such partition.
func (f *File) Section(p int) (Section, bool) {
	if p < 0 || p >= len(f.parts) {
		return Section{}, false
	}
	return f.section(&f.parts[p]), true
}

// section describes a partition of the file.
func (f *File) section(p *partStat) Section {
	return Section{
		Offset: p.offset, Length: p.length, Records: p.records, Bytes: p.raw,
		MaxRaw: f.foot.maxRaw, MaxStored: f.foot.maxStored,
	}
}

// MarshalText encodes a section in hexadecimal digits, with a checksum.
func (s Section) MarshalText() ([]byte, error) {
	b := make([]byte, 0, sectionLen)
	for _, n := range []int64{s.Offset, s.Length, s.Records, s.Bytes, int64(s.MaxRaw), int64(s.MaxStored)} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	b = binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b))
	return hex.AppendEncode(nil, b), nil
}

// UnmarshalText decodes the output of MarshalText. Any other text is an error.
func (s *Section) UnmarshalText(text []byte) error {
	var b [sectionLen]byte
	if len(text) != hex.EncodedLen(len(b)) {
		return fmt.Errorf("section of a run: %w: %d digits", ErrCorrupt, len(text))
	}
	if _, err := hex.Decode(b[:], text); err != nil {
		return fmt.Errorf("section of a run: %w: %w", ErrCorrupt, err)
	}
	if xxhash.Sum64(b[:sectionLen-8]) != binary.LittleEndian.Uint64(b[sectionLen-8:]) {
		return fmt.Errorf("section of a run: %w", ErrChecksum)
	}
	at := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[8*i:])) }
	got := Section{
		Offset: at(0), Length: at(1), Records: at(2), Bytes: at(3),
		MaxRaw: int(at(4)), MaxStored: int(at(5)),
	}
	// The checksum says that nothing was damaged on the way, not that the sender is honest: the
	// numbers decide how much memory a reader takes.
	if got.Offset < int64(headerLen) || got.Length < 0 || got.Offset+got.Length < got.Offset ||
		got.Records < 0 || got.Bytes < 0 || at(4) < 0 || at(4) > maxBlock || at(5) < 0 || at(5) > at(4) {
		return fmt.Errorf("section of a run: %w: %+v", ErrCorrupt, got)
	}
	*s = got
	return nil
}

// Open streams the section's records from r, which holds its bytes from
// offset 0. The name is only for errors.
func (s Section) Open(r io.ReaderAt, name string) kv.Stream { return s.stream(r, name) }

// OpenBytes streams the section's records from memory, without a copy unless blocks
// are compressed. The bytes must not change until the stream is closed.
func (s Section) OpenBytes(b []byte, name string) (kv.Stream, error) {
	if int64(len(b)) != s.Length {
		return nil, &Error{name, s.Offset, fmt.Errorf("%w: %d bytes of %d", ErrTruncated, len(b), s.Length)}
	}
	st := s.stream(nil, name)
	// The window is the whole section, so fill never reads and the nil reader is never used.
	st.win, st.borrowed, st.next = b, true, st.end
	// newStream has counted a window, which the caller owns here.
	st.memory = 0
	// Only compressed blocks need a buffer. The headers are not verified yet, so their lengths are
	// bounded by the section's.
	for at := 0; at+blockHdrLen <= len(b); {
		h := parseBlockHeader(b[at:])
		if h.codec != None {
			st.memory = max(st.memory, bufferCap(min(h.raw, s.MaxRaw)))
		}
		at += blockHdrLen + h.stored
	}
	return st, nil
}

func (s Section) stream(r io.ReaderAt, name string) *stream {
	f := &File{r: shifted{r, s.Offset}, name: name, foot: s.footer()}
	return newStream(f, &partStat{offset: s.Offset, length: s.Length, records: s.Records, raw: s.Bytes})
}

func (s Section) footer() footer { return footer{maxRaw: s.MaxRaw, maxStored: s.MaxStored} }

// shifted reads a file of which only the bytes from offset base on are available.
type shifted struct {
	r    io.ReaderAt
	base int64
}

func (s shifted) ReadAt(b []byte, off int64) (int, error) { return s.r.ReadAt(b, off-s.base) }

// Verifier checks the checksums of a section while its bytes arrive, in pieces of any
// size. The receiver finds damage while it can still fetch another copy.
type Verifier struct {
	s    Section
	foot footer
	name string
	at   int64 // file offset of the current block
	head [blockHdrLen]byte
	have int // bytes of head
	h    blockHeader
	left int // missing stored bytes of the current block
	sum  xxhash.Digest
	err  error
}

// NewVerifier returns a Verifier at the start of a section. The name is only for errors.
func NewVerifier(s Section, name string) *Verifier {
	return &Verifier{s: s, foot: s.footer(), name: name, at: s.Offset}
}

// Write takes the next bytes. After an error all later calls return it too.
func (v *Verifier) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 && v.err == nil {
		if v.have < blockHdrLen {
			p = p[v.header(p):]
			continue
		}
		k := min(len(p), v.left)
		_, _ = v.sum.Write(p[:k]) // never fails
		v.left -= k
		p = p[k:]
		v.endBlock()
	}
	return n - len(p), v.err
}

// header consumes bytes of a block's header and returns their number.
func (v *Verifier) header(p []byte) int {
	end := v.s.Offset + v.s.Length
	if v.have == 0 && v.at >= end {
		v.err = &Error{v.name, end, fmt.Errorf("%w: bytes after the partition's end", ErrCorrupt)}
		return 0
	}
	k := copy(v.head[v.have:], p)
	if v.have += k; v.have == blockHdrLen {
		v.h = parseBlockHeader(v.head[:])
		// Before any byte of the block is counted: left comes from the sender.
		if err := v.foot.plausible(v.h, v.at, end); err != nil {
			v.err = &Error{v.name, v.at, err}
		}
		v.left = v.h.stored
		v.sum.Reset()
		// Write ends a block with its last stored byte. A block without stored bytes ends here.
		v.endBlock()
	}
	return k
}

// endBlock compares the checksum if the block is complete.
func (v *Verifier) endBlock() {
	if v.left > 0 || v.err != nil {
		return
	}
	if v.sum.Sum64()^placeSum(v.head[:], v.at) != v.h.sum {
		v.err = &Error{v.name, v.at, fmt.Errorf("block: %w", ErrChecksum)}
		return
	}
	v.at += int64(blockHdrLen + v.h.stored)
	v.have = 0
}

// Finish returns nil if exactly the bytes of the section were written and all
// checksums are right.
func (v *Verifier) Finish() error {
	// A connection that ends at the end of a block leaves no partial block behind. Only the length
	// tells.
	if v.err == nil && (v.have != 0 || v.at != v.s.Offset+v.s.Length) {
		v.err = &Error{v.name, v.at, ErrTruncated}
	}
	return v.err
}
