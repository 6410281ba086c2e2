package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// metrics reads a process's metrics. Metrics of the same name with different labels
// are added up.
func metrics(ctx context.Context, url string) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return readMetrics(resp.Body)
}

// readMetrics parses the text format of Prometheus.
func readMetrics(r io.Reader) (map[string]float64, error) {
	m := map[string]float64{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		v, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil || name == "#" {
			continue
		}
		name, _, _ = strings.Cut(name, "{")
		m[name] += v
	}
	return m, lines.Err()
}
