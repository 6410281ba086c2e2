package storage

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Driver opens the file system that rest, a URI without its scheme and the
// "://", lies in. It returns the path to give to that file system; joined to
// the scheme again, the path must lead to the same file.
type Driver func(rest string) (fs FS, path string, err error)

// Schemes is the set of URI schemes that a program can open. It never changes,
// so any number of goroutines may use it. A nil *Schemes has local files only.
//
// A program chooses its schemes when it starts and hands the set to everything
// that opens files. A split is planned in one process and opened in another:
// both must have its scheme.
type Schemes struct {
	drivers map[string]Driver // by scheme in lower case, "file" excepted
}

// missing tells what to do about a scheme that slotwise has and this program
// has not.
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

// Resolve returns the file system of uri and the path within it. A URI
// without a scheme is a local path, taken as it is: a relative one is relative
// to the working directory. Paths are not percent-decoded, in any scheme.
func (s *Schemes) Resolve(uri string) (FS, string, error) {
	if uri == "" {
		return nil, "", fmt.Errorf("empty path")
	}
	name, rest := SplitURI(uri)
	if name == "" {
		return Local{}, rest, nil
	}
	driver := s.driver(strings.ToLower(name))
	if driver == nil {
		todo := "supported: " + strings.Join(s.Names(), ", ")
		if option := missing[strings.ToLower(name)]; option != "" {
			todo = option + " to mapreduce.Main or in Options.Features; " + todo
		}
		return nil, "", fmt.Errorf("%s: this program has no storage scheme %q (%s; a plain path is a local file)", uri, name, todo)
	}
	fs, path, err := driver(rest)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", uri, err)
	}
	return fs, path, nil
}

func (s *Schemes) driver(scheme string) Driver {
	if scheme == "file" {
		return openLocal
	}
	if s == nil {
		return nil
	}
	return s.drivers[scheme]
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

// SplitURI cuts a URI into scheme and rest. The scheme is empty for a plain
// path, and also where the text before "://" cannot be a scheme (it has a
// slash, say), because local names may hold any character.
func SplitURI(uri string) (scheme, rest string) {
	s, rest, ok := strings.Cut(uri, "://")
	if !ok || s == "" {
		return "", uri
	}
	for i, c := range s {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789+-.", c)) {
			return "", uri
		}
	}
	return s, rest
}

// JoinURI is the inverse of SplitURI.
func JoinURI(scheme, path string) string {
	if scheme == "" {
		return path
	}
	return scheme + "://" + path
}

// openLocal is the driver of file://. The host part must be empty or
// localhost: a file URI that names another machine is not readable from here.
func openLocal(rest string) (FS, string, error) {
	path := strings.TrimPrefix(rest, "localhost")
	if !strings.HasPrefix(path, "/") {
		return nil, "", fmt.Errorf("a file URI needs an absolute path, as in file:///data/x")
	}
	return Local{}, path, nil
}
