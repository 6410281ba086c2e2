// Command limit is the yardstick of the benchmark: it does the work of a job as directly as
// a program of a hundred lines can, with all of the input in memory, no framework, and as
// many threads as asked for. What slotwise takes beyond it is the cost of its generality.
//
//	limit wordcount -threads 2 -keys 300000 OUTPUT INPUT [INPUT]
//	limit sort -threads 2 OUTPUT INPUT [INPUT]
//	limit grep -threads 2 OUTPUT INPUT [INPUT]
//
// OUTPUT is one file. wordcount writes WORD TAB COUNT in any order; -keys is the number of
// distinct words, for a table of the right size from the start. sort sorts lines by their
// bytes. grep finds the lines with z, a vowel, z, a vowel, and m or z: the pattern of the
// benchmark, written as a program.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
)

// program does the work: it maps the parts of the input, one for each thread, to the pieces
// of the output, which follow each other in the file.
type program func(parts [][]byte, keys int) (pieces []piece)

// piece is a part of the output: its size in bytes, and a function that passes it to put,
// in buffers that put does not keep.
type piece struct {
	size int
	emit func(put func([]byte))
}

// whole returns a piece that is in memory.
func whole(b []byte) piece { return piece{len(b), func(put func([]byte)) { put(b) }} }

var programs = map[string]program{"wordcount": wordCount, "sort": sortLines, "grep": grep}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "limit:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 || programs[args[0]] == nil {
		return errors.New("the first argument must be wordcount, sort or grep")
	}
	fs := flag.NewFlagSet(args[0], flag.ContinueOnError)
	threads := fs.Int("threads", 2, "number of threads")
	keys := fs.Int("keys", 1<<18, "number of distinct words")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	if fs.NArg() < 2 || *threads < 1 || *threads > 64 || *keys < 1 {
		return errors.New("usage: limit PROGRAM [-threads N] [-keys N] OUTPUT INPUT [INPUT]")
	}
	runtime.GOMAXPROCS(*threads)
	// All memory is in use until the end, so a collector would find nothing.
	debug.SetGCPercent(-1)
	var files [][]byte
	total := 0
	for _, name := range fs.Args()[1:] {
		b, err := mapFile(name)
		if err != nil {
			return err
		}
		files = append(files, b)
		total += len(b)
	}
	return write(fs.Arg(0), programs[args[0]](split(files, *threads, total), *keys))
}

// mapFile maps a file into memory. The mapping lasts as long as the process.
func mapFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return nil, err
	}
	return syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED|populate)
}

// split cuts the files at line ends into parts of about equal size: at least one for each
// thread, and one more for each file that begins within a part.
func split(files [][]byte, threads, total int) (parts [][]byte) {
	share := total/threads + 1
	for _, f := range files {
		for len(f) > 0 {
			n := min(share, len(f))
			for n < len(f) && f[n-1] != '\n' {
				n++
			}
			parts, f = append(parts, f[:n]), f[n:]
		}
	}
	return parts
}

// each calls f for all parts at once.
func each(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// write writes the pieces to a file, each in its own thread.
func write(name string, pieces []piece) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	at := make([]int64, len(pieces)+1)
	for i, p := range pieces {
		at[i+1] = at[i] + int64(p.size)
	}
	errs := make([]error, len(pieces))
	each(len(pieces), func(i int) {
		off := at[i]
		pieces[i].emit(func(b []byte) {
			if errs[i] == nil {
				_, errs[i] = f.WriteAt(b, off)
			}
			off += int64(len(b))
		})
	})
	return errors.Join(append(errs, f.Close())...)
}
