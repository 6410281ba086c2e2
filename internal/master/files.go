package master

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// fileStore keeps what jobs ship, executables and files, under the SHA-256 of
// their content. A file is written aside, checked, flushed and renamed, so that
// what has a name is whole. It is safe for concurrent use.
type fileStore struct {
	dir    string
	limits Limits

	mu struct {
		sync.Mutex
		size   int64
		writes int            // under way
		users  map[string]int // jobs that need a file
	}
}

// hold keeps the files of a program for a job; by is 1, or -1 to give them up.
func (s *fileStore) hold(p *slotwisev1.Program, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add := func(sha string) {
		if s.mu.users[sha] += by; s.mu.users[sha] <= 0 {
			delete(s.mu.users, sha)
		}
	}
	add(p.GetExecutable())
	for _, f := range p.GetFiles() {
		add(f.Sha256)
	}
}

// freshFor is how long a file is kept after it was last asked for or written: a
// client that was told that the master has it must find it there when it
// submits.
const freshFor = time.Hour

// maxUploads is how many files are taken at once.
const maxUploads = 32

func openFiles(dir string, limits Limits) (*fileStore, error) {
	s := &fileStore{dir: filepath.Join(dir, "files"), limits: limits}
	s.mu.users = map[string]int{}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !isSHA(e.Name()) { // an upload that a crash has cut short
			if err := os.Remove(filepath.Join(s.dir, e.Name())); err != nil {
				return nil, err
			}
			continue
		}
		if info, err := e.Info(); err == nil {
			s.mu.size += info.Size()
		}
	}
	return s, nil
}

// isSHA reports whether a name is a SHA-256 as we write it; nothing else ever
// becomes part of a path.
func isSHA(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && hex.EncodeToString(b) == s
}

// require checks that all files of a program are there, and keeps them fresh.
func (s *fileStore) require(p *slotwisev1.Program) error {
	want := map[string]string{}
	if p.Executable != "" {
		want[p.Executable] = "executable"
	}
	for _, f := range p.Files {
		if f.Name == "" || f.Name != filepath.Base(f.Name) || f.Name == "." || f.Name == ".." {
			return fault(connect.CodeInvalidArgument, "shipped file %q: the name must be plain", f.Name)
		}
		want[f.Sha256] = f.Name
	}
	for sha, name := range want {
		if !isSHA(sha) {
			return fault(connect.CodeInvalidArgument, "%s: %q is no SHA-256", name, sha)
		}
		if !s.touch(sha) {
			return fault(connect.CodeFailedPrecondition, "%s: file %s must be uploaded first", name, sha)
		}
	}
	return nil
}

// touch reports whether a file is there, and keeps it fresh.
func (s *fileStore) touch(sha string) bool {
	path := filepath.Join(s.dir, sha)
	now := time.Now()
	if err := os.Chtimes(path, now, now); err != nil {
		_, err = os.Stat(path)
		return err == nil
	}
	return true
}

// ServeHTTP serves GET, HEAD and PUT of /files/SHA256.
func (s *fileStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sha := r.PathValue("sha")
	if !isSHA(sha) {
		http.Error(w, "a file is named by its SHA-256 in lower-case hexadecimal", http.StatusBadRequest)
		return
	}
	if r.Method == http.MethodPut {
		s.put(w, r, sha)
		return
	}
	if !s.touch(sha) {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	f, err := os.Open(filepath.Join(s.dir, sha))
	if err != nil {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", `"`+sha+`"`)
	http.ServeContent(w, r, "", time.Time{}, f)
}

// put takes a file in.
func (s *fileStore) put(w http.ResponseWriter, r *http.Request, sha string) {
	if s.touch(sha) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if !s.begin() {
		http.Error(w, "too many uploads at once: try again", http.StatusServiceUnavailable)
		return
	}
	defer s.end()
	err := s.write(http.MaxBytesReader(w, r.Body, s.limits.File), sha)
	var large *http.MaxBytesError
	switch {
	case err == nil:
		w.WriteHeader(http.StatusCreated)
	case errors.As(err, &large):
		http.Error(w, fmt.Sprintf("the file is too large: the limit is %d bytes", s.limits.File), http.StatusRequestEntityTooLarge)
	case errors.Is(err, errMismatch):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, errFull):
		http.Error(w, err.Error(), http.StatusInsufficientStorage)
	default:
		http.Error(w, "the file could not be stored: "+err.Error(), http.StatusInternalServerError)
	}
}

func (s *fileStore) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.writes >= maxUploads {
		return false
	}
	s.mu.writes++
	return true
}

func (s *fileStore) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.writes--
}

var (
	errMismatch = errors.New("the content does not have this SHA-256")
	errFull     = errors.New("the master keeps no more files: the limit is reached by files that jobs need")
)

// write stores what r holds, if it is what it is called.
func (s *fileStore) write(r io.Reader, sha string) (err error) {
	f, err := os.CreateTemp(s.dir, "upload-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
			if gone := os.Remove(f.Name()); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}
	}()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), r)
	if err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != sha {
		return errMismatch
	}
	if err := s.makeRoom(n); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(s.dir, sha))
}

// makeRoom counts n more bytes, and removes the files unused for longest if
// there are too many.
func (s *fileStore) makeRoom(n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.size+n > s.limits.Files {
		if err := s.sweepLocked(n); err != nil {
			return err
		}
	}
	s.mu.size += n
	return nil
}

// sweepLocked removes old files until n more bytes fit. It counts anew, since
// two uploads of the same file were counted twice.
func (s *fileStore) sweepLocked(n int64) error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	var infos []fs.FileInfo
	s.mu.size = 0
	for _, e := range entries {
		if info, err := e.Info(); err == nil && isSHA(e.Name()) {
			infos = append(infos, info)
			s.mu.size += info.Size()
		}
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int { return cmp.Compare(a.ModTime().UnixNano(), b.ModTime().UnixNano()) })
	for _, info := range infos {
		if s.mu.size+n <= s.limits.Files {
			return nil
		}
		if time.Since(info.ModTime()) < freshFor || s.mu.users[info.Name()] > 0 {
			continue
		}
		if err := os.Remove(filepath.Join(s.dir, info.Name())); err != nil {
			return err
		}
		s.mu.size -= info.Size()
	}
	if s.mu.size+n > s.limits.Files {
		return errFull
	}
	return nil
}
