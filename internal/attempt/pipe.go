package attempt

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/slotwise/slotwise/internal/proctree"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// maxMessage is the most bytes that one message of the pipe may have: an order
// holds a job's cuts, a map output message one entry for each map.
const maxMessage = 1 << 30

// pipe is the attempt's end of its two pipes.
type pipe struct {
	in *bufio.Reader
	mu struct {
		sync.Mutex
		out *os.File
	}
}

func openPipe() *pipe {
	syscall.CloseOnExec(fdIn)
	syscall.CloseOnExec(fdOut)
	p := &pipe{in: bufio.NewReader(os.NewFile(fdIn, "orders"))}
	p.mu.out = os.NewFile(fdOut, "reports")
	return p
}

// receive waits for the next message.
func (p *pipe) receive() (*slotwisev1.ToAttempt, error) {
	m := &slotwisev1.ToAttempt{}
	return m, protodelim.UnmarshalOptions{MaxSize: maxMessage}.UnmarshalFrom(p.in, m)
}

// order waits for the first message.
func (p *pipe) order() (*slotwisev1.Order, error) {
	m, err := p.receive()
	if err != nil {
		return nil, err
	}
	if m.GetOrder() == nil {
		return nil, fmt.Errorf("the first message is %T", m.GetWhat())
	}
	return m.GetOrder(), nil
}

// send sends a message. Several goroutines may.
func (p *pipe) send(m *slotwisev1.FromAttempt) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := protodelim.MarshalTo(p.mu.out, m)
	return err
}

// text makes a string one that a message can hold. Errors quote what a job's code
// says, and counters have the names that it gives them.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// finish sends the last message and returns the exit status.
func (p *pipe) finish(d *slotwisev1.Done) int {
	d.Error = text(d.Error)
	if err := p.send(&slotwisev1.FromAttempt{What: &slotwisev1.FromAttempt_Done{Done: d}}); err != nil {
		fmt.Fprintln(os.Stderr, "attempt: the worker is not told of the end:", err)
		return 1
	}
	return 0
}

// dieWithWorker has SIGTERM, which the kernel sends when the worker dies, end
// this process and all below it. The function returned does so at once.
func dieWithWorker() (end func()) {
	end = func() {
		proctree.KillChildren()
		syscall.Kill(0, syscall.SIGKILL) // the whole process group, this process too
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	// The log's pipe breaks first; a message must not end this process alone.
	// The signal is taken, not ignored, because children would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		<-term
		end()
	}()
	return end
}
