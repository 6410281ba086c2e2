package storage

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Driver opens the file systems of one scheme and keeps their connections. A process has
// one Driver of each scheme, so everything in the process shares its connections and sees
// equal FS values for equal URIs. Any number of goroutines may use a Driver.
type Driver interface {
	// Open returns the file system for rest, a URI without its scheme and "://", and
	// the path within that file system. The scheme, "://" and the path must again be a
	// URI of the same file. Open reads the credentials and contacts no server.
	Open(rest string) (fs FS, path string, err error)
	// CloseIdle closes the connections that no call uses, and has the others closed
	// after the call. File systems stay usable: their next call connects again.
	CloseIdle()
}

// Opener is the Open of a Driver that keeps no connections.
type Opener func(rest string) (fs FS, path string, err error)

// Open implements Driver.
func (o Opener) Open(rest string) (FS, string, error) { return o(rest) }

// CloseIdle implements Driver. It does nothing.
func (Opener) CloseIdle() {}

// Schemes is the registry of the URI schemes that a program can open. It never changes,
// so any number of goroutines may use it. A nil *Schemes has local files only.
//
// A program chooses its schemes when it starts and hands the registry to everything
// that opens files. A split is planned in one process and opened in another:
// both must have its scheme. The process calls CloseIdle before it exits.
type Schemes struct {
	drivers map[string]Driver // by scheme in lower case, "file" excepted
}

// missing maps the schemes that slotwise supports to the option that adds them to a
// program.
var missing = map[string]string{
	"hdfs": "pass hdfs.Storage() of package mapreduce/hdfs",
	"s3":   "pass s3.Storage() of package mapreduce/s3",
}

// With returns a set with one more scheme. A scheme that the set has already is
// an error.
func (s *Schemes) With(scheme string, d Driver) (*Schemes, error) {
	out := &Schemes{drivers: map[string]Driver{}}
	if s != nil {
		maps.Copy(out.drivers, s.drivers)
	}
	if _, dup := out.drivers[scheme]; dup || scheme == "file" {
		return nil, fmt.Errorf("storage scheme %q is added twice", scheme)
	}
	out.drivers[scheme] = d
	return out, nil
}

// Resolve returns the file system of uri and the path within it. A URI without a
// scheme is a local path, relative to the working directory unless it is absolute.
// No scheme decodes percent signs.
func (s *Schemes) Resolve(uri string) (FS, string, error) {
	if uri == "" {
		return nil, "", fmt.Errorf("empty path")
	}
	name, rest := SplitURI(uri)
	if name == "" {
		return Local{}, rest, nil
	}
	// The root of file:// has no parent, and its drivers need not check this.
	if _, p, _ := strings.Cut(rest, "/"); !strings.EqualFold(name, "file") && LeavesRoot(p) {
		return nil, "", fmt.Errorf("%s: %w", uri, ErrOutside)
	}
	driver := s.driver(strings.ToLower(name))
	if driver == nil {
		todo := "supported: " + strings.Join(s.Names(), ", ")
		if option := missing[strings.ToLower(name)]; option != "" {
			todo = option + " to mapreduce.Main or in Options.Features; " + todo
		}
		return nil, "", fmt.Errorf("%s: this program has no storage scheme %q (%s; a plain path is a local file)", uri, name, todo)
	}
	fs, path, err := driver.Open(rest)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", uri, err)
	}
	return fs, path, nil
}

// ErrOutside reports a path that would leave its storage.
var ErrOutside = errors.New("the path leads out of the storage by \"..\"")

// LeavesRoot reports whether a path, taken from the root, leads above the root by "..", as
// a/../../b does. To clean such a path would give the path of something else: of b, or in
// S3 of another bucket.
func LeavesRoot(p string) bool {
	depth := 0
	for _, element := range strings.Split(p, "/") {
		switch element {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return true
			}
		default:
			depth++
		}
	}
	return false
}

// driver returns the driver of a scheme, or nil. Local files need no registration.
func (s *Schemes) driver(scheme string) Driver {
	if scheme == "file" {
		return Opener(openLocal)
	}
	if s == nil {
		return nil
	}
	return s.drivers[scheme]
}

// CloseIdle closes the connections of all drivers that no call uses.
func (s *Schemes) CloseIdle() {
	if s == nil {
		return
	}
	for _, d := range s.drivers {
		d.CloseIdle()
	}
}

// Names returns the schemes as users spell them, sorted.
func (s *Schemes) Names() []string {
	names := []string{"file://"}
	if s != nil {
		for scheme := range s.drivers {
			names = append(names, scheme+"://")
		}
	}
	slices.Sort(names)
	return names
}

// SplitURI splits a URI into its scheme and the rest after "://". The scheme is empty
// for a plain path. It is also empty if the text before "://" cannot be a scheme, for
// example because it has a slash: local names may hold any character.
func SplitURI(uri string) (scheme, rest string) {
	s, rest, ok := strings.Cut(uri, "://")
	if !ok || s == "" {
		return "", uri
	}
	// RFC 3986: a letter, then letters, digits, "+", "-" and ".".
	for i, c := range s {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789+-.", c)) {
			return "", uri
		}
	}
	return s, rest
}

// JoinURI joins a scheme and a path that SplitURI has split.
func JoinURI(scheme, path string) string {
	if scheme == "" {
		return path
	}
	return scheme + "://" + path
}

// openLocal is the Opener of file://. The host part must be empty or localhost,
// because the files of another machine cannot be read.
func openLocal(rest string) (FS, string, error) {
	path := strings.TrimPrefix(rest, "localhost")
	if !strings.HasPrefix(path, "/") {
		return nil, "", fmt.Errorf("a file URI needs an absolute path, for example file:///data/x")
	}
	return Local{}, path, nil
}
