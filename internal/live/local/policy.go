package local

import (
	"errors"

	"github.com/slotwise/slotwise/sched"
)

// SetPolicy installs another policy while jobs run. No task is touched. After
// an error the old one stays installed.
func (c *Cluster) SetPolicy(spec string, set map[string]string) error {
	p, err := c.cfg.Policies.Build(spec, sched.Options{Seed: c.cfg.Seed, Set: set, Live: true})
	if err == nil {
		err = c.cfg.checkPolicy(spec, p)
	}
	if err != nil {
		return err
	}
	return c.do(func() error {
		c.tracker.SetPolicy(p)
		c.cfg.Policy, c.cfg.PolicySet = spec, set
		// The new policy may have work for nodes that the former one left idle, and no event may
		// come for a while.
		c.offer()
		return nil
	})
}

// Policy returns the name or composition with which the policy was installed.
func (c *Cluster) Policy() (spec string) {
	c.do(func() error { spec = c.cfg.Policy; return nil })
	return spec
}

// Reconfigure hands the policy another configuration, of a type that it knows;
// one that no part knows is an error, and so is a wrong one. After an error
// nothing has changed.
func (c *Cluster) Reconfigure(conf any) error {
	return c.do(func() error {
		known, err := c.tracker.Reconfigure(conf)
		c.offer()
		if err == nil && !known {
			err = errors.New("the policy takes no such configuration")
		}
		return err
	})
}

// Learned returns what the policy has learned, for LoadLearned of another run.
func (c *Cluster) Learned() (doc []byte, err error) {
	err = c.do(func() error {
		doc, err = sched.SaveState(c.cfg.Policy, c.tracker.Learned())
		return err
	})
	return doc, err
}

// LoadLearned gives the policy what Learned of an earlier run returned.
func (c *Cluster) LoadLearned(doc []byte) error {
	return c.do(func() error { return sched.LoadState(doc, c.cfg.Policy, c.tracker.Learned()) })
}

// do runs f in the loop, waits until it has returned, and returns its error. It returns errClosed if
// the loop has ended before it ran f.
func (c *Cluster) do(f func() error) error {
	done := make(chan error, 1)
	if !c.post(func() { done <- f() }) {
		return errClosed
	}
	select {
	case err := <-done:
		return err
	// post may have put f into the inbox of a loop that takes nothing from it any more.
	case <-c.stopped:
	}
	select {
	case err := <-done: // f was the last thing that the loop ran
		return err
	default:
		return errClosed
	}
}

var errClosed = errors.New("the cluster is closed")

// warn tells the user of something.
func (c *Cluster) warn(text string) {
	if c.cfg.Warn != nil {
		c.cfg.Warn(text)
	}
}
