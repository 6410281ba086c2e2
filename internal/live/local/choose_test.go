package local

import (
	"strings"
	"testing"
)

// A policy that chooses by forecasts is refused, at the start and later, instead of never
// choosing.
func TestNoForecastsNoChoice(t *testing.T) {
	if _, err := Start(Config{Policy: "auto"}); err == nil || !strings.Contains(err.Error(), "name one of its candidates") {
		t.Errorf("at the start: %v", err)
	}
	c := startCluster(t, Config{})
	if err := c.SetPolicy("auto", nil); err == nil || !strings.Contains(err.Error(), "name one of its candidates") {
		t.Errorf("later: %v", err)
	}
}
