// Package frames carries the calls that a worker makes for each task on one connection to its master:
// heartbeats, requests to commit, descriptions of jobs and locations of map outputs. Registrations and logs,
// which are rare and may be large, are calls of WorkerService over HTTP. So are all calls of workers of the
// previous release.
//
// The connection begins as a request, POST Path with "Upgrade: slotwise-calls", which is authenticated and
// refused like any other. After the answer 101 both ends send frames:
//
//	worker                                    master
//	  │ POST Path, Upgrade ──────────────────────►│ authenticates, and refuses unless it leads
//	  │◄──────────────────────────────────── 101  │
//	  │ frame 1: WorkerCall, heartbeat ──────────►│ held
//	  │ frame 2: WorkerCall, heartbeat ──────────►│
//	  │◄─────────── frame 2: WorkerAnswer         │
//	  │◄─────────── frame 1: WorkerAnswer         │
//
// A frame is the length of its message in four bytes, the number of the call in eight, both big-endian, and
// the message. The worker numbers its calls. The master answers each once, in any order.
//
// A broken connection loses calls and answers, as a broken request does, and all calls may be repeated. The
// master closes the connection when it ends, when the worker's credentials are not valid any more, and after
// garbage. The worker closes it when the master says that it does not lead, and when an answer is overdue,
// because a network that drops packets breaks no connection for a quarter of an hour. The next
// call makes another connection.
package frames

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Path and Protocol name the request that begins the connection.
const (
	Path     = "/worker/calls"
	Protocol = "slotwise-calls"
)

// HeadSize is the number of bytes before the message of a frame.
// There is no checksum: TCP has one, and TLS a better one. A frame that cannot be decoded ends the
// connection.
const HeadSize = 12

// Head precedes the message of a frame.
type Head struct {
	Length int    // of the message in bytes
	Number uint64 // of the call
}

// ReadHead reads the begin of a frame.
func ReadHead(in io.Reader) (h Head, err error) {
	var b [HeadSize]byte
	_, err = io.ReadFull(in, b[:])
	return Head{int(binary.BigEndian.Uint32(b[:])), binary.BigEndian.Uint64(b[4:])}, err
}

// appendFrame appends a frame to b.
func appendFrame(b []byte, number uint64, m proto.Message) ([]byte, error) {
	// Room for the head first. The length is known only after the message was encoded.
	at := len(b)
	b = append(b, make([]byte, HeadSize)...)
	b, err := proto.MarshalOptions{}.MarshalAppend(b, m)
	if err != nil {
		return b[:at], err
	}
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-HeadSize))
	binary.BigEndian.PutUint64(b[at+4:], number)
	return b, nil
}

// Sender sends the frames of one end. Frames that are added while others are written leave together. It is
// safe for concurrent use.
//
// One goroutine writes as long as the connection lasts: a new one for each frame would grow its stack each time.
type Sender struct {
	out  io.WriteCloser
	left func(frames int)
	mu   struct {
		sync.Mutex
		// Messages and not bytes: they are encoded by the goroutine that writes, so Send costs the master's loop an
		// append.
		queue []frame
		over  bool // nothing is sent any more
	}
	more sync.Cond // of mu: queue is not empty, or over is set
}

type frame struct {
	number  uint64
	message proto.Message
}

// NewSender returns a sender to a connection, which it closes after an error. It calls left once for each frame,
// with others or alone, when the frame was written or dropped. left must not block. The caller must call Close.
func NewSender(out io.WriteCloser, left func(frames int)) *Sender {
	s := &Sender{out: out, left: left}
	s.more.L = &s.mu
	go s.run()
	return s
}

// Send adds a frame. It never blocks, and the message must not change any more. The caller bounds the
// number of frames that wait.
func (s *Sender) Send(number uint64, m proto.Message) {
	s.mu.Lock()
	over := s.mu.over
	if !over {
		// Only the first frame needs a signal. The writer takes the whole queue when it wakes.
		if s.mu.queue = append(s.mu.queue, frame{number, m}); len(s.mu.queue) == 1 {
			s.more.Signal()
		}
	}
	s.mu.Unlock()
	if over {
		s.left(1)
	}
}

// Close drops the frames that wait. The caller closes the connection, which ends a Write under way.
func (s *Sender) Close() {
	s.mu.Lock()
	dropped := len(s.mu.queue)
	s.mu.over, s.mu.queue = true, nil
	s.more.Signal()
	s.mu.Unlock()
	// Outside the lock: left belongs to the caller and may take other locks.
	s.left(dropped)
}

// mostKept is the capacity in bytes of a buffer that is kept for the next frames. Frames that fill it are written
// before further ones are encoded: all that wait may have gigabytes.
const mostKept = 64 << 10

// run writes frames until Close.
func (s *Sender) run() {
	var list []frame
	var b []byte
	for {
		if list = s.take(list); list == nil {
			return
		}
		b = b[:0]
		encoded := 0 // frames in b
		for i, f := range list {
			var err error
			// A message that cannot be encoded closes the connection. Skipping it would leave its caller without an
			// answer.
			if b, err = appendFrame(b, f.number, f.message); err == nil {
				if encoded++; len(b) < mostKept && i+1 < len(list) {
					continue
				}
				_, err = s.out.Write(b)
			}
			if err != nil {
				s.Close()
				_ = s.out.Close() // it is broken already
				// The rest of this list, with the frames of b, which may or may not have arrived. Close has counted the
				// queue.
				s.left(len(list) - i - 1 + encoded)
				return
			}
			s.left(encoded)
			// One large answer would keep its buffer as long as the connection, and a master has thousands of
			// connections.
			if b, encoded = b[:0], 0; cap(b) > mostKept {
				b = nil
			}
		}
	}
}

// take waits for frames and returns them, nil after Close. It uses the array of done, whose frames were written,
// for the next ones.
func (s *Sender) take(done []frame) []frame {
	clear(done) // the messages must not stay in memory
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.mu.queue) == 0 && !s.mu.over {
		s.more.Wait()
	}
	list := s.mu.queue
	// Two arrays change places, so a busy connection allocates none.
	s.mu.queue = done[:0]
	if s.mu.over {
		return nil
	}
	return list
}

// readAnswer reads the answer to a call. The master is trusted with the length.
func readAnswer(in *bufio.Reader) (number uint64, a *slotwisev1.WorkerAnswer, err error) {
	h, err := ReadHead(in)
	if err != nil {
		return 0, nil, err
	}
	a = &slotwisev1.WorkerAnswer{}
	// A small frame is decoded where it lies.
	// Most answers are. Unmarshal copies all bytes that it keeps, so the buffer may be used again.
	if h.Length <= in.Size() {
		b, err := in.Peek(h.Length)
		if err == nil {
			err = proto.Unmarshal(b, a)
		}
		_, _ = in.Discard(h.Length) // as long as Peek's
		return h.Number, a, err
	}
	b := make([]byte, h.Length)
	if _, err = io.ReadFull(in, b); err == nil {
		err = proto.Unmarshal(b, a)
	}
	return h.Number, a, err
}

// ErrorAnswer returns the answer that carries an error.
func ErrorAnswer(err error) *slotwisev1.WorkerAnswer {
	// Only NotLeader of the details is carried: workers read no other.
	e := &slotwisev1.CallError{Code: int32(connect.CodeOf(err)), Message: err.Error()}
	var coded *connect.Error
	if errors.As(err, &coded) {
		e.Message = coded.Message()
		for _, d := range coded.Details() {
			if v, err := d.Value(); err == nil {
				if n, ok := v.(*slotwisev1.NotLeader); ok {
					e.NotLeader = n
				}
			}
		}
	}
	return &slotwisev1.WorkerAnswer{What: &slotwisev1.WorkerAnswer_Error{Error: e}}
}

// callError returns the error that an answer carries.
func callError(e *slotwisev1.CallError) error {
	err := connect.NewWireError(connect.Code(e.GetCode()), errors.New(e.GetMessage()))
	if n := e.GetNotLeader(); n != nil {
		if d, e := connect.NewErrorDetail(n); e == nil {
			err.AddDetail(d)
		}
	}
	return err
}
