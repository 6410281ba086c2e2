package console

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/console/source"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// A question about the past takes minutes, and one with a file cannot be part of an address. Both are
// answered in the background. Their page shows how far the answer is, and then the answer, so
// a browser without scripts, or one that was closed, misses nothing.

// Bounds of such questions.
const (
	maxMix       = 256 << 10        // bytes of a file of jobs
	laterTime    = 10 * time.Minute // for one answer
	laterRunning = 2                // answers that are computed at the same time; each user has one
	laterKept    = 20               // answers that are kept
)

// later is a question that is answered in the background.
// The fields above mu never change once begin has admitted the question.
type later struct {
	id, account string
	query       url.Values // the fields of its form
	past        bool
	cancel      func()

	mu       sync.Mutex
	progress string
	ended    bool
	err      error
	answer   *section
	policy   string // the recommended policy
	set      map[string]string
}

// laters holds the questions, the oldest first.
type laters struct {
	mu   sync.Mutex
	list []*later
}

// begin admits a question, or says why not.
func (l *laters) begin(q *later) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	running := 0
	for _, x := range l.list {
		// Locks are taken in this order alone: the list's, then a question's.
		if x.over() {
			continue
		}
		if running++; x.account == q.account {
			return connect.NewError(connect.CodeResourceExhausted, errors.New("your last question is still being answered: wait for the answer, or stop it on its page, /ui/whatif/"+x.id))
		}
	}
	if running >= laterRunning {
		return connect.NewError(connect.CodeResourceExhausted, errors.New("other users' questions are being answered: ask again in a minute"))
	}
	if len(l.list) >= laterKept {
		at := slices.IndexFunc(l.list, (*later).over) // at least one has ended, because few run
		l.list = slices.Delete(l.list, at, at+1)
	}
	l.list = append(l.list, q)
	return nil
}

// find returns the question of an account, or nil. Others must not see it: it may hold names of jobs
// that are not submitted yet.
func (l *laters) find(id, account string) *later {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range l.list {
		if q.id == id && q.account == account {
			return q
		}
	}
	return nil
}

func (q *later) over() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended
}

func (q *later) report(text string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.progress = text
}

// askLater receives both forms of the page What if. A question that an address can hold is answered
// there, so the address can be passed on.
func (s *Server) askLater(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 2*maxMix)
	q := &later{id: rand.Text(), account: s.who(r).Account, past: r.URL.Query().Get("past") != ""}
	mix, err := q.read(r)
	if err == nil && !q.past && mix == "" {
		http.Redirect(w, r, "/ui/whatif?"+q.query.Encode(), http.StatusSeeOther)
		return
	}
	var work func(context.Context) error
	switch {
	case err != nil:
	// The forms have no files then, so only a program that builds requests itself gets here.
	case s.Simulator == nil:
		err = connect.NewError(connect.CodeNotFound, errors.New("this console simulates no files and no past"))
	case q.past:
		work, err = s.simulatePast(q)
	default:
		work, err = s.simulateMix(q, mix)
	}
	if err == nil {
		err = s.laters.begin(q)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	// The answer outlives this request, and ends with the console.
	ctx, done := context.WithTimeoutCause(s.actor.Detach(r.Context()), laterTime, fmt.Errorf("the simulation took more than %v", laterTime))
	ctx, cancel := context.WithCancelCause(ctx)
	q.mu.Lock()
	q.cancel = func() { cancel(errors.New("the simulation was stopped")) }
	q.mu.Unlock()
	go func() {
		defer done()
		defer context.AfterFunc(s.ctx, q.cancel)()
		err := q.answerBy(ctx, work)
		q.mu.Lock()
		defer q.mu.Unlock()
		q.ended, q.err = true, err
	}()
	http.Redirect(w, r, "/ui/whatif/"+q.id, http.StatusSeeOther)
}

// answerBy calls work. A fault of the simulator must not end the process, which may be a master: the
// server catches the panics of requests only.
func (q *later) answerBy(ctx context.Context, work func(context.Context) error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("the simulator has a fault: %v", fault)
		}
	}()
	if err = work(ctx); err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// read reads the fields of a form, and the jobs that were pasted or uploaded with it.
func (q *later) read(r *http.Request) (mix string, err error) {
	bad := func(text string) error { return connect.NewError(connect.CodeInvalidArgument, errors.New(text)) }
	err = r.ParseMultipartForm(2 * maxMix)
	// A form without a file may come as the ordinary kind, from curl for example.
	if errors.Is(err, http.ErrNotMultipart) {
		err = r.ParseForm()
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large) || errors.Is(err, multipart.ErrMessageTooLarge):
		return "", bad(fmt.Sprintf("the file of jobs may have %s", terminal.Bytes(maxMix)))
	case err != nil:
		return "", bad(err.Error())
	}
	q.query = url.Values{}
	// PostForm and not Form: the address has past, which is no field of the form. No field repeats, so the
	// first value is all.
	for name, values := range r.PostForm {
		if values[0] != "" && name != "mix" {
			q.query.Set(name, values[0])
		}
	}
	mix = r.PostForm.Get("mix")
	if r.MultipartForm != nil {
		for _, f := range r.MultipartForm.File["file"] {
			if f.Size == 0 { // browsers send a field without a file so
				continue
			}
			if strings.TrimSpace(mix) != "" {
				return "", bad("the jobs are there twice, as a file and as text: leave one out")
			}
			in, err := f.Open()
			if err != nil {
				return "", err
			}
			b, err := io.ReadAll(io.LimitReader(in, maxMix+1))
			in.Close() // it was only read
			if err != nil {
				return "", err
			}
			mix = string(b)
		}
	}
	// The form is bounded as a whole, and the file was read to one byte beyond its bound, to notice it here.
	if len(mix) > maxMix {
		return "", bad(fmt.Sprintf("the file of jobs may have %s", terminal.Bytes(maxMix)))
	}
	return strings.TrimSpace(mix), nil
}

// simulateMix returns the work for a question with jobs from a file.
func (s *Server) simulateMix(q *later, mix string) (func(context.Context) error, error) {
	changes, err := parseChanges(q.query)
	if err != nil {
		return nil, err
	}
	if changes == nil {
		// All fields are empty: the jobs of the file are the only change.
		changes = &slotwisev1.WhatIfRequest{}
	}
	return func(ctx context.Context) error {
		q.report("Planning the jobs.")
		jobs, err := s.Simulator.Plan(ctx, mix)
		if err != nil {
			return err
		}
		q.report(fmt.Sprintf("Simulating the future with %s more.", terminal.Plural(len(jobs), "job")))
		changes.Submit = append(changes.Submit, jobs...)
		resp, err := s.actor.WhatIf(ctx, changes)
		if err != nil {
			return err
		}
		answer := &section{}
		// Rendered once, so that times until an end count from the moment of the forecast whenever the page
		// is loaded.
		answer.preview(resp, time.Now())
		q.mu.Lock()
		defer q.mu.Unlock()
		q.answer = answer
		return nil
	}, nil
}

// measureNames returns the names of the measures of PastAnswer.
var measureNames = sync.OnceValue(func() map[string]string {
	names := map[string]string{"response.p95": "95 % of responses (s)"}
	for _, c := range mainMeasures {
		names[c.Key] = c.Name
	}
	return names
})

// simulatePast returns the work for a question about the past.
func (s *Server) simulatePast(q *later) (func(context.Context) error, error) {
	p, err := parsePast(q.query)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		q.report("Reading the history.")
		a, err := s.Simulator.Past(ctx, p, q.report)
		if err != nil {
			return err
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		q.answer, q.policy, q.set = pastSection(a), a.Policy, a.Set
		return nil
	}, nil
}

// pastSection lists the measures of each policy beside the measures of the installed one.
func pastSection(a *source.PastAnswer) *section {
	t := &table{ID: "past", Caption: "Policies on the jobs of the past", Columns: []column{{Key: "policy", Name: "Policy"}, {Key: "measure", Name: "Measure"}, {Key: "value", Name: "Value", Number: true},
		{Key: "ratio", Name: "Against " + cut(a.Installed, 40), Number: true}, {Key: "low", Name: "Low", DataOnly: true}, {Key: "high", Name: "High", DataOnly: true}, {Key: "verdict", Name: "Which says"}}}
	change := func(ratio float64) string { return fmt.Sprintf("%+.0f %%", 100*(ratio-1)) }
	for _, r := range a.Rows {
		value, against := cell{Text: fmt.Sprintf("%.4g", r.Value), Value: r.Value}, cell{Text: "–", Value: r.Ratio}
		// What a search has found comes with ratios only: it was run on other jobs than the policies above.
		if r.Value == 0 {
			value.Text = "–"
		}
		if r.Ratio > 0 {
			against.Text = change(r.Ratio)
			if r.High > 0 {
				against.Text += fmt.Sprintf(" (%s to %s)", change(r.Low), change(r.High))
			}
		}
		name := r.Measure
		if known := measureNames()[name]; known != "" {
			name = known
		}
		t.Rows = append(t.Rows, []cell{{Text: cut(r.Policy, 60), Value: r.Policy}, {Text: name, Value: r.Measure}, value, against, {Value: r.Low}, {Value: r.High}, plain(r.Verdict)})
	}
	return &section{Lead: "Recommended: " + a.Verdict + ".", Table: t, Notes: append(a.Notes,
		"Percentages are differences from the installed policy with their 95 % confidence intervals. The jobs of the past are simulated on the workers of now.")}
}

// laterPage shows the state of a question, or its answer.
func (s *Server) laterPage(r *http.Request) (*page, error) {
	q := s.laters.find(r.PathValue("id"), s.who(r).Account)
	if q == nil {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("this answer is not kept any more: ask again"))
	}
	pol, err := s.source.Policy(r.Context())
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	p := &page{Title: "What if", Crumbs: []link{{Text: "What if", Href: "/ui/whatif"}}}
	answer := q.answer
	switch {
	case !q.ended:
		p.Live, p.Soon = true, true
		answer = &section{Notes: []string{q.progress}, Forms: []form{{Action: "/ui/whatif/" + q.id + "/stop", Button: "Stop the simulation", Open: true}}}
	case q.err != nil:
		answer = &section{Alerts: []string{errorText(q.err)}}
	default:
		// A copy, with a copy of the table: the page sets the links of both, and the answer may be shown in
		// several windows at the same time.
		t := *answer.Table
		answer = &section{Lead: answer.Lead, Notes: answer.Notes, Table: &t}
		if q.policy != "" && pol.MayChange {
			answer.Forms = []form{installForm(q.policy, "", q.set)}
		}
	}
	answer.ID, answer.Title = "preview", "What would change"
	if q.past {
		answer.Title = "What would have been better"
	}
	// The answer comes first: the forms were filled in to get it.
	p.add(answer)
	p.add(s.whatIfForms(r.Context(), pol, q.query, q.past)...)
	return p, nil
}

// stopLater ends the simulation of a question.
func (s *Server) stopLater(r *http.Request) (string, error) {
	id := r.PathValue("id")
	q := s.laters.find(id, s.who(r).Account)
	if q == nil {
		return "", connect.NewError(connect.CodeNotFound, errors.New("this answer is not kept any more: ask again"))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	// It is nil between begin and the start of the work, when another window may have read the question's id.
	if q.cancel != nil {
		q.cancel()
	}
	return "/ui/whatif/" + id, nil
}
