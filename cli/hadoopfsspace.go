package cli

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// df prints the sizes of file systems, one row for each path.
func (c *fsCall) df() error {
	if len(c.args) == 0 {
		c.args = []string{"/"}
	}
	rows := [][]string{{"Filesystem", "Size", "Used", "Available", "Use%"}}
	c.each(c.args, func(e entry) error {
		// A storage without a limit has the largest number, as S3 has under Hadoop.
		s := storage.Space{Total: math.MaxInt64, Free: math.MaxInt64}
		if sized, ok := e.fs.(storage.Sized); ok {
			var err error
			if s, err = sized.Space(c.ctx, e.location.path); err != nil {
				return err
			}
		}
		// Java's division of 0 by 0, for an HDFS whose DataNodes have not reported yet.
		percent := "NaN"
		if s.Total > 0 {
			percent = strconv.FormatFloat(math.Floor(float64(s.Used)/float64(s.Total)*100+0.5), 'f', 0, 64)
		}
		rows = append(rows, []string{c.fsURI(e.location), c.size(s.Total), c.size(s.Used), c.size(s.Free), percent + "%"})
		return nil
	})
	if len(rows) == 1 {
		return nil
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, text := range row {
			widths[i] = max(widths[i], len(text))
		}
	}
	for _, row := range rows {
		terminal.Fprintf(c.out, "%-*s  %*s  %*s  %*s  %*s\n", widths[0], row[0], widths[1], row[1], widths[2], row[2], widths[3], row[3], widths[4], row[4])
	}
	return nil
}

// fsURI returns the URI of a location's file system, without the path, as Hadoop prints it in df.
func (c *fsCall) fsURI(l *location) string {
	scheme, rest := "", ""
	if uri, err := c.uri(l.typed); err == nil { // locate has accepted it before
		scheme, rest = storage.SplitURI(uri)
	}
	authority, _, _ := strings.Cut(rest, "/")
	switch {
	case scheme != "" && scheme != "file":
		return scheme + "://" + authority
	case l.within != "": // a local directory in place of HDFS
		return "hdfs:///"
	}
	return "file:///"
}

// count prints the numbers of directories and files and their bytes, with -q after the quotas and
// the unused parts of the quotas. The widths are Hadoop's fixed ones: scripts cut the columns out.
func (c *fsCall) count() error {
	const quotas, columns = "%12s %15s %15s %15s ", "%12s %12s %18s %s\n"
	if c.has("-v") {
		if c.has("-q") {
			terminal.Fprintf(c.out, quotas, "QUOTA", "REM_QUOTA", "SPACE_QUOTA", "REM_SPACE_QUOTA")
		}
		terminal.Fprintf(c.out, columns, "DIR_COUNT", "FILE_COUNT", "CONTENT_SIZE", "PATHNAME")
	}
	c.each(c.args, func(e entry) error {
		t, err := c.measure(e)
		if err != nil {
			return err
		}
		if c.has("-q") {
			limits := storage.Quota{Names: -1, Bytes: -1}
			if f, ok := e.fs.(storage.Limited); ok {
				if limits, err = f.Quota(c.ctx, e.location.path); err != nil {
					return err
				}
			}
			// Hadoop's words for no quota.
			names, namesLeft, bytes, bytesLeft := "none", "inf", "none", "inf"
			if limits.Names > 0 {
				names, namesLeft = c.size(limits.Names), c.size(limits.Names-t.dirs-t.files)
			}
			// A quota of 0 bytes exists: it allows only directories and empty files.
			if limits.Bytes >= 0 {
				bytes, bytesLeft = c.size(limits.Bytes), c.size(limits.Bytes-t.disk)
			}
			terminal.Fprintf(c.out, quotas, names, namesLeft, bytes, bytesLeft)
		}
		_, err = terminal.Fprintf(c.out, columns, c.size(t.dirs), c.size(t.files), c.size(t.bytes), e.typed)
		return err
	})
	return nil
}

// checksum prints the checksums that the storage keeps, and NONE where it keeps none.
func (c *fsCall) checksum() error {
	c.each(c.args, func(e entry) error {
		if e.Dir {
			return errIsDir
		}
		// Hadoop's word for files of storages without checksums.
		algorithm, sum := "NONE", ""
		if f, ok := e.fs.(storage.Summed); ok {
			name, bytes, err := f.Checksum(c.ctx, e.location.path)
			if err != nil {
				return err
			}
			algorithm, sum = name, "\t"+hex.EncodeToString(bytes)
		}
		if c.has("-v") {
			sum += "\tBlockSize=" + strconv.FormatInt(blockSizeOf(e), 10)
		}
		// The tabs in sum are no part of a name, which would be escaped.
		if _, err := terminal.Fprintf(c.out, "%s\t%s", e.typed, algorithm); err != nil {
			return err
		}
		_, err := io.WriteString(c.out, sum+"\n")
		return err
	})
	return nil
}

// blockSizeOf returns the size of a file's blocks, in bytes. Without an HDFS it is Hadoop's default: HDFS's
// for the directory behind hdfs:///, else the one for local files and S3.
func blockSizeOf(e entry) int64 {
	switch {
	case e.Status != nil:
		return e.Status.BlockSize
	case strings.HasPrefix(e.location.prefix, "hdfs:"):
		return 128 << 20
	}
	return 32 << 20
}

// errAlone is Hadoop's message for standard input among other sources.
var errAlone = errors.New("stdin (-) must be the sole input argument when present")

// appendToFile appends local files, or standard input, to a file, which it creates first if it is
// missing.
func (c *fsCall) appendToFile() error {
	sources, typed := c.args[:len(c.args)-1], c.args[len(c.args)-1]
	if slices.Contains(sources, "-") && len(sources) > 1 {
		terminal.Fprintf(c.err, "%s: %v\n", c.name, errAlone)
		return exit(hadoopFailed)
	}
	// All sources are opened before the destination, so that a wrong name appends nothing.
	readers := make([]io.Reader, len(sources))
	for i, s := range sources {
		if s == "-" {
			readers[i] = c.input()
			continue
		}
		f, err := os.Open(localPath(s)) //nolint:forbidigo // a file that the user names, read once
		if err == nil {
			defer f.Close()
			readers[i] = f
			switch info, serr := f.Stat(); {
			case serr != nil:
				err = serr
			case info.IsDir():
				err = errIsDir
			case info.Mode().IsRegular():
				// The destination may be the same file, whose end would move away for ever.
				readers[i] = io.LimitReader(f, info.Size())
			}
		}
		if err != nil {
			c.fail(s, err)
			return nil
		}
	}
	if err := c.appendAll(typed, io.MultiReader(readers...)); err != nil {
		c.fail(typed, err)
	}
	return nil
}

// appendAll appends everything from r to a file.
func (c *fsCall) appendAll(typed string, r io.Reader) error {
	to, err := c.locate(typed)
	if err != nil {
		return err
	}
	f, ok := to.fs.(storage.Appender)
	if !ok {
		return fmt.Errorf("this storage cannot lengthen files; write the content to a file of its own")
	}
	exists, dir, err := c.exists(to)
	switch {
	case err != nil:
		return err
	case dir:
		return errIsDir
	// Hadoop makes the directories above a new file here, unlike for put.
	case !exists:
		if err := c.makeDir(to.at(path.Dir(to.path)), true); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		// An empty file first, because an append needs a file; it stays if the append fails.
		if err := c.write(to, strings.NewReader(""), false); err != nil {
			return err
		}
	}
	w, err := f.Append(c.ctx, to.path)
	if err != nil {
		return err
	}
	err = c.copyBytes(w, r)
	// After an error Close completes the bytes that were written before it.
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return err
}
