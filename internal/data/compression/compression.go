// Package compression is the table of the codecs whose libraries are large, such as zstd
// and xz. A program enables them when it wants them, through the feature of
// package mapreduce/compression; gzip, bzip2 and lz4 are always there. Bzip2Reader decompresses
// parts of a bzip2 file.
//
// There is one table per process, because a codec has no state and the numbers
// and suffixes by which files name it are fixed. Enabling a codec only ever adds
// to the table. No package enables one by being imported.
package compression

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

// Codec is one way to compress.
type Codec struct {
	Name string
	// NewReader and NewWriter handle files. NewReader is nil for a codec that is used
	// for blocks only, NewWriter for a codec that output files do not have. Neither
	// starts goroutines: a task has one core.
	NewReader func(io.Reader) (io.ReadCloser, error)
	NewWriter func(io.Writer) (io.WriteCloser, error)
	// EncodeBlock appends the compressed form of src to dst. DecodeBlock fills
	// dst, whose length is the exact length of the data, and returns how many
	// bytes it has written. Both are safe for concurrent use.
	EncodeBlock func(dst, src []byte) ([]byte, error)
	DecodeBlock func(dst, src []byte) (int, error)
}

// ErrHeader is the error of the deflate codec's NewReader for bytes that begin no data of zlib's
// format.
var ErrHeader = errors.New("zlib: invalid header")

// ID names a codec in this package's table.
type ID uint8

// The codecs that can be enabled.
const (
	Zstd ID = iota
	S2
	XZ
	Snappy
	Deflate // zlib's format, Hadoop's DefaultCodec
	numIDs
)

var (
	names = [numIDs]string{"zstd", "s2", "xz", "snappy", "deflate"}
	table [numIDs]atomic.Pointer[Codec]
)

// Enable adds codecs to the table, under their names. It may be called any
// number of times, from any goroutine.
func Enable(codecs ...*Codec) {
	for _, c := range codecs {
		// A codec with another name is ignored: the numbers are written into run files, so new ones need a
		// row in the table.
		for id := range table {
			if names[id] == c.Name {
				table[id].Store(c)
			}
		}
	}
}

// Get returns an enabled codec. The error for any other names the option that a
// program lacks.
func Get(id ID) (*Codec, error) {
	if c := table[id].Load(); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("this program has no %s compression: pass compression.Codecs() of package mapreduce/compression to mapreduce.Main or in Options.Features", names[id])
}
