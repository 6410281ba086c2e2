package generate

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
)

// Logs of a monitor that scrapes many BitTorrent trackers every hour. For each
// swarm (the peers of one file, identified by its infohash) a sample has the
// number of peers with the whole file, the number of peers that download it, and
// the number of downloads so far.
//
//	sample   unix time TAB tracker TAB infohash TAB seeders TAB leechers TAB downloads
//	failure  unix time TAB tracker TAB - TAB reason
//
// The logs show the properties that BTWorld has published: swarm sizes
// follow a Zipf law, swarms are born and die, a few trackers have most of the
// swarms and popular swarms are on several trackers, peers come and go with
// the hour of the day, some trackers are down for hours, scrapes time out, and
// a scrape in parts sees a swarm twice in an hour.

// trackerEpoch is the first second of the logs: 2009-12-01 00:00 UTC.
const trackerEpoch = 1_259_625_600

// trackerLogs writes hours of logs until there are size bytes, or for as many
// hours as the parameter says.
func trackerLogs(ctx context.Context, o Options) error {
	var errs [3]error
	var trackers, swarms, hours int64
	trackers, errs[0] = o.Params.Int("trackers", 1)
	swarms, errs[1] = o.Params.Int("swarms", 1)
	hours, errs[2] = o.Params.Int("hours", 0)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	limit := int64(math.MaxInt64)
	if hours == 0 {
		// Enough hours for any size: the limit ends them.
		hours, limit = math.MaxInt32, o.Size
	}
	world := newTrackerWorld(int(trackers), int(swarms), o.Seed)
	return inDir(o, func(dir string) error {
		m := &meter{ctx: ctx, progress: o.Progress}
		return writeFile(m, dir, trackersFile, func(w io.Writer) error {
			return world.write(ctx, w, hours, limit)
		})
	})
}

// errEnough ends the hours when the file has its size.
var errEnough = errors.New("enough")

// write writes hours from 0 on, whole lines only and at most limit bytes.
func (w *trackerWorld) write(ctx context.Context, out io.Writer, hours, limit int64) error {
	buffered := bufio.NewWriterSize(out, 1<<18)
	err := inOrder(ctx, hours, w.hour, func(b []byte) error {
		// The last hour is cut at a line, so that every line of the file is whole.
		enough := int64(len(b)) > limit
		if enough {
			b = b[:limit]
			for len(b) > 0 && b[len(b)-1] != '\n' {
				b = b[:len(b)-1]
			}
		}
		limit -= int64(len(b))
		if _, err := buffered.Write(b); err != nil {
			return err
		}
		if enough || limit == 0 {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	return buffered.Flush()
}
