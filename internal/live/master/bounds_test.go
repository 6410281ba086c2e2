package master

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/live/client"
	"github.com/slotwise/slotwise/internal/testkit/clustertest"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// TestCancelledPolls cancels thousands of long polls of all kinds. The master must forget
// them all, so that later polls wait again.
func TestCancelledPolls(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	id := r.submit(r.spec(1, 1, ""))
	w := r.worker("w1", 1, 1)
	w.awaitLaunch("j1_m_0_0")
	const callers, rounds = 50, 60
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			for i := range rounds {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Duration((c*rounds+i)%7)*time.Millisecond, cancel)
				if c%2 == 0 {
					_, _ = r.users.Job(ctx, &slotwisev1.JobRequest{Job: id, After: 1 << 60, WaitMs: 60_000}) // cancelled
				} else {
					_, _ = r.workers.MapOutputs(ctx, &slotwisev1.MapOutputsRequest{Session: w.session, Job: id, WaitMs: 60_000}) // cancelled, but the first
				}
				cancel()
			}
		})
	}
	group.Wait()
	clustertest.Eventually(t, "no call is left", func() bool {
		n, err := query(t.Context(), r.m, func() (int, error) {
			users, beats := r.m.core.Held()
			return users + len(r.m.calls) - beats, r.m.core.Check()
		})
		if err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
}

// TestPages reads lists that are larger than a page.
func TestPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{})
	spec := r.spec(0, 0, "")
	spec.Synthetic = 0
	for i := range 500 {
		spec.Splits = append(spec.Splits, &slotwisev1.Split{Pieces: []*slotwisev1.Piece{{Uri: filepath.Join(t.TempDir(), "in")}}})
		for range bounds.Hosts {
			spec.Splits[i].Hosts = append(spec.Splits[i].Hosts, strings.Repeat("h", bounds.Name))
		}
	}
	first := r.submit(spec) // 500 tasks of 25 kB
	second := r.submit(proto.CloneOf(spec))
	c, err := client.New(r.srv.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{first, second} {
		tasks, err := c.Tasks(t.Context(), &slotwisev1.TasksRequest{Job: id})
		if err != nil || len(tasks) != 500 {
			t.Fatalf("%d tasks, error %v", len(tasks), err)
		}
	}
	pages, after := 0, ""
	for seen := 0; ; pages++ {
		resp, err := r.users.Tasks(t.Context(), &slotwisev1.TasksRequest{Job: first, After: after, State: "pending"})
		if err != nil || proto.Size(resp) > bounds.Page+1000 {
			t.Fatalf("a page of %d bytes, error %v", proto.Size(resp), err)
		}
		for _, task := range resp.Tasks {
			if want := fmt.Sprintf("%s_m_%d", first, seen); task.Id != want {
				t.Fatalf("%s, want %s", task.Id, want)
			}
			seen++
		}
		if after = resp.Next; after == "" {
			if seen != 500 || pages == 0 {
				t.Errorf("%d tasks on %d pages", seen, pages+1)
			}
			break
		}
	}
	jobs, err := c.Jobs(t.Context(), &slotwisev1.JobsRequest{After: first})
	if err != nil || len(jobs) != 1 || jobs[0].Id != second {
		t.Errorf("after %s: %v, error %v", first, jobs, err)
	}
}

// TestLongRequests sends names and reasons of a megabyte. The answers and the lines of the log are short.
func TestLongRequests(t *testing.T) {
	t.Parallel()
	log := &logText{}
	r := newRig(t, Config{Log: slog.New(slog.NewTextHandler(log, nil))})
	long := strings.Repeat("x", 1<<20)
	_, noJob := r.users.Job(t.Context(), &slotwisev1.JobRequest{Job: long})
	spec := r.spec(1, 0, long)
	_, noOutput := r.users.Submit(t.Context(), &slotwisev1.SubmitRequest{RequestId: "r", Spec: spec})
	_, noPolicy := r.users.SetPolicy(t.Context(), &slotwisev1.SetPolicyRequest{Name: long})
	for what, err := range map[string]error{"job": noJob, "output": noOutput, "policy": noPolicy} {
		if connect.CodeOf(err) != connect.CodeInvalidArgument || len(err.Error()) > bounds.Text+100 {
			t.Errorf("%s: %d bytes, %.200v", what, len(err.Error()), err)
		}
	}
	if _, err := r.users.Kill(t.Context(), &slotwisev1.KillRequest{Job: r.submit(r.spec(1, 0, "")), Reason: long}); err != nil {
		t.Fatal(err)
	}
	if text := log.String(); !strings.Contains(text, "msg=kill") || len(text) > len(long)/2 {
		t.Errorf("the log has %d bytes: %.1000s", len(text), text)
	}
}
