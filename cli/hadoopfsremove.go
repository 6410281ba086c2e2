package cli

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// rm removes files and, with -r, directories. Without -r a file that another process replaces
// by a directory after expand has seen it stays, because RemoveOne removes no content.
func (c *fsCall) rm() error {
	recursive := c.has("-r") || c.has("-R")
	c.each(c.args, func(e entry) error {
		if e.Dir && !recursive {
			return errIsDir
		}
		if err := c.keepsRoot(e.location); err != nil {
			return err
		}
		if e.Dir && c.has("-safely") {
			if ok, err := c.confirm(e); !ok {
				return err
			}
		}
		err := c.remove(e, recursive)
		// Another process may have removed the file after expand has found it.
		if errors.Is(err, fs.ErrNotExist) && c.has("-f") {
			return nil
		}
		if err != nil {
			return err
		}
		// Once for each argument and not for each file below it.
		_, err = terminal.Fprintf(c.out, "Deleted %s\n", e.typed)
		return err
	})
	return nil
}

// remove removes a file, or with recursive a directory with its content.
func (c *fsCall) remove(e entry, recursive bool) error {
	// One call for a whole tree, which HDFS removes by itself.
	if recursive {
		return e.fs.Remove(c.ctx, e.location.path)
	}
	ed, err := e.editor()
	if err != nil {
		return err
	}
	return ed.RemoveOne(c.ctx, e.location.path, e.Dir)
}

// errKeepsRoot refuses to remove or move the directory behind hdfs:///, by whatever path.
var errKeepsRoot = errors.New("is the directory behind hdfs:///, or holds it, and is never removed or moved; name a directory in it")

// keepsRoot returns errKeepsRoot if a local path is the directory behind hdfs:///, or above
// it. A link to that directory is only a link.
func (c *fsCall) keepsRoot(l *location) error {
	if _, local := l.fs.(storage.Local); !local {
		return nil // a storage keeps its own root
	}
	root, err := filepath.EvalSymlinks(c.ns.Root)
	if err != nil {
		return nil // there is no such directory yet
	}
	st, err := os.Lstat(l.path)
	if err != nil || st.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	if dir := resolved(l.path); root == dir || strings.HasPrefix(root, strings.TrimSuffix(dir, "/")+"/") {
		// For a directory above, there may be a reason that the user knows better.
		return cmp.Or(storage.CheckErasable(l.path), errKeepsRoot)
	}
	return nil
}

// The property that says from how many files on -safely asks, and its default.
const (
	safelyLimit        = "hadoop.shell.safely.delete.limit.num.files"
	safelyLimitDefault = 100
)

// confirm asks on standard error whether a directory may be removed, if it has more files than the
// limit. Without an answer the directory stays, which is an error. One reader serves all questions
// of a call, because it may have buffered the answers to the later ones.
func (c *fsCall) confirm(e entry) (bool, error) {
	limit := c.conf.Int(safelyLimit, safelyLimitDefault)
	t, err := c.measure(e)
	// A limit of 0 or less switches the question off.
	if err != nil || limit <= 0 || t.files <= int64(limit) {
		return err == nil, err
	}
	if c.answers == nil {
		c.answers = bufio.NewReader(c.in)
	}
	for {
		terminal.Fprintf(c.err, "Proceed deleting %d files? (Y or N) ", t.files)
		line, err := c.answers.ReadString('\n')
		switch answer := strings.TrimSpace(line); {
		case strings.EqualFold(answer, "y"), strings.EqualFold(answer, "yes"):
			return true, nil
		case strings.EqualFold(answer, "n"), strings.EqualFold(answer, "no"):
			fmt.Fprintln(c.err, "Delete aborted at user request.")
			return false, nil
		// The end of standard input, as in a script without a terminal. The last line may have had an
		// answer, so it is looked at first.
		case err != nil:
			return false, fmt.Errorf("not deleted: it has %d files, and standard input has no answer to -safely", t.files)
		default:
			terminal.Fprintf(c.err, "Invalid input: %s\n", answer)
		}
	}
}

// rmdir removes empty directories. The storage itself refuses a directory with entries:
// between a listing and a removal another process may create a file.
func (c *fsCall) rmdir() error {
	c.each(c.args, func(e entry) error {
		if !e.Dir {
			return errNotDir
		}
		if err := c.keepsRoot(e.location); err != nil {
			return err
		}
		ed, err := e.editor()
		if err != nil {
			return err
		}
		err = ed.RemoveOne(c.ctx, e.location.path, true)
		if errors.Is(err, syscall.ENOTEMPTY) && c.has("--ignore-fail-on-non-empty") {
			return nil
		}
		return err
	})
	return nil
}

// accept accepts a change of permissions, owner or replication. It changes only the mode of local
// files, by a numeric mode, and says so when it changes nothing. Refusing would stop scripts that
// call chmod or setrep after each copy, for which the result is as good without.
func (c *fsCall) accept() error {
	unchanged := ""
	mode, err := strconv.ParseUint(c.args[0], 8, 32)
	// Symbolic modes need the present mode of each file, and chown the numbers of names; neither is
	// done.
	numeric := err == nil && mode <= 0o1777
	c.each(c.args[1:], func(e entry) error {
		if _, local := e.fs.(storage.Local); !local || c.name != "chmod" || !numeric {
			unchanged = e.typed
			return nil
		}
		return chmod(e.location.path, uint32(mode), c.has("-R"))
	})
	if unchanged != "" && !c.failed {
		terminal.Fprintf(c.err, "%s: `%s': nothing was changed: slotwise sets only numeric modes of local files\n", c.name, unchanged)
	}
	return nil
}

// chmod sets the mode of a local file, and with recursive of everything below a directory,
// without following links in it. Content comes first: the new mode of the directory may forbid to
// list it.
func chmod(name string, mode uint32, recursive bool) error {
	perm := fs.FileMode(mode & 0o777)
	if mode&0o1000 != 0 {
		perm |= fs.ModeSticky
	}
	if !recursive {
		return os.Chmod(name, perm)
	}
	top, err := filepath.EvalSymlinks(name) // the user may name a link to the directory
	if err != nil {
		return err
	}
	var paths []string
	err = filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&fs.ModeSymlink == 0 {
			paths = append(paths, p)
		}
		return err
	})
	if err != nil {
		return err
	}
	return chmodListed(paths, perm)
}

// chmodListed sets the mode of files in the reverse of their order. It fails where a link has
// appeared since they were listed: in a directory that others can write, the link of another
// user would give away any file of this user.
func chmodListed(paths []string, perm fs.FileMode) error {
	for _, p := range slices.Backward(paths) {
		if err := durable.Shared().Chmod(p, perm); err != nil {
			return err
		}
	}
	return nil
}
