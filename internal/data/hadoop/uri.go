package hadoop

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// DisplayURI returns the URI by which Hadoop's tools know a file. root is the URI of the
// local directory behind hdfs:///, or "".
func DisplayURI(uri, root string) string {
	// Both are compared as paths, because a listing has plain paths and a user may write either.
	uri = strings.TrimPrefix(uri, "file://")
	root = strings.TrimPrefix(root, "file://")
	if root != "" {
		// The slash keeps /data2 from counting as a path below /data.
		if rest, below := strings.CutPrefix(uri, strings.TrimSuffix(root, "/")); below && (rest == "" || rest[0] == '/') {
			return "hdfs://" + orSlash(rest)
		}
	}
	if strings.Contains(uri, "://") {
		return uri
	}
	return "file://" + uri
}

func orSlash(p string) string {
	if p == "" {
		return "/"
	}
	return p
}

// A Namespace maps the paths of Hadoop's command line to URIs of storage.
//
// The default file system is where paths without a scheme and hdfs:/// with an empty
// authority lead. If it is file:///, paths without a scheme are local ones, and Root stands
// for hdfs:///, so that tools which insist on an HDFS need none.
type Namespace struct {
	Default string // fs.defaultFS, such as hdfs://nn:8020, s3://bucket or file:///
	Root    string // an absolute directory
	User    string
}

// Local reports whether the default file system is the local one.
func (n *Namespace) Local() bool { return n.Default == "" || strings.HasPrefix(n.Default, "file:") }

// ErrEmptyPath is the error for a path without a character. A script that passes one has
// usually forgotten to set a variable. The words are Hadoop's.
var ErrEmptyPath = errors.New("Can not create a Path from an empty string") //nolint:staticcheck // Hadoop's words

// CheckPath refuses an empty path, a scheme without a path, and a URI whose path leaves its
// storage by "..". Otherwise such a path would name a directory that the user did not mean, such as
// a root or the home directory.
func CheckPath(typed string) error {
	scheme, rest, ok := strings.Cut(typed, ":")
	switch {
	case typed == "":
		return ErrEmptyPath
	// A local file may have a colon in its name, such as data/12:30.log or a:b.
	case !ok || strings.Contains(scheme, "/") || !slices.Contains([]string{"file", "hdfs", "s3", "s3a", "s3n"}, scheme):
		return nil
	case rest == "":
		return fmt.Errorf("Expected scheme-specific part at index %d: %s", len(typed), typed) //nolint:staticcheck // Hadoop's words
	case scheme == "file":
		return nil // the root of this machine is its own parent
	}
	p := rest
	// Only the path behind the authority can leave the storage. "hdfs://nn/../x" must not name a directory
	// beside the root.
	if below, ok := strings.CutPrefix(rest, "//"); ok {
		_, p, _ = strings.Cut(below, "/") // without the authority
	}
	if storage.LeavesRoot(p) {
		return fmt.Errorf("%s: %w", typed, storage.ErrOutside)
	}
	return nil
}

// URI returns the storage URI of a path as the user has typed it. It refuses what CheckPath
// refuses.
func (n *Namespace) URI(typed string) (string, error) {
	if err := CheckPath(typed); err != nil {
		return "", err
	}
	scheme, rest, ok := strings.Cut(typed, ":")
	switch {
	case !ok || strings.Contains(scheme, "/"):
		return n.plain(typed), nil
	case scheme == "file":
		return "/" + strings.TrimLeft(rest, "/"), nil
	// hdfs:///x and hdfs:/x name the default file system, whose address they leave out.
	case scheme == "hdfs" && (strings.HasPrefix(rest, "///") || !strings.HasPrefix(rest, "//")):
		p := "/" + strings.TrimLeft(rest, "/")
		if !n.Local() {
			return strings.TrimSuffix(n.Default, "/") + p, nil
		}
		// Clean resolves "..", which CheckPath has found to stay inside.
		return n.Root + strings.TrimSuffix(path.Clean(p), "/"), nil
	// Hadoop's names for its clients of the same storage.
	case scheme == "s3a" || scheme == "s3n":
		return "s3:" + rest, nil
	case strings.HasPrefix(rest, "//"):
		return typed, nil
	}
	return n.plain(typed), nil
}

// plain returns the URI of a path without a scheme.
func (n *Namespace) plain(p string) string {
	switch {
	case n.Local():
		return p
	case strings.HasPrefix(p, "/"):
		return strings.TrimSuffix(n.Default, "/") + p
	}
	// The home directory, where HDFS resolves relative paths.
	return strings.TrimSuffix(n.Default, "/") + "/user/" + n.User + "/" + p
}

// RootURI returns the directory behind hdfs:///, or "" if there is an HDFS.
func (n *Namespace) RootURI() string {
	if !n.Local() {
		return ""
	}
	return n.Root
}
