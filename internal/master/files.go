package master

import (
	"cmp"
	"crypto/rand"
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
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/durable"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// fileStore keeps the executables and files that jobs ship, each named by the SHA-256
// of its content. An upload goes to a temporary file, which is verified, synced and
// renamed, so every file with such a name is complete. When require has found the
// files of a program, they survive a power cut. When the store is full, the
// files that no job needs go, the least recently used first. It is safe for concurrent
// use.
type fileStore struct {
	disk   durable.FS
	dir    string
	limits Limits

	mu struct {
		sync.Mutex
		size   int64          // bytes of all files, counted too high after two uploads of one file
		writes int            // uploads under way
		users  map[string]int // number of jobs that need a file, by SHA-256
	}
}

// hold adds by, 1 or -1, to the number of jobs that need the files of a program.
// Files that a job needs are not removed.
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

// freshFor is the time during which a file is not removed after its last use. A client
// that skips an upload because the master has the file must still find it there when it
// submits the job.
const freshFor = time.Hour

// maxUploads limits concurrent uploads.
const maxUploads = 32

// openFiles opens the store in a master's directory and removes temporary files of
// uploads that a crash has interrupted.
func openFiles(disk durable.FS, dir string, limits Limits) (*fileStore, error) {
	s := &fileStore{disk: disk, dir: filepath.Join(dir, "files"), limits: limits}
	s.mu.users = map[string]int{}
	if err := durable.MkdirAll(disk, s.dir, 0o700); err != nil {
		return nil, err
	}
	names, err := disk.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !isSHA(name) { // a temporary file
			if err := disk.Remove(s.path(name)); err != nil {
				return nil, err
			}
			continue
		}
		if info, err := disk.Stat(s.path(name)); err == nil {
			s.mu.size += info.Size()
		}
	}
	return s, nil
}

// path returns the path of a file in the store.
func (s *fileStore) path(name string) string { return filepath.Join(s.dir, name) }

// isSHA reports whether a name is a SHA-256 in lower-case hexadecimal. No other name
// of a request ever becomes part of a path.
func isSHA(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && hex.EncodeToString(b) == s
}

// require returns an error unless the store has all files of a program. It marks them
// as used, and makes their names durable: an upload under way, or a master that was
// killed in one, may have renamed a file and not synced its name yet.
func (s *fileStore) require(p *slotwisev1.Program) error {
	want := map[string]string{}
	if p.Executable != "" {
		want[p.Executable] = "executable"
	}
	for _, f := range p.Files {
		if f.Name == "" || f.Name != filepath.Base(f.Name) || f.Name == "." || f.Name == ".." {
			return fault(connect.CodeInvalidArgument, "shipped file %q: the name must not contain directories", f.Name)
		}
		want[f.Sha256] = f.Name
	}
	for sha, name := range want {
		if !isSHA(sha) {
			return fault(connect.CodeInvalidArgument, "%s: %q is not a SHA-256 in lower-case hexadecimal", name, sha)
		}
		if !s.touch(sha) {
			return fault(connect.CodeFailedPrecondition, "%s: the master does not have file %s: upload it first", name, sha)
		}
	}
	if len(want) == 0 {
		return nil
	}
	return s.disk.SyncDir(s.dir)
}

// touch reports whether the store has a file and marks the file as used.
func (s *fileStore) touch(sha string) bool {
	if err := s.disk.Chtimes(s.path(sha), time.Now()); err != nil {
		_, err = s.disk.Stat(s.path(sha))
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
	f, err := s.disk.OpenFile(s.path(sha), os.O_RDONLY, 0)
	if err != nil {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		http.Error(w, "the file cannot be read: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", `"`+sha+`"`)
	http.ServeContent(w, r, "", time.Time{}, io.NewSectionReader(f, 0, size))
}

// put stores an uploaded file.
func (s *fileStore) put(w http.ResponseWriter, r *http.Request, sha string) {
	if s.touch(sha) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if !s.begin() {
		http.Error(w, "the master handles its maximum of uploads at once: try again later", http.StatusServiceUnavailable)
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

// begin counts an upload and reports whether there is room for it. end undoes it.
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
	errMismatch = errors.New("the content does not have the SHA-256 that the name says: it was damaged on the way")
	errFull     = errors.New("the master's room for files (--max-files) is taken by files that jobs need")
)

// write stores what r yields, durably, if its SHA-256 is sha, and returns errMismatch
// otherwise. After any error nothing is left.
func (s *fileStore) write(r io.Reader, sha string) error {
	temp := s.path("upload-" + strings.ToLower(rand.Text()))
	return durable.Publish(s.disk, temp, s.path(sha), 0o600, func(w io.Writer) error {
		h := sha256.New()
		n, err := io.Copy(io.MultiWriter(w, h), r)
		if err != nil {
			return err
		}
		if hex.EncodeToString(h.Sum(nil)) != sha {
			return errMismatch
		}
		return s.makeRoom(n)
	})
}

// makeRoom reserves n bytes. If they exceed the limit it removes the least recently
// used files that no job needs, and returns errFull if that is not enough.
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

// sweepLocked removes files until n more bytes fit. It recounts the size, because two
// concurrent uploads of one file were counted twice.
func (s *fileStore) sweepLocked(n int64) error {
	names, err := s.disk.ReadDir(s.dir)
	if err != nil {
		return err
	}
	var infos []fs.FileInfo
	s.mu.size = 0
	for _, name := range names {
		if info, err := s.disk.Stat(s.path(name)); err == nil && isSHA(name) {
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
		if err := s.disk.Remove(s.path(info.Name())); err != nil {
			return err
		}
		s.mu.size -= info.Size()
	}
	if s.mu.size+n > s.limits.Files {
		return errFull
	}
	return nil
}
