package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/slotwise/slotwise/lab/harness"
)

// bench is one run of the benchmark.
type bench struct {
	*settings
	hasDuck func() bool // reports whether the Python interpreter has the duckdb module; asks it once
}

// newBench returns a benchmark that has not started anything yet.
func newBench(s *settings) *bench {
	return &bench{s, sync.OnceValue(func() bool {
		return exec.Command(s.python, "-c", "import duckdb").Run() == nil
	})}
}

// binary is the path of the slotwise command that is measured.
func (b *bench) binary() string { return filepath.Join(b.data, "bin", "slotwise") }

// yardstick is the path of the command in lab/limit.
func (b *bench) yardstick() string { return filepath.Join(b.data, "bin", "limit") }

// prepare makes the data directory absolute, because shell scripts and child
// processes use it too, and builds slotwise and the yardstick.
func (b *bench) prepare(ctx context.Context) error {
	abs, err := filepath.Abs(b.data)
	if err != nil {
		return err
	}
	b.data = abs
	if err := harness.Build(ctx, b.binary()); err != nil {
		return err
	}
	return harness.BuildPackage(ctx, "lab/limit", b.yardstick())
}

// dataset is an input made by "slotwise generate", or by one of shapes.
type dataset struct {
	kind string // of the generator, text or records, or a name in shapes
	size int64  // bytes
	dir  string
}

// dataset returns a data set of a kind. Its size is given at scale 1 and is
// multiplied by the -scale flag, unless it is 1 MiB or less.
func (b *bench) dataset(kind string, size int64) dataset {
	if size > harness.MiB {
		size = max(int64(float64(size)*b.scale), 64*harness.KiB)
	}
	return dataset{kind, size, filepath.Join(b.data, kind+"-"+strconv.FormatInt(size, 10))}
}

// what describes the data in words.
func (d dataset) what() string {
	if d.kind == "records" {
		return "100-byte records"
	}
	return d.kind + " lines"
}

// make generates the data set if its directory does not exist, cuts it into the
// halves that some contestants read, and reads it once to bring it into the page
// cache.
func (d dataset) make(ctx context.Context, binary string) error {
	generate := harness.Generate
	if shapes[d.kind] != nil {
		generate = generateShape
	}
	created, err := generate(ctx, binary, d.kind, d.size, d.dir)
	if err == nil && created {
		err = d.cut()
	}
	if err != nil {
		return err
	}
	for _, f := range d.list() {
		if err := readAll(f); err != nil {
			return err
		}
	}
	return nil
}

// readAll reads a file to its end and discards the bytes.
func readAll(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, f)
	return err
}

// list returns the data set's files, sorted by name.
func (d dataset) list() []string {
	files, _ := filepath.Glob(filepath.Join(d.dir, "*"))
	slices.Sort(files)
	return files
}

// files returns the shell pattern that matches all files of the data set.
func (d dataset) files() string { return d.dir + "/*" }

// halves returns one shell pattern for each half of the data set. The halves are
// hard links to its files. If there is only one file, they are copies of its two
// parts, cut at the end of a line.
func (d dataset) halves() [2]string {
	return [2]string{d.dir + ".half1/*", d.dir + ".half2/*"}
}

// cut writes the two halves into directories beside the data set.
func (d dataset) cut() error {
	var dirs [2]string
	for i := range dirs {
		dirs[i] = fmt.Sprintf("%s.half%d", d.dir, i+1)
		if err := errors.Join(os.RemoveAll(dirs[i]), os.MkdirAll(dirs[i], 0o777)); err != nil {
			return err
		}
	}
	files := d.list()
	if len(files) == 1 {
		return cutFile(files[0], dirs)
	}
	var sizes []int64
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return err
		}
		sizes = append(sizes, info.Size())
	}
	first := firstHalf(sizes)
	for i, f := range files {
		half := dirs[0]
		if i >= first {
			half = dirs[1]
		}
		if err := os.Link(f, filepath.Join(half, filepath.Base(f))); err != nil {
			return err
		}
	}
	return nil
}

// firstHalf returns how many of the first files hold about half of all bytes. It
// needs the sizes of at least two files and gives each half at least one.
func firstHalf(sizes []int64) int {
	var total, sum int64
	for _, n := range sizes {
		total += n
	}
	for i, n := range sizes {
		if 2*sum+n > total { // most of this file lies behind the middle
			return min(max(i, 1), len(sizes)-1)
		}
		sum += n
	}
	return len(sizes) - 1
}

// cutFile writes the lines up to the middle of a file into one directory and the
// rest into the other. It streams the file: the peak memory that the kernel
// reports for a child process is never below its parent's at the fork, so memory
// that this process takes would show up in the measurements.
func cutFile(name string, dirs [2]string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	middle := info.Size() / 2
	line, err := bufio.NewReader(io.NewSectionReader(f, middle, info.Size()-middle)).ReadBytes('\n')
	if err != nil && err != io.EOF {
		return err
	}
	middle += int64(len(line))
	return errors.Join(
		copyTo(filepath.Join(dirs[0], "part"), io.NewSectionReader(f, 0, middle)),
		copyTo(filepath.Join(dirs[1], "part"), io.NewSectionReader(f, middle, info.Size()-middle)))
}

// copyTo writes what r holds to a new file.
func copyTo(name string, r io.Reader) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// missingTool returns a text that names the first tool that is not installed, or
// "" if all are.
func missingTool(tools ...string) string {
	for _, t := range tools {
		if _, err := exec.LookPath(t); err != nil {
			return t + " is not installed"
		}
	}
	return ""
}

// limit returns a contestant that runs a program of lab/limit.
func (b *bench) limit(program string, in dataset, flags ...string) contestant {
	script := strings.Join(append([]string{b.yardstick(), program, "-threads", strconv.Itoa(b.workers)}, flags...), " ")
	return contestant{name: yardstick, input: in, shell: script + " {out} " + in.files()}
}

// yardstick is the name of limit's contestants.
const yardstick = "yardstick"

// duck returns a contestant that runs a query in DuckDB through its Python
// module. The query sees the input as a table "lines" with one column, "line". The
// settings are SQL statements.
func (b *bench) duck(in dataset, query string, settings ...string) contestant {
	c := contestant{name: "DuckDB", input: in}
	set := ""
	for _, s := range append([]string{"SET threads=2", "SET preserve_insertion_order=false"}, settings...) {
		set += "c.execute(\"" + s + "\")\n"
	}
	script := fmt.Sprintf(`import duckdb
c = duckdb.connect()
%sc.execute(r"""CREATE VIEW lines AS SELECT * FROM read_csv('%s', columns={'line': 'VARCHAR'}, header=false, auto_detect=false, delim='\x00', quote='', escape='')""")
c.execute(r"""%s""")
`, set, in.files(), strings.ReplaceAll(query, `\t`, "\t"))
	c.argv = []string{b.python, "-c", script}
	if !b.hasDuck() {
		c.missing = "the duckdb module of " + b.python + " is not installed"
	}
	return c
}
