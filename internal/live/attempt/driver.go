package attempt

import (
	"context"
	"fmt"
	"os"

	"github.com/slotwise/slotwise/internal/base/proctree"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Role is the value of the environment variable Env. A worker sets it to select whether
// the process runs an attempt or a driver.
type Role string

// The roles.
const (
	Task   Role = "1"      // run one attempt of a task
	Driver Role = "driver" // run the function of a chain
)

// DriverMain runs the driver of a chain and returns the exit status of the process, as
// Main does for an attempt. run runs the chain's function. Its result final says that
// another driver would end with the same error.
//
// A driver that receives a request to stop ends at once and kills no step: another driver
// joins the steps that are running.
func DriverMain(run func(context.Context, *slotwisev1.DriverOrder) (final bool, err error)) int {
	os.Unsetenv(Env)
	if err := proctree.Adopt(); err != nil {
		fmt.Fprintln(os.Stderr, "driver: processes that detach themselves will not be killed:", err)
	}
	p := openPipe()
	m, err := p.receive()
	if err == nil && m.GetDrive() == nil {
		err = fmt.Errorf("the first message is %T, not an order", m.GetWhat())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "driver: the worker sent no order:", err)
		return 2
	}
	kill := killWithWorker()
	go func() {
		for {
			// A driver has no state to save: the next one joins the steps that this one has submitted.
			if m, err := p.receive(); err != nil || m.GetStop() != "" {
				kill()
				return
			}
		}
	}()
	final, err := run(context.Background(), m.GetDrive())
	// Before the outcome is sent, so that nothing of the driver runs when the master starts
	// another one.
	proctree.KillChildren()
	if err != nil {
		return p.outlet().finish(&slotwisev1.Done{Error: err.Error(), Final: final})
	}
	return p.outlet().finish(&slotwisev1.Done{Ok: true})
}
