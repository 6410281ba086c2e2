package master

import (
	"context"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/data/storage/roots"
	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// identity returns who sent a request, as a secure.Guard in front of the handlers has
// verified. Without a guard it is a user who may do nothing.
func identity(ctx context.Context) secure.Identity { return secure.From(ctx) }

// may returns an error with a code unless who has the permission.
func (m *Master) may(who secure.Identity, a secure.Action, s secure.Subject) error {
	return coded(m.cfg.Access.May(who, a, s))
}

// coded gives a refusal its code.
func coded(err error) error {
	if err == nil {
		return nil
	}
	return connect.NewError(connect.CodePermissionDenied, err)
}

// only passes on requests of users who have a permission that does not depend on the
// object of the request.
func (m *Master) only(a secure.Action, next http.Handler) http.Handler {
	refusals := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := m.may(identity(r.Context()), a, secure.Subject{})
		switch {
		case err == nil:
			next.ServeHTTP(w, r)
		// Browsers and curl get text; a program that speaks the RPC system gets a code that it does not retry.
		case refusals.IsSupported(r):
			_ = refusals.Write(w, r, err) // the peer may be gone
		default:
			http.Error(w, errors.Unwrap(err).Error(), http.StatusForbidden)
		}
	})
}

// asWorker lets calls that only workers make count for workers on a master without
// authentication, too. Else a user's program with many requests would keep heartbeats out.
func asWorker(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Without authentication all callers are admins, so the role does not show who calls. The path does.
		if who := identity(r.Context()); who.Open {
			who.Role = secure.Worker
			r = r.WithContext(secure.With(r.Context(), who))
		}
		next.ServeHTTP(w, r)
	})
}

// admitRate returns an error if who submits too fast. Admins and clients of a master
// without authentication are not limited. Drivers are not either: their chains counted
// when they were submitted.
func (m *Master) admitRate(who secure.Identity) error {
	// Before the size and the files of the job are checked: the refusal must cost less than a refused job would.
	if who.Role == secure.User && !m.rates.allow(who.User, time.Now()) {
		return fault(connect.CodeUnavailable, "user %s submits more than %d jobs a second: try again later", who.User, submitsPerSecond)
	}
	return nil
}

// admitUser sets the user of a spec that names none, and checks that who may submit
// it.
func (m *Master) admitUser(who secure.Identity, spec *slotwisev1.JobSpec) error {
	if spec.User == "" || who.Chain != "" { // a driver does not choose whose storage root applies
		spec.User = who.User
	}
	if spec.User == "" {
		return fault(connect.CodeInvalidArgument, "the job names no user, and the request has none")
	}
	return m.may(who, secure.Submit, secure.Subject{Owner: spec.User, Pool: spec.Pool, Chain: spec.Chain})
}

// admitFiles checks that the job may name its input and output. Admins' jobs may name
// files outside the storage roots. So may all jobs on a master without authentication and
// without storage roots.
func (m *Master) admitFiles(who secure.Identity, spec *slotwisev1.JobSpec) error {
	// One check for all splits: it reads the links of each directory once.
	check := m.roots.Check(spec.User, m.confined(who))
	if spec.Output != "" {
		if err := check.Output(spec.Output); err != nil {
			return refusedFile(err)
		}
	}
	last := ""
	for _, s := range spec.Splits {
		for _, p := range s.Pieces {
			if p.Uri == last { // the splits of a large file follow each other
				continue
			}
			if err := check.Input(p.Uri); err != nil {
				return refusedFile(err)
			}
			last = p.Uri
		}
	}
	return nil
}

// confined reports whether the jobs that who submits may name files below the storage
// roots only. The driver of a chain has the right of the chain's submitter.
func (m *Master) confined(who secure.Identity) bool {
	if who.Chain != "" {
		return !who.AnyFile
	}
	// Open callers count as admins. Roots that somebody has set on such a master are meant for them, since
	// it has no other callers.
	return who.Role != secure.Admin || who.Open && m.roots.Given()
}

// refusedFile gives the error of a file that a job may not name its code.
func refusedFile(err error) error {
	if errors.As(err, new(*roots.Denied)) {
		return connect.NewError(connect.CodePermissionDenied, err)
	}
	return connect.NewError(connect.CodeInvalidArgument, err)
}

// resolveOutput returns the file system and path of a job's output. It verifies once more
// that the output is none of the daemons' own directories: between the submission and
// the commit, a user may have replaced a directory above the output by a link.
func (m *Master) resolveOutput(uri string) (storage.FS, string, error) {
	// Without the user's root: it was checked at the submission, and the master may have been restarted with other
	// roots since. OpenOutput still refuses the daemons' own directories.
	return m.roots.Check("", false).OpenOutput(uri)
}

// mayChange returns an error unless who may change a job or chain, or if there is none. It is called in
// the loop.
func (m *Master) mayChange(who secure.Identity, x subject) error {
	s, err := x.owner(m.core)
	if err != nil {
		return err
	}
	return m.may(who, secure.Change, s)
}

// Log text travels in fields named log_tail, apart from errors: in reports of workers, in
// the journal and in the history. The functions below remove it from answers to users who
// may not read the job's logs. Every handler that returns a JobStatus, AttemptStatus or
// HistoryJob calls such a function.

// mayReadLogs reports whether who may read the logs of a user's jobs in a pool.
func (m *Master) mayReadLogs(who secure.Identity, user, pool string) bool {
	return m.cfg.Access.May(who, secure.Change, secure.Subject{Owner: user, Pool: pool}) == nil
}

// shownJob returns a job's status as who may see it. It does not change s, which the core
// may share.
func (m *Master) shownJob(who secure.Identity, s *slotwisev1.JobStatus) *slotwisev1.JobStatus {
	if s.GetLogTail() == "" || m.mayReadLogs(who, s.User, s.Pool) {
		return s
	}
	// The core's copy is the one that the owner gets with the next answer.
	s = proto.CloneOf(s)
	hideLogText(s.ProtoReflect())
	return s
}

// shownJobs hides the log text in the statuses of jobs whose logs the caller may not
// read.
func (m *Master) shownJobs(who secure.Identity, list []*slotwisev1.JobStatus) {
	for i, s := range list {
		list[i] = m.shownJob(who, s)
	}
}

// shownPast returns a job or chain of the history as who may see it. It may change j. The
// steps of a chain belong to the chain's owner.
func (m *Master) shownPast(who secure.Identity, j *slotwisev1.HistoryJob) *slotwisev1.HistoryJob {
	if !m.mayReadLogs(who, j.Job.GetUser(), j.Job.GetPool()) {
		hideLogText(j.ProtoReflect())
	}
	return j
}

// hideLogText clears all fields named log_tail in a message and the messages inside it.
func hideLogText(m protoreflect.Message) {
	// By the field's name and not by a list of messages: a message that gets such a field is covered without a
	// change here.
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Name() == "log_tail":
			// Range allows a change of the field that it has reached.
			m.Clear(f)
		// No map of an answer has messages as values.
		case f.IsMap() || f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				hideLogText(v.List().Get(i).Message())
			}
		default:
			hideLogText(v.Message())
		}
		return true
	})
}
