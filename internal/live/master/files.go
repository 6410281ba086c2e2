package master

import (
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
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/base/durable"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// fileStore keeps the executables and files that jobs ship, each named by the SHA-256
// of its content. An upload goes to a temporary file, which is verified, synced and
// renamed, so every file with such a name is complete. When require has found the
// files of a program, they survive a power cut. When the store is full, the
// files that no job needs go, the least recently used first (filespace.go). It is safe for
// concurrent use.
type fileStore struct {
	disk   durable.FS
	dir    string
	limits Limits
	places *bounds.Gate // of uploads under way

	mu struct {
		sync.Mutex
		room  *bounds.Pool          // bytes, by uploader
		files map[string]storedFile // by SHA-256
		users map[string]int        // number of jobs that need a file, by SHA-256
	}
}

// openFiles opens the store in a master's directory and removes temporary files of
// uploads that a crash has interrupted.
func openFiles(disk durable.FS, dir string, limits Limits) (*fileStore, error) {
	s := &fileStore{disk: disk, dir: filepath.Join(dir, filesDir), limits: limits, places: bounds.NewGate(bounds.Uploads)}
	s.mu.room, s.mu.files, s.mu.users = bounds.NewPool(limits.Files), map[string]storedFile{}, map[string]int{}
	if err := durable.MkdirAll(disk, s.dir, 0o700); err != nil {
		return nil, err
	}
	// The content is not verified here: that would read gigabytes at each start. Each reader verifies the bytes
	// gets by the name.
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
		// The directory does not say who uploaded a file.
		if info, err := disk.Stat(s.path(name)); err == nil {
			s.keepLocked(name, earlierOwner, info)
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
	// By SHA-256, because a program may ship one file under several names. The value is for messages only.
	want := map[string]string{}
	if p.Executable != "" {
		want[p.Executable] = "executable"
	}
	for _, f := range p.Files {
		// A worker creates the file by this name in the attempt's directory.
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
	// Once for all files, and before the job is accepted: a journal that survives a power cut must not name
	// files whose names do not.
	return s.disk.SyncDir(s.dir)
}

// touch reports whether the store has a file and marks the file as used. The disk has the
// time, too, for the next master.
func (s *fileStore) touch(sha string) bool {
	s.mu.Lock() // else sweepLocked could remove the file after touch has found it
	defer s.mu.Unlock()
	now := time.Now()
	// The time only decides the order of removals. A disk that refuses it may still have the file.
	if err := s.disk.Chtimes(s.path(sha), now); err != nil {
		if _, err := s.disk.Stat(s.path(sha)); err != nil {
			if errors.Is(err, fs.ErrNotExist) { // somebody has removed it by hand
				s.forgetLocked(sha)
			}
			return false
		}
	}
	if f, known := s.mu.files[sha]; known {
		f.used = now
		s.mu.files[sha] = f
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
	// The pattern of the route permits GET, HEAD and PUT only.
	if r.Method == http.MethodPut {
		s.put(w, r, sha)
		return
	}
	// The file counts as used from here, so no upload removes it for its own room.
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
	// An immutable file: the name is a checksum of its content.
	http.ServeContent(w, r, "", time.Time{}, io.NewSectionReader(f, 0, size))
}

// put stores an uploaded file.
func (s *fileStore) put(w http.ResponseWriter, r *http.Request, sha string) {
	// The content is known by its name, so the body need not be read.
	if s.touch(sha) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	u, err := s.begin(r.Context(), r.Body, identity(r.Context()).Account(), r.ContentLength)
	if err == nil {
		err = s.receive(u, sha)
	}
	switch code := uploadStatus(err); {
	case err == nil:
		w.WriteHeader(http.StatusCreated)
	case code == http.StatusRequestEntityTooLarge:
		http.Error(w, fmt.Sprintf("%v: the limit is %d bytes (--max-file)", err, s.limits.File), code)
	case code == http.StatusInternalServerError:
		http.Error(w, "the file could not be stored: "+err.Error(), code)
	default:
		http.Error(w, err.Error(), code)
	}
}

// receive stores the content of an upload and ends the upload. The server recovers from a
// panic of one request, so a panic here must not keep the place or the room either.
func (s *fileStore) receive(u *upload, sha string) error {
	defer u.end(sha)
	return s.write(u, sha)
}

// write stores what r yields, durably, if its SHA-256 is sha, and returns errMismatch
// otherwise. After any error nothing is left.
func (s *fileStore) write(r io.Reader, sha string) error {
	// A new name for each upload: two uploads of the same content must not write into one file.
	temp := s.path("upload-" + strings.ToLower(rand.Text()))
	return durable.Publish(s.disk, temp, s.path(sha), 0o600, func(w io.Writer) error {
		h := sha256.New()
		if _, err := io.Copy(io.MultiWriter(w, h), r); err != nil {
			return err
		}
		if hex.EncodeToString(h.Sum(nil)) != sha {
			return errMismatch
		}
		return nil
	})
}
