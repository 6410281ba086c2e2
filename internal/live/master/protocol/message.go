package protocol

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/slotwise/slotwise/internal/tracker"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
	"github.com/slotwise/slotwise/sched"
	"github.com/slotwise/slotwise/sched/job"
)

// Call identifies a request that waits for its reply. The shell chooses a
// number that it has not used before in this process and keeps the way back to
// the caller under it. Every call gets exactly one Reply.
type Call uint64

// Message is one input of the core: a request of a worker or a user, the result
// of an Instruction, or the passing of time. The types are the ones in this file.
type Message interface{ message() }

// Requests of workers. ParseRegister and ParseHeartbeat make the first two; they
// may run on any goroutine.
type (
	// Register begins a session of a worker. Reply: *RegisterResponse.
	Register struct {
		Call    Call
		Request *slotwisev1.RegisterRequest
		// Session is a fresh secret of the shell's: the core draws no random
		// numbers.
		Session string
		join    *tracker.Join
		jobs    []job.ID // that the worker knows
	}

	// Heartbeat is a worker's report. Reply: *HeartbeatResponse, at the end of
	// the batch if there are actions or Request.WaitMs is 0; later otherwise. The
	// shell sends Release when WaitMs have passed.
	Heartbeat struct {
		Call    Call
		Request *slotwisev1.HeartbeatRequest
		event   *tracker.Heartbeat
	}

	// AskCommit asks whether an attempt may commit its output. Asking again has
	// the same answer. Reply: *AskCommitResponse.
	AskCommit struct {
		Call    Call
		Session string
		Attempt job.AttemptID
	}

	// JobForWorker asks for the parts of a job that all its attempts need. It changes
	// nothing. Reply: *JobForWorkerResponse.
	JobForWorker struct {
		Call    Call
		Session string
		Job     job.ID
	}

	// MapOutputs asks for the map outputs of a job that have become available or
	// lost since a cursor. With Wait the reply is held until there are some or
	// the shell sends Release. Reply: *MapOutputsResponse.
	MapOutputs struct {
		Call    Call
		Session string
		Job     job.ID
		Cursor  string
		Wait    bool
	}

	// Release answers a held Heartbeat, MapOutputs or WatchJob at once, because its
	// wait time is over or its caller is gone. It has no effect on a call that has been
	// answered.
	Release struct{ Call Call }
)

// Requests of users. The shell has checked who asks before it hands them over.
type (
	// Submit asks to accept a job once per Request, whatever the number of calls.
	// The first one of a Request stages the output (StageOutput); the others wait
	// for its result. Reply: *SubmitResponse.
	Submit struct {
		Call    Call
		Request string // names the user and the request_id
		Spec    *slotwisev1.JobSpec
		Core    job.Spec // Spec as the tracker sees it; see CoreSpec
		Secret  []byte   // fresh; reduces prove with it that they may fetch
		// Authenticated says that the shell has authenticated the caller. A step of a chain
		// has the chain's value instead.
		Authenticated bool
	}

	// WatchJob asks for a job's status. With Wait the reply is held while the
	// job's revision is at most After. Reply: *JobResponse.
	WatchJob struct {
		Call  Call
		User  string // who asks; his held calls count against his share
		Job   job.ID
		After int64
		Wait  bool
	}

	// KillJob ends a job. While the job's output is being committed, it cancels
	// the commit (CancelOutput). Reply: *KillResponse.
	KillJob struct {
		Call   Call
		Job    job.ID
		Reason string
	}

	// KillAttempt ends one attempt, whose task is tried again. Reply:
	// *KillResponse.
	KillAttempt struct {
		Call    Call
		Attempt job.AttemptID
		Reason  string
	}

	// MoveJob puts a job into another pool. Reply: *MoveResponse.
	MoveJob struct {
		Call Call
		Job  job.ID
		Pool string
	}

	// SetPriority changes a job's priority. Reply: *SetPriorityResponse.
	SetPriority struct {
		Call     Call
		Job      job.ID
		Priority job.Priority
	}

	// Drain gives a node no new work, or with Undo gives it work again. Reply:
	// *DrainResponse.
	Drain struct {
		Call Call
		Node string
		Undo bool
	}

	// SetPolicy installs another policy, which was built from Name and Set.
	// Reply: *SetPolicyResponse.
	SetPolicy struct {
		Call   Call
		Name   string
		Set    map[string]string
		Policy sched.Policy
	}

	// Choose installs the choice that a policy has made by forecasts, as sched.Chooser saved
	// it. It is refused unless the policy is still installed with the same settings. Reply: nil.
	Choose struct {
		Call   Call
		Name   string
		Set    map[string]string
		Choice []byte
	}

	// Reconfigure hands a new configuration to the parts of the policy. It is not
	// in the journal: the shell reads its file again after a restart. Reply: nil.
	Reconfigure struct {
		Call Call
		Conf any
	}
)

// Requests of users about chains. The shell has checked who asks.
type (
	// SubmitChain asks to accept a chain once per Request. Reply:
	// *SubmitChainResponse.
	SubmitChain struct {
		Call    Call
		Request string // names the user and the request_id
		Spec    *slotwisev1.ChainSpec
		AnyFile bool // the steps may name files outside the storage roots
		// Authenticated is as in Submit.
		Authenticated bool
	}

	// WatchChain is WatchJob for a chain. Reply: *JobResponse, with the steps that have
	// not ended, or with all steps if Steps is set.
	WatchChain struct {
		Call  Call
		User  string // as in WatchJob
		Chain ChainID
		After int64
		Wait  bool
		Steps bool
	}

	// KillChain ends a chain, its driver and its steps. Reply: *KillResponse.
	KillChain struct {
		Call   Call
		Chain  ChainID
		Reason string
	}

	// ChangeChain puts the steps of a chain into another pool or, if Pool is "",
	// changes their priority: of the steps that have not ended and of later ones.
	// Reply: OK.
	ChangeChain struct {
		Call     Call
		Chain    ChainID
		Pool     string
		Priority job.Priority
		OK       any
	}
)

// What the shell reports by itself.
type (
	// ChainCleaned is the result of RemoveChainDir. After an error the shell will not
	// try again.
	ChainCleaned struct {
		Chain ChainID
		Err   error
	}

	// ChainInHistory is the result of WriteChainHistory, and Err is as in HistoryWritten.
	ChainInHistory struct {
		Chain ChainID
		Err   error
	}

	// Staged is the result of StageOutput.
	Staged struct {
		Request string
		Err     error
	}

	// StagingRemoved is the result of RemoveStaged.
	StagingRemoved struct {
		Request string
		Output  string
		Err     error
	}

	// OutputDelayed reports that a try to commit or abort a job's output has
	// failed and that the shell will try again.
	OutputDelayed struct {
		Job job.ID
		Err error
	}

	// OutputFinished is the result of CommitOutput or AbortOutput. After an error
	// the output is not in place and the shell will not try again.
	OutputFinished struct {
		Job    job.ID
		Commit bool // answers CommitOutput
		// Published is set if AbortOutput found the output published, because a commit
		// whose answer was lost had taken effect. Err is nil then.
		Published bool
		Err       error
	}

	// HistoryWritten is the result of WriteHistory. If Err is not nil the entry is not
	// stored yet, the shell tries again, and a later HistoryWritten says how that ended.
	// Users see the end of the job from the first result on. The journal keeps the job
	// until the result without an error, so that the next master writes the entry.
	HistoryWritten struct {
		Job job.ID
		Err error
	}

	// Tick lets time pass. The shell sends it every TickEvery.
	Tick struct{}

	// Closing makes the core record the state that it otherwise records at intervals
	// only. It is the last message before an orderly stop.
	Closing struct{}
)

func (*Register) message()       {}
func (*Heartbeat) message()      {}
func (*AskCommit) message()      {}
func (*JobForWorker) message()   {}
func (*MapOutputs) message()     {}
func (*Release) message()        {}
func (*Submit) message()         {}
func (*WatchJob) message()       {}
func (*KillJob) message()        {}
func (*KillAttempt) message()    {}
func (*MoveJob) message()        {}
func (*SetPriority) message()    {}
func (*Drain) message()          {}
func (*SetPolicy) message()      {}
func (*Choose) message()         {}
func (*Reconfigure) message()    {}
func (*SubmitChain) message()    {}
func (*WatchChain) message()     {}
func (*KillChain) message()      {}
func (*ChangeChain) message()    {}
func (*ChainCleaned) message()   {}
func (*ChainInHistory) message() {}
func (*Staged) message()         {}
func (*StagingRemoved) message() {}
func (*OutputDelayed) message()  {}
func (*OutputFinished) message() {}
func (*HistoryWritten) message() {}
func (*Tick) message()           {}
func (*Closing) message()        {}

// Output is the result of one call of Handle or EndBatch. Its slices are valid until
// the next call.
type Output struct {
	// Records must be durable before any Reply that is not Early leaves and
	// before any Instruction is carried out. Their order is the journal's.
	Records      []*slotwisev1.JournalRecord
	Replies      []Reply
	Instructions []Instruction
	// Logs are for the shell's log. They may be written at once.
	Logs []Log
	// Tokens are the drivers' tokens that have become valid or invalid, in order. The
	// shell applies them at once. It refuses other tokens without asking the core.
	Tokens []TokenChange
}

// TokenChange says that a driver's token becomes valid or invalid.
type TokenChange struct {
	Sum   [sha256.Size]byte // of the token
	Valid bool
}

// Reply answers a Call.
type Reply struct {
	Call    Call
	Message any   // of the type that the request's comment names
	Err     error // an *Error, or nil
	// Early replies contain only facts that are durable. They need not wait for the
	// batch's records.
	Early bool
}

// Instruction is work for the shell. It carries instructions out beside the loop, and reports
// the result as the message that is named here.
type Instruction interface{ instruction() }

type (
	// StageOutput begins a job's output directory. Doing it again with the same
	// token empties what the first time has left. Result: Staged.
	StageOutput struct {
		Request string
		URI     string
		Token   string
		// Overwrite and Force are copied from the job's description.
		Overwrite, Force bool
	}

	// RemoveStaged removes the staging directory of a job that was not accepted.
	// Result: StagingRemoved.
	RemoveStaged struct {
		Request string
		URI     string
		Token   string
		// Retry is set if it should be tried again while the storage fails. Else a user
		// waits for the result.
		Retry bool
	}

	// CommitOutput gives a job's staged output its final name. Doing it again, also
	// after a restart, changes nothing. Result: OutputFinished, after any number of
	// OutputDelayed.
	CommitOutput struct {
		Job   job.ID
		URI   string
		Token string
		// Since is the time, as in Handle, at which the job's outcome was decided.
		// The shell counts its patience with the storage from then on.
		Since time.Duration
	}

	// AbortOutput removes a job's staged output, unless that is published already.
	// Result: as for CommitOutput.
	AbortOutput struct {
		Job   job.ID
		URI   string
		Token string
	}

	// CancelOutput ends the retries of the job's CommitOutput or AbortOutput, whose
	// result comes as soon as it can. A commit that succeeds nevertheless counts.
	CancelOutput struct{ Job job.ID }

	// WriteHistory stores an ended job. Writing it again changes nothing. Result:
	// HistoryWritten.
	WriteHistory struct {
		Job   job.ID
		Entry *slotwisev1.HistoryJob
	}

	// RemoveChainDir removes the directory of a chain's intermediate outputs, which may
	// not exist. Result: ChainCleaned.
	RemoveChainDir struct {
		Chain ChainID
		URI   string
	}

	// WriteChainHistory stores an ended chain. Writing it again changes nothing. Result:
	// ChainInHistory.
	WriteChainHistory struct {
		Chain ChainID
		Entry *slotwisev1.HistoryJob
	}

	// HoldFiles keeps the files of a program for a job or a chain. It has no result.
	HoldFiles struct{ Program *slotwisev1.Program }

	// ReleaseFiles undoes one HoldFiles. It has no result.
	ReleaseFiles struct{ Program *slotwisev1.Program }
)

func (*StageOutput) instruction()       {}
func (*RemoveStaged) instruction()      {}
func (*CommitOutput) instruction()      {}
func (*AbortOutput) instruction()       {}
func (*CancelOutput) instruction()      {}
func (*WriteHistory) instruction()      {}
func (*RemoveChainDir) instruction()    {}
func (*WriteChainHistory) instruction() {}
func (*HoldFiles) instruction()         {}
func (*ReleaseFiles) instruction()      {}

// Log is a line for the shell's log.
type Log struct {
	Warn bool
	Text string
	Args []any // keys and values by turns
}

// Code classifies errors, so that the shell can choose the code of its RPC system.
type Code uint8

// The codes. A caller may repeat a request after Aborted with newer content, and
// after Unauthenticated once it has registered again; after the others repeating
// it has the same result.
const (
	InvalidArgument    Code = iota + 1 // the request is invalid, whatever the state
	NotFound                           // the job or node does not exist
	FailedPrecondition                 // the job or attempt is in the wrong state
	ResourceExhausted                  // a limit of the master is reached
	Aborted                            // a later request of the same sender was faster
	Unauthenticated                    // the session is over
)

var codeNames = [...]string{"", "invalid argument", "not found", "failed precondition", "resource exhausted", "aborted", "unauthenticated"}

// String returns the code in words.
func (c Code) String() string { return codeNames[c] }

// Error is the type of all errors in replies, except for storage errors that came with
// Staged.
type Error struct {
	Code Code
	Text string
}

// Error returns the text alone, which is written for users.
func (e *Error) Error() string { return e.Text }

// errorf returns an *Error. The text is shown to users: it names the object, the fault and
// where possible the remedy.
func errorf(code Code, format string, args ...any) error {
	return &Error{code, fmt.Sprintf(format, args...)}
}
