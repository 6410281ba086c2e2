package input

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"unsafe"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// MapFiles makes the Reader map large local files of lines into memory instead of copying their
// blocks, which takes as long as searching them. Blocks then must be read by the goroutine
// that calls NextBlock, after debug.SetPanicOnFault(true): reading a page of a file that has
// become shorter, or of a disk that fails, is a panic, and Fault turns it into an error. A block may
// be written to; that changes no file.
func (r *Reader) MapFiles() { r.mapFiles = true }

// Fault returns the error for a panic that a read of a mapped file has caused, and nil for any other
// panic. It works after Close, too.
func (r *Reader) Fault(p any) error {
	err, ok := p.(runtime.Error)
	if !ok {
		return nil
	}
	at, ok := err.(interface{ Addr() uintptr })
	// Addresses outside of the chunk are the job's own faults, such as a nil pointer.
	// low and high outlive the mapping, because Close may run before the panic is examined.
	if !ok || at.Addr() < r.mapped.low || at.Addr() >= r.mapped.high {
		return nil
	}
	return r.named(errFault)
}

// mapped cuts the lines of a piece into blocks, as window does for a file that is read.
//
//	offset  from         from+cut   base        from+len(chunk)
//	file    ──┴──────────────┴─────────┴───────────────┴──►
//	chunk     └ blocks returned before ┘ the next lines ┘
type mapped struct {
	file  storage.Mappable // nil if the current piece is not mapped
	size  int64            // of the file when the job was planned
	chunk []byte           // a part of the file; begins at a page
	from  int64            // offset of chunk
	base  int64            // offset of the next block
	last  int64            // offset of the last block
	end   int64            // offset of the piece's end
	start bool             // the first line that begins in the piece has not been found yet

	low, high uintptr // addresses of the last chunk, also after it was unmapped
}

// blocksPerChunk bounds the memory that a mapping takes. A new mapping costs about as much as
// copying a twentieth of a chunk.
const blocksPerChunk = 16

// next returns the next block of about size bytes, or io.EOF.
func (m *mapped) next(size int) ([]byte, error) {
	for m.base < m.end {
		rest := m.chunk[m.base-m.from:]
		// The chunk reaches the end of the file, so a line without an LF is whole.
		complete := m.from+int64(len(m.chunk)) == m.size
		n, found := 0, false
		switch left := m.end - m.base; {
		case m.start && len(rest) > 0: // as in window.skipLine
			n = bytes.IndexByte(rest, '\n') + 1
			m.start = n == 0 && !complete
			if n == 0 {
				n = len(rest)
			}
			m.base += int64(n)
			continue
		// Nothing is mapped yet.
		case m.start:
		// The piece ends within this block, so the block ends with the line that holds the piece's last
		// byte.
		case left <= int64(min(size, len(rest))):
			n = bytes.IndexByte(rest[left-1:], '\n') + int(left)
			found = n >= int(left)
		default:
			n = bytes.LastIndexByte(rest[:min(size, len(rest))], '\n') + 1
			// A line longer than a block is a block alone.
			if found = n > 0; !found && size < len(rest) {
				n = bytes.IndexByte(rest[size:], '\n') + size + 1
				found = n > size
			}
		}
		if !found && complete && len(rest) > 0 {
			n, found = len(rest), true // no '\n' at the end of the file
		}
		if found {
			m.last = m.base
			m.base += int64(n)
			return rest[:n:n], nil
		}
		if err := m.advance(size); err != nil {
			return nil, err
		}
	}
	return nil, io.EOF
}

// advance maps the part of the file with the next line, and a larger one if the present part begins
// with the line and does not contain its end.
func (m *mapped) advance(size int) error {
	page := int64(os.Getpagesize())
	// mmap wants an offset of whole pages. The bytes before base are mapped again and not returned.
	from := m.base / page * page
	length := (int64(blocksPerChunk*size) + page - 1) / page * page
	// Mapping the same part again would never reach the end of the line.
	if m.chunk != nil && from == m.from {
		length = max(length, 2*int64(len(m.chunk)))
	}
	if err := m.unmap(); err != nil {
		return err
	}
	// Not beyond the planned size: bytes that were appended since belong to no split, and pages behind the
	// end of the file fault.
	chunk, err := m.file.Map(from, int(min(length, m.size-from)))
	if err != nil {
		return err
	}
	m.chunk, m.from = chunk, from
	m.low = uintptr(unsafe.Pointer(unsafe.SliceData(chunk)))
	m.high = m.low + uintptr(len(chunk))
	return nil
}

// unmap ends the mapping of the chunk, and so of the last block.
func (m *mapped) unmap() error {
	if m.chunk == nil {
		return nil
	}
	chunk := m.chunk
	// from = base keeps the slice in next valid: it takes the empty rest of no chunk.
	m.chunk, m.from = nil, m.base
	return m.file.Unmap(chunk)
}

// errFault reports a page that could not be read. The kernel does not say why.
var errFault = fmt.Errorf("it became shorter while it was read, or its disk failed: %w", io.ErrUnexpectedEOF)
