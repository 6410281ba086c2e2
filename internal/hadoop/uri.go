package hadoop

import "strings"

// DisplayURI returns the URI by which Hadoop's tools know a file. root is the URI of the
// local directory behind hdfs:///, or "".
func DisplayURI(uri, root string) string {
	uri = strings.TrimPrefix(uri, "file://")
	root = strings.TrimPrefix(root, "file://")
	if root != "" {
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

// URI returns the storage URI of a path as the user has typed it.
func (n *Namespace) URI(typed string) string {
	scheme, rest, ok := strings.Cut(typed, ":")
	switch {
	case !ok || strings.Contains(scheme, "/"):
		return n.plain(typed)
	case scheme == "file":
		return "/" + strings.TrimLeft(rest, "/")
	case scheme == "hdfs" && (strings.HasPrefix(rest, "///") || !strings.HasPrefix(rest, "//")):
		p := "/" + strings.TrimLeft(rest, "/")
		if n.Local() {
			return n.Root + strings.TrimSuffix(p, "/")
		}
		return strings.TrimSuffix(n.Default, "/") + p
	case scheme == "s3a" || scheme == "s3n":
		return "s3:" + rest
	case strings.HasPrefix(rest, "//"):
		return typed
	}
	return n.plain(typed)
}

// plain returns the URI of a path without a scheme.
func (n *Namespace) plain(p string) string {
	switch {
	case n.Local():
		if p == "" {
			return "."
		}
		return p
	case strings.HasPrefix(p, "/"):
		return strings.TrimSuffix(n.Default, "/") + p
	case p == "":
		return strings.TrimSuffix(n.Default, "/") + "/user/" + n.User
	}
	return strings.TrimSuffix(n.Default, "/") + "/user/" + n.User + "/" + p
}

// RootURI returns the directory behind hdfs:///, or "" if there is an HDFS.
func (n *Namespace) RootURI() string {
	if !n.Local() {
		return ""
	}
	return n.Root
}
