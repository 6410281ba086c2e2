package master

import (
	"bytes"
	"time"

	"github.com/slotwise/slotwise/internal/live/master/protocol"
	"github.com/slotwise/slotwise/internal/virtual/forecast"
	"github.com/slotwise/slotwise/policies/auto"
	"github.com/slotwise/slotwise/sched"
)

// chooseOn makes the choices of policy auto, until the master closes. One goroutine copies the
// state as forecasts do and simulates beside the loop. After each choice it rests as forecasts
// do, so that choices use at most 5 % of a core however large the state is.
func (m *Master) chooseOn() {
	var chooser forecast.Chooser
	rest := leastRest
	for {
		select {
		// A new timer for each round: the rest depends on how long the choice took.
		case <-time.After(rest):
		case <-m.ctx.Done():
			return
		}
		began := time.Now()
		every, err := m.chooseOnce(&chooser)
		// A choice also ends when the master closes or the lead is lost, and neither is a fault.
		if err != nil && m.ctx.Err() == nil && m.notLeader() == nil {
			m.log.Warn("policy auto cannot choose", "error", err)
		}
		rest = restAfterChoice(time.Since(began), every)
	}
}

// restAfterChoice returns how long no choice is made after one that took so long.
func restAfterChoice(took, every time.Duration) time.Duration {
	return max(restAfter(took), every-took)
}

// chooseOnce makes one choice, if the installed policy is one that chooses. It returns the least
// time until the next one.
func (m *Master) chooseOnce(chooser *forecast.Chooser) (every time.Duration, err error) {
	// Copying the state is in vain under other policies.
	chooses, err := query(m.ctx, m, func() (bool, error) {
		_, ok := m.core.Tracker().Policy().(*auto.Policy)
		return ok, nil
	})
	// Asked before the copy of the state, which costs the loop time on every master that runs another policy.
	if !chooses || err != nil {
		// Its last promise must not be compared with ends under another policy.
		*chooser = forecast.Chooser{}
		return 0, err
	}
	state, basis, err := m.copyState(m.ctx, ownAccount)
	if err != nil {
		return 0, err
	}
	installed, err := m.installed(basis)
	p, ok := installed.(*auto.Policy)
	if !ok || err != nil { // another policy was installed just now
		return 0, err
	}
	every = p.Config().Every
	chosen, err := m.simulateChoice(chooser, p, state, basis)
	if err != nil {
		return every, err
	}
	// The choice travels as a document through the core, which records it, and not as a policy: a restarted
	// master must load the same one.
	doc, err := chosen.SaveChoice()
	decided, _ := chosen.Counts()
	// An unchanged choice would be one journal record for each decision.
	if err != nil || decided == 0 || bytes.Equal(doc, basis.Choice) {
		return every, err
	}
	_, err = call[any](m.ctx, m, 0, func(id protocol.Call) (protocol.Message, error) {
		return &protocol.Choose{Call: id, Name: basis.Policy, Set: basis.Set, Choice: doc}, nil
	})
	// A candidate that takes over has no pools and queues of Hadoop's files yet.
	if err == nil && chosen.Running() != p.Running() {
		m.configureAgain()
		m.log.Info("policy auto has chosen", "policy", chosen.Running(), "before", p.Running(), "why", chosen.Why())
	}
	return every, err
}

// simulateChoice returns the policy that decides from now on: p, if it stays.
func (m *Master) simulateChoice(chooser *forecast.Chooser, p *auto.Policy, state *forecast.State, b protocol.Basis) (*auto.Policy, error) {
	cfg := m.forecastConfig(b)
	choice := chooser.Begin(p, state, cfg, func(spec string, fresh sched.Policy) error {
		// The installed candidate has its learned state in the futures; another one begins
		// without any, as it would on the cluster.
		if spec == p.Running() {
			return m.equip(fresh, b.Policy, b.Learned)
		}
		return m.equip(fresh, spec, nil)
	})
	if choice == nil {
		return p, nil
	}
	began := time.Now()
	for more, done := true, 1; more; done++ {
		var err error
		if more, err = choice.Next(); err != nil {
			return nil, err
		}
		// A choice by an old state is worth little. Fewer futures make wider intervals, so the
		// choice is then more careful, not wrong.
		if time.Since(began) > mostForecast && done >= auto.LeastFutures {
			break
		}
	}
	next, err := choice.End()
	if next == nil || err != nil {
		return p, err
	}
	return next.(*auto.Policy), nil
}
