// Package frametest serves the frames of workers with the service of a test's own master.
package frametest

import (
	"context"
	"errors"
	"io"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/live/frames"
	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/proto/slotwise/v1/slotwisev1connect"
)

// Handle has a mux serve a service of workers: its requests, and its frames at frames.Path, with messages of
// at most a number of bytes. Connections end with ctx.
// Unlike the master's server it has no time limits, no authentication and no counters, and it answers calls
// in any order, as the protocol permits.
func Handle(ctx context.Context, mux *http.ServeMux, s slotwisev1connect.WorkerServiceHandler, most int) {
	mux.Handle(slotwisev1connect.NewWorkerServiceHandler(s, connect.WithReadMaxBytes(most)))
	mux.HandleFunc("POST "+frames.Path, func(w http.ResponseWriter, r *http.Request) {
		stream, err := secure.Upgrade(w, r, frames.Protocol)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUpgradeRequired)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		context.AfterFunc(ctx, func() { _ = stream.Close() })
		sender := frames.NewSender(stream, func(int) {})
		defer sender.Close()
		for {
			head, err := frames.ReadHead(stream)
			if err != nil {
				return
			}
			raw, call := make([]byte, head.Length), &slotwisev1.WorkerCall{}
			// Read although it may be too large: the next head follows it, and closing the connection would
			// hide the error that the worker must get.
			if _, err := io.ReadFull(stream, raw); err != nil || proto.Unmarshal(raw, call) != nil {
				return
			}
			if head.Length > most {
				sender.Send(head.Number, frames.ErrorAnswer(connect.NewError(connect.CodeResourceExhausted, errors.New("the message is too large"))))
				continue
			}
			// Each call in a goroutine, as with requests over HTTP: a heartbeat must not wait for a call that
			// a test holds up.
			go func() {
				a, err := dispatch(ctx, s, call)
				if ctx.Err() != nil {
					return // the connection is being closed
				}
				if err != nil {
					a = frames.ErrorAnswer(err)
				}
				sender.Send(head.Number, a)
			}()
		}
	})
}

// dispatch makes a call of the service.
func dispatch(ctx context.Context, s slotwisev1connect.WorkerServiceHandler, call *slotwisev1.WorkerCall) (*slotwisev1.WorkerAnswer, error) {
	switch what := call.What.(type) {
	case *slotwisev1.WorkerCall_Heartbeat:
		resp, err := s.Heartbeat(ctx, what.Heartbeat)
		return &slotwisev1.WorkerAnswer{What: &slotwisev1.WorkerAnswer_Heartbeat{Heartbeat: resp}}, err
	case *slotwisev1.WorkerCall_AskCommit:
		resp, err := s.AskCommit(ctx, what.AskCommit)
		return &slotwisev1.WorkerAnswer{What: &slotwisev1.WorkerAnswer_AskCommit{AskCommit: resp}}, err
	case *slotwisev1.WorkerCall_Job:
		resp, err := s.JobForWorker(ctx, what.Job)
		return &slotwisev1.WorkerAnswer{What: &slotwisev1.WorkerAnswer_Job{Job: resp}}, err
	case *slotwisev1.WorkerCall_MapOutputs:
		resp, err := s.MapOutputs(ctx, what.MapOutputs)
		return &slotwisev1.WorkerAnswer{What: &slotwisev1.WorkerAnswer_MapOutputs{MapOutputs: resp}}, err
	}
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("no such call"))
}
