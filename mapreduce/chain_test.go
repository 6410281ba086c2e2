package mapreduce

import (
	"context"
	"sync"
	"testing"
)

// TestThenBesideSteps runs steps on another goroutine while this one calls Then. The race detector watches it.
func TestThenBesideSteps(t *testing.T) {
	c := &Chain{made: map[string]int{}, run: func(context.Context, string, Params, []string, string) error { return nil }}
	var beside sync.WaitGroup
	beside.Go(func() {
		for range 100 {
			if err := c.Step(t.Context(), "beside", nil, nil, c.Temp("out")); err != nil {
				t.Error(err)
			}
		}
	})
	for range 100 {
		c.Then(t.Context(), "then", nil)
	}
	beside.Wait()
}
