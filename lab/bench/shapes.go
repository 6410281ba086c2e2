package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/slotwise/slotwise/lab/harness"
)

// shape writes one record of an input that slotwise generate does not make. i is the number
// of the record, left the number of bytes that the input still lacks. Only long records use left.
type shape func(w *bufio.Writer, i uint64, left int64)

// shapes are the inputs by their kind.
var shapes = map[string]shape{
	"distinct":   distinctWord,
	"one-word":   oneWord,
	"long-words": longWord,
	"equal":      func(w *bufio.Writer, _ uint64, _ int64) { w.WriteString(equalLine) },
	"prefix":     prefixed,
}

// shapeWords describe the shapes in a row's title.
var shapeWords = map[string]string{
	"one-word":   "text with one word in each second place",
	"long-words": "lines that are one word of up to 100 MB each",
	"equal":      "equal lines",
	"prefix":     "lines with the same first 100 bytes",
}

// distinctLen is the size in bytes of a distinct word with the space behind it.
const distinctLen = 16

// distinctWord writes the i-th of a sequence of words that all differ. Eight are on a line.
func distinctWord(w *bufio.Writer, i uint64, _ int64) {
	word := letters(mix(i), 13)
	word = append(word, alphabet[i%32], alphabet[i/32%32])
	if i%8 == 7 {
		word = append(word, '\n')
	} else {
		word = append(word, ' ')
	}
	w.Write(word)
}

// oneWord writes the same word, and then one of 100,000 words.
func oneWord(w *bufio.Writer, i uint64, _ int64) {
	w.WriteString("always ")
	w.Write(letters(mix(mix(i)%100_000), 6))
	w.WriteByte('\n')
}

// longWord writes a line without a space. The last line only completes the input. A whole word
// would make a scaled input many times as large as the ordinary one that it is compared with.
func longWord(w *bufio.Writer, i uint64, left int64) {
	for j := range uint64(min(100_000_000, left)+9) / 10 {
		w.Write(letters(mix(i<<32+j), 10))
	}
	w.WriteByte('\n')
}

var equalLine = strings.Repeat("equal ", 16) + "end\n"

var commonPrefix = strings.Repeat("prefix/", 14) + "//"

func prefixed(w *bufio.Writer, i uint64, _ int64) {
	w.WriteString(commonPrefix)
	w.Write(letters(mix(i), 13))
	w.WriteByte('\n')
}

const alphabet = "abcdefghijklmnopqrstuvwxyz012345"

// letters returns n letters, at most 13, from five bits of x each.
func letters(x uint64, n int) []byte {
	b := make([]byte, n, distinctLen)
	for i := range b {
		b[i] = alphabet[x%32]
		x /= 32
	}
	return b
}

// mix maps numbers one to one to numbers that look random (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x *= 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// generateShape is harness.Generate for the kinds in shapes. It ends with the record that
// completes size bytes.
func generateShape(ctx context.Context, _, kind string, size int64, dir string) (created bool, err error) {
	if _, err := os.Stat(dir); err == nil {
		return false, nil
	}
	fmt.Fprintf(os.Stderr, "generating %s\n", dir)
	partial := dir + ".partial"
	if err := errors.Join(os.RemoveAll(partial), os.MkdirAll(partial, 0o777)); err != nil {
		return false, err
	}
	f, err := os.Create(filepath.Join(partial, "part-0"))
	if err != nil {
		return false, err
	}
	left := &countdown{f: f, left: size}
	w := bufio.NewWriterSize(left, harness.MiB)
	for i := uint64(0); left.left > int64(w.Buffered()) && left.err == nil && ctx.Err() == nil; i++ {
		shapes[kind](w, i, left.left-int64(w.Buffered()))
	}
	if err := errors.Join(w.Flush(), f.Close(), ctx.Err()); err != nil {
		return false, err
	}
	return true, os.Rename(partial, dir)
}

// countdown counts the bytes that remain to be written.
type countdown struct {
	f    *os.File
	left int64
	err  error
}

func (c *countdown) Write(p []byte) (n int, err error) {
	n, c.err = c.f.Write(p)
	c.left -= int64(n)
	return n, c.err
}
