package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Replace says which target a staging's Commit may replace. A target that does not exist or
// is empty needs no right.
type Replace int

// The kinds of targets that may be replaced, each with the ones before it.
const (
	// ReplaceNothing lets no file be removed.
	ReplaceNothing Replace = iota
	// ReplaceOutput permits the output of an earlier job: a directory with SuccessFile and
	// only files that jobs write; see IsOutputFile. A user who names a wrong directory
	// by mistake keeps its files.
	ReplaceOutput
	// ReplaceAll permits every directory.
	ReplaceAll
)

// ReplaceOf returns what the options --overwrite and --force permit together.
func ReplaceOf(overwrite, force bool) Replace {
	switch {
	case force:
		return ReplaceAll
	case overwrite:
		return ReplaceOutput
	}
	return ReplaceNothing
}

// NotOutputError reports that a directory must not be replaced, because jobs have not written
// the whole target. It counts as fs.ErrExist.
type NotOutputError struct {
	// File is the first file that no job writes, relative to the directory. It is empty if
	// there is none, and SuccessFile is missing.
	File string
}

// Error implements error. The text follows the name of the directory.
func (e *NotOutputError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("it has no %s, so it is not the complete output of a job; --force replaces it all the same", SuccessFile)
	}
	return fmt.Sprintf("it contains %s, which no job has written; --force replaces the directory and removes all files in it", e.File)
}

// Is makes errors.Is recognise fs.ErrExist.
func (e *NotOutputError) Is(target error) bool { return target == fs.ErrExist }

// IsOutputFile reports whether a file of this name, directly in an output directory, is one
// that jobs write: SuccessFile, part files, and the checksum files that Hadoop's tools put
// beside these on local disks.
func IsOutputFile(name string) bool {
	if of, ok := strings.CutSuffix(name, ".crc"); ok && strings.HasPrefix(of, ".") {
		name = of[1:]
	}
	if name == SuccessFile {
		return true
	}
	rest, ok := strings.CutPrefix(name, "part-")
	if !ok {
		return false
	}
	// part-m-00000 and part-r-00000; part-00000 is the name of Hadoop's first API.
	if after, ok := strings.CutPrefix(rest, "m-"); ok {
		rest = after
	} else if after, ok := strings.CutPrefix(rest, "r-"); ok {
		rest = after
	}
	number := rest
	if dot := strings.IndexByte(rest, '.'); dot >= 0 {
		number = rest[:dot]
	}
	// Hadoop pads to five digits. A user's part-1 is no output of a job.
	if len(number) < 5 || !digits(number) {
		return false
	}
	ending := rest[len(number):]
	for _, codec := range codecEndings {
		ending = strings.TrimSuffix(ending, codec)
	}
	switch ending {
	case "", ".csv", ".json", ".parquet", ".avro":
		return true
	}
	return false
}

// codecEndings are the endings of compressed part files. They follow the one of the format.
var codecEndings = []string{".gz", ".zst", ".deflate", ".snappy", ".lz4"}

// eachEntry calls each with the sorted names in a directory and the type of each, until each
// returns false.
type eachEntry func(ctx context.Context, dir string, each func(name string, kind fs.FileMode) bool) error

// checkReplace returns whether a directory is empty or missing, and an error if replace does
// not permit to replace it.
func checkReplace(ctx context.Context, entries eachEntry, dir string, replace Replace) (vacant bool, err error) {
	vacant, complete, foreign := true, false, ""
	err = entries(ctx, dir, func(name string, kind fs.FileMode) bool {
		vacant = false
		// The other kinds permit all or nothing, so one name decides, however many files the
		// directory has.
		if replace != ReplaceOutput {
			return false
		}
		complete = complete || name == SuccessFile
		// Jobs write no directories and no links, whatever their names.
		if kind != 0 || !IsOutputFile(name) {
			foreign = name
			if kind.IsDir() {
				foreign += "/"
			}
		}
		// One foreign file decides, so the listing of a directory with millions of files can end here.
		return foreign == ""
	})
	switch {
	case err != nil || vacant || replace == ReplaceAll:
		return vacant, err
	case replace == ReplaceNothing:
		return false, fs.ErrExist
	case foreign != "":
		return false, &NotOutputError{firstFile(ctx, entries, dir, foreign)}
	case !complete:
		return false, &NotOutputError{}
	}
	return false, nil
}

// firstFile returns the first file in the directory dir/name, relative to dir, for an error
// that shows users a file that they would lose. It returns a directory if that is empty, cannot be
// read, or lies very deep.
func firstFile(ctx context.Context, entries eachEntry, dir, name string) string {
	// Bounded, because a user may have nested directories as deep as the file system permits.
	for depth := 0; strings.HasSuffix(name, "/") && depth < 100; depth++ {
		next := ""
		_ = entries(ctx, path.Join(dir, name), func(entry string, kind fs.FileMode) bool {
			next = entry
			if kind.IsDir() {
				next += "/"
			}
			return false
		})
		if next == "" {
			break
		}
		name += next
	}
	return name
}

// CheckOutput returns an error if a job with the output directory dir would fail: it is a
// file, or holds files that replace does not permit to remove. Commands call it before work
// that takes long. The staging checks again before it replaces anything.
func CheckOutput(ctx context.Context, files FS, dir string, replace Replace) error {
	_, err := checkReplace(ctx, func(ctx context.Context, dir string, each func(string, fs.FileMode) bool) error {
		infos, err := files.List(ctx, dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		for _, i := range infos {
			if !each(path.Base(i.Path), kindOf(i)) {
				break
			}
		}
		return err
	}, dir, replace)
	return err
}

// kindOf returns the type of an entry of List.
func kindOf(i Info) fs.FileMode {
	switch {
	case i.Link:
		return fs.ModeSymlink
	case i.Dir:
		return fs.ModeDir
	case i.Size < 0:
		return fs.ModeIrregular
	}
	return 0
}
