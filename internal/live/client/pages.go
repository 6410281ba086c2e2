package client

import (
	"context"

	"google.golang.org/protobuf/proto"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// A master answers long lists in pages. The functions of this file return whole lists. A
// list is not a snapshot: a job may change between two pages.

// Jobs lists jobs. It returns no part of a list with an error: a script would take it for all jobs.
func (c *Client) Jobs(ctx context.Context, r *slotwisev1.JobsRequest) (jobs []*slotwisev1.JobStatus, err error) {
	// A copy, because the caller may use its request again.
	for page := proto.CloneOf(r); ; {
		resp, err := Call(ctx, c, c.rpc.Jobs, page)
		if err != nil {
			return nil, err
		}
		if jobs = append(jobs, resp.Jobs...); resp.Next == "" {
			return jobs, nil
		}
		page.After = resp.Next
	}
}

// Tasks lists the tasks of a job.
func (c *Client) Tasks(ctx context.Context, r *slotwisev1.TasksRequest) (tasks []*slotwisev1.TaskStatus, err error) {
	for page := proto.CloneOf(r); ; {
		resp, err := Call(ctx, c, c.rpc.Tasks, page)
		if err != nil {
			return nil, err
		}
		if tasks = append(tasks, resp.Tasks...); resp.Next == "" {
			return tasks, nil
		}
		page.After = resp.Next
	}
}

// defaultPast is the number of jobs in a list of the history if the request has no limit.
const defaultPast = 50

// History lists ended jobs, or returns one with its tasks. note is the HistoryResponse's.
func (c *Client) History(ctx context.Context, r *slotwisev1.HistoryRequest) (jobs []*slotwisev1.HistoryJob, note string, err error) {
	limit := r.Limit
	if limit <= 0 {
		limit = defaultPast
	}
	page := proto.CloneOf(r)
	page.Limit = limit
	for {
		resp, err := Call(ctx, c, c.rpc.History, page)
		if err != nil {
			return nil, "", err
		}
		jobs, note = append(jobs, resp.Jobs...), resp.Note
		switch {
		// A page without a job cannot say where the next one begins.
		case resp.Next == "" || len(resp.Jobs) == 0:
			return jobs, note, nil
		// The pages of one job are pages of its tasks, which another call continues.
		case r.Job != "":
			tasks, err := c.Tasks(ctx, &slotwisev1.TasksRequest{Job: r.Job, After: resp.Next})
			jobs[0].Tasks = append(jobs[0].Tasks, tasks...)
			return jobs, note, err
		case len(jobs) >= int(limit):
			return jobs, note, nil
		}
		page.Limit, page.Before = limit-int32(len(jobs)), resp.Next
	}
}
