// Package bounds lists the largest sizes of everything that users, the authors of jobs,
// and workers send to a master, and of the master's own messages. Table describes each
// bound for docs/operate.md.
//
// A bound is enforced where the value enters the system: the attempt and the worker check
// output of a job's code, the master checks requests. A request beyond a bound is refused
// with an error that names the bound. Text that a job's code produces is cut instead,
// with a mark, so that a long error never fails an attempt or a heartbeat.
//
// # Shares
//
// Bounded resources of a server are divided among its users, so that one
// user who asks for as much as he can never keeps another one waiting.
//
// Every resource has a total, and one rule gives the share of each user:
//
//	a user holds at most half of what the other users leave
//
// With a total of T, a user who is alone may hold T/2. While he holds that much, the next
// one may hold T/4, and so on. So a new user finds as much free as the greediest user
// holds, and no number of users is configured anywhere. A fixed share would either waste
// most of a server that one person uses, or be so large that two users take everything.
// Switches share their buffers by the same rule (dynamic thresholds, with factor 1).
//
// A user whose use has passed his share, because others came after him, keeps his holdings and
// gets nothing more until he is below his share.
//
// Three types apply the rule:
//
//   - Pool counts and answers at once. It is for state that lasts: jobs, files, streams.
//   - Gate lets requests wait for room, in the order of the users' current use. It is for
//     work that is over soon: questions, memory of messages.
//   - Line is a queue whose users take turns. It is for work that one goroutine does.
//
// The cost of each operation does not depend on the number of users or requests, but for
// a heap of the users who wait at a Gate.
//
// A user is a name that the server has authenticated. If clients may claim any name, the
// rule protects users from each other's accidents only.
package bounds

import (
	"strings"
	"unicode/utf8"
)

// Bounds of single values, in bytes.
const (
	Name    = 255      // of a job, user, group, pool, worker, host, rack, app, file, parameter
	URI     = 4 << 10  // of an input or output, or another address
	Text    = 4 << 10  // of an error, or of the end of a log in a report
	Setting = 64 << 10 // a parameter's value or a streaming command
	Short   = 512      // the error of a failed fetch; of an attempt beyond JobErrors
)

// Bounds of one job.
const (
	Parameters = 1000     // parameters of the program, or settings of a policy
	Shipped    = 1000     // shipped files
	Cuts       = 16 << 20 // bytes of all keys between the reduces of a total order
	Pieces     = 10_000   // ranges of files in one split
	Hosts      = 100      // hosts that one split names
	Split      = 1 << 20  // bytes of one split's description
	Layouts    = 1000     // inputs whose first file's columns the job states
	Columns    = 10_000   // columns of such a file, if no columns are chosen
	Spec       = 24 << 20 // bytes of the description without splits
	Attempts   = 1000     // tries of one task
	JobTasks   = 200_000  // maps and reduces
	JobErrors  = 4 << 20  // bytes of attempts' errors kept in full; then each is cut to Short
	TimeoutMs  = 3.2e10   // of a task: about a year
	// Counters is the number of user counters of an attempt or a job, for each kind of task.
	// A job that names counters after its data would otherwise fill the master's memory.
	Counters     = 1000
	CounterName  = 200      // bytes of the name of a user counter
	CounterNames = 64 << 10 // bytes of the names of all user counters: a report fits into a heartbeat with others
	KeptLog      = 64 << 10 // bytes of one attempt's log that the master keeps
	JobLogs      = 16 << 20 // compressed bytes of the kept logs of one job; logs of failed attempts may use twice as many
)

// OtherCounters is the user counter that collects increments under new names beyond Counters
// or CounterNames.
const OtherCounters = "(other counters)"

// Bounds of the cluster.
const (
	Nodes       = 10_000  // workers
	Slots       = 4096    // slots of one worker, of each kind
	ChainInputs = 10_000  // inputs of a chain
	Steps       = 1000    // jobs of one chain
	ChainSpec   = 1 << 20 // bytes of the description of a chain
	Held        = 500_000 // map outputs that one registration lists
)

// Totals of what users share. Package share says which part of a total one user may hold.
const (
	Jobs  = 10_000    // jobs that have not ended, and chains
	Tasks = 2_000_000 // tasks of all jobs that have not ended
	// Specs is the bytes of the descriptions, with their splits, of jobs and chains that have not
	// ended. With 2.2 GB a master took 6.7 GB of memory while it wrote a snapshot.
	Specs     = 512 << 20
	Waiting   = 10_000 // users' requests that wait for a change
	Followers = 1024   // logs that are being sent
	Viewers   = 1024   // pages of the console that wait for events
	Questions = 4      // what-if questions and explanations that are being answered
	Inbox     = 4096   // requests that wait for the master's loop
	Requests  = 16_384 // users' requests under way
	Worked    = 32     // of these, the ones that are worked on
	Reads     = 4      // lists and whole jobs that are read from the history
	Scrapes   = 8      // requests for metrics under way
	// Connections is the number of connections to one address of a master or worker. Half of the
	// files that the process may open is less on some machines.
	Connections = 32_768
	Uploads     = 64        // uploads under way
	Arriving    = 512 << 20 // bytes of large messages that are being received, not decoded
	Memory      = 1 << 30   // bytes of memory of all messages that are being handled, decoded
)

// Bounds of messages, in bytes.
const (
	Message = 64 << 20  // any message to a master
	Report  = 512 << 10 // any message of an attempt to its worker
	Batch   = 1 << 20   // reports of ended attempts in one heartbeat; actions in one reply
	Page    = 8 << 20   // jobs or tasks in one reply to a user
	Decoded = 256 << 20 // the memory that one message to a master takes when it is decoded
	Nested  = 64        // levels of a message's parts in each other, a number
	// Complaints is the number of failed fetches in one heartbeat.
	Complaints = 1000
	// PerReduce is the number of failed fetches that a worker keeps for one reduce
	// until the master has acknowledged them.
	PerReduce = 100
)

// Bounds of uploaded files, in bytes. Flags of the master change them. Users share Files.
const (
	File  = 1 << 30  // one file
	Files = 20 << 30 // all files, unfinished uploads included
	// FileCost is the least that a file counts for: each one, however small, takes a name on
	// the disk and memory of the master. 20 GiB admit 327,680 files.
	FileCost = 64 << 10
)

// Row describes a bound, or the total of something that users share.
type Row struct {
	What  string // is bounded
	Value int64  // the bound
	Bytes bool   // the unit of Value; else a number of things
	Then  string // what happens beyond the bound
}

// Table has one row for each bound of single things, in the order of the documentation.
var Table = []Row{
	{"a name (job, user, group, pool, worker, host, rack, app, shipped file, parameter)", Name, true, "refused"},
	{"a URI of input or output, an address", URI, true, "refused"},
	{"the value of a parameter or property, a streaming command", Setting, true, "refused"},
	{"parameters of a job or policy, Hadoop properties of a streaming job", Parameters, false, "refused"},
	{"shipped files of a job", Shipped, false, "refused"},
	{"keys between the reduces of a totally ordered job, in all", Cuts, true, "refused"},
	{"pieces of files in a split", Pieces, false, "refused"},
	{"hosts of a split", Hosts, false, "refused"},
	{"the description of a split", Split, true, "refused"},
	{"inputs of a job for which it states the columns of their first file", Layouts, false, "refused"},
	{"columns of the first of several input files, unless `--columns` chooses some", Columns, false, "refused"},
	{"the name of such a column", URI, true, "refused"},
	{"the description of a job without its splits", Spec, true, "refused"},
	{"tries of a task (`max_attempts`)", Attempts, false, "refused"},
	{"tasks of a job", JobTasks, false, "refused"},
	{"jobs of a chain", Steps, false, "refused"},
	{"inputs of a chain", ChainInputs, false, "refused"},
	{"the description of a chain", ChainSpec, true, "refused"},
	{"user counters of an attempt or a job, for each kind of task", Counters, false, "further ones are added up in `" + OtherCounters + "`"},
	{"the name of a user counter", CounterName, true, "the name is cut, with `…` at its end"},
	{"the names of all user counters of an attempt or a job", CounterNames, true, "further ones are added up in `" + OtherCounters + "`"},
	{"an attempt's error, a reason, the end of a log in a report", Text, true, "the text is cut, with `…` at its end"},
	{"errors of all attempts of a job", JobErrors, true, "further errors are cut to 512 bytes"},
	{"the log of an attempt that the master keeps when the attempt has ended", KeptLog, true, "the end is kept"},
	{"such logs of a job, compressed", JobLogs, true, "logs of failed attempts only are kept, up to twice as many bytes"},
	{"a message to the master", Message, true, "the message is refused; a worker then sends less at a time, a report that is too large alone fails its attempt"},
	{"the memory of a message to the master when it is decoded, estimated before", Decoded, true, "refused"},
	{"levels of a message's parts in each other", Nested, false, "refused"},
	{"a message of an attempt to its worker", Report, true, "the attempt fails; counters and texts of an attempt fit"},
	{"reports of ended attempts in a heartbeat", Batch, true, "the others follow in the next heartbeats"},
	{"failed fetches in a heartbeat", Complaints, false, "the others follow in the next heartbeats"},
	{"failed fetches of one reduce that the master has not acknowledged", PerReduce, false, "further ones are dropped; the reduce repeats them"},
	{"actions in the master's answer to a heartbeat", Batch, true, "the others follow in the next answers"},
	{"jobs or tasks in an answer to a user", Page, true, "the client asks for the next page"},
	{"map outputs that a worker lists when it registers", Held, false, "the others run again if they are needed"},
	{"slots of a worker, of each kind", Slots, false, "refused"},
	{"workers", Nodes, false, "refused"},
	{"an uploaded file (`--max-file`)", File, true, "refused"},
}

// Shared has one row for each resource that users share: Value is the total. A test of the
// master lets one user ask for all that he can get of each, and then requires that
// another user's request is served within a second.
var Shared = []Row{
	{"jobs that have not ended", Jobs, false, "refused"},
	{"tasks of all jobs that have not ended", Tasks, false, "refused"},
	{"chains that have not ended", Jobs, false, "refused"},
	{"bytes of the descriptions of jobs and chains that have not ended", Specs, true, "refused"},
	{"bytes of messages above 32 KiB that are being received", Arriving, true, "the message waits for room, at most ten seconds"},
	{"memory of decoded messages that are being handled", Memory, true, "the message waits for room, at most ten seconds"},
	{"uploads under way", Uploads, false, "the upload waits, at most ten seconds"},
	{"bytes of uploaded files, each counted as at least 64 KiB, and of unfinished uploads (`--max-files`)", Files, true, "the least recently used files go that no job needs and nobody has used within an hour; then the upload is refused"},
	{"logs that are being sent, most of them to followers", Followers, false, "refused"},
	{"open pages of the console that wait for events", Viewers, false, "the page is not updated by itself"},
	{"what-if questions and explanations that are being answered", Questions, false, "the question waits; simulations take turns every 50 ms"},
	{"requests of users under way", Requests, false, "refused"},
	{"requests of users that are worked on: they wait for nothing", Worked, false, "the request waits"},
	{"lists and whole jobs that are read from the history", Reads, false, "the request waits"},
	{"requests for metrics under way", Scrapes, false, "the request waits, at most ten seconds"},
	{"connections, at most half of the files that the process may open; they count for the client's address, of IPv6 its /64", Connections, false, "the connection of the address that has been idle longest is closed; if all have a request, the new one is"},
	{"requests that wait for the master's loop", Inbox, false, "a request waits at most ten seconds for room; the loop serves the senders in turn"},
	{"requests that wait for a change of a job or chain", Waiting, false, "more are answered at once"},
}

// Cut shortens s to at most n bytes, a mark at its end included. It replaces invalid
// UTF-8, which protobuf strings in messages and journal records cannot hold. n must be at
// least 3.
func Cut(s string, n int) string {
	const mark = "…"
	long := len(s) > n
	if long {
		s = s[:n]
	}
	s = strings.ToValidUTF8(s, "\uFFFD") // half a letter at the end too
	// U+FFFD has three bytes, so a text with invalid bytes may have become too long.
	if !long && len(s) <= n {
		return s
	}
	// Not within a letter. The text may also have become too short for a cut: a run of invalid bytes gives
	// one U+FFFD.
	end := min(n-len(mark), len(s))
	for end > 0 && end < len(s) && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
