package agent

import (
	"slices"
	"strconv"
	"strings"

	"github.com/slotwise/slotwise/internal/base/bounds"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// DriverID names one try to run the function of a chain.
type DriverID struct {
	Chain string
	Try   int32
}

// String returns a name for files, such as chain-12_1.
func (id DriverID) String() string { return id.Chain + "_" + strconv.Itoa(int(id.Try)) }

// ParseDriver is the inverse of DriverID.String. It returns false for other names, so a
// name that it accepts is safe in a path.
func ParseDriver(name string) (DriverID, bool) {
	chain, try, _ := strings.Cut(name, "_")
	n, err := strconv.ParseInt(try, 10, 32)
	number, isChain := strings.CutPrefix(chain, "chain-")
	id := DriverID{chain, int32(n)}
	return id, err == nil && n > 0 && isChain && number != "" && strings.Trim(number, "0123456789") == "" && id.String() == name
}

// driver is a driver that runs, or that has ended while the master has not acknowledged
// the report of its end. The protocol is the same as for attempts: starting a driver and
// listing it are one step, and its end is repeated until the master answers a heartbeat
// that carried it.
type driver struct {
	id     DriverID
	report *slotwisev1.DriverReport
}

func (d *driver) ended() bool { return d.report.State != Running }

func idOf(r *slotwisev1.DriverRef) DriverID { return DriverID{r.GetChain(), r.GetTry()} }

// getDriver returns a driver or nil.
func (g *Agent) getDriver(id DriverID) *driver {
	for _, d := range g.drivers {
		if d.id == id {
			return d
		}
	}
	return nil
}

// Drivers returns how many drivers run, and how many are listed in reports.
func (g *Agent) Drivers() (running, listed int) {
	for _, d := range g.drivers {
		if !d.ended() {
			running++
		}
	}
	return running, len(g.drivers)
}

// drive enters a driver unless it is listed already.
func (g *Agent) drive(orders []Instruction, d *slotwisev1.Drive) []Instruction {
	id := idOf(d.GetDriver())
	// The order was carried out, or the end of its driver is not acknowledged yet.
	if g.getDriver(id) != nil {
		return orders
	}
	g.drivers = append(g.drivers, &driver{id, &slotwisev1.DriverReport{Driver: d.GetDriver(), State: Running}})
	orders = append(orders, Instruction{Kind: StartDriver, Driver: id, Drive: d})
	// As in launch: the order was under way when the worker began to end.
	if g.stopped != "" {
		orders = append(orders, Instruction{Kind: StopDriver, Driver: id, Reason: g.stopped})
	}
	return orders
}

// stopDriver stops a driver that runs.
func (g *Agent) stopDriver(orders []Instruction, id DriverID, reason string) []Instruction {
	if d := g.getDriver(id); d != nil && !d.ended() {
		orders = append(orders, Instruction{Kind: StopDriver, Driver: id, Reason: reason})
	}
	return orders
}

// stopDrivers stops all drivers that run.
func (g *Agent) stopDrivers(orders []Instruction, reason string) []Instruction {
	for _, d := range g.drivers {
		orders = g.stopDriver(orders, d.id, reason)
	}
	return orders
}

// EndDriver records the outcome of a driver. text says why it did not succeed, without
// text of its log, of which logTail is the end. final says that another try would end in
// the same way.
func (g *Agent) EndDriver(id DriverID, state slotwisev1.AttemptState, text, logTail string, final bool) {
	if d := g.getDriver(id); d != nil && !d.ended() {
		text, logTail = bounds.Cut(text, bounds.Text), bounds.Cut(logTail, bounds.Text) // else no heartbeat may carry it
		d.report = &slotwisev1.DriverReport{Driver: d.report.Driver, State: state, Error: text, LogTail: logTail, Final: final}
	}
}

// driverReports returns the reports of all listed drivers. A report is replaced as a
// whole and never changed in place, so requests share it.
func (g *Agent) driverReports() (out []*slotwisev1.DriverReport) {
	for _, d := range g.drivers {
		out = append(out, d.report)
	}
	return out
}

// acknowledgeDrivers forgets the drivers whose end a heartbeat carried.
func (g *Agent) acknowledgeDrivers(reports []*slotwisev1.DriverReport) {
	for _, r := range reports {
		if r.GetState() != Running {
			g.drivers = slices.DeleteFunc(g.drivers, func(d *driver) bool { return d.id == idOf(r.GetDriver()) })
		}
	}
}
