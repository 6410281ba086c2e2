package codecs

import (
	"bufio"
	"fmt"
	"io"

	"github.com/ulikunitz/xz"
	"github.com/ulikunitz/xz/lzma"
)

// maxDictionary is the most memory in bytes that a file's dictionary may take. "xz -9"
// makes dictionaries of 64 MiB.
const maxDictionary = 128 << 20

func newXZReader(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReader(r)
	if err := checkDictionary(b); err != nil {
		return nil, err
	}
	// The least capacity: the library takes the larger one of this and the file's.
	x, err := xz.ReaderConfig{DictCap: lzma.MinDictCap}.NewReader(b)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(x), nil
}

// The positions of fields in a file whose first block has the usual header: one filter,
// LZMA2, and no sizes.
const (
	headerLen  = 12 // of the stream
	flagsAt    = headerLen + 1
	sizesFlags = 0xc0 // compressed and uncompressed size are present
	filterID   = 0x21 // LZMA2
)

// checkDictionary returns an error if the first block needs a dictionary that is too
// large. The other blocks of a file usually have the same dictionary.
func checkDictionary(b *bufio.Reader) error {
	head, err := b.Peek(headerLen + 64)
	if err != nil && err != io.EOF {
		return err
	}
	at := flagsAt
	if len(head) <= at {
		return nil // xz.NewReader reports the early end
	}
	flags := head[at]
	at++
	for mask := byte(0x40); mask != 0; mask <<= 1 { // skip the sizes that are present
		if flags&mask == 0 {
			continue
		}
		// A size is a variable-length integer, whose last byte has no continuation bit.
		for at < len(head) && head[at]&0x80 != 0 {
			at++
		}
		at++
	}
	if flags&^sizesFlags != 0 || at+2 >= len(head) || head[at] != filterID {
		return nil // another header, which the library judges
	}
	if n, err := lzma.DecodeDictCap(head[at+2]); err == nil && n > maxDictionary {
		return fmt.Errorf("its dictionary of %d MiB is larger than %d MiB", n>>20, maxDictionary>>20)
	}
	return nil
}
