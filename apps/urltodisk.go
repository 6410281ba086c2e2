package apps

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/mapreduce"
)

// urlToDisk downloads large files to a directory of the machine that the map
// task runs on: the URLToDisk job that learning schedulers were measured with,
// bound by network and disk.
//
//	input       a URL on each line; empty lines and # comments are skipped
//	parameters  dir: where to; timeout, max-bytes
//	output      URL TAB file name TAB bytes
//
// A file has its final name when it is complete. Files that cannot be had or
// are too large are counted by the kind of error.
var urlToDisk = &mapreduce.App{
	Name:    "urltodisk",
	Summary: "downloads files to a local directory",
	Reads:   "URLs",
	Writes:  "URL TAB file TAB bytes",
	Params: append([]mapreduce.Param{
		{Name: "dir", Required: true, Help: "directory to download to; made if missing"},
	}, fetchParams("1073741824")...),
	Job: func(p mapreduce.Params) (*mapreduce.Job, error) {
		fetch, err := newFetcher(p)
		if err != nil {
			return nil, err
		}
		dir := p.Get("dir")
		if dir == "" {
			return nil, errors.New("parameter dir is empty")
		}
		return &mapreduce.Job{
			Name:   "urltodisk",
			Mapper: func() mapreduce.Mapper { return &downloader{fetcher: fetch(), dir: dir} },
		}, nil
	},
}

// downloader downloads files.
type downloader struct {
	*fetcher
	dir string
}

// Map downloads a file.
func (d *downloader) Map(_, line []byte, out *mapreduce.Emitter) error {
	address := target(line)
	if address == "" {
		return nil
	}
	name := fileName(address)
	var size int64
	ok, err := d.fetch(out.Task().Context(), address, func(body io.Reader) (err error) {
		size, err = save(d.dir, name, body)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	if ok {
		out.Emit([]byte(address), []byte(name+"\t"+strconv.FormatInt(size, 10)))
	}
	return nil
}

// save writes a file that has its name only when it is complete; two attempts
// of a task may do so at once.
func save(dir, name string, body io.Reader) (size int64, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return 0, err
	}
	f, err := os.CreateTemp(dir, ".download-*")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name()) // gone already if all went well
	size, err = io.Copy(f, body)
	// CreateTemp lets only the user read the file.
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return 0, err
	}
	return size, os.Rename(f.Name(), filepath.Join(dir, name))
}

// fileName makes a file name of a URL: its host and path, of harmless
// characters only, and a hash of the whole URL, so that no two URLs share one and none
// can point out of the directory.
func fileName(address string) string {
	h := fnv.New64a()
	h.Write([]byte(address))
	readable := "file"
	if u, err := url.Parse(address); err == nil {
		readable = u.Host + u.Path
	}
	const most = 100
	// The end, because that is where URLs have the name and the extension of a file. A character that is cut
	// in two becomes underscores.
	readable = readable[max(0, len(readable)-most):]
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '.':
			return r
		}
		return '_'
	}, readable)
	return fmt.Sprintf("%016x-%s", h.Sum64(), safe)
}
