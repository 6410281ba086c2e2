// Package source is the contract between the web console and a cluster or its history: a Source provides
// the data of the pages, and an Actor carries out what users ask for. The console implements
// neither, and a master that implements both does not know the console.
package source

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
)

// Root is the path below which all pages are. A browser sends its cookie only there.
const Root = "/ui/"

// SignIn is the path of the page on which people sign in with a token.
const SignIn = Root + "login"

// Events is the path of the streams that tell pages of changes.
const Events = Root + "events"

// Public are the paths that need no authentication.
var Public = []string{SignIn, Root + "assets/"}

// Visitor identifies the sender of a request. The zero Visitor has no identity.
type Visitor struct {
	Known    bool   // the request brings an identity
	Name     string // for the head of the page
	Account  string // counts the streams to the visitor's browsers
	SignedIn bool   // the browser has a session, which the visitor may end
}

// Source provides the data of the pages. Its errors carry the codes of package connect; a text of
// an error is shown to the user. The console must not change what a method returns.
// Its methods are called by many requests at the same time. All who may sign in see the jobs and the
// nodes; Log and Stack check the identity in ctx.
type Source interface {
	// Use returns the current use of the slots. The console calls it once a second,
	// without an identity.
	Use(ctx context.Context) (Use, error)
	// Jobs returns a page of the jobs and chains in memory.
	Jobs(ctx context.Context, q Query) (Jobs, error)
	// Job returns a job or chain.
	Job(ctx context.Context, id string) (*Job, error)
	// Attempts returns all attempts of a job, and findings about its speed. The
	// console keeps the answer for a while, for all viewers.
	Attempts(ctx context.Context, id string) ([]Attempt, []*slotwisev1.Finding, error)
	// Nodes returns all nodes, and the attempts that run on the named one.
	Nodes(ctx context.Context, name string) ([]*slotwisev1.NodeStatus, []Attempt, error)
	// Policy returns the installed policy.
	Policy(ctx context.Context) (*Policy, error)
	// Inspect returns the name of the installed policy and its inner state. The console
	// also calls it without an identity, every few seconds.
	Inspect(ctx context.Context) (string, sched.Insight, error)
	// History returns ended jobs, newest first.
	History(ctx context.Context, q Query) (Jobs, error)
	// Log copies what an attempt has printed; with follow until the attempt ends.
	Log(ctx context.Context, attempt string, follow bool, w io.Writer) error
	// Stack copies what a running attempt does: its processes, and the stacks of its goroutines.
	Stack(ctx context.Context, attempt string, w io.Writer) error
}

// Past is a Source whose jobs have all ended: a history, or results of simulations.
type Past interface {
	Source
	OnlyPast()
}

// Ended is the part of a Past that has no cluster behind it: no nodes, no policy and no logs. Err says so.
type Ended struct{ Err error }

// OnlyPast implements Past.
func (e Ended) OnlyPast() {}

// Use implements Source.
func (e Ended) Use(context.Context) (Use, error) { return Use{}, e.Err }

// Nodes implements Source.
func (e Ended) Nodes(context.Context, string) ([]*slotwisev1.NodeStatus, []Attempt, error) {
	return nil, nil, e.Err
}

// Policy implements Source.
func (e Ended) Policy(context.Context) (*Policy, error) { return nil, e.Err }

// Inspect implements Source.
func (e Ended) Inspect(context.Context) (string, sched.Insight, error) {
	return "", sched.Insight{}, e.Err
}

// Log implements Source.
func (e Ended) Log(context.Context, string, bool, io.Writer) error { return e.Err }

// Stack implements Source.
func (e Ended) Stack(context.Context, string, io.Writer) error { return e.Err }

// Actor changes what a Source shows. A console without an Actor is read-only.
// Each method checks the rights of the identity in ctx by itself. The May methods only keep a page from
// showing forms that would be refused.
type Actor interface {
	// MayChange reports whether the sender of the request may change a user's jobs in a pool.
	MayChange(ctx context.Context, user, pool string) bool
	Kill(ctx context.Context, id, reason string) error
	SetPriority(ctx context.Context, id, priority string) error
	Move(ctx context.Context, id, pool string) error
	// MayDrain reports whether the sender of the request may drain nodes.
	MayDrain(ctx context.Context) bool
	Drain(ctx context.Context, node string, undo bool) error
	SetPolicy(ctx context.Context, name string, set map[string]string) error
	// WhatIf forecasts the jobs' ends after some changes without making the changes.
	WhatIf(ctx context.Context, changes *slotwisev1.WhatIfRequest) (*slotwisev1.WhatIfResponse, error)
	// Succeeded passes the jobs that have succeeded since a time, with all of their tasks, to put: the
	// newest first, and at most some. An error of put ends it.
	Succeeded(ctx context.Context, since time.Time, most int, put func(*slotwisev1.HistoryJob) error) error
	// Detach returns a context for work that continues after the answer to its request, with the
	// identity of the sender.
	Detach(ctx context.Context) context.Context
}

// Simulator answers questions that need the whole simulator, which a master does not have.
type Simulator interface {
	// Plan returns the jobs of a job mix, whose tasks and times the mix must state: the programs and
	// files that a mix may name are the sender's, and not on the machine of the master.
	Plan(ctx context.Context, mix string) ([]*slotwisev1.WhatIfJob, error)
	// Past simulates the jobs that have succeeded on the cluster under other policies. It calls
	// report, in any goroutine, with a line about its progress now and then.
	Past(ctx context.Context, q *PastQuestion, report func(string)) (*PastAnswer, error)
}

// PastQuestion asks which policy would have been better. Its fields are the flags of slotwise whatif
// --since.
type PastQuestion struct {
	Since    time.Duration
	Policy   string // "" compares several and searches further ones
	Set      map[string]string
	Nodes    int // more workers; fewer if it is negative
	Minimise string
	Budget   int
	Workers  int // simulations at the same time; 0 is one for each processor
}

// PastAnswer compares policies on jobs of the past.
type PastAnswer struct {
	Installed string
	Rows      []PastRow
	Verdict   string // which policy is recommended and why, or that none is
	// Policy, with Set, is the recommended policy; "" without a recommendation.
	Policy string
	Set    map[string]string
	Notes  []string
}

// PastRow is a measure of a policy, and its difference from the installed policy's.
type PastRow struct {
	Policy, Measure string
	Value           float64 // seconds, or a factor
	// Ratio is the value divided by the installed policy's, with its 95 % confidence interval unless
	// both ends are 0. Ratio is 0 for the installed policy itself.
	Ratio, Low, High float64
	Verdict          string
}

// Use counts slots and jobs at one moment.
// A job counts in one of Waiting, Started and Closing; chains count in none.
type Use struct {
	Map, Reduce               int // slots of the nodes that are alive
	Pools, Users              []Share
	Waiting, Started, Closing int // jobs by state
	Alive, Nodes              int
	Revision                  int64 // differs after every change that pages show
}

// Share counts the running attempts and the waiting tasks of a pool or of a user.
type Share struct {
	Name                  string
	Maps, Reduce, Waiting int
}

// Tally counts tasks by pool or by user.
type Tally map[string]Share

// Add counts the running maps and reduces and the waiting tasks of a job.
func (t Tally) Add(name string, maps, reduces, waiting int) {
	s := t[name]
	t[name] = Share{name, s.Maps + maps, s.Reduce + reduces, s.Waiting + waiting}
}

// mostShares bounds the shares of a sample. The console keeps more than a thousand samples, and a
// cluster may have thousands of users.
const mostShares = 64

// List returns the shares by name. Of too many, the smallest are counted together.
func (t Tally) List() []Share {
	size := func(s Share) int { return s.Maps + s.Reduce + s.Waiting }
	list := slices.SortedFunc(maps.Values(t), func(a, b Share) int {
		return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(a.Name, b.Name))
	})
	if len(list) > mostShares {
		rest := Tally{}
		for _, s := range list[mostShares-1:] {
			rest.Add("(others)", s.Maps, s.Reduce, s.Waiting)
		}
		// A pool that is really called (others) is drawn as a part of this sum.
		list = append(list[:mostShares-1], rest["(others)"])
	}
	slices.SortFunc(list, func(a, b Share) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// Query selects jobs of a list. Zero fields select all.
type Query struct {
	Text              string // part of the id or the name, in any case
	User, Pool, State string
	From, To          int64 // submitted between these times, in ms since the Unix epoch
	Live              bool  // only jobs that have not ended, oldest first; else all, newest first, ended jobs last
	Offset, Limit     int
}

// Jobs is a page of a list.
type Jobs struct {
	List  []*slotwisev1.JobStatus
	Total int    // jobs that the query selects
	Note  string // what the list leaves out; "" if nothing
}

// Job is everything about one job but its attempts.
type Job struct {
	Status    *slotwisev1.JobStatus
	Steps     []*slotwisev1.JobStatus // of a chain
	Why       []*slotwisev1.Explanation
	Spec      *slotwisev1.JobSpec // nil if it is unknown, or if the viewer may not change the job
	MayChange bool                // the viewer may change the job and read its logs
	Past      bool                // the job is in the history only
}

// Attempt is one execution of a task.
// The console keeps attempts for minutes, so they must not share memory with the tracker.
type Attempt struct {
	ID          string
	Kind        byte  // 'm' or 'r'
	Task        int32 // index within its kind
	State       string
	Node        string
	Level       string
	Speculative bool
	Progress    float64
	Started     int64 // ms since the Unix epoch
	Ended       int64 // 0 while it runs
	OutputBytes int64
	Error       string
}

// Running reports whether the attempt has not ended.
func (a *Attempt) Running() bool { return a.Ended == 0 }

// Took returns how long the attempt has run, in ms.
func (a *Attempt) Took(now int64) int64 {
	if a.Ended > 0 {
		now = a.Ended
	}
	return max(0, now-a.Started)
}

// Difference returns by how much later a job ends with the changes, and the interval of 8 of 10 futures. known is
// false unless both ends are known. The median of the futures' differences is not the difference of the medians, and
// only the first lies in its interval.
func Difference(row *slotwisev1.WhatIfRow) (median, low, high time.Duration, known bool) {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	if g := row.Gain; g != nil {
		return ms(g.MedianMs), ms(g.LowMs), ms(g.HighMs), true
	}
	median = ms(row.Then.GetEndMs() - row.Now.GetEndMs())
	return median, median, median, row.Now.GetKnown() && row.Then.GetKnown()
}

// KeepsDeadline says whether a job keeps its deadline, now and with the changes, for the console and
// the command line; "" for a job without a deadline.
func KeepsDeadline(row *slotwisev1.WhatIfRow) string {
	word := func(f *slotwisev1.JobForecast) string {
		switch {
		case f.GetNever():
			return "missed"
		case !f.GetKnown():
			return "unknown"
		case f.EndMs > row.DeadlineMs:
			return "missed"
		case f.LateMs > row.DeadlineMs:
			return "at risk"
		}
		return "met"
	}
	switch now, then := word(row.Now), word(row.Then); {
	case row.DeadlineMs == 0:
		return ""
	case row.Then == nil:
		return "killed"
	// A job of the question itself has no present forecast.
	case row.Now == nil || now == then:
		return then
	default:
		return now + " → " + then
	}
}

// Policy describes the installed policy.
type Policy struct {
	Name      string
	Set       map[string]string // parameters that were given
	Parts     []Part
	Known     []string // names that can be installed; nil if it cannot be changed
	MayChange bool
}

// Part is one part of the installed policy.
type Part struct {
	Role, Name, Summary string
	Params              []Param
}

// Param is a parameter of a part with its current value.
type Param struct {
	Name, Value, Default, Doc string
}

// DescribePolicy describes a policy with its parameters. Known has the names of reg, and the
// policy's own if it is a composition.
func DescribePolicy(reg *sched.Registry, name string, set map[string]string) *Policy {
	p := &Policy{Name: name, Set: set, Known: reg.Names()}
	if !slices.Contains(p.Known, p.Name) {
		p.Known = append(p.Known, p.Name)
	}
	info, err := reg.Describe(name)
	if err != nil {
		return p // the journal may name a policy of another program
	}
	for _, part := range info.Parts {
		x := Part{Role: part.Part, Name: part.Name, Summary: part.Summary}
		for _, y := range part.Params {
			x.Params = append(x.Params, Param{Name: y.Name, Value: cmp.Or(set[y.Name], y.Default), Default: y.Default, Doc: y.Help})
		}
		p.Parts = append(p.Parts, x)
	}
	return p
}

// StateName is a job's state for people.
func StateName(s slotwisev1.JobState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "JOB_STATE_"))
}

// PriorityName is a priority as flags have it.
func PriorityName(p string) string { return strings.ToLower(strings.ReplaceAll(p, "_", "-")) }

// Age returns the time from a job's submission to its end, or to now.
func Age(j *slotwisev1.JobStatus, now time.Time) time.Duration {
	return time.Duration(max(0, cmp.Or(j.EndedMs, now.UnixMilli())-j.SubmittedMs)) * time.Millisecond
}

// LocalityText counts maps by their distance to their data. It returns "" for a job without locations.
func LocalityText(n []int32) string {
	if len(n) < 4 || n[0]+n[1]+n[2] == 0 {
		return ""
	}
	return fmt.Sprintf("%d on the machine of their data, %d in its rack, %d elsewhere", n[0], n[1], n[2])
}
