package protocol

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/slotwise/slotwise/internal/base/bounds"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// The functions of this file refuse values beyond the bounds of package bounds. They
// have no state and may be called from any goroutine.
// They run before the loop on the goroutine of the request. What passes here is in the journal, in the
// answers to all users and on each worker for as long as the job lives.

// checkLength refuses text that is too long or that no log or table could show. what
// names the value in the error, as in "the job's output".
func checkLength(what, text string, most int) error {
	switch {
	case len(text) > most:
		return errorf(InvalidArgument, "%s has %d bytes, more than the limit of %d", what, len(text), most)
	// A line break in a name would forge lines of a log or of a table.
	case !utf8.ValidString(text) || strings.ContainsAny(text, "\n\r\x00"):
		return errorf(InvalidArgument, "%s must be one line of UTF-8", what)
	}
	return nil
}

// checkName refuses text that is no name; see bounds.CheckName. A name may be empty.
func checkName(what, name string) error {
	if err := bounds.CheckName(what, name); err != nil {
		return errorf(InvalidArgument, "%v", err)
	}
	return nil
}

// checkVisible refuses text that is too long for most bytes or has characters that no name may
// have.
func checkVisible(what, text string, most int) error {
	if err := checkLength(what, text, most); err != nil {
		return err
	}
	if strings.ContainsFunc(text, bounds.Hidden) {
		return errorf(InvalidArgument, "%s %+q must not contain control characters or invisible characters", what, text)
	}
	return nil
}

// CheckName refuses names of users, pools and workers that a list could not show or that are
// not safe as a word of a file; see bounds.CheckWord. what names the kind of thing in the
// error.
func CheckName(what, name string) error {
	if err := bounds.CheckWord("the name of a "+what, name); err != nil {
		return errorf(InvalidArgument, "%v", err)
	}
	return nil
}

// checkCount refuses a number of things beyond a bound.
func checkCount(what string, n, most int) error {
	if n > most {
		return errorf(InvalidArgument, "%s: %d, more than the limit of %d", what, n, most)
	}
	return nil
}

// first returns the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// CheckSpec refuses a job whose description exceeds a bound. It does not check the number
// of tasks, because each master configures that limit.
func CheckSpec(s *slotwisev1.JobSpec) error {
	if s.Program == nil {
		return errorf(InvalidArgument, "the job has no program")
	}
	// Both would be maps, and the number of a map would name two inputs.
	if len(s.Splits) > 0 && s.Synthetic > 0 {
		return errorf(InvalidArgument, "a job has either splits or synthetic maps, not both")
	}
	// Negative numbers would pass every upper bound below.
	if s.Synthetic < 0 || s.Reduces < 0 {
		return errorf(InvalidArgument, "the job's numbers of maps and reduces must not be negative")
	}
	err := first(
		checkName("the job's name", s.Name),
		CheckName("user", s.User),
		checkLength("the job's output", s.Output, bounds.URI),
		checkName("the job's priority", s.Priority),
		checkName("the id of the job's chain", s.Chain),
		checkName("the digest of a chain's step", s.Digest),
		checkName("the codec of the job's output", s.OutputCodec),
		checkLength("the format of the job's output", s.OutputRows, bounds.URI),
		checkName("the codec of the job's intermediate data", s.ShuffleCodec),
		checkCount("the job's tries of a task", int(s.MaxAttempts), bounds.Attempts),
		checkTimeout(s.TaskTimeoutMs),
		checkProgram(s.Program),
	)
	// An empty pool lets the policy choose one. An empty user or worker has no such meaning,
	// so CheckName refuses it above.
	if err == nil && s.Pool != "" {
		err = CheckName("pool", s.Pool)
	}
	if err == nil {
		err = checkLayouts(s.Layouts)
	}
	if err == nil {
		err = checkSizes(s)
	}
	return err
}

// checkLayouts checks the columns of the first files of a job's inputs.
func checkLayouts(all []*slotwisev1.Layout) error {
	err := checkCount("the job's inputs with columns", len(all), bounds.Layouts)
	for _, l := range all {
		err = first(err,
			checkLength("the URI of an input file", l.GetFile(), bounds.URI),
			checkCount("the columns of "+l.GetFile()+" (choose some with --columns)", len(l.GetColumns()), bounds.Columns))
		for i, name := range l.GetColumns() {
			if err == nil && len(name) > bounds.URI {
				err = errorf(InvalidArgument, "the name of column %d of %s has %d bytes, more than the limit of %d", i+1, l.GetFile(), len(name), bounds.URI)
			}
		}
	}
	return err
}

// checkTimeout refuses time-outs that a duration in nanoseconds cannot hold.
func checkTimeout(ms int64) error {
	if ms > bounds.TimeoutMs || ms < -bounds.TimeoutMs {
		return errorf(InvalidArgument, "the job's time-out of a task is %d ms, more than the limit of %d", ms, int64(bounds.TimeoutMs))
	}
	return nil
}

// checkSizes checks the splits and the size of everything else.
func checkSizes(s *slotwisev1.JobSpec) error {
	rest := proto.Size(s)
	for i, p := range s.Splits {
		size := proto.Size(p)
		// Splits are bounded one by one, and their number by the master's limit of tasks. The rest
		// is sent to each worker that runs a task of the job.
		rest -= protowire.SizeTag(6) + protowire.SizeBytes(size)
		err := checkSplit(p, size)
		if err == nil && (p.GetLayout() < 0 || int(p.GetLayout()) > len(s.Layouts)) {
			err = errorf(InvalidArgument, "it refers to layout %d of columns, and the job has %d layouts", p.GetLayout(), len(s.Layouts))
		}
		if err != nil {
			return errorf(InvalidArgument, "split %d: %v", i, err)
		}
	}
	if rest > bounds.Spec {
		return errorf(InvalidArgument, "the job's description has %d bytes beside its splits, more than the limit of %d", rest, bounds.Spec)
	}
	return nil
}

// checkSplit checks the split of one map. size is the length of its message.
func checkSplit(p *slotwisev1.Split, size int) error {
	err := first(
		checkCount("its pieces of files", len(p.GetPieces()), bounds.Pieces),
		checkCount("its hosts", len(p.GetHosts()), bounds.Hosts),
		checkCount("the bytes of its description", size, bounds.Split),
		checkLength("its format", p.GetRows(), bounds.URI),
	)
	for _, piece := range p.GetPieces() {
		err = first(err, checkLength("the URI of an input file", piece.GetUri(), bounds.URI))
	}
	for _, host := range p.GetHosts() {
		err = first(err, checkName("the name of a host", host))
	}
	if err == nil && p.GetBytes() < 0 {
		err = errorf(InvalidArgument, "its size is negative")
	}
	return err
}

// checkProgram checks the description of a job's functions.
func checkProgram(p *slotwisev1.Program) error {
	err := first(
		checkName("the SHA-256 of the job's program", p.Executable),
		checkName("the app's name", p.App),
		checkName("the step's name", p.Step),
		checkSettings("parameter", "parameters", "job", p.Params),
		checkSettings("property", "properties", "streaming job", p.GetStreaming().GetProperties()),
		checkCount("the job's shipped files", len(p.Files), bounds.Shipped),
	)
	for _, command := range []string{p.GetStreaming().GetMapper(), p.GetStreaming().GetReducer(), p.GetStreaming().GetCombiner()} {
		err = first(err, checkCount("the bytes of a streaming command", len(command), bounds.Setting)) // it may have several lines
	}
	for _, f := range p.Files {
		err = first(err, checkName("the name of a shipped file", f.GetName()),
			checkName("the SHA-256 of a shipped file", f.GetSha256()))
	}
	cuts := 0
	for _, cut := range p.Cuts {
		cuts += len(cut)
	}
	return first(err, checkCount("the bytes of the keys between the job's reduces", cuts, bounds.Cuts))
}

// checkSettings checks named values, such as the parameters of a job or policy.
func checkSettings(what, plural, whose string, set map[string]string) error {
	err := checkCount("the "+plural+" of the "+whose, len(set), bounds.Parameters)
	// Sorted, so that a request with two faults gets the same error each time.
	for _, name := range slices.Sorted(maps.Keys(set)) {
		err = first(err,
			checkName("the name of a "+what+" of the "+whose, name),
			checkCount("the bytes of "+what+" "+bounds.Cut(name, bounds.Name)+" of the "+whose, len(set[name]), bounds.Setting))
		// A form of the console brings any bytes. The journal cannot hold them, and a master that cannot write a
		// record ends.
		if err == nil && !utf8.ValidString(set[name]) {
			err = errorf(InvalidArgument, "%s %s of the %s must be UTF-8", what, name, whose)
		}
	}
	return err
}

// CheckPolicy refuses the name and parameters of a policy beyond a bound.
func CheckPolicy(name string, set map[string]string) error {
	return first(checkVisible("the policy", name, bounds.URI), checkSettings("parameter", "parameters", "policy", set))
}

// The most attempts and drivers that a worker lists: several times its slots, because ended ones are listed until
// the master has acknowledged them. The tracker compares all listed attempts with all that should run, and orders
// to stop drivers are compared with each other, so longer lists would hold the master's loop up.
const (
	listedAttempts = 16 * bounds.Slots
	listedDrivers  = 4 * maxDriverSlots
)

// checkHeartbeat checks the lists of a heartbeat. Its texts are cut where they are kept.
func checkHeartbeat(r *slotwisev1.HeartbeatRequest) error {
	return first(
		checkCount("the attempts of a heartbeat", len(r.Reports), listedAttempts),
		checkCount("the failed fetches of a heartbeat", len(r.FetchFailures), bounds.Complaints),
		checkCount("the drivers of a heartbeat", len(r.Drivers), listedDrivers),
	)
}

// checkRegister checks the texts and lists of a registration.
func checkRegister(r *slotwisev1.RegisterRequest) error {
	err := first(
		CheckName("worker", r.Worker),
		checkVisible("the worker's address", r.Address, bounds.URI),
		checkName("the worker's host", r.Host),
		checkName("the worker's rack", r.Rack),
		checkName("the worker's version", r.Version),
		checkName("the SHA-256 of the worker's program", r.Executable),
		checkName("the worker's incarnation", r.Incarnation),
		checkLength("the worker's directory", r.Dir, bounds.URI),
		checkName("how the worker limits attempts", r.Limits),
		checkCount("the map outputs of the worker", len(r.Outputs), 2*bounds.Held),
		checkCount("the attempts of the worker", len(r.Running), bounds.Held),
		checkCount("the jobs of the worker", len(r.Jobs), bounds.Held),
		checkCount("the drivers of the worker", len(r.Drivers), listedDrivers),
	)
	// The loops below run only over lists whose lengths are within their limits.
	if err != nil {
		return err
	}
	for _, o := range r.Outputs {
		err = first(err, checkName("the attempt of a map output", o.GetAttempt()))
	}
	for _, id := range slices.Concat(r.Running, r.Jobs) {
		err = first(err, checkName("the id of an attempt or job", id))
	}
	for _, d := range r.Drivers {
		err = first(err, checkName("the chain of a driver", d.GetChain()))
	}
	return err
}
