package stream

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// maxUnpacked bounds the bytes that an archive is unpacked to.
const maxUnpacked = 64 << 30

// Unpack unpacks a .jar, .zip, .tar, .tar.gz or .tgz file into a new directory, as
// -archives of Hadoop does. name decides the format; a file with another name is copied.
// Files become readable, executable and read-only.
func Unpack(from, dir, name string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	lower := strings.ToLower(name)
	tarred := strings.HasSuffix(lower, ".tar") || strings.HasSuffix(lower, ".tar.gz") || strings.HasSuffix(lower, ".tgz")
	zipped := strings.HasSuffix(lower, ".zip") || strings.HasSuffix(lower, ".jar")
	if !tarred && !zipped {
		// Hadoop copies such a file, too.
		return writeUnpacked(f, func() (*os.File, error) { return os.OpenFile(dir, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700) }, new(int64))
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	// Names in an archive may lead out of the directory, by ".." or by a link. The root refuses
	// both.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if zipped {
		return unzip(f, root)
	}
	var r io.Reader = f
	if !strings.HasSuffix(lower, ".tar") {
		z, err := gzip.NewReader(f)
		if err != nil {
			return err
		}
		r = z
	}
	return untar(tar.NewReader(r), root)
}

// writeUnpacked writes one file. done is the number of bytes unpacked so far.
func writeUnpacked(r io.Reader, create func() (*os.File, error), done *int64) error {
	w, err := create()
	if err != nil {
		return err
	}
	// One byte beyond the limit shows that the archive is too large. A small file may unpack to
	// terabytes.
	n, err := io.Copy(w, io.LimitReader(r, maxUnpacked-*done+1))
	if *done += n; err == nil && *done > maxUnpacked {
		err = fmt.Errorf("the archive unpacks to more than %d bytes", int64(maxUnpacked))
	}
	if err == nil {
		// After the content, and by the descriptor, so that no link can redirect it. Tasks of one worker
		// share the directory, so none may change it.
		err = w.Chmod(0o555)
	}
	return errors.Join(err, w.Close())
}

// unzip unpacks a zip archive below root.
func unzip(f *os.File, root *os.Root) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	z, err := zip.NewReader(f, info.Size())
	if err != nil {
		return err
	}
	done := int64(0)
	for _, e := range z.File {
		// putBelow makes the directories of files. Empty ones are left out, as by Hadoop's unJar.
		if e.FileInfo().IsDir() {
			continue
		}
		r, err := e.Open()
		if err != nil {
			return err
		}
		err = putBelow(root, e.Name, r, &done)
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
	}
	return nil
}

// untar unpacks a tar archive below root.
func untar(t *tar.Reader, root *os.Root) error {
	done := int64(0)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeReg:
			err = putBelow(root, h.Name, t, &done)
		case tar.TypeDir:
			err = root.MkdirAll(strings.TrimSuffix(path.Clean(h.Name), "/"), 0o700)
		case tar.TypeSymlink:
			// Archives need not have entries for the directories of their files.
			if err = root.MkdirAll(path.Dir(path.Clean(h.Name)), 0o700); err == nil {
				// The link may lead anywhere. Opening through it by the root fails if it leads out.
				err = root.Symlink(h.Linkname, path.Clean(h.Name))
			}
		case tar.TypeLink:
			if err = root.MkdirAll(path.Dir(path.Clean(h.Name)), 0o700); err == nil {
				err = root.Link(path.Clean(h.Linkname), path.Clean(h.Name))
			}
		case tar.TypeXGlobalHeader: // holds nothing to unpack
		default:
			err = fmt.Errorf("%s: the archive's entry is no file, directory or link", h.Name)
		}
		if err != nil {
			return err
		}
	}
}

// putBelow writes one file of an archive below root, which confines its name.
func putBelow(root *os.Root, name string, r io.Reader, done *int64) error {
	name = path.Clean(name)
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return writeUnpacked(r, func() (*os.File, error) { return root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700) }, done)
}
