// Package roots decides which files the jobs of a cluster may name as input and output.
//
// The daemons of a cluster open, replace and remove files with their own rights, on behalf
// of users who do not have these rights. Two rules limit this:
//
//   - No job names a daemon's own files: its directory, keys and tokens, a directory that
//     contains such a file, or a file in such a directory. This holds for every user.
//   - A confined user's job names only files below the storage roots, which are
//     directories given as URIs. Input may also be a root itself.
//
// Names are compared after they have been cleaned as the storage cleans them. For local
// files symbolic links are resolved. Directories are also compared by identity, because a
// bind mount gives one directory two names. The rules describe the moment of the check: a
// user who may change links below a root can still change one afterwards. The check does
// not see links and mounts of machines that do not share the checking machine's files.
package roots

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// userMark is the part of a root that the name of the submitting user replaces.
const userMark = "{user}"

// Denied is the error for a file that a job may not name. Users see its text. It counts
// as fs.ErrPermission.
type Denied struct{ why string }

// Error implements error.
func (d *Denied) Error() string { return d.why }

// Is makes errors.Is recognise fs.ErrPermission.
func (d *Denied) Is(target error) bool { return target == fs.ErrPermission }

func deny(format string, args ...any) error { return &Denied{fmt.Sprintf(format, args...)} }

// Rules holds the roots of a cluster and the files of its daemons. Any number of
// goroutines may use it.
type Rules struct {
	schemes *storage.Schemes
	roots   []string // URIs; may contain userMark
	own     []string // absolute local paths of this daemon

	mu struct {
		sync.Mutex
		others map[string]bool // directories of other daemons
	}
}

// MaxOthers is the largest number of different directories of other daemons. The daemons
// of a cluster usually have the same few.
const MaxOthers = 1000

// New returns rules for the given roots. own lists local files and directories of the
// daemon itself. An error names the root that cannot be used.
func New(schemes *storage.Schemes, roots, own []string) (*Rules, error) {
	r := &Rules{schemes: schemes, roots: slices.Clone(roots)}
	r.mu.others = map[string]bool{}
	for _, root := range roots {
		if _, err := r.locate(strings.ReplaceAll(root, userMark, "user")); err != nil {
			return nil, fmt.Errorf("storage root %w", err)
		}
	}
	for _, p := range own {
		if p == "" {
			continue
		}
		abs, err := filepath.Abs(p)
		if err != nil {
			return nil, err
		}
		r.own = append(r.own, abs)
	}
	return r, nil
}

// Given reports whether there is a root.
func (r *Rules) Given() bool { return len(r.roots) > 0 }

// AddOther records the directory of another daemon, which may be on this machine. The
// record is never removed, because the daemon may return. A directory that contains a
// root is refused, because it would forbid all jobs.
func (r *Rules) AddOther(daemon, dir string) error {
	if !filepath.IsAbs(dir) || path.Clean(dir) == "/" || len(dir) > 4096 {
		return fmt.Errorf("directory %.100q of %s: it must be an absolute path other than /", dir, daemon)
	}
	dir = path.Clean(dir)
	for _, root := range r.roots {
		// Above the user's part, because the daemon's directory would forbid the jobs of all users.
		fixed, _, _ := strings.Cut(root, userMark)
		if loc, err := r.locate(fixed); err == nil && loc.scheme == "file" && within(loc.path, dir) {
			return fmt.Errorf("directory %q of %s: it contains the storage root %s", dir, daemon, root)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.mu.others) >= MaxOthers && !r.mu.others[dir] {
		return fmt.Errorf("directory %q of %s: the daemons of the cluster have more than %d different directories", dir, daemon, MaxOthers)
	}
	r.mu.others[dir] = true
	return nil
}

// ownFile is a file or directory of a daemon, as configured and with links resolved.
type ownFile struct{ given, real string }

// ownFiles returns the files of all daemons.
func (r *Rules) ownFiles() []ownFile {
	r.mu.Lock()
	given := slices.Concat(r.own, slices.Sorted(maps.Keys(r.mu.others)))
	r.mu.Unlock()
	out := make([]ownFile, len(given))
	for i, p := range given {
		out[i] = ownFile{p, resolve(p)}
	}
	return out
}

// location is a cleaned name of a file.
type location struct {
	scheme string // in lower case; "file" for local files
	path   string // of local files absolute; else as the storage's driver returns it
}

// locate returns the location that a URI names, without resolving links. Local names must
// be absolute and without "..", because that element means another directory once links
// are resolved.
func (r *Rules) locate(uri string) (location, error) {
	scheme, _ := storage.SplitURI(uri)
	scheme = strings.ToLower(scheme)
	files, p, err := r.schemes.Resolve(uri)
	if err != nil {
		return location{}, err // names the URI
	}
	if _, local := files.(storage.Local); local {
		switch {
		case !path.IsAbs(p):
			return location{}, fmt.Errorf("%s: it must be an absolute path", uri)
		case slices.Contains(strings.Split(p, "/"), ".."):
			return location{}, fmt.Errorf(`%s: it must not contain ".."`, uri)
		case strings.ContainsRune(p, 0):
			return location{}, fmt.Errorf("%q: it must not contain a zero byte", uri)
		}
		return location{"file", path.Clean(p)}, nil
	}
	p = path.Clean(p)
	if p == "." || p == ".." || strings.HasPrefix(p, "../") {
		return location{}, fmt.Errorf("%s: it leaves its file system", uri)
	}
	if scheme == "hdfs" { // host names have no case
		host, rest, _ := strings.Cut(p, "/")
		p = path.Join(strings.ToLower(host), rest)
	}
	return location{scheme, p}, nil
}

// within reports whether a cleaned path is dir or below it.
func within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

// Check checks the files of one job. It remembers directories that it has read, so it
// must not outlive the request.
type Check struct {
	rules    *Rules
	roots    []location // of the job's user, links resolved
	given    []string   // the same as the operator wrote them
	confined bool
	own      []ownFile
	dirs     map[string]string          // directories with links resolved
	links    map[string]map[string]bool // names in a directory that are links
}

// Check returns a check for a job of the user. confined says whether the job may name only
// files below the roots. A user whose name is no plain file name has no root with {user}.
func (r *Rules) Check(user string, confined bool) *Check {
	c := &Check{rules: r, confined: confined, own: r.ownFiles(), dirs: map[string]string{}, links: map[string]map[string]bool{}}
	if !confined {
		return c
	}
	for _, root := range r.roots {
		// The name becomes a path element, and "..", for example, would be another directory.
		if strings.Contains(root, userMark) {
			if user == "" || user == "." || user == ".." || strings.Contains(user, "/") {
				continue
			}
			root = strings.ReplaceAll(root, userMark, user)
		}
		loc, err := r.locate(root)
		if err != nil {
			continue // New has verified it with another user's name
		}
		if loc.scheme == "file" {
			loc.path = resolve(loc.path)
		}
		c.roots, c.given = append(c.roots, loc), append(c.given, root)
	}
	return c
}

// Output returns an error unless the job may write to the directory that uri names. It
// must be below a root and not a root itself, which other jobs share.
func (c *Check) Output(uri string) error {
	_, err := c.output(uri)
	return err
}

// OpenOutput is Output for a caller that writes to the directory. The path that it returns is
// the one that was checked, with links resolved, and the file system refuses links in it. So
// no link can lead the caller elsewhere after the check.
func (c *Check) OpenOutput(uri string) (storage.FS, string, error) {
	loc, err := c.output(uri)
	if err != nil {
		return nil, "", err
	}
	if loc.scheme == "file" {
		return storage.Local{Resolved: true}, loc.path, nil
	}
	return c.rules.schemes.Resolve(uri)
}

// output returns the location of a job's output, if the job may write to it.
func (c *Check) output(uri string) (location, error) {
	loc, err := c.find("output", uri)
	if err != nil || loc.scheme != "file" {
		return loc, err
	}
	// By identity as well as by name, because this directory is replaced as a whole.
	for _, own := range c.own {
		if sameOrBelow(loc.path, own.real) || sameOrBelow(own.real, loc.path) {
			return loc, isOwn("output", uri, own)
		}
	}
	return loc, nil
}

// Input returns an error unless the job may read the file that uri names.
func (c *Check) Input(uri string) error {
	_, err := c.find("input", uri)
	return err
}

// find returns the location of a job's input or output, with links resolved, if the job
// may name it.
func (c *Check) find(what, uri string) (location, error) {
	// First, because locate would make a client for whatever server the user names.
	if c.confined && !c.knownAuthority(uri) {
		return location{}, c.outside(what, uri)
	}
	if scheme, _ := storage.SplitURI(uri); !c.confined && scheme != "" && !strings.EqualFold(scheme, "file") {
		return location{}, nil // the daemons' own files are local
	}
	loc, err := c.rules.locate(uri)
	if err != nil {
		return loc, fmt.Errorf("%s %w", what, err)
	}
	if loc.scheme == "file" {
		named := loc.path
		if what == "output" {
			// An output is one directory. Its links are resolved each time and not from the memory of
			// directories.
			loc.path = resolve(named)
		} else {
			loc.path = c.resolveInput(named)
		}
		for _, own := range c.own {
			// Both names: a link may lead to the daemon's directory, and the daemon's own path may
			// contain a link.
			if overlap(loc.path, own.real) || overlap(named, own.given) {
				return loc, isOwn(what, uri, own)
			}
		}
	}
	if !c.confined {
		return loc, nil
	}
	for _, root := range c.roots {
		if loc.scheme == root.scheme && within(loc.path, root.path) && (what == "input" || loc.path != root.path) {
			return loc, nil
		}
	}
	return loc, c.outside(what, uri)
}

// knownAuthority reports whether a URI names a server of one of the roots. It opens
// nothing: a driver keeps a client for each server that it has opened.
func (c *Check) knownAuthority(uri string) bool {
	scheme, rest := storage.SplitURI(uri)
	if !strings.EqualFold(scheme, "hdfs") {
		return true // locate contacts no server
	}
	asked, _, _ := strings.Cut(rest, "/")
	return slices.ContainsFunc(c.given, func(root string) bool {
		scheme, rest := storage.SplitURI(root)
		known, _, _ := strings.Cut(rest, "/")
		// Without a port the configured default counts, which this check does not know. Such a name
		// matches any port of the host.
		return strings.EqualFold(scheme, "hdfs") && (strings.EqualFold(asked, known) ||
			strings.EqualFold(host(asked), host(known)) && (port(asked) == "" || port(known) == ""))
	})
}

// host returns the host of an authority.
func host(authority string) string {
	if h, _, err := net.SplitHostPort(authority); err == nil {
		return h
	}
	return strings.Trim(authority, "[]")
}

// port returns the port of an authority, or "".
func port(authority string) string {
	_, p, err := net.SplitHostPort(authority)
	if err != nil {
		return ""
	}
	return p
}

// isOwn is the error for a daemon's own files.
func isOwn(what, uri string, own ownFile) error {
	return deny("%s %s: jobs may not name %s, which belongs to a daemon of the cluster, nor a directory around it", what, uri, own.given)
}

// outside is the error for a file that is below none of the roots.
func (c *Check) outside(what, uri string) error {
	switch {
	case len(c.rules.roots) == 0:
		return deny("%s %s: this master authenticates users and has no storage root, so only an admin's job may name files; "+
			"start the master with --storage-root, for example --storage-root file:///shared", what, uri)
	case what == "output":
		return deny("output %s: it must be a directory below a storage root of this master: %s (--storage-root)", uri, strings.Join(c.given, ", "))
	}
	return deny("input %s: it is outside the storage roots of this master: %s (--storage-root)", uri, strings.Join(c.given, ", "))
}

// overlap reports whether one of two cleaned paths contains the other.
func overlap(a, b string) bool { return within(a, b) || within(b, a) }

// resolve returns a path with all links resolved. Elements that do not exist stay.
func resolve(p string) string {
	rest := ""
	// The longest part that exists is resolved. What does not exist cannot be a link, unless it is a
	// dangling one.
	for dir := p; ; {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			return path.Join(real, rest)
		}
		// The bound ends a cycle of links that grows with each round.
		if target, isLink := danglingLink(dir); isLink && len(rest)+len(target) < 1<<16 {
			return resolve(path.Join(target, rest))
		}
		up := path.Dir(dir)
		if up == dir {
			return p
		}
		rest = path.Join(path.Base(dir), rest)
		dir = up
	}
}

// danglingLink returns the target of a link to a file that does not exist. A write
// through the link would create it. It reports false for a link that leads to itself.
func danglingLink(p string) (string, bool) {
	if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) {
		return "", false
	}
	target, err := os.Readlink(p)
	if err != nil {
		return "", false
	}
	if !path.IsAbs(target) {
		target = path.Join(resolve(path.Dir(p)), target)
	}
	return path.Clean(target), true
}

// manyNames is the number of a job's files in one directory from which the directory is
// listed instead of looking at each file.
const manyNames = 32

// resolveInput is resolve for the files of a large input. Jobs name many files in few
// directories, and a system call for each file would take long on a network file system.
func (c *Check) resolveInput(p string) string {
	dir, name := path.Split(p)
	dir = path.Clean(dir)
	real, known := c.dirs[dir]
	if !known {
		real = resolve(dir)
		c.dirs[dir], c.links[dir] = real, nil
	}
	if name != "" && c.isLink(dir, name) {
		return resolve(p)
	}
	return path.Join(real, name)
}

// isLink reports whether a name in a directory is a link.
func (c *Check) isLink(dir, name string) bool {
	seen := c.links[dir]
	if seen == nil {
		seen = map[string]bool{}
		c.links[dir] = seen
	}
	if len(seen) == manyNames {
		entries, err := os.ReadDir(dir)
		if err == nil {
			clear(seen)
			seen[""] = false // marks a list that is complete
			for _, e := range entries {
				seen[e.Name()] = e.Type()&fs.ModeSymlink != 0
			}
		}
	}
	link, known := seen[name]
	if _, complete := seen[""]; known || complete {
		return link
	}
	st, err := os.Lstat(path.Join(dir, name))
	seen[name] = err == nil && st.Mode()&fs.ModeSymlink != 0
	return seen[name]
}

// sameOrBelow reports whether a path, or a directory around it, is the same file as dir.
// It finds what names cannot show, such as a bind mount.
func sameOrBelow(p, dir string) bool {
	want, err := os.Stat(dir)
	if err != nil {
		return false
	}
	for ; ; p = path.Dir(p) {
		if st, err := os.Stat(p); err == nil && os.SameFile(st, want) {
			return true
		}
		if p == path.Dir(p) {
			return false
		}
	}
}
