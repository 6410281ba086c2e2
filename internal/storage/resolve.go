package storage

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Driver opens the file system that rest, a URI without its scheme and the
// "://", lies in. It returns the path to give to that file system; joined to
// the scheme again, the path must lead to the same file.
type Driver func(rest string) (fs FS, path string, err error)

// Registry maps URI schemes to drivers. It is safe for concurrent use. New
// schemes are registered explicitly by the program that wants them, so that a
// binary carries only the clients it names.
type Registry struct {
	mu struct {
		sync.RWMutex
		drivers map[string]Driver
	}
}

// NewRegistry returns a registry that knows local files only.
func NewRegistry() *Registry {
	r := &Registry{}
	r.mu.drivers = map[string]Driver{"file": openLocal}
	return r
}

// Default is the registry of the package-level Resolve and Register. A split
// that was planned in one process is opened in another, so the schemes must
// be known by name in both; a registry passed by value could not travel.
var Default = NewRegistry()

// Register adds a scheme to the default registry.
func Register(scheme string, d Driver) error { return Default.Register(scheme, d) }

// Resolve finds the file system of a URI in the default registry.
func Resolve(uri string) (FS, string, error) { return Default.Resolve(uri) }

// Register adds a scheme. A second registration of the same scheme is an
// error: which of the two won would depend on the order of calls.
func (r *Registry) Register(scheme string, d Driver) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, dup := r.mu.drivers[scheme]; dup {
		return fmt.Errorf("storage scheme %q is registered twice", scheme)
	}
	r.mu.drivers[scheme] = d
	return nil
}

// Resolve returns the file system of uri and the path within it. A URI
// without a scheme is a local path, taken as it is: a relative one is relative
// to the working directory. Paths are not percent-decoded, in any scheme.
func (r *Registry) Resolve(uri string) (FS, string, error) {
	if uri == "" {
		return nil, "", fmt.Errorf("empty path")
	}
	scheme, rest := SplitURI(uri)
	if scheme == "" {
		return Local{}, rest, nil
	}
	r.mu.RLock()
	d := r.mu.drivers[strings.ToLower(scheme)]
	r.mu.RUnlock()
	if d == nil {
		return nil, "", fmt.Errorf("%s: unknown storage scheme %q (supported: %s; a plain path is a local file)",
			uri, scheme, strings.Join(r.Schemes(), ", "))
	}
	fs, path, err := d(rest)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", uri, err)
	}
	return fs, path, nil
}

// Schemes returns the registered schemes as a user spells them, sorted.
func (r *Registry) Schemes() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	names := make([]string, 0, len(r.mu.drivers))
	for s := range r.mu.drivers {
		names = append(names, s+"://")
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
