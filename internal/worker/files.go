package worker

import (
	"cmp"
	"context"
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
)

// cache holds files by the SHA-256 of their content, fetched from the master
// when they are first needed. The least recently used go when they are too
// many bytes together, but for those in use.
type cache struct {
	dir    string
	url    string // of the master
	client *http.Client
	limit  int64
	mu     struct {
		sync.Mutex
		used    map[string]int           // by hash: how many attempts need it
		fetched map[string]chan struct{} // being fetched; closed at the end
	}
}

func newCache(dir, url string, client *http.Client, limit int64) *cache {
	c := &cache{dir: dir, url: url, client: client, limit: limit}
	c.mu.used = map[string]int{}
	c.mu.fetched = map[string]chan struct{}{}
	return c
}

// isHash says whether s is a SHA-256 in hexadecimal.
func isHash(s string) bool {
	return len(s) == 2*sha256.Size && strings.Trim(s, "0123456789abcdef") == ""
}

// get returns the path of the file with the hash, and what to call when it is
// needed no more. The file must not be changed.
func (c *cache) get(ctx context.Context, hash string) (path string, done func(), err error) {
	if !isHash(hash) {
		return "", nil, fmt.Errorf("%q is not a SHA-256", hash)
	}
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
	_ = os.Chtimes(path, now, now) // only the order of removal depends on it
	return path, done, nil
}

// ensure fetches the file unless it is there; one fetch at a time for a hash.
func (c *cache) ensure(ctx context.Context, hash, path string) error {
	for {
		if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		c.mu.Lock()
		busy := c.mu.fetched[hash]
		if busy == nil {
			c.mu.fetched[hash] = make(chan struct{})
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
		close(c.mu.fetched[hash])
		delete(c.mu.fetched, hash)
		c.mu.Unlock()
	}()
	for try := 0; ; try++ {
		err := c.fetch(ctx, hash, path)
		switch {
		case err == nil:
			return c.trim()
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.As(err, new(*away)):
			return fmt.Errorf("fetching file %s from the master: %w", hash, err)
		}
		pause(ctx, try)
	}
}

// away is the failure of a master that may be back soon.
type away struct{ err error }

// Error says what failed.
func (a *away) Error() string { return a.err.Error() }

// body marks errors of reading an answer as the master's.
type body struct{ io.Reader }

// Read reads.
func (b body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = &away{err}
	}
	return n, err
}

// fetch downloads a file and puts it in its place if its content is right.
func (c *cache) fetch(ctx context.Context, hash, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/files/"+hash, nil)
	if err != nil {
		return err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return &away{err}
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		err := fmt.Errorf("the master answers %s", resp.Status)
		if resp.StatusCode >= 500 {
			return &away{err}
		}
		return err
	}
	f, err := os.CreateTemp(c.dir, tempPrefix+"*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, sum), body{resp.Body})
	if err = errors.Join(err, f.Chmod(0o500), f.Close()); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != hash {
		return fmt.Errorf("what came has the hash %s", got)
	}
	return os.Rename(f.Name(), path)
}

const tempPrefix = "new-"

// removeTemp removes what was being fetched when an earlier life ended.
func removeTemp(dir string) error {
	found, err := filepath.Glob(filepath.Join(dir, tempPrefix+"*"))
	for _, f := range found {
		err = errors.Join(err, os.Remove(f))
	}
	return err
}

// trim removes the least recently used files until the rest is small enough.
func (c *cache) trim() error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	var total int64
	for _, e := range entries {
		if info, err := e.Info(); err == nil && isHash(e.Name()) {
			files = append(files, info)
			total += info.Size()
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
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
