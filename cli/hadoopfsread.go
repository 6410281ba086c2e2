package cli

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"math/bits"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/data/input"
	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/live/feature"
)

// cat prints files. text decompresses them.
func (c *fsCall) cat() error {
	c.each(c.args, c.print)
	return nil
}

// print copies a file to standard output, unescaped, for pipes. -text decides by the first bytes,
// then by the name, like Hadoop.
func (c *fsCall) print(e entry) error {
	if e.Dir {
		return errIsDir
	}
	if c.name == "text" {
		storages() // enables codecs and formats
		return input.Decoded(c.ctx, e.fs, e.location.path, raw(c.out))
	}
	return c.copyOut(e, raw(c.out))
}

// endBytes is the number of bytes of a file that head and tail print, as in Hadoop.
const endBytes = 1024

// end prints the first or the last bytes of a file.
func (c *fsCall) end() error {
	c.each(c.args, func(e entry) error {
		if e.Dir {
			return errIsDir
		}
		f, err := e.fs.Open(c.ctx, e.location.path)
		if err != nil {
			return err
		}
		defer f.Close()
		// A shorter file is printed whole by both.
		from, size := int64(0), min(f.Size(), endBytes)
		if c.name == "tail" {
			from = f.Size() - size
		}
		_, err = io.Copy(raw(c.out), io.NewSectionReader(f, from, size))
		return err
	})
	return nil
}

// copyOut copies a file to w.
func (c *fsCall) copyOut(e entry, w io.Writer) error {
	f, err := e.fs.Open(c.ctx, e.location.path)
	if err != nil {
		return err
	}
	defer f.Close()
	return c.copyBytes(w, io.NewSectionReader(f, 0, f.Size()))
}

// getmerge writes the files of directories into one local file. The file is not touched if a source
// cannot be listed or read. Errors of single paths are printed by each, so that it returns nil.
func (c *fsCall) getmerge() error {
	sources, to := c.args[:len(c.args)-1], localPath(c.args[len(c.args)-1])
	var files []entry
	c.each(sources, func(e entry) error {
		if !e.Dir {
			files = append(files, e)
			return nil
		}
		// Hidden names and _SUCCESS are merged, too, as by Hadoop.
		list, err := c.list(e.location)
		files = append(files, list...)
		return err
	})
	// An incomplete list would give a file that looks whole.
	if c.failed {
		return nil
	}
	w, err := c.mergeTo(to)
	if err != nil {
		c.fail(to, err)
		return nil
	}
	defer w.Discard()
	buffer := bufio.NewWriter(w)
	for _, x := range files {
		// Hadoop merges the files of a directory and does not descend.
		if x.Dir || c.has("-skip-empty-file") && x.Size == 0 {
			continue
		}
		if err := c.copyOut(x, buffer); err != nil {
			c.fail(x.typed, err)
			return nil
		}
		if c.has("-nl") {
			buffer.WriteByte('\n')
		}
	}
	err = buffer.Flush()
	if err == nil { // not as a second argument of cmp.Or, which would put a cut file in place
		err = w.Commit()
	}
	if err != nil {
		c.fail(to, err)
	}
	return nil
}

// mergeTo begins the file of getmerge. A file appears whole at the end, because it may be
// one of the sources. A device or a pipe, such as /dev/stdout, is written directly.
func (c *fsCall) mergeTo(to string) (storage.Writer, error) {
	info, err := os.Stat(to)
	switch {
	case err == nil && info.IsDir():
		return nil, errIsDir
	case err != nil || info.Mode().IsRegular():
		return storage.Local{}.CreateFile(c.ctx, to, true)
	}
	f, err := os.OpenFile(to, os.O_WRONLY, 0)
	return device{f}, err
}

// device implements storage.Writer for a device or a pipe, which nothing can replace.
type device struct{ *os.File }

// Commit implements storage.Writer.
func (d device) Commit() error { return d.Close() }

// Discard implements storage.Writer. Bytes that were written cannot be taken back.
func (d device) Discard() error {
	if err := d.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// lsColumns are the widths of one ls: columns grow to the longest value so far. A directory's entries
// are all measured before its first line.
type lsColumns struct{ replication, owner, group, size int }

// lsRow has the columns of an entry before they are aligned.
type lsRow struct{ mode, replication, owner, group, size string }

// ls lists files.
func (c *fsCall) ls() error {
	if len(c.args) == 0 {
		c.args = []string{"."}
	}
	// A listing of many lines is one write for each 4 KiB and not one for each line.
	w := bufio.NewWriter(c.out)
	defer w.Flush()
	cols := &lsColumns{3, 0, 0, 10}
	c.each(c.args, func(e entry) error {
		if !e.Dir || c.has("-d") {
			return c.lsLine(w, e, c.lsRow(e, cols), cols)
		}
		return c.lsDir(w, e, cols)
	})
	return nil
}

// lsDir lists a directory. An empty one prints nothing. mrjob skips lines that begin with Found,
// and asks with -R, where Hadoop has no such line.
func (c *fsCall) lsDir(w io.Writer, dir entry, cols *lsColumns) error {
	return c.inside(dir.location, dir.Link, func(entries []entry) error {
		c.sortEntries(entries)
		if len(entries) > 0 && !c.has("-R") && !c.has("-C") {
			terminal.Fprintf(w, "Found %d items\n", len(entries))
		}
		rows := make([]lsRow, len(entries))
		for i, e := range entries {
			rows[i] = c.lsRow(e, cols)
		}
		for i, e := range entries {
			if err := c.lsLine(w, e, rows[i], cols); err != nil {
				return err
			}
			if e.Dir && c.has("-R") {
				if err := c.lsDir(w, e, cols); err != nil {
					// A directory that may not be read does not end the listing of the others.
					c.fail(e.typed, err)
				}
			}
		}
		return nil
	})
}

// sortEntries applies -t, -S and -r.
func (c *fsCall) sortEntries(entries []entry) {
	slices.SortStableFunc(entries, func(a, b entry) int {
		order := cmp.Compare(a.Path, b.Path)
		switch {
		case c.has("-t"):
			order = b.ModTime.Compare(a.ModTime)
		case c.has("-S"):
			order = cmp.Compare(b.Size, a.Size)
		}
		// Reverses whatever order was chosen; equal entries keep the order of the storage.
		if c.has("-r") {
			order = -order
		}
		return order
	})
}

// lsRow returns the columns of an entry, and widens cols for them.
func (c *fsCall) lsRow(e entry, cols *lsColumns) lsRow {
	if c.has("-C") {
		return lsRow{} // only paths are printed, and the owner of a local file takes another call
	}
	r := lsRow{replication: strconv.Itoa(replicationOf(e)), size: c.size(e.Size)}
	kind := "-"
	if e.Dir {
		kind, r.replication = "d", "-"
	}
	r.mode, r.owner, r.group = fileOwner(e)
	r.mode = kind + r.mode
	cols.owner, cols.group, cols.size = max(cols.owner, len(r.owner)), max(cols.group, len(r.group)), max(cols.size, len(r.size))
	return r
}

// lsLine prints the line of one entry.
func (c *fsCall) lsLine(w io.Writer, e entry, r lsRow, cols *lsColumns) error {
	// For terminals: a name may have control characters. terminal.Fprintf escapes them in any case.
	if c.has("-q") {
		l := *e.location
		l.typed = strings.Map(func(r rune) rune {
			if unicode.IsPrint(r) {
				return r
			}
			return '?'
		}, l.typed)
		e.location = &l
	}
	if c.has("-C") {
		_, err := terminal.Fprintf(w, "%s\n", e.typed)
		return err
	}
	_, err := terminal.Fprintf(w, "%s%*s %-*s %-*s %*s %s %s\n", r.mode, cols.replication, r.replication, cols.owner, r.owner,
		cols.group, r.group, cols.size, r.size, e.ModTime.Local().Format("2006-01-02 15:04"), e.typed)
	return err
}

// replicationOf returns how many copies of a file's blocks the storage keeps: 1 for storages that
// do not say, since columns and sums need a number.
func replicationOf(e entry) int {
	if e.Status != nil {
		return e.Status.Replication
	}
	return 1
}

// size formats a size, with a unit if -h is given.
func (c *fsCall) size(n int64) string {
	if !c.has("-h") {
		return strconv.FormatInt(n, 10)
	}
	if n < 0 { // the rest of a quota that is exceeded
		return "-" + c.size(-n)
	}
	// As in Hadoop, whole multiples of a unit have no decimals: 20 M, but 20.5 M.
	i := min(max(0, bits.Len64(uint64(n))-1)/10, len(sizeUnits)-1) //nolint:gosec // not negative
	if unit := int64(1) << (10 * i); n%unit == 0 {
		return strconv.FormatInt(n/unit, 10) + sizeUnits[i]
	}
	text := strconv.FormatFloat(float64(n)/float64(int64(1)<<(10*i)), 'f', 1, 64)
	if strings.HasPrefix(text, "1024") && i < len(sizeUnits)-1 { // 1023.99 K is 1.0 M
		i++
		text = "1.0"
	}
	return text + sizeUnits[i]
}

// sizeUnits are the units of sizes, each 1024 times the one before.
var sizeUnits = []string{"", " K", " M", " G", " T", " P", " E"}

// modeOf returns nine letters of permissions for a storage that keeps none: the usual ones of a new
// file or directory.
func modeOf(dir bool) string {
	if dir {
		return "rwxr-xr-x"
	}
	return "rw-r--r--"
}

// defaultOwner is the owner of files whose storage has none.
func defaultOwner() string { return feature.LoginName() }

// tree is the size of a file or of a directory with its content. disk counts each copy of a
// byte.
type tree struct{ dirs, files, bytes, disk int64 }

// measure adds up a tree. It lists every directory, which on an object store is a call for each
// thousand names; HDFS's own summary is not used, so that all storages count alike.
func (c *fsCall) measure(e entry) (t tree, err error) {
	if !e.Dir {
		size := max(0, e.Size)
		return tree{files: 1, bytes: size, disk: size * int64(replicationOf(e))}, nil
	}
	t.dirs = 1
	err = c.inside(e.location, e.Link, func(entries []entry) error {
		for _, x := range entries {
			sub, err := c.measure(x)
			if err != nil {
				return err
			}
			t.dirs, t.files = t.dirs+sub.dirs, t.files+sub.files
			t.bytes, t.disk = t.bytes+sub.bytes, t.disk+sub.disk
		}
		return nil
	})
	return t, err
}

// du prints sizes, and the space that the files take on the disks. All lines come at the end,
// because the widths of the columns are known only then.
func (c *fsCall) du() error {
	if len(c.args) == 0 {
		c.args = []string{"."}
	}
	var lines [][3]string
	var width [2]int
	// The titles count for the width of the columns.
	if c.has("-v") {
		lines = append(lines, [3]string{"SIZE", "DISK_SPACE_CONSUMED_WITH_ALL_REPLICAS", "FULL_PATH_NAME"})
		width = [2]int{len(lines[0][0]), len(lines[0][1])}
	}
	add := func(e entry) error {
		t, err := c.measure(e)
		if err == nil {
			line := [3]string{c.size(t.bytes), c.size(t.disk), e.typed}
			width = [2]int{max(width[0], len(line[0])), max(width[1], len(line[1]))}
			lines = append(lines, line)
		}
		return err
	}
	c.each(c.args, func(e entry) error {
		if !e.Dir || c.has("-s") {
			return add(e)
		}
		// Without -s a directory shows its entries, not itself.
		entries, err := c.list(e.location)
		for _, x := range entries {
			err = cmp.Or(err, add(x))
		}
		return err
	})
	for _, l := range lines {
		terminal.Fprintf(c.out, "%-*s  %-*s  %s\n", width[0], l[0], width[1], l[1], l[2])
	}
	return nil
}

// stat prints what a format says. The default is the time of the last change.
func (c *fsCall) stat() error {
	format := "%y"
	// As in Hadoop: a file with a percent sign in its name needs a format before it.
	if strings.Contains(c.args[0], "%") {
		format, c.args = c.args[0], c.args[1:]
	}
	c.each(c.args, func(e entry) error {
		_, err := terminal.Fprintf(c.out, "%s\n", statText(format, e))
		return err
	})
	return nil
}

// statText fills in a format of stat. The time of %y is in UTC, unlike the one of ls.
func statText(format string, e entry) string {
	kind := "regular file"
	if e.Dir {
		kind = "directory"
	}
	_, owner, group := fileOwner(e)
	r := strings.NewReplacer("%%", "%", "%b", strconv.FormatInt(max(0, e.Size), 10), "%F", kind, "%g", group, "%u", owner,
		"%n", path.Base(e.location.path), "%o", strconv.FormatInt(blockSizeOf(e), 10), "%r", strconv.Itoa(replicationOf(e)),
		"%y", e.ModTime.UTC().Format(time.DateTime), "%Y", strconv.FormatInt(e.ModTime.UnixMilli(), 10))
	return r.Replace(format)
}

// The words of an expression of find, without and with a value.
var (
	findFlags  = []string{"-print", "-print0", "-a", "-and"}
	findValues = []string{"-name", "-iname"}
)

// find prints the paths below its arguments whose base names match, parents first. The expression
// stands behind the paths; all of its words must hold. So the words are parsed here and not by
// parse, which has found none before the first path.
func (c *fsCall) find() error {
	var paths []string
	for len(c.args) > 0 && !strings.HasPrefix(c.args[0], "-") {
		paths, c.args = append(paths, c.args[0]), c.args[1:]
	}
	text := c.parse(&fsCommand{flags: findFlags, values: findValues}, c.args)
	if text == "" && len(c.args) > 0 {
		text = "Unexpected argument: " + c.args[0]
	}
	for _, flag := range findValues {
		if _, err := path.Match(c.flags[flag], ""); err != nil && text == "" {
			text = flag + " " + c.flags[flag] + ": " + err.Error()
		}
	}
	if text != "" {
		return c.misused(text)
	}
	if len(paths) == 0 {
		paths = []string{"."}
	}
	out := c.out
	if c.has("-print0") {
		out = raw(out) // unescaped names, for another program
	}
	w := bufio.NewWriter(out)
	defer w.Flush()
	c.each(paths, func(e entry) error { return c.findBelow(w, e) })
	return nil
}

// findBelow prints the matching paths of an entry and of everything below it.
func (c *fsCall) findBelow(w io.Writer, e entry) error {
	if c.findMatches(path.Base(e.location.path)) {
		var err error
		if c.has("-print0") {
			_, err = io.WriteString(w, e.typed+"\x00")
		} else {
			_, err = terminal.Fprintf(w, "%s\n", e.typed)
		}
		if err != nil {
			return err
		}
	}
	if !e.Dir {
		return nil
	}
	return c.inside(e.location, e.Link, func(entries []entry) error {
		for _, child := range entries {
			if err := c.findBelow(w, child); err != nil {
				c.fail(child.typed, err)
			}
		}
		return nil
	})
}

// findMatches reports whether a base name matches -name and -iname.
func (c *fsCall) findMatches(name string) bool {
	if glob, ok := c.flags["-name"]; ok {
		// find has checked the pattern, so there is no error.
		if match, _ := path.Match(glob, name); !match {
			return false
		}
	}
	if glob, ok := c.flags["-iname"]; ok {
		if match, _ := path.Match(strings.ToLower(glob), strings.ToLower(name)); !match {
			return false
		}
	}
	return true
}
