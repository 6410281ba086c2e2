package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/slotwise/slotwise/internal/base/durable"
	"github.com/slotwise/slotwise/internal/data/storage"
)

// writeFile writes a file that the user has named, so that readers see the old content whole or
// the new content whole. Without replace it fails with fs.ErrExist if the file exists by
// then. The temporary file has a name that no other file has: durable.WriteFile would remove
// the user's own file PATH.new.
//
// All commands write files that users name in one of three ways:
//
//   - A result, such as run --merge, profile --output or --learned, by writeFile: it appears whole.
//   - A directory of results, such as sim --out, beside its final path, and renamed when all is written.
//   - A log of what happens, such as run --events, in place, because its reader may be a person who
//     waits for lines, and its last lines matter most after a crash.
func writeFile(path string, perm fs.FileMode, replace bool, fill func(io.Writer) error) error {
	// Again, although checkResult has looked: hours may lie between.
	if err := checkReplaced(path); err != nil {
		return err
	}
	// A slash at the end would make the file's directory of the path.
	path = filepath.Clean(path)
	temp := filepath.Join(filepath.Dir(path), storage.CopyingName(filepath.Base(path)))
	if !replace {
		return durable.PublishNew(durable.OS(), temp, path, perm, fill)
	}
	return durable.Publish(durable.OS(), temp, path, perm, fill)
}

// checkResult returns an error if the file of a result, which the command writes at its end with
// writeFile, cannot be written or would replace another one. It is called before the work. Another process
// may write the file meanwhile, so writeFile decides in the end.
func checkResult(flag, path string, overwrite bool) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return misuse("%s %s: is a directory", flag, path)
	case err == nil && !overwrite:
		return misuse("%s %s: exists; --overwrite replaces it", flag, path)
	case err == nil:
		if err := checkReplaced(path); err != nil {
			return misuse("%s %w", flag, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return misuse("%s %s: %w", flag, path, reason(err))
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return misuse("%s %s: %w", flag, path, reason(err))
	}
	return nil
}

// checkReplaced returns an error if a file in the place of path would replace something other
// than a file: a rename puts it in the place of /dev/stdout as well.
func checkReplaced(path string) error {
	// Stat follows links, so a link to a regular file is no error: the rename replaces the link.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return misuse("%s: is no regular file, and would be replaced by one", path)
	}
	return nil
}

// checkEvents returns an error if the file of --events would replace a file, such as an input
// that stands behind the wrong flag. replaced says that the file is renamed into its place, and
// not written where it is, as a device or a pipe can be.
func checkEvents(path string, overwrite, replaced bool) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil: // opening it reports the reason
		return nil
	case info.Mode().IsRegular() && info.Size() > 0 && !overwrite:
		return misuse("--events %s: exists and is not empty; --overwrite replaces it", path)
	case info.Mode().IsRegular() && info.Size() > 0 && !holdsEvents(path):
		return misuse("--events %s: is no file of events, and --overwrite replaces only such files: name another one, or remove it", path)
	case replaced && !info.Mode().IsRegular():
		return misuse("--events %s: is no regular file, and would be replaced by one", path)
	}
	return nil
}

// holdsEvents reports whether a file begins as --events writes it: with a time in seconds, of three
// digits behind the point, and a word; or as a Parquet file if its name says so. The flag
// --overwrite is for the output as well, so it must not replace an input here.
func holdsEvents(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return true // opening it for writing reports the reason
	}
	defer f.Close()
	b := make([]byte, 64)
	n, _ := io.ReadFull(f, b) // a shorter file is no events
	if filepath.Ext(path) == ".parquet" {
		return strings.HasPrefix(string(b[:n]), "PAR1")
	}
	at, rest, _ := strings.Cut(string(b[:n]), " ")
	whole, fraction, _ := strings.Cut(at, ".")
	// The form is compared and no single word, so that events of later versions, with other words, are
	// recognized.
	digits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	return digits(whole) && digits(fraction) && len(fraction) == 3 && rest != "" && rest[0] >= 'a' && rest[0] <= 'z'
}
