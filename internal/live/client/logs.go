package client

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/base/retry"
	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Log passes the log of an attempt, or what the attempt does, to send in parts. If the connection to the
// master breaks, or the master becomes silent, it asks again, at another master that leads now, and leaves out the bytes that send has
// had: a worker sends a log from its beginning. A part with a note is one that the master has kept; it
// may begin anywhere, so it is passed on completely. An error of send ends the call.
func (c *Client) Log(ctx context.Context, r *slotwisev1.LogRequest, send func(*slotwisev1.LogChunk) error) error {
	var sent int64 // bytes of the log
	got := false   // a part has arrived in this try
	tries := 0
	var failed error // of send
	o := retry.Options{
		What: "master " + c.list, Notify: c.opts.Notify, Text: shortText,
		Progressed: func() bool { return got },
		Patience: func(err error) time.Duration {
			switch {
			case failed != nil:
				return -1
			// The RPC library reports a stream that was cut off as an internal error of the library. A new leader
			// knows an attempt's worker only when the worker has registered again.
			case notLeader(err), errors.Is(err, secure.ErrSilent), sent > 0 && (Unreachable(err) || cutOff(err) || connect.CodeOf(err) == connect.CodeFailedPrecondition):
				return max(c.opts.Patience, electionPatience)
			case Unreachable(err):
				return c.opts.Patience
			}
			return -1
		},
	}
	err := retry.Run(ctx, o, func(ctx context.Context) error {
		got = false
		// A follower refuses a stream within its answer, where secure.Masters does not look. A call finds
		// the leader for the stream.
		if tries++; tries > 1 {
			if _, err := c.rpc.Cluster(ctx, &slotwisev1.ClusterRequest{}); err != nil {
				return err
			}
		}
		stream, err := c.rpc.Log(ctx, r)
		if err != nil {
			return err
		}
		defer stream.Close()
		skip := sent
		for stream.Receive() {
			chunk := stream.Msg()
			if chunk.Note != "" {
				skip = 0
			}
			old := min(skip, int64(len(chunk.Data)))
			skip -= old
			if chunk.Data = chunk.Data[old:]; len(chunk.Data) == 0 && chunk.Note == "" {
				continue // repeated
			}
			got = true
			sent += int64(len(chunk.Data))
			if failed = send(chunk); failed != nil {
				return failed
			}
		}
		return stream.Err()
	})
	if failed != nil || ctx.Err() != nil {
		return err
	}
	return c.Named(err)
}

// cutOff reports whether an error of a stream that had begun is none that the master has sent.
func cutOff(err error) bool { return !connect.IsWireError(err) && !secure.IsPermanent(err) }
