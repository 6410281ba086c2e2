package worker

import (
	"cmp"
	"context"
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

	"github.com/slotwise/slotwise/internal/base/durable"
)

// cache stores executables and shipped files under the SHA-256 of their content. It
// downloads a file from the master when an attempt first needs it. When the files
// exceed limit bytes it removes the least recently used ones that no attempt uses.
type cache struct {
	dir    string
	url    string // base URL of the master
	client *http.Client
	limit  int64 // bytes
	// missing is the time for which a file that the master does not have is requested again; 0 is
	// once. A follower that has just become the leader may find the only other copy later.
	missing time.Duration
	// silence is the time without a byte after which a download begins again. A master that is stopped within its
	// answer keeps the connection open, and by then another one may lead.
	silence time.Duration
	mu      struct {
		sync.Mutex
		used      map[string]int           // by hash: number of attempts that use the file
		downloads map[string]chan struct{} // by hash; closed when the download ends
	}
}

// newCache returns a cache in an existing directory.
func newCache(dir, url string, client *http.Client, limit int64) *cache {
	c := &cache{dir: dir, url: url, client: client, limit: limit, silence: callTimeout}
	c.mu.used = map[string]int{}
	c.mu.downloads = map[string]chan struct{}{}
	return c
}

// isHash reports whether s is a SHA-256 in lower-case hexadecimal. It keeps other
// file names out of paths.
func isHash(s string) bool {
	return len(s) == 2*sha256.Size && strings.Trim(s, "0123456789abcdef") == ""
}

// get returns the path of the file with the hash. It downloads the file if needed,
// and retries until ctx is cancelled while the master does not answer. The caller
// must not change the file and must call done when it no longer uses it.
func (c *cache) get(ctx context.Context, hash string) (path string, done func(), err error) {
	if !isHash(hash) {
		return "", nil, fmt.Errorf("%q is not a SHA-256", hash)
	}
	// Counted before the file is looked for, so that trim does not remove it in between.
	c.mu.Lock()
	c.mu.used[hash]++
	c.mu.Unlock()
	done = sync.OnceFunc(func() {
		c.mu.Lock()
		if c.mu.used[hash]--; c.mu.used[hash] == 0 {
			delete(c.mu.used, hash)
		}
		c.mu.Unlock()
	})
	path = filepath.Join(c.dir, hash)
	if err := c.ensure(ctx, hash, path); err != nil {
		done()
		return "", nil, err
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // a failure only makes trim remove the file earlier
	return path, done, nil
}

// ensure downloads the file unless it exists. If another goroutine is downloading
// it, ensure waits and then looks again.
func (c *cache) ensure(ctx context.Context, hash, path string) error {
	for {
		// Looked at again after each wait: the download of the other goroutine may have failed,
		// and then this one tries.
		if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		c.mu.Lock()
		// Attempts of one job start together, and all need the same executable. One downloads it.
		busy := c.mu.downloads[hash]
		if busy == nil {
			c.mu.downloads[hash] = make(chan struct{})
		}
		c.mu.Unlock()
		if busy == nil {
			break
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer func() {
		c.mu.Lock()
		close(c.mu.downloads[hash])
		delete(c.mu.downloads, hash)
		c.mu.Unlock()
	}()
	began := time.Now()
	for try := 0; ; try++ {
		err := c.download(ctx, hash, path)
		switch {
		case err == nil:
			return c.trim()
		case ctx.Err() != nil:
			return context.Cause(ctx)
		// Of several masters, the one that has the file may be away for a moment. The attempt waits for
		// it: a failure would count.
		case errors.Is(err, errNoFile) && time.Since(began) < c.missing:
		// The master is there and has no such file, or the disk of this machine fails. Waiting
		// helps neither.
		case !errors.As(err, new(*unavailableError)):
			return fmt.Errorf("downloading file %s from the master: %w", hash, err)
		}
		backOff(ctx, try)
	}
}

// errNoFile reports that the master does not have a file.
var errNoFile = errors.New("the master answered 404 Not Found")

// unavailableError marks a failure of the connection or of the master itself, after
// which the download is retried.
type unavailableError struct{ err error }

// Error implements error.
func (u *unavailableError) Error() string { return u.err.Error() }

// body reads an answer of the master. It marks read errors, so that they are not
// taken for errors of the local disk.
type body struct {
	io.Reader
	silent *time.Timer // ends the request after silence
	limit  time.Duration
}

// Read implements io.Reader.
func (b body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if n > 0 {
		b.silent.Reset(b.limit)
	}
	if err != nil && err != io.EOF {
		err = &unavailableError{err}
	}
	return n, err
}

// download writes the file, durably, if its content has the SHA-256 hash. It leaves
// nothing behind if that fails. A file that is there is never verified again, so a power
// cut must not leave one with half of its content.
func (c *cache) download(ctx context.Context, hash, path string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/files/"+hash, nil)
	if err != nil {
		return err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return &unavailableError{err}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		err := fmt.Errorf("the master answered %s", resp.Status)
		switch {
		case resp.StatusCode >= 500:
			return &unavailableError{err}
		case resp.StatusCode == http.StatusNotFound:
			return errNoFile
		}
		return err
	}
	// From here on only. Before its answer a master may fetch the file from another one, which takes long for a
	// large file, and a request that is cancelled would make it begin again.
	silent := time.AfterFunc(c.silence, cancel)
	defer silent.Stop()
	temp := filepath.Join(c.dir, tempPrefix+rand.Text())
	return durable.Publish(durable.OS(), temp, path, 0o500, func(w io.Writer) error {
		sum := sha256.New()
		if _, err := io.Copy(io.MultiWriter(w, sum), body{resp.Body, silent, c.silence}); err != nil {
			return err
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != hash {
			return fmt.Errorf("the downloaded content has the SHA-256 %s", got)
		}
		return nil
	})
}

// tempPrefix begins the names of unfinished downloads.
const tempPrefix = "new-"

// removeTemp removes unfinished downloads of an earlier process.
func removeTemp(dir string) error {
	found, err := filepath.Glob(filepath.Join(dir, tempPrefix+"*"))
	for _, f := range found {
		err = errors.Join(err, os.Remove(f))
	}
	return err
}

// oldestFirst returns the files of a directory whose names are accepted, those first that were written to longest
// ago, and the sum of their sizes.
func oldestFirst(dir string, accepts func(name string) bool) (files []fs.FileInfo, total int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range entries {
		// A file that has just been removed has no size.
		if info, err := e.Info(); err == nil && accepts(e.Name()) {
			files = append(files, info)
			total += info.Size()
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	return files, total, nil
}

// trim removes the least recently used files until the others fit into limit. Files
// in use stay.
func (c *cache) trim() error {
	files, total, err := oldestFirst(c.dir, isHash) // a download that is under way has another name
	if err != nil {
		return err
	}
	// Held to the end, so that no attempt begins to use a file between the check and its
	// removal. get counts a use before it looks for the file.
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range files {
		if total <= c.limit {
			break
		}
		if c.mu.used[f.Name()] > 0 {
			continue
		}
		if err := os.Remove(filepath.Join(c.dir, f.Name())); err != nil {
			return err
		}
		total -= f.Size()
	}
	return nil
}

// hashFile returns the SHA-256 of a file's content in hexadecimal.
func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
