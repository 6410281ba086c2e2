package master

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/slotwise/slotwise/internal/base/bounds"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// The bytes of the store are divided among the users who upload, by the rule of package
// share. A byte counts for its uploader from the moment in which he announces it until the
// file is removed: unfinished uploads are on the disk, too. A small file counts as
// bounds.FileCost bytes, which bounds the number of files. Files that an earlier master has
// left count for no user, as if one more user held them.
//
// For a user without room, reserve first removes files that no job needs and that were not
// used for a while, the least recently used ones first, whichever user has uploaded them.

// storedFile is a complete file of the store.
type storedFile struct {
	owner string    // who has uploaded it
	cost  int64     // bytes of the uploader's share that it takes
	used  time.Time // last time; a sweep would take seconds if it asked the disk for all files
}

// fileCost returns what a file or an upload of n bytes counts for.
func fileCost(n int64) int64 { return max(n, bounds.FileCost) }

// earlierOwner is the owner of files that are there when the store is opened.
const earlierOwner = "\x00earlier"

// freshFor is the time during which a file is not removed after its last use. A client
// that skips an upload because the master has the file must still find it there when it
// submits the job.
const freshFor = time.Hour

// An upload must bring slowestUpload bytes for each second that it takes, from
// uploadGrace on. A slower one would hold its place and its bytes for days.
const (
	slowestUpload = 8 << 10
	uploadGrace   = 30 * time.Second
)

var (
	errMismatch = errors.New("the content does not have the SHA-256 that the name says: it was damaged on the way")
	errFull     = errors.New("the master's room for files (--max-files) is taken by files that jobs need or that were used within the last hour: try again later, or ask the administrator for more room")
	errTooSlow  = fmt.Errorf("the upload is slower than %d bytes a second, which is the limit: try again when the connection is better", slowestUpload)
	errTooLarge = errors.New("the file is too large")
	errUploads  = errors.New("the master handles as many uploads as it may at once, or as you may: try again later")
)

// fullShareError refuses an upload of a user whose share is used up.
type fullShareError struct {
	user               string
	held, share, total int64
}

// Error implements error.
func (e *fullShareError) Error() string {
	return fmt.Sprintf("files of user %s that jobs need, that were used within the last hour or that are being uploaded have %d bytes, each file counted as at least %d, and his share is %d now, half of what other users leave of %d (--max-files): try again later",
		e.user, e.held, bounds.FileCost, e.share, e.total)
}

// hold adds by, 1 or -1, to the number of jobs that need the files of a program.
// Files that a job needs are not removed.
func (s *fileStore) hold(p *slotwisev1.Program, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add := func(sha string) {
		if sha == "" { // a built-in program has no executable
			return
		}
		// A release may come without its hold: releaseAll has dropped the holds of an earlier
		// leadership.
		if s.mu.users[sha] += by; s.mu.users[sha] <= 0 {
			delete(s.mu.users, sha)
		}
	}
	// A program may ship its executable as a file, too. Each mention counts, in the hold as in the release.
	add(p.GetExecutable())
	for _, f := range p.GetFiles() {
		add(f.Sha256)
	}
}

// needed returns the names of the files that jobs need, sorted.
func (s *fileStore) needed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.mu.users))
}

// releaseAll undoes all holds.
func (s *fileStore) releaseAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.mu.users)
}

// upload is one upload under way. It implements io.Reader over the content.
type upload struct {
	s        *fileStore
	from     io.Reader
	user     string
	began    time.Time
	read     int64
	reserved int64 // bytes of the user's share that this upload holds
}

// begin starts an upload of a user whose length is announced, or -1. It waits for a place,
// and reserves the room. The caller must call end.
func (s *fileStore) begin(ctx context.Context, from io.Reader, user string, length int64) (*upload, error) {
	if length > s.limits.File {
		return nil, errTooLarge
	}
	// The place before the room: a request that waits for a place reserves no bytes.
	if !s.places.Try(user, 1) {
		ctx, cancel := context.WithTimeoutCause(ctx, roomPatience, errUploads)
		defer cancel()
		if err := s.places.Take(ctx, user, 1); err != nil {
			return nil, err
		}
	}
	u := &upload{s: s, from: from, user: user, began: time.Now()}
	// With a length of -1 this reserves the cost of a small file; Read takes more as bytes arrive.
	if err := u.reserve(fileCost(length)); err != nil {
		s.places.Give(user, 1)
		return nil, err
	}
	return u, nil
}

// end gives the place back, and the room unless the file is stored. stored says that it may
// be: after an error of the disk the name may be there all the same.
func (u *upload) end(sha string) {
	s := u.s
	s.places.Give(u.user, 1)
	// Before the lock, because the disk may be slow.
	info, err := s.disk.Stat(s.path(sha))
	s.mu.Lock()
	defer s.mu.Unlock()
	// Both under one lock: between them the bytes would not count, and another upload could take
	// them.
	s.mu.room.Add(u.user, -u.reserved)
	if _, known := s.mu.files[sha]; err == nil && !known { // else of another upload of the same content
		s.keepLocked(sha, u.user, info)
	}
}

// keepLocked begins the count of a file that is stored.
func (s *fileStore) keepLocked(sha, owner string, info fs.FileInfo) {
	f := storedFile{owner, fileCost(info.Size()), info.ModTime()}
	s.mu.files[sha] = f
	s.mu.room.Add(f.owner, f.cost)
}

// Read implements io.Reader. It returns an error if the upload is too large or too slow, or
// if its room is used up.
func (u *upload) Read(p []byte) (int, error) {
	// A length in the request is a claim, and chunked requests have none, so the bytes themselves are counted.
	if u.read == u.s.limits.File && len(p) > 0 {
		p = p[:1] // one byte more shows that the file is too large
	} else {
		p = p[:min(int64(len(p)), u.s.limits.File-u.read)]
	}
	n, err := u.from.Read(p)
	u.read += int64(n)
	took := time.Since(u.began)
	switch {
	case u.read > u.s.limits.File:
		return 0, errTooLarge
	// A complete upload need not be fast any more.
	case err != io.EOF && took > uploadGrace && float64(u.read) < slowestUpload*took.Seconds():
		return 0, errTooSlow
	// Or it was smaller than what came. The excess is reserved as it arrives, and the upload ends when nothing
	// is left.
	case u.read > u.reserved: // its length was not announced
		if full := u.reserve(u.read - u.reserved); full != nil {
			return 0, full
		}
	}
	return n, err
}

// reserve takes n more bytes of the user's share. If they do not fit, it removes files that
// no job needs, and then returns an error if that is not enough.
func (u *upload) reserve(n int64) error {
	s := u.s
	s.mu.Lock()
	defer s.mu.Unlock()
	// Files are removed only when somebody needs their room: a file that stays saves an upload.
	if !s.mu.room.Fits(u.user, n) {
		if err := s.sweepLocked(u.user, n); err != nil {
			return err
		}
	}
	if !s.mu.room.Take(u.user, n) {
		// Two faults with different remedies: the store is full for all users, or this user has his
		// share.
		if s.mu.room.Full(n) {
			return errFull
		}
		return &fullShareError{u.user, s.mu.room.Held(u.user), s.mu.room.Share(u.user), s.mu.room.Total()}
	}
	u.reserved += n
	return nil
}

// sweepLocked removes files until the user may take n more bytes, or none is left that may go.
func (s *fileStore) sweepLocked(user string, n int64) error {
	type idleFile struct {
		sha  string
		used time.Time
	}
	var idle []idleFile
	for sha, f := range s.mu.files {
		// The job of a fresh file may be submitted at any moment.
		if time.Since(f.used) >= freshFor && s.mu.users[sha] == 0 {
			idle = append(idle, idleFile{sha, f.used})
		}
	}
	// Of all users alike: a file that was not used for an hour is worth the same to all.
	slices.SortFunc(idle, func(a, b idleFile) int { return a.used.Compare(b.used) })
	for _, f := range idle {
		if s.mu.room.Fits(user, n) {
			return nil
		}
		// Not synced. If a power cut brings the file back, openFiles counts it again.
		if err := s.disk.Remove(s.path(f.sha)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.forgetLocked(f.sha)
	}
	return nil
}

// forgetLocked ends the count of a file that is removed.
func (s *fileStore) forgetLocked(sha string) {
	f := s.mu.files[sha]
	s.mu.room.Add(f.owner, -f.cost)
	delete(s.mu.files, sha)
}

// uploadStatus returns the status of HTTP for an error of an upload.
func uploadStatus(err error) int {
	switch {
	case errors.Is(err, errTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, errMismatch):
		return http.StatusBadRequest
	case errors.Is(err, errTooSlow):
		return http.StatusRequestTimeout
	case errors.Is(err, errUploads):
		return http.StatusServiceUnavailable
	case errors.Is(err, errFull), errors.As(err, new(*fullShareError)):
		return http.StatusInsufficientStorage
	}
	return http.StatusInternalServerError
}
