package hdfs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"io/fs"
)

// located is a part of a file and who has it.
type located struct {
	Offset, Length int64
	Hosts          []string
}

// locations remembers where the blocks of the file asked for last lie, for
// planning asks for one split after the other, and that asking has failed.
type locations struct {
	mu     sync.Mutex
	path   string
	blocks []located
	until  time.Time // what is remembered counts so long
	failed error
}

// Answers are believed for a short while; after a failure nothing is asked for
// one, as a plan of a thousand splits must not wait for a thousand time-outs.
const (
	locationsAge = 10 * time.Second
	webTimeout   = 10 * time.Second
	webLimit     = 256 << 20 // bytes of an answer: a file of a million blocks
)

// Hosts implements storage.Located. The names are those that DataNodes
// registered with (dfs.datanode.hostname).
func (f *FS) Hosts(ctx context.Context, p string, off, n int64) ([]string, error) {
	p = f.inner(p)
	blocks, err := f.blocks(ctx, p)
	if err != nil {
		return nil, err
	}
	share := map[string]int64{}
	var hosts []string
	for _, b := range blocks {
		common := min(off+n, b.Offset+b.Length) - max(off, b.Offset)
		if common <= 0 {
			continue
		}
		for _, h := range b.Hosts {
			if _, seen := share[h]; !seen {
				hosts = append(hosts, h)
			}
			share[h] += common
		}
	}
	slices.SortStableFunc(hosts, func(a, b string) int { return cmp.Compare(share[b], share[a]) })
	return hosts[:min(len(hosts), maxHosts)], nil
}

// maxHosts are as many as hold a block by default.
const maxHosts = 3

func (f *FS) blocks(ctx context.Context, p string) ([]located, error) {
	l := &f.located
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Before(l.until) && (l.failed != nil || l.path == p) {
		return l.blocks, l.failed
	}
	blocks, err := f.ask(ctx, p)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	l.path, l.blocks, l.until, l.failed = p, blocks, time.Now().Add(locationsAge), err
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		l.until = time.Time{} // says nothing of other files
	}
	return blocks, err
}

// ask asks the NameNodes, of which one is active.
func (f *FS) ask(ctx context.Context, p string) ([]located, error) {
	var errs []error
	for _, base := range strings.Split(f.settings.http, ",") {
		if base == "" {
			continue
		}
		blocks, err := f.webLocations(ctx, base, p)
		if err == nil {
			return blocks, nil
		}
		errs = append(errs, err)
	}
	if errs == nil {
		return nil, errors.New("the NameNode's HTTP address is not known: set SLOTWISE_HDFS_HTTP")
	}
	return nil, errors.Join(errs...)
}

// webLocations calls WebHDFS's GETFILEBLOCKLOCATIONS.
func (f *FS) webLocations(ctx context.Context, base, p string) ([]located, error) {
	u, err := url.Parse(strings.TrimSuffix(base, "/"))
	if err != nil {
		return nil, err
	}
	u = u.JoinPath("webhdfs", "v1")
	u.Path += p
	u.RawPath = ""
	u.RawQuery = url.Values{"op": {"GETFILEBLOCKLOCATIONS"}, "user.name": {f.settings.user}}.Encode()
	ctx, cancel := context.WithTimeout(ctx, webTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("locating the blocks of %s: %w", f.uri(p), err)
	}
	defer res.Body.Close()
	body := io.LimitReader(res.Body, webLimit)
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, f.failed("locate", p, fs.ErrNotExist)
	case http.StatusForbidden, http.StatusUnauthorized:
		return nil, f.failed("locate", p, fs.ErrPermission)
	default:
		return nil, fmt.Errorf("locating the blocks of %s: %s", f.uri(p), res.Status)
	}
	var answer struct {
		BlockLocations struct{ BlockLocation []located }
	}
	if err := json.NewDecoder(body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("locating the blocks of %s: %w", f.uri(p), err)
	}
	return answer.BlockLocations.BlockLocation, nil
}
