package attempt

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/internal/base/proctree"
	"github.com/slotwise/slotwise/internal/data/engine"
	"github.com/slotwise/slotwise/internal/data/storage"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Builder makes the functions of a job from its description. Users see its errors.
type Builder func(*slotwisev1.Program) (*engine.Program, error)

// host carries out a worker's orders, one after the other. listen receives all messages.
// It passes orders to serve, and other messages to the attempt that runs.
type host struct {
	schemes *storage.Schemes
	build   Builder
	pipe    *pipe
	kill    func() // ends the process and all below it
	orders  chan *slotwisev1.Order
	// running receives the attempt of an order once it can handle messages, nil if it
	// cannot run. listen reads no further message before that.
	running chan *runner
	// current is the attempt that runs; nil between attempts.
	current atomic.Pointer[runner]
	fresh   surroundings
}

// Main runs attempts and returns the exit status of the process: 0 if the worker
// has received the outcomes, even failures; 1 if it has not; 2 if there was no
// order. schemes is the storage that the job may use.
func Main(schemes *storage.Schemes, build Builder) int {
	os.Unsetenv(Env) // so that streaming commands do not run attempts
	if err := proctree.Adopt(); err != nil {
		fmt.Fprintln(os.Stderr, "attempt: processes that detach themselves will not be killed:", err)
	}
	h := &host{
		schemes: schemes, build: build, pipe: openPipe(), orders: make(chan *slotwisev1.Order), running: make(chan *runner),
		fresh: look(),
	}
	first, err := h.pipe.order()
	if err != nil {
		fmt.Fprintln(os.Stderr, "attempt: the worker sent no order:", err)
		return 2
	}
	h.kill = killWithWorker()
	go h.listen()
	return h.serve(first)
}

// serve runs the attempt of the first order and of later ones, and returns the exit
// status.
func (h *host) serve(order *slotwisev1.Order) int {
	for {
		out := h.pipe.outlet()
		// Before anything that takes time: the worker repeats an order elsewhere if it is not
		// answered, so the answer must precede every effect of the attempt.
		if order.GetKeep() {
			// A broken pipe ends the process elsewhere.
			_ = out.send(&slotwisev1.FromAttempt{What: &slotwisev1.FromAttempt_Began{Began: true}})
		}
		done, stopped := h.attempt(order, out)
		alone := proctree.KillChildren() // processes that a streaming command has left running
		// Only a process in which nothing of the attempt is left may get the next one.
		done.Ready = order.GetKeep() && done.Ok && !stopped && alone && h.fresh.restore() == nil
		if status := out.finish(done); status != 0 || !done.Ready {
			return status
		}
		if order = h.next(); order == nil {
			return 0
		}
	}
}

// attempt runs the attempt of an order and returns its outcome, and whether the worker has
// stopped it.
func (h *host) attempt(order *slotwisev1.Order, out *outlet) (done *slotwisev1.Done, stopped bool) {
	r := &runner{schemes: h.schemes, order: order, out: out, commit: make(chan *slotwisev1.AskCommitResponse, 1)}
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	r.stop = stop
	if err := r.prepare(h.build); err != nil {
		// listen waits for the attempt of each order, also if there is none.
		h.running <- nil
		return &slotwisev1.Done{Error: err.Error(), Cause: causeOf(err)}, false
	}
	h.current.Store(r)
	defer h.current.Store(nil)
	h.running <- r
	done = r.run(ctx)
	return done, ctx.Err() != nil
}

// listen handles the worker's messages. When the pipe ends, the worker is gone or has no
// further use for the process, and listen kills it.
func (h *host) listen() {
	// The first order is already with serve; its messages must find the attempt.
	<-h.running
	for {
		m, err := h.pipe.receive()
		if err != nil {
			h.kill()
			return
		}
		if o := m.GetOrder(); o != nil {
			// The messages behind the order belong to its attempt, so none is read before the attempt
			// can handle it.
			h.orders <- o
			<-h.running
		} else if r := h.current.Load(); r != nil {
			r.handle(m)
		}
	}
}

const (
	// idleBefore is the time without an order after which the process gives unused memory
	// back to the system.
	idleBefore = 200 * time.Millisecond
	// mostHeld is the memory in bytes, of Go's heap and runtime, above which the process
	// gives unused memory back at once. If it then still holds more, it ends: the job's code
	// keeps data between attempts.
	mostHeld = 64 << 20
)

// next waits for the next order. It returns nil if the process must end.
func (h *host) next() *slotwisev1.Order {
	// The Go runtime keeps freed memory. If much is left after giving it back, the job's code
	// holds it, and it would count against the next attempt.
	if held() > mostHeld {
		debug.FreeOSMemory()
		if held() > mostHeld {
			return nil
		}
	}
	t := time.NewTimer(idleBefore)
	defer t.Stop()
	select {
	case o := <-h.orders:
		return o
	case <-t.C:
	}
	debug.FreeOSMemory()
	return <-h.orders
}

// held returns the memory in bytes that Go's heap and runtime hold. Memory that was given
// back to the system does not count.
func held() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}

// surroundings are properties of the process that the job's code can change. restore
// resets them for the next attempt.
type surroundings struct {
	environment []string
	umask       int
}

// look returns the surroundings of this process.
func look() surroundings {
	umask := syscall.Umask(0)
	syscall.Umask(umask)
	return surroundings{os.Environ(), umask}
}

// restore resets the surroundings. The working directory becomes the root directory, so
// that no directory of an attempt is in use between attempts.
func (s *surroundings) restore() error {
	syscall.Umask(s.umask)
	// Compared first, because setting all variables anew takes longer than many a task.
	if !slices.Equal(s.environment, os.Environ()) {
		os.Clearenv()
		for _, v := range s.environment {
			name, value, _ := strings.Cut(v, "=")
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
	}
	return os.Chdir("/")
}

// enter makes dir the working directory; "" leaves it.
func enter(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.Chdir(dir); err != nil {
		return storage.Disk(fmt.Errorf("the attempt's working directory: %w", err))
	}
	return nil
}
