package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// bench is one run of the benchmark.
type bench struct {
	*settings
	hasDuck func() bool // whether python has the duckdb module
}

func newBench(s *settings) *bench {
	return &bench{s, sync.OnceValue(func() bool {
		return exec.Command(s.python, "-c", "import duckdb").Run() == nil
	})}
}

func (b *bench) binary() string { return filepath.Join(b.data, "bin", "slotwise") }

// prepare builds slotwise from the tree.
func (b *bench) prepare(ctx context.Context) error {
	if abs, err := filepath.Abs(b.data); err == nil {
		b.data = abs // scripts and children agree on it
	}
	if err := os.MkdirAll(filepath.Dir(b.binary()), 0o777); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", b.binary(), "./cmd/slotwise")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// dataset is an input that slotwise generate makes.
type dataset struct {
	kind string
	size int64
	dir  string
}

// dataset returns the data set of a kind and a size at scale 1; 1 MiB ones are
// not scaled.
func (b *bench) dataset(kind string, size int64) dataset {
	if size > mib {
		size = max(int64(float64(size)*b.scale), 64*kib)
	}
	return dataset{kind, size, filepath.Join(b.data, kind+"-"+strconv.FormatInt(size, 10))}
}

func (d dataset) what() string {
	if d.kind == "records" {
		return "100-byte records"
	}
	return d.kind + " lines"
}

// make generates the data set if it is not there, cuts it in two for those who
// need halves, and reads it once, so that it is in the page cache.
func (d dataset) make(ctx context.Context, binary string) error {
	if _, err := os.Stat(d.dir); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(os.Stderr, "making %s\n", d.dir)
		cmd := exec.CommandContext(ctx, binary, "generate", d.kind, "--size", strconv.FormatInt(d.size, 10), "--seed", "1", "--output", d.dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("generate %s: %w\n%s", d.dir, err, out)
		}
		if err := d.cut(); err != nil {
			return err
		}
	}
	for _, f := range d.list() {
		if err := readAll(f); err != nil {
			return err
		}
	}
	return nil
}

func readAll(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, f)
	return err
}

// list returns the files in the order of their names.
func (d dataset) list() []string {
	files, _ := filepath.Glob(filepath.Join(d.dir, "*"))
	slices.Sort(files)
	return files
}

// files is how a shell script names all files, whether they exist yet or not.
func (d dataset) files() string { return d.dir + "/*" }

// halves is how a shell script names each half of the data set: hard links to
// its files or, if it has only one, the parts of a copy cut at a line end.
func (d dataset) halves() [2]string {
	return [2]string{d.dir + ".half1/*", d.dir + ".half2/*"}
}

// cut makes the halves.
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

// firstHalf returns how many of at least two files, from the first on, hold
// about half of all bytes; each half has a file.
func firstHalf(sizes []int64) int {
	var total, sum int64
	for _, n := range sizes {
		total += n
	}
	for i, n := range sizes {
		if 2*sum+n > total { // more than half of this file is beyond the middle
			return min(max(i, 1), len(sizes)-1)
		}
		sum += n
	}
	return len(sizes) - 1
}

// cutFile writes the lines up to the middle of a file into one directory and
// the rest into the other. It does not read the file into memory: the peak that
// the kernel reports of a child is never less than its parent's.
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

func copyTo(name string, r io.Reader) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// missingTool says which of the tools is not installed, "" if none.
func missingTool(tools ...string) string {
	for _, t := range tools {
		if _, err := exec.LookPath(t); err != nil {
			return t + " is not installed"
		}
	}
	return ""
}

// duck makes a contestant that is DuckDB through its Python module, with the
// lines of the input as a table to query.
func (b *bench) duck(in dataset, query string) contestant {
	c := contestant{name: "DuckDB", input: in}
	script := fmt.Sprintf(`import duckdb
c = duckdb.connect()
c.execute("SET threads=2")
c.execute("SET preserve_insertion_order=false")
c.execute(r"""CREATE VIEW lines AS SELECT * FROM read_csv('%s', columns={'line': 'VARCHAR'}, header=false, auto_detect=false, delim='\x00', quote='', escape='')""")
c.execute(r"""%s""")
`, in.files(), strings.ReplaceAll(query, `\t`, "\t"))
	c.argv = []string{b.python, "-c", script}
	if !b.hasDuck() {
		c.missing = "the duckdb module of " + b.python + " is not installed"
	}
	return c
}

// humanSize formats a size.
func humanSize(n int64) string {
	switch {
	case n >= gib:
		return fmt.Sprintf("%.3g GiB", float64(n)/gib)
	case n >= mib:
		return fmt.Sprintf("%.3g MiB", float64(n)/mib)
	}
	return fmt.Sprintf("%.3g KiB", float64(n)/kib)
}
