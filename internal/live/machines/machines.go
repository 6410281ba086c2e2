// Package machines lets a cluster have as many workers as its work needs. A Provider
// makes and removes machines with a worker each; package autoscale decides how many; a
// Loop carries the decisions out.
//
// Without a Provider a cluster has the workers that somebody has started.
package machines

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/slotwise/slotwise/internal/tracker/autoscale"
)

// Provider makes and removes machines. Each machine runs one worker that has the machine's
// name. All methods may block on the network until ctx ends. Errors name the object that
// the call concerns, and what to do. Every call may be repeated.
type Provider interface {
	// Fleet returns which machines there are.
	Fleet(ctx context.Context) (Fleet, error)
	// Scale asks for n machines. New ones appear in Fleet later. Machines beyond n are
	// removed: the machines named in first, then marked ones.
	Scale(ctx context.Context, n int, first ...string) error
	// Mark records that a machine is the first to go, or with leaving false that it is as
	// good as others. It returns nil for a machine that does not exist any more.
	Mark(ctx context.Context, name string, leaving bool) error
}

// Fleet describes the machines of a Provider.
type Fleet struct {
	// Replicas is the number of machines that it was last asked for.
	Replicas int
	// Machines are the existing machines, without the ones that are being removed.
	Machines []Machine
	// Trouble says why the provider does not make the requested machines, and what to do; ""
	// if all is well.
	Trouble string
}

// Machine is a machine with one worker.
type Machine struct {
	Name    string // the worker's name, too
	Leaving bool   // marked
	// Place names the pod or the container of the machine for people; "" if it is unknown.
	Place string
	// Unready says that Scale removes this machine before ready ones, whatever it names.
	Unready bool
	// Trouble says why its worker does not start, and what to do; "" if all is well.
	Trouble string
}

// Cluster is the master, as the loop needs it.
type Cluster interface {
	// Load returns the demand and all workers that are registered. It leaves
	// Input.Replicas, Worker.Marked and Worker.Unready to the caller.
	Load(ctx context.Context) (autoscale.Input, error)
	// Drain gives a worker no new work, or with undo gives it work again. It returns nil
	// for a worker that is not registered.
	Drain(ctx context.Context, worker string, undo bool) error
}

// Loop scales a cluster.
type Loop struct {
	Cluster  Cluster
	Provider Provider
	Scaler   *autoscale.Scaler
	// Seen receives each fleet that the provider reports, if it is set.
	Seen func(Fleet)
	// Every is the time between two decisions. Default 2 seconds.
	Every time.Duration
	Log   *slog.Logger

	trouble map[string]bool // reported, and not over yet
}

// callTimeout limits one decision with all its calls, and mostNames the workers that a
// message lists.
const (
	callTimeout = 30 * time.Second
	mostNames   = 5
)

// Run decides until ctx ends. Errors of the provider are logged once and retried.
func (l *Loop) Run(ctx context.Context) {
	every := l.Every
	if every == 0 {
		every = 2 * time.Second
	}
	start := time.Now()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		// A provider that hangs holds this loop up for half a minute, and no other part of the master.
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		trouble, err := l.step(limited, time.Since(start))
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			trouble = append(trouble, err.Error())
		}
		l.report(trouble)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// report logs troubles that are new.
func (l *Loop) report(troubles []string) {
	// A trouble that ends and returns is logged again, because report forgets the ones that are over.
	now := map[string]bool{}
	for _, t := range troubles {
		if now[t] = true; !l.trouble[t] {
			l.Log.Warn("scaling workers", "trouble", t)
		}
	}
	l.trouble = now
}

// step makes one decision and carries it out. It returns at the first error, and the next
// step continues from the state that Fleet and Load then show.
//
// Load comes before Fleet, because a busy master may take long to answer. The readiness of
// machines must be fresh when Scale follows: a worker that stops being ready in between may
// be removed in place of the chosen one. An old Load is safe, since a drained worker gets
// no work.
func (l *Loop) step(ctx context.Context, now time.Duration) (trouble []string, err error) {
	in, err := l.Cluster.Load(ctx)
	if err != nil {
		return nil, err
	}
	fleet, err := l.Provider.Fleet(ctx)
	if err != nil {
		return nil, err
	}
	if l.Seen != nil {
		l.Seen(fleet)
	}
	if fleet.Trouble != "" {
		trouble = append(trouble, fleet.Trouble)
	}
	for _, m := range fleet.Machines {
		if m.Trouble != "" {
			trouble = append(trouble, m.Trouble)
		}
	}
	out := l.decide(now, in, fleet)
	// The provider removes machines that are not ready first, whatever is named. While such a
	// machine holds work, removing any would remove that one.
	if len(out.Exposed) > 0 {
		trouble = append(trouble, fmt.Sprintf("no worker is given back until these are ready, because they hold work and would be removed first: %s",
			strings.Join(out.Exposed[:min(len(out.Exposed), mostNames)], ", ")))
	}
	// Only decisions that change something are logged: there is one every two seconds.
	if out.Replicas != fleet.Replicas || len(out.Stay)+len(out.Leave) > 0 {
		l.Log.Info("scaling workers", "from", fleet.Replicas, "to", out.Replicas, "want", out.Want,
			"drain", out.Leave, "keep", out.Stay, "give back", out.GiveBack)
	}
	return trouble, l.carryOut(ctx, fleet, out)
}

// decide asks the scaler about the load and the fleet.
func (l *Loop) decide(now time.Duration, in autoscale.Input, fleet Fleet) autoscale.Output {
	known := make(map[string]autoscale.Worker, len(in.Workers))
	for _, w := range in.Workers {
		known[w.Name] = w
	}
	in.Workers, in.Replicas = nil, fleet.Replicas
	// Only machines of the provider count. A worker that an operator has started elsewhere
	// cannot be given back.
	for _, m := range fleet.Machines {
		// A machine whose worker has not registered yet has the zero values.
		w := known[m.Name]
		w.Name, w.Marked, w.Unready = m.Name, m.Leaving, m.Unready
		in.Workers = append(in.Workers, w)
	}
	return l.Scaler.Step(now, in)
}

// carryOut passes the scaler's decision to the provider and the cluster. A worker is
// marked before it is drained and its drain ends before its mark, so that an interrupted
// step never leaves a drained worker that looks like an operator's.
func (l *Loop) carryOut(ctx context.Context, fleet Fleet, out autoscale.Output) error {
	// First the workers that stay: they get work again even if a later call fails.
	for _, name := range out.Stay {
		if err := l.Cluster.Drain(ctx, name, true); err != nil {
			return err
		}
		if err := l.Provider.Mark(ctx, name, false); err != nil {
			return err
		}
	}
	for _, name := range out.Leave {
		if err := l.Provider.Mark(ctx, name, true); err != nil {
			return err
		}
		if err := l.Cluster.Drain(ctx, name, false); err != nil {
			return err
		}
	}
	if out.Replicas == fleet.Replicas {
		return nil
	}
	return l.Provider.Scale(ctx, out.Replicas, out.GiveBack...)
}
