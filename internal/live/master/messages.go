package master

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/live/secure"
)

// Messages of requests are received before the RPC system sees them, so that their memory
// is bounded before anything is decoded:
//
//	guard ─► receive, compressed as sent ─► estimate ─► decompress ─► RPC system decodes
//	who      room of arriving               O(1) memory  room of memory
//
// The guard has authenticated the sender, whose share of both rooms the message takes. A
// sender that stalls holds room of arriving only. Room of memory is taken at once, by an
// estimate that covers everything, so no two messages wait for room that the other one holds.
//
// 64 KiB of gzip take a third of a second to estimate. So a request has a place (places.go)
// while its message is estimated and decompressed, and none while it waits for a room.

// smallMessage is the length in bytes up to which a message needs no room while it
// arrives.
// Heartbeats and most questions are shorter, so they never wait behind the uploads of large jobs.
const smallMessage = 32 << 10

// roomPatience limits the time for which a request waits for room.
const roomPatience = 10 * time.Second

// messages are the rooms of messages of one kind of senders.
type messages struct {
	most             int64 // bytes of one message, decompressed
	arriving, memory *bounds.Gate
}

func newMessages(most int) *messages {
	return &messages{int64(most), bounds.NewGate(bounds.Arriving), bounds.NewGate(bounds.Memory)}
}

// errNoRoom answers requests that have waited too long for room that others hold.
var errNoRoom = fault(connect.CodeUnavailable, "the master handles as many large requests as it may at once, or as you may: try again later")

// take takes room of a gate for roomPatience.
func take(ctx context.Context, g *bounds.Gate, user string, n int64) error {
	// Without it each request would make a context and a timer.
	if g.Try(user, n) {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, roomPatience, errNoRoom)
	defer cancel()
	return g.Take(ctx, user, n)
}

// wrap receives messages before next handles them.
func (q *messages) wrap(next http.Handler) http.Handler {
	refusals := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := identity(r.Context()).Account()
		done, err := q.receive(w, r, user)
		if done != nil {
			defer done()
		}
		if err != nil {
			_ = refusals.Write(w, r, rpcError(err)) // the client may be gone
			return
		}
		next.ServeHTTP(w, r)
	})
}

// encoding describes the format in which a request carries its message.
type encoding struct {
	json    bool
	framed  bool   // the message has a prefix of five bytes: flags and length
	codings string // of the compression of a framed or an unframed message
}

// encodingOf returns false for content types that the RPC system refuses unread.
func encodingOf(r *http.Request) (e encoding, ok bool) {
	// A type that only the RPC system knew would reach it with an empty body, never without an estimate.
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch kind = strings.ToLower(strings.TrimSpace(kind)); {
	case kind == "application/proto", kind == "application/json":
		e.codings = r.Header.Get("Content-Encoding")
	case strings.HasPrefix(kind, "application/connect+"):
		e.framed, e.codings = true, r.Header.Get("Connect-Content-Encoding")
	case kind == "application/grpc", kind == "application/grpc-web", strings.HasPrefix(kind, "application/grpc+"), strings.HasPrefix(kind, "application/grpc-web+"):
		e.framed, e.codings = true, r.Header.Get("Grpc-Encoding")
	default:
		return e, false
	}
	e.json = strings.HasSuffix(kind, "json")
	return e, true
}

// receive replaces the body of a request by its message in memory, decompressed. done, if it
// is not nil, gives the room of the message back.
func (q *messages) receive(w http.ResponseWriter, r *http.Request, user string) (done func(), err error) {
	e, ok := encodingOf(r)
	d := inputOf(r.URL.Path)
	if !ok || d == nil || r.Method != http.MethodPost {
		// The RPC system answers these without a look at the body. A body that it would
		// read all the same is empty.
		r.Body, r.ContentLength = http.NoBody, 0
		return nil, nil
	}
	ctx, place := r.Context(), placeOf(r.Context())
	place.leave() // the sender may be slow
	raw, arrived, err := q.arrive(w, r, user)
	// The room of arriving is kept until the message has its place in memory: the compressed bytes
	// are there all the time.
	defer arrived()
	if err != nil {
		return nil, err
	}
	if place.enter(ctx); ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	compressed := e.codings != "" && e.codings != "identity"
	if e.framed {
		if raw, compressed, err = unframed(raw); err != nil {
			return nil, err
		}
	}
	// The estimate reads gzip only, and other codings would be decompressed by the RPC system
	// without a bound.
	if compressed && e.codings != "gzip" {
		return nil, fault(connect.CodeUnimplemented, "the message is compressed with %q: use gzip or no compression", bounds.Cut(e.codings, bounds.Name))
	}
	// Called twice for a compressed message, once to estimate and once to keep: between the two the message
	// waits for room with its compressed bytes only.
	open := func() (io.Reader, error) { return bytes.NewReader(raw), nil }
	if compressed {
		open = func() (io.Reader, error) { return gzip.NewReader(bytes.NewReader(raw)) }
	}
	size, memory, err := q.estimate(open, e, d)
	if err != nil {
		return nil, err
	}
	// The RPC system copies the message into another buffer, whose capacity grows by
	// doubling.
	// Three times: the decompressed message here, and the buffer there with up to twice its length.
	need := memory + 3*size
	if !compressed {
		need = memory + 2*size
	}
	// A message that is larger than a user's share could never be admitted.
	need = min(need, bounds.Share(bounds.Memory, 0))
	// Otherwise requests that hold room might wait for a place, and requests with a place for
	// room.
	place.leave()
	if err := take(ctx, q.memory, user, need); err != nil {
		return nil, err
	}
	// Given back when the handler has returned. What the core keeps of the message is bounded by Limits of its
	// own.
	done = func() { q.memory.Give(user, need) }
	if place.enter(ctx); ctx.Err() != nil {
		return done, context.Cause(ctx)
	}
	if compressed {
		in, err := open()
		if err == nil {
			// The size is known from the estimate. MinRead more, or ReadFrom would double the buffer to find the end.
			plain := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
			_, err = plain.ReadFrom(in)
			raw = plain.Bytes()
		}
		if err != nil {
			return done, badCompression(err)
		}
	}
	body := raw
	if e.framed {
		// The frame's flag is 0, because the message is not compressed any more.
		body = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(raw))), raw...)
	} else {
		r.Header.Del("Content-Encoding")
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return done, nil
}

// inputOf returns the description of the message that a call takes, nil for an unknown call.
func inputOf(path string) protoreflect.MessageDescriptor {
	service, method, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	s, ok := d.(protoreflect.ServiceDescriptor)
	if err != nil || !ok {
		return nil
	}
	m := s.Methods().ByName(protoreflect.Name(method))
	if m == nil {
		return nil
	}
	return m.Input()
}

// arrive reads the body of a request without decoding it. arrived gives the room back; it is
// never nil.
func (q *messages) arrive(w http.ResponseWriter, r *http.Request, user string) (raw []byte, arrived func(), err error) {
	const prefix = 5 // of a framed message
	arrived = func() {}
	in := http.MaxBytesReader(w, r.Body, q.most+prefix)
	first := make([]byte, 0, min(smallMessage, max(512, r.ContentLength+1)))
	b := bytes.NewBuffer(first)
	// A message of exactly smallMessage bytes takes room as well: only a further read would show that it has
	// ended.
	if _, err = b.ReadFrom(io.LimitReader(in, smallMessage)); err == nil && b.Len() == smallMessage {
		n := q.most + prefix
		if r.ContentLength >= 0 {
			// If more arrives than was announced, the server itself ends the body there.
			n = min(n, r.ContentLength)
		}
		if err = take(r.Context(), q.arriving, user, n); err != nil {
			return nil, arrived, err
		}
		arrived = func() { q.arriving.Give(user, n) }
		// At most a MiB in advance: the announced length is a claim, and the buffer grows as bytes
		// arrive.
		b.Grow(int(min(n, 1<<20)))
		_, err = b.ReadFrom(in)
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, arrived, q.tooLarge()
	case err != nil:
		return nil, arrived, fault(connect.CodeInvalidArgument, "the message cannot be received: %w", err)
	}
	return b.Bytes(), arrived, nil
}

func (q *messages) tooLarge() error {
	return fault(connect.CodeResourceExhausted, "the message has more than %d bytes, which is the limit", q.most)
}

func badCompression(err error) error {
	return fault(connect.CodeInvalidArgument, "the message cannot be decompressed: %w", err)
}

// unframed returns the one message of a framed body and whether it is compressed.
func unframed(body []byte) (message []byte, compressed bool, err error) {
	// Exactly one: a second message behind it would be decoded without an estimate.
	if len(body) < 5 || uint64(binary.BigEndian.Uint32(body[1:])) != uint64(len(body)-5) || body[0]&^1 != 0 {
		return nil, false, fault(connect.CodeInvalidArgument, "the request does not have one message")
	}
	return body[5:], body[0] == 1, nil
}

// estimate reads a message and returns its length, decompressed, and the memory that it
// takes decoded, or an error if either is more than its bound.
func (q *messages) estimate(open func() (io.Reader, error), e encoding, d protoreflect.MessageDescriptor) (size, memory int64, err error) {
	in, err := open()
	if err != nil {
		return 0, 0, badCompression(err)
	}
	// One byte more than the bound shows that there is more. A small gzip stream may become
	// terabytes.
	in = io.LimitReader(in, q.most+1)
	if e.json {
		size, memory, err = jsonCost(in)
	} else {
		// Both read to the end, so size is the length of the whole message.
		size, memory, err = protoCost(in, d)
	}
	switch {
	case errors.Is(err, errCostly), errors.Is(err, errNested):
		return 0, 0, connect.NewError(connect.CodeResourceExhausted, err)
	case err != nil:
		return 0, 0, badCompression(err)
	case size > q.most:
		return 0, 0, q.tooLarge()
	}
	return size, memory, nil
}

// withRoom receives the messages of users, and of workers, each in rooms of their own: users
// cannot keep workers out.
func (m *Master) withRoom(next http.Handler) http.Handler {
	users, daemons := m.messages[0].wrap(next), m.messages[1].wrap(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if identity(r.Context()).Role == secure.Worker {
			daemons.ServeHTTP(w, r)
			return
		}
		users.ServeHTTP(w, r)
	})
}
