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

// block is a block of a file with its hosts. WebHDFS has the same field names.
type block struct {
	Offset, Length int64
	Hosts          []string
}

// locations caches the blocks of the file that Hosts was called for last, because
// input.Plan calls it for one split of a file after the other. It also caches a
// failure: a plan of a thousand splits must not wait for a thousand time-outs.
type locations struct {
	mu     sync.Mutex
	path   string
	blocks []block
	failed error     // applies to every path
	until  time.Time // the cached answer is valid until then
}

const (
	locationsAge = 10 * time.Second // how long an answer or a failure stays in the cache
	webTimeout   = 10 * time.Second
	webLimit     = 256 << 20 // bytes of an answer; a file of a million blocks needs less
)

// Hosts implements storage.Located. It returns the names with which the DataNodes
// have registered (dfs.datanode.hostname).
func (f *FS) Hosts(ctx context.Context, p string, off, n int64) ([]string, error) {
	p = f.inner(p)
	blocks, err := f.blocks(ctx, p)
	if err != nil {
		return nil, err
	}
	share := map[string]int64{} // bytes of the range, by host
	var hosts []string
	// A split may cover parts of two blocks, whose hosts differ. The share of the bytes decides.
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
	// Stable, so that hosts with equal shares keep the NameNode's order.
	slices.SortStableFunc(hosts, func(a, b string) int { return cmp.Compare(share[b], share[a]) })
	return hosts[:min(len(hosts), maxHosts)], nil
}

// maxHosts bounds the result of Hosts. HDFS stores three replicas by default.
const maxHosts = 3

// blocks returns the blocks of a file, from the cache if possible.
func (f *FS) blocks(ctx context.Context, p string) ([]block, error) {
	l := &f.located
	// Held during the request: splits that are planned at the same time wait for one answer.
	l.mu.Lock()
	defer l.mu.Unlock()
	// Stale locations do no harm: they only suggest where a task should run, and the reader asks for the
	// present ones.
	if now := time.Now(); now.Before(l.until) && (l.failed != nil || l.path == p) {
		return l.blocks, l.failed
	}
	blocks, err := f.fetchBlocks(ctx, p)
	// A cancelled call says nothing about the server. A cached failure would take the hosts from
	// the other splits.
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	l.path, l.blocks, l.until, l.failed = p, blocks, time.Now().Add(locationsAge), err
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		l.until = time.Time{} // other files may have an answer
	}
	return blocks, err
}

// fetchBlocks tries the NameNodes in turn; only the active one answers.
func (f *FS) fetchBlocks(ctx context.Context, p string) ([]block, error) {
	var errs []error
	for _, base := range strings.Split(f.settings.http, ",") {
		if base == "" {
			continue
		}
		blocks, err := f.fetchBlocksFrom(ctx, base, p)
		if err == nil {
			return blocks, nil
		}
		errs = append(errs, err)
	}
	if errs == nil {
		return nil, errors.New("the NameNode's HTTP address is unknown: set SLOTWISE_HDFS_HTTP to http://host:port")
	}
	return nil, errors.Join(errs...)
}

// fetchBlocksFrom calls WebHDFS's GETFILEBLOCKLOCATIONS at one NameNode.
func (f *FS) fetchBlocksFrom(ctx context.Context, base, p string) ([]block, error) {
	u, err := url.Parse(strings.TrimSuffix(base, "/"))
	if err != nil {
		return nil, err
	}
	u = u.JoinPath("webhdfs", "v1")
	// JoinPath would decode percent signs in p, where they are part of a file's name.
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
	// The address may belong to any server, so the answer's size is bounded.
	body := io.LimitReader(res.Body, webLimit)
	switch res.StatusCode {
	case http.StatusOK:
	// These two are answers about this file alone: blocks does not apply them to other files, as it
	// does with every other failure.
	case http.StatusNotFound:
		return nil, f.failed("locate", p, fs.ErrNotExist)
	case http.StatusForbidden, http.StatusUnauthorized:
		return nil, f.failed("locate", p, fs.ErrPermission)
	default:
		return nil, fmt.Errorf("locating the blocks of %s: %s", f.uri(p), res.Status)
	}
	var answer struct {
		BlockLocations struct{ BlockLocation []block }
	}
	if err := json.NewDecoder(body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("locating the blocks of %s: %w", f.uri(p), err)
	}
	return answer.BlockLocations.BlockLocation, nil
}
