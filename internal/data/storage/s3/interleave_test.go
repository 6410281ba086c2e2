package s3

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/detector"
)

// outcome is the fate of a request.
type outcome int

const (
	carriedOut outcome = iota
	answerLost         // the server carries the PUT out, and its sender gets an error
	delayed            // its sender gets an error, and the server carries the PUT out later, or never
	repeated           // the server carries the PUT out now, and once more later
	refused            // the run is abandoned: this request and all later ones fail
)

// actor is a process whose requests wait until the explorer lets them continue.
type actor struct {
	name    string
	events  chan<- *actor // receives the actor when it waits or has ended
	resume  chan outcome
	waiting string // the request that waits, for messages
	isPut   bool   // whether the waiting request is a PUT
	ended   bool
	refused bool
	free    bool   // no request waits
	other   *actor // of the master: the first attempt
	mu      sync.Mutex
	seen    []string // everything that the actor has observed; determines its state. Guarded by mu
}

// pause waits until the explorer chooses the request. Requests that nothing of another
// actor's depends on do not wait: their place in the order makes no difference.
func (a *actor) pause(request string, isPut bool) outcome {
	if a.refused {
		return refused
	}
	if a.free || a.other != nil && masterAlone.MatchString(request) && !(a.other.ended && isPut) {
		return carriedOut
	}
	a.waiting, a.isPut = request, isPut
	a.events <- a
	o := <-a.resume
	a.refused = o == refused
	return o
}

// masterAlone matches the master's requests that are independent of the first attempt's
// requests. A PUT waits nevertheless, because it can fail, when the first attempt has
// ended.
var masterAlone = regexp.MustCompile(`^list .*(/owner|/touched|/overwrite|/commit|/aside|/old/|dir/out/.*)$|^put .*/(uploads/|touched|aside|_SUCCESS|_slotwise_publishing/)`)

// observe adds to what the actor has seen. The order of reads in a row does not count,
// because an actor sends several at the same time.
func (a *actor) observe(what ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = append(a.seen, fmt.Sprint(what...))
	for i := len(a.seen) - 1; i > 0 && isGet(a.seen[i]) && isGet(a.seen[i-1]) && a.seen[i] < a.seen[i-1]; i-- {
		a.seen[i], a.seen[i-1] = a.seen[i-1], a.seen[i]
	}
}

func isGet(seen string) bool { return strings.HasPrefix(seen, "get") }

var errAnswer = storage.Unavailable(errors.New("the answer is lost"))

// steppedServer is the server as one actor sees it. Requests of one actor at the same time
// do not wait: they remove objects at the end of a staging, in any order.
type steppedServer struct {
	*memory
	a *actor
	x *interleaving
}

var _ server = (*steppedServer)(nil)

// Get implements objects.
func (s *steppedServer) Get(ctx context.Context, key string, most int64) ([]byte, error) {
	b, err := s.memory.Get(ctx, key, most)
	s.a.observe("get", key, string(b), err)
	return b, err
}

// Put implements objects.
func (s *steppedServer) Put(ctx context.Context, key string, content []byte) error {
	o := s.a.pause("put "+key, true)
	err := error(nil)
	if o == carriedOut || o == answerLost || o == repeated {
		err = s.memory.Put(ctx, key, content)
	}
	if o == delayed || o == repeated {
		s.x.late = append(s.x.late, latePut{key, content})
	}
	if o != carriedOut && o != repeated {
		err = errAnswer
	}
	s.a.observe("put", o, err)
	return err
}

// Each implements objects.
func (s *steppedServer) Each(ctx context.Context, prefix string, fn func(object) bool) error {
	if s.a.pause("list "+prefix, false) == refused {
		return errAnswer
	}
	var list []object
	var keys []string
	err := s.memory.Each(ctx, prefix, func(o object) bool {
		list, keys = append(list, o), append(keys, o.Key)
		return true
	})
	s.a.observe("list", prefix, keys, err)
	for _, o := range list {
		if !fn(o) {
			break
		}
	}
	return err
}

// Delete implements objects.
func (s *steppedServer) Delete(ctx context.Context, key string) error {
	if strings.HasSuffix(key, ownerFile) && s.a.pause("delete "+key, false) == refused {
		return errAnswer
	}
	return s.memory.Delete(ctx, key)
}

// Begin implements uploads.
func (s *steppedServer) Begin(ctx context.Context, key, id string) (string, error) {
	upload, err := s.memory.Begin(ctx, key, id)
	n := len(s.x.names) / 2
	s.x.names = append(s.x.names, id, fmt.Sprintf("<id %s>", s.a.name), upload, fmt.Sprintf("<upload %s %d>", s.a.name, n))
	return upload, err
}

// Complete implements uploads.
func (s *steppedServer) Complete(ctx context.Context, p pending) error {
	if s.a.pause("complete "+p.Key, false) == refused {
		return errAnswer
	}
	err := s.memory.Complete(ctx, p)
	s.a.observe("complete", err)
	return err
}

// MadeBy implements uploads.
func (s *steppedServer) MadeBy(ctx context.Context, key string) (string, error) {
	id, err := s.memory.MadeBy(ctx, key)
	s.a.observe("made by", id, err)
	return id, err
}

// Abort implements uploads.
func (s *steppedServer) Abort(ctx context.Context, p pending) error {
	if s.a.name == "first" && s.a.pause("abort", false) == refused {
		return errAnswer
	}
	return s.memory.Abort(ctx, p)
}

// Part implements uploads.
func (s *steppedServer) Part(ctx context.Context, p pending, number int, data []byte) (minio.CompletePart, error) {
	return s.memory.Part(ctx, p, number, data)
}

// latePut is a PUT that the server has not carried out yet.
type latePut struct {
	key     string
	content []byte
}

// interleaving is one run of a task's attempts and the commit of its job, in one order of
// their requests.
type interleaving struct {
	m      *memory
	actors []*actor
	events chan *actor
	late   []latePut
	names  []string // random names and what to call them, alternating
	faults int      // how many more PUTs may go wrong
	// anyPut says that all PUTs can go wrong, and not only those by which the first attempt
	// commits.
	anyPut bool

	speculative bool   // the second attempt begins before the first one is given up
	givenUp     bool   // the master has given the first attempt up, or it has failed
	accepted    string // the attempt whose success the master has accepted
	committed   error  // the result of the job's commit
	attempts    int
	counted     error // a failure of an attempt that counts against its task
}

const stepTarget, stepToken = "dir/out", "t"

// open reopens the job's staging as an actor. The staging exists, so nothing depends on
// the time.
func (x *interleaving) open(a *actor) (storage.Staging, error) {
	a.free = true
	defer func() { a.free = false }()
	return impatient(newStager(&steppedServer{x.m, a, x}, "bucket", 8, x.m.now)).Reopen(context.Background(), stepTarget, stepToken)
}

// begin begins the part file of an attempt.
func (x *interleaving) begin(a *actor, content string) (storage.Writer, error) {
	s, err := x.open(a)
	if err != nil {
		return nil, err
	}
	w, err := s.Create(context.Background(), "part")
	if err == nil {
		_, err = w.Write([]byte(content))
	}
	return w, err
}

// first is the first attempt. The master grants it the commit, and accepts its success,
// unless it has given the attempt up.
func (x *interleaving) first(a *actor) {
	w, err := x.begin(a, "first")
	if err == nil {
		a.pause("ask for the commit", false)
		if a.observe(x.givenUp); x.givenUp {
			err = w.Discard()
		} else {
			err = w.Commit()
		}
	}
	switch {
	case err != nil:
		x.givenUp = x.givenUp || x.accepted == ""
	case !x.givenUp:
		x.accepted = "first"
	}
	a.observe(err, x.accepted)
}

// master gives the first attempt up at any time. It then runs further attempts until one
// succeeds, and commits the job.
func (x *interleaving) master(a *actor) {
	var early storage.Writer
	var err error
	if x.speculative {
		early, err = x.begin(a, "attempt 1")
	}
	a.pause("give up the first attempt", false)
	x.givenUp = x.givenUp || x.accepted == ""
	a.observe(x.accepted)
	for x.attempts = 1; x.accepted == "" && x.attempts < 6; x.attempts++ {
		name := fmt.Sprint("attempt ", x.attempts)
		w := early
		if early = nil; w == nil && err == nil {
			w, err = x.begin(a, name)
		}
		if err == nil {
			err = w.Commit()
		}
		if err == nil {
			x.accepted = name
		}
		if err != nil && !errors.Is(err, storage.ErrUnavailable) {
			x.counted = err
		}
		err = nil
	}
	for tries := 0; tries < 4; tries++ {
		var s storage.Staging
		if s, x.committed = x.open(a); x.committed == nil {
			x.committed = s.Commit(context.Background())
		}
		if x.committed == nil {
			return
		}
	}
}

// newInterleaving starts the actors.
func newInterleaving(t *testing.T, speculative bool, faults int) *interleaving {
	x := &interleaving{m: newMemory(), events: make(chan *actor), speculative: speculative, faults: faults}
	_, err := memoryFS{x.m}.StageShared(t.Context(), stepTarget, stepToken, storage.ReplaceNothing)
	must(t, err)
	first := &actor{name: "first", events: x.events, resume: make(chan outcome)}
	master := &actor{name: "master", events: x.events, resume: make(chan outcome), other: first}
	x.actors = []*actor{first, master}
	for i, run := range []func(*actor){x.first, x.master} {
		a := x.actors[i]
		go func() {
			run(a)
			a.ended = true
			x.events <- a
		}()
		<-x.events
	}
	return x
}

// choice is one thing that can happen next: a request of an actor with its outcome, or a
// late PUT.
type choice struct {
	a       *actor
	outcome outcome
	late    int
}

func (c choice) String() string {
	if c.a == nil {
		return fmt.Sprint("late put ", c.late)
	}
	return fmt.Sprintf("%s: %s %v", c.a.name, c.a.waiting, []string{"", "(answer lost)", "(delayed)", "(repeated)"}[c.outcome])
}

// choices returns everything that can happen next.
func (x *interleaving) choices() (list []choice) {
	for _, a := range x.actors {
		if a.ended {
			continue
		}
		list = append(list, choice{a: a})
		if a.isPut && x.faults > 0 && (x.anyPut || a.other == nil && !strings.Contains(a.waiting, uploadsDir)) {
			list = append(list, choice{a: a, outcome: answerLost}, choice{a: a, outcome: delayed}, choice{a: a, outcome: repeated})
		}
	}
	for i := range x.late {
		list = append(list, choice{late: i})
	}
	return list
}

// do lets c happen and waits until the actor waits again or has ended.
func (x *interleaving) do(t *testing.T, c choice) {
	if c.a == nil {
		p := x.late[c.late]
		x.late = slices.Delete(x.late, c.late, c.late+1)
		must(t, x.m.Put(context.Background(), p.key, p.content))
		return
	}
	if c.outcome != carriedOut {
		x.faults--
	}
	c.a.resume <- c.outcome
	<-x.events
}

// abandon ends the actors.
func (x *interleaving) abandon() {
	for _, a := range x.actors {
		if !a.ended {
			a.resume <- refused
			<-x.events
		}
	}
}

var partTags = regexp.MustCompile(`"part\d+"`)

// state returns a text that determines everything that can happen from here on.
func (x *interleaving) state() string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(x.m.mu.objects)) {
		fmt.Fprintf(&b, "%s=%s\n", key, x.m.mu.objects[key].content)
	}
	for _, upload := range slices.Sorted(maps.Keys(x.m.mu.uploads)) {
		fmt.Fprintf(&b, "upload %s\n", upload)
	}
	for _, p := range x.late {
		fmt.Fprintf(&b, "late %s=%s\n", p.key, p.content)
	}
	for _, a := range x.actors {
		fmt.Fprintf(&b, "%s %v %s %q\n", a.name, a.ended, a.waiting, a.seen)
	}
	fmt.Fprint(&b, x.faults, x.givenUp, x.accepted, x.committed)
	text := partTags.ReplaceAllString(strings.NewReplacer(x.names...).Replace(b.String()), "")
	lines := strings.Split(text, "\n")
	slices.Sort(lines) // names of uploads and ids have no order
	return strings.Join(lines, "\n")
}

// check fails if the output is not the one of the accepted attempt.
func (x *interleaving) check() error {
	m := x.m
	got, there := m.mu.objects[stepTarget+"/part"]
	_, complete := m.mu.objects[stepTarget+"/_SUCCESS"]
	switch {
	case x.committed != nil:
		return fmt.Errorf("the job fails: %w", x.committed)
	case x.counted != nil:
		return fmt.Errorf("an attempt fails for good: %w", x.counted)
	case x.accepted == "":
		return fmt.Errorf("no attempt of %d succeeds", x.attempts)
	case !there || string(got.content) != x.accepted || !complete:
		return fmt.Errorf("attempt %q is accepted and %q is published, complete: %v", x.accepted, got.content, complete)
	}
	return nil
}

// checkNext fails if the next job cannot replace the output or leaves anything of this
// job behind.
func (x *interleaving) checkNext(t *testing.T) error {
	m := x.m.restart(storage.SharedTTL)
	s, err := memoryFS{m}.Stage(t.Context(), stepTarget, storage.ReplaceAll)
	must(t, err)
	must(t, publishPart(t, s, "next").Commit())
	if err := s.Commit(t.Context()); err != nil {
		return fmt.Errorf("the next job: %w", err)
	}
	if left := m.left(); len(left) > 0 || string(m.mu.objects[stepTarget+"/part"].content) != "next" {
		return fmt.Errorf("the next job leaves %q", left)
	}
	return nil
}

// TestInterleavings runs an attempt that can be delayed at each of its requests, its
// successors and the commit of the job, in all orders of their requests. Answers of PUTs
// are lost, and PUTs take effect late, twice or never. The server knows no conditions.
//
// In each run the attempt whose success the master has accepted is published, whole, no
// lost answer fails the job, and the next job leaves nothing of this one behind.
// SLOTWISE_INTERLEAVINGS=all explores more faults, which takes a minute or two.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	type scope struct {
		speculative, anyPut bool
		faults              int
	}
	scopes := []scope{{}, {speculative: true}, {faults: 1}}
	if detector.On {
		scopes = scopes[:1] // .ci/run explores all without the detector; the tests on a store in memory inject faults with it
	}
	if os.Getenv("SLOTWISE_INTERLEAVINGS") == "all" {
		scopes = append(scopes, scope{faults: 1, anyPut: true}, scope{faults: 1, anyPut: true, speculative: true})
	}
	for _, c := range scopes {
		states, runs := exploreInterleavings(t, c.speculative, c.anyPut, c.faults)
		t.Logf("%+v: %d states, %d runs", c, states, runs)
		if states < 500 {
			t.Errorf("only %d states were seen", states)
		}
	}
}

// exploreInterleavings runs all orders, and returns the number of different states. Two
// orders of requests that lead to the same state are continued once.
func exploreInterleavings(t *testing.T, speculative, anyPut bool, faults int) (states, runs int) {
	known := map[string]bool{}
	todo := [][]int{nil} // prefixes of the choices
	for len(todo) > 0 {
		prefix := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		runs++
		x := newInterleaving(t, speculative, faults)
		x.anyPut = anyPut
		var log []string
		var took []int
		fail := func(err error) {
			t.Fatalf("%v\n%s", err, strings.Join(log, "\n"))
		}
		published := false
		for {
			list := x.choices()
			pick := 0
			if len(took) < len(prefix) {
				pick = prefix[len(took)]
			} else {
				if s := x.state(); known[s] {
					break
				} else {
					known[s] = true
				}
				for other := 1; other < len(list); other++ {
					todo = append(todo, append(slices.Clone(took), other))
				}
			}
			if ended := x.actors[1].ended; ended && !published {
				published = true
				if err := x.check(); err != nil {
					fail(err)
				}
			}
			if len(list) == 0 {
				if err := errors.Join(x.check(), x.checkNext(t)); err != nil {
					fail(err)
				}
				break
			}
			log, took = append(log, list[pick].String()), append(took, pick)
			x.do(t, list[pick])
		}
		x.abandon()
	}
	return len(known), runs
}
