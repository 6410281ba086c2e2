// Package prom keeps a process's metrics and answers Prometheus in its text format. It has what slotwise
// needs of client_golang: that library initializes itself for 0.5 ms in every command, also those that serve
// nothing.
package prom

import (
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Kind is the type of a metric.
type Kind string

// The kinds of metrics.
const (
	Gauge     Kind = "gauge"
	Counter   Kind = "counter"
	histogram Kind = "histogram"
)

// Desc describes a metric.
type Desc struct {
	Kind   Kind
	Name   string
	Help   string
	Labels []string // names
}

// Source is asked for its metrics at each scrape. It may be asked by several goroutines at a time.
type Source interface{ Collect(p *Page) }

// SourceFunc is a function that is a Source.
type SourceFunc func(p *Page)

// Collect implements Source.
func (f SourceFunc) Collect(p *Page) { f(p) }

// Set has the sources of a process. It serves their metrics over HTTP.
type Set []Source

// ServeHTTP answers a scrape.
func (s Set) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	p := &Page{families: map[string]*family{}}
	for _, source := range s {
		source.Collect(p)
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = io.WriteString(w, p.String()) // a scraper that has gone needs no answer
}

// Page is the answer to a scrape. Only one goroutine at a time may use it.
type Page struct{ families map[string]*family }

// family has the samples of one metric, which the format wants together.
type family struct {
	desc  *Desc
	lines []string
}

// Add adds a sample with the values of the metric's labels, in the order of Desc.Labels.
func (p *Page) Add(d *Desc, value float64, labels ...string) {
	p.add(d, "", d.Labels, labels, value)
}

func (p *Page) add(d *Desc, suffix string, names, labels []string, value float64) {
	f := p.families[d.Name]
	if f == nil {
		f = &family{desc: d}
		p.families[d.Name] = f
	}
	pairs := make([]string, len(names))
	for i, name := range names {
		pairs[i] = name + `="` + labelEscapes.Replace(strings.ToValidUTF8(labels[i], "\uFFFD")) + `"`
	}
	slices.Sort(pairs)
	sample := d.Name + suffix
	if len(pairs) > 0 {
		sample += "{" + strings.Join(pairs, ",") + "}"
	}
	f.lines = append(f.lines, sample+" "+number(value)+"\n")
}

// labelEscapes and helpEscapes have the escapes of the format.
var (
	labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	helpEscapes  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
)

// number returns a value as the format writes it.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// String returns the page in the text format, in the order of names.
func (p *Page) String() string {
	var b strings.Builder
	all := make([]string, 0, len(p.families))
	for name := range p.families {
		all = append(all, name)
	}
	slices.Sort(all)
	for _, name := range all {
		f := p.families[name]
		b.WriteString("# HELP " + name + " " + helpEscapes.Replace(f.desc.Help) + "\n# TYPE " + name + " " + string(f.desc.Kind) + "\n")
		if f.desc.Kind != histogram { // whose buckets stay in the order of their bounds
			slices.Sort(f.lines)
		}
		for _, line := range f.lines {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Counts counts events by labels. Any goroutine may use it.
type Counts struct {
	desc Desc
	mu   struct {
		sync.Mutex
		by map[string]*count // by the labels' values, joined
	}
}

// count is the number of events with certain labels.
type count struct {
	labels []string
	n      uint64
}

// NewCounts returns a counter. Without labels it is shown from the start, and else a combination of labels is
// shown from its first event on.
func NewCounts(name, help string, labels ...string) *Counts {
	c := &Counts{desc: Desc{Counter, name, help, labels}}
	c.mu.by = map[string]*count{}
	return c
}

// Inc counts an event with the values of the labels.
func (c *Counts) Inc(labels ...string) {
	key := strings.Join(labels, "\x00")
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.by[key] == nil {
		c.mu.by[key] = &count{labels: slices.Clone(labels)}
	}
	c.mu.by[key].n++
}

// Get returns the number of events with the values of the labels.
func (c *Counts) Get(labels ...string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.mu.by[strings.Join(labels, "\x00")]; n != nil {
		return n.n
	}
	return 0
}

// Collect implements Source.
func (c *Counts) Collect(p *Page) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.desc.Labels) == 0 && len(c.mu.by) == 0 {
		p.Add(&c.desc, 0)
	}
	for _, n := range c.mu.by {
		p.Add(&c.desc, float64(n.n), n.labels...)
	}
}

// Histogram counts values by ranges. Any goroutine may use it.
type Histogram struct {
	desc   Desc
	bounds []float64 // upper, ascending
	mu     struct {
		sync.Mutex
		counts []uint64 // by bound, then the values above all
		sum    float64
	}
}

// NewHistogram returns a histogram with ranges that end at the bounds, which ascend.
func NewHistogram(name, help string, bounds ...float64) *Histogram {
	h := &Histogram{desc: Desc{Kind: histogram, Name: name, Help: help}, bounds: bounds}
	h.mu.counts = make([]uint64, len(bounds)+1)
	return h
}

// Powers returns n bounds: first, first·factor, first·factor², …
func Powers(first, factor float64, n int) []float64 {
	bounds := make([]float64, n)
	for i := range bounds {
		bounds[i] = first
		first *= factor
	}
	return bounds
}

// Observe counts a value.
func (h *Histogram) Observe(v float64) {
	i, _ := slices.BinarySearch(h.bounds, v) // a value at a bound is within its range
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.counts[i]++
	h.mu.sum += v
}

// Total returns the number of values and their sum.
func (h *Histogram) Total() (n uint64, sum float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.mu.counts {
		n += c
	}
	return n, h.mu.sum
}

// Collect implements Source. Each range has the values of all ranges below it, too.
func (h *Histogram) Collect(p *Page) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := uint64(0)
	for i, c := range h.mu.counts {
		n += c
		bound := math.Inf(1)
		if i < len(h.bounds) {
			bound = h.bounds[i]
		}
		p.add(&h.desc, "_bucket", []string{"le"}, []string{number(bound)}, float64(n))
	}
	p.add(&h.desc, "_sum", nil, nil, h.mu.sum)
	p.add(&h.desc, "_count", nil, nil, float64(n))
}
