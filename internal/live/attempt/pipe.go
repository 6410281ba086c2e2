package attempt

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/slotwise/slotwise/internal/base/bounds"
	"github.com/slotwise/slotwise/internal/base/proctree"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// maxMessage is the size limit of a message in bytes. An order contains the keys
// between the reduces of a total order, and a message about map outputs has an
// entry for each map.
const maxMessage = 1 << 30

// pipe is the attempt's end of the two pipes.
type pipe struct {
	in *bufio.Reader
	mu struct {
		sync.Mutex
		out io.Writer
	}
}

// openPipe opens the pipes that the worker has passed on. Child processes do not
// inherit them, since the worker waits for their end.
func openPipe() *pipe {
	syscall.CloseOnExec(fdIn)
	syscall.CloseOnExec(fdOut)
	return newPipe(os.NewFile(fdIn, "orders"), os.NewFile(fdOut, "reports"))
}

func newPipe(in io.Reader, out io.Writer) *pipe {
	p := &pipe{in: bufio.NewReader(in)}
	p.mu.out = out
	return p
}

// receive waits for the next message. Only one goroutine may call it.
func (p *pipe) receive() (*slotwisev1.ToAttempt, error) {
	m := &slotwisev1.ToAttempt{}
	return m, protodelim.UnmarshalOptions{MaxSize: maxMessage}.UnmarshalFrom(p.in, m)
}

// order waits for the first message, which must be the order.
func (p *pipe) order() (*slotwisev1.Order, error) {
	m, err := p.receive()
	if err != nil {
		return nil, err
	}
	if m.GetOrder() == nil {
		return nil, fmt.Errorf("the first message is %T, not an order", m.GetWhat())
	}
	return m.GetOrder(), nil
}

// outlet sends the messages of one attempt. It is safe for concurrent use. After finish it
// sends nothing, so that no late message is taken for one of the next attempt.
type outlet struct {
	pipe *pipe
	over bool // guarded by pipe.mu
}

// errOver is the error of a message of an attempt that has ended.
var errOver = errors.New("the attempt has ended")

// outlet returns the outlet of a new attempt.
func (p *pipe) outlet() *outlet { return &outlet{pipe: p} }

// send sends a message.
func (o *outlet) send(m *slotwisev1.FromAttempt) error { return o.write(m, false) }

func (o *outlet) write(m *slotwisev1.FromAttempt, last bool) error {
	o.pipe.mu.Lock()
	defer o.pipe.mu.Unlock()
	if o.over {
		return errOver
	}
	// Under the same lock as the write, so that no message of another goroutine follows the last
	// one.
	o.over = last
	_, err := protodelim.MarshalTo(o.pipe.mu.out, m)
	return err
}

// finish sends the last message of the attempt and returns the process's exit status.
func (o *outlet) finish(d *slotwisev1.Done) int {
	// Errors may quote the data or the code of a job: any bytes, in any number.
	d.Error, d.LogTail = bounds.Cut(d.Error, bounds.Text), bounds.Cut(d.LogTail, bounds.Text)
	if err := o.write(&slotwisev1.FromAttempt{What: &slotwisev1.FromAttempt_Done{Done: d}}, true); err != nil {
		fmt.Fprintln(os.Stderr, "attempt: the outcome could not be sent to the worker:", err)
		return 1
	}
	return 0
}

// killWithWorker makes SIGTERM kill this process and all processes below it. The
// kernel sends SIGTERM when the worker dies. The function that killWithWorker
// returns kills them at once.
func killWithWorker() (kill func()) {
	kill = func() {
		// Children first: once this process has ended, no other one would kill children that have
		// left the group.
		proctree.KillChildren()
		syscall.Kill(0, syscall.SIGKILL) // the whole process group, this process too
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	// When the worker dies the log's pipe breaks first, and writing to it must not
	// end this process before its children. SIGPIPE is caught and not ignored,
	// because children would inherit that it is ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		<-term
		kill()
	}()
	return kill
}
