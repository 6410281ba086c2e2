package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/live/machines"
	"github.com/slotwise/slotwise/internal/tracker/autoscale"
)

// namespace is a namespace of Kubernetes in memory with one Deployment, and the master of
// the workers in its pods. Each call of Load lets a moment pass.
type namespace struct {
	mu       sync.Mutex
	random   *rand.Rand
	replicas int
	made     int
	pods     []*worker // in order of their creation
	// pending tasks wait, done ones have left an output on a worker.
	pending, total, done int
	kills                int // pods that the schedule still deletes
	trouble              bool
	most                 int      // workers that were registered at once
	lost                 []string // work that scaling down has cost
}

// worker is a pod with its worker.
type worker struct {
	name                string
	ready, drained      bool
	cost                int
	running, mapOutputs int
}

// ServeHTTP implements http.Handler.
func (n *namespace) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var patch struct {
		Spec     struct{ Replicas int }
		Metadata struct{ Annotations map[string]*string }
	}
	if r.Method == http.MethodPatch {
		if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	switch name := path.Base(r.URL.Path); {
	case name == "scale":
		n.replicas = patch.Spec.Replicas
		n.reconcile()
	case name == "workers":
		fmt.Fprintf(w, `{"spec":{"replicas":%d,"selector":{"matchLabels":{"a":"b"}}}}`, n.replicas)
	case name == "pods":
		n.list(w, r)
	default:
		for _, p := range n.pods {
			if cost := patch.Metadata.Annotations[costKey]; p.name == name && cost != nil {
				p.cost, _ = strconv.Atoi(*cost)
			} else if p.name == name {
				p.cost = 0
			}
		}
	}
}

// list writes a page of pods.
func (n *namespace) list(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	to, next := min(len(n.pods), from+limit), ""
	if to < len(n.pods) {
		next = strconv.Itoa(to)
	}
	var items []string
	for _, p := range n.pods[min(from, to):to] {
		items = append(items, fmt.Sprintf(`{"metadata":{"name":%q,"annotations":{%q:"%d"}},"status":{"phase":"Running","conditions":[{"type":"Ready","status":%q}]}}`,
			p.name, costKey, p.cost, map[bool]string{true: "True", false: "False"}[p.ready]))
	}
	fmt.Fprintf(w, `{"metadata":{"continue":%q},"items":[%s]}`, next, strings.Join(items, ","))
}

// reconcile makes and deletes pods as a ReplicaSet does: it deletes pods that are not ready
// first, then pods with the lowest cost, then the youngest.
func (n *namespace) reconcile() {
	for len(n.pods) < n.replicas {
		n.made++
		n.pods = append(n.pods, &worker{name: fmt.Sprintf("w%d", n.made)})
	}
	rank := func(p *worker) int {
		if p.ready {
			return p.cost
		}
		return p.cost - 1000
	}
	for len(n.pods) > n.replicas {
		slices.Reverse(n.pods)
		first := slices.MinFunc(n.pods, func(a, b *worker) int { return cmp.Compare(rank(a), rank(b)) })
		slices.Reverse(n.pods)
		if first.running+first.mapOutputs > 0 {
			n.lost = append(n.lost, fmt.Sprintf("%+v", *first))
		}
		n.remove(first)
	}
}

// remove deletes a pod. Its tasks and map outputs are made again.
func (n *namespace) remove(p *worker) {
	n.pending += p.running + p.mapOutputs
	n.done -= p.mapOutputs
	n.pods = slices.DeleteFunc(n.pods, func(x *worker) bool { return x == p })
}

// pass lets a moment pass: workers start, take tasks and finish them. The schedule deletes
// pods and makes them unready.
func (n *namespace) pass() {
	up := 0
	for _, p := range n.pods {
		switch {
		case !p.ready:
			p.ready = !n.trouble || n.random.IntN(3) == 0
		case n.trouble && n.random.IntN(12) == 0:
			p.ready = false // it works on, as with a kubelet that stops
		}
		for p.running > 0 && n.random.IntN(3) == 0 {
			p.running--
			p.mapOutputs++
			n.done++
		}
		for p.ready && !p.drained && p.running < 2 && n.pending > 0 {
			p.running++
			n.pending--
		}
		if p.ready {
			up++
		}
	}
	n.most = max(n.most, up)
	if n.kills > 0 && len(n.pods) > 0 && n.random.IntN(15) == 0 {
		n.kills--
		n.remove(n.pods[n.random.IntN(len(n.pods))])
		n.reconcile()
	}
	if n.done == n.total { // the job has ended: no reduce needs its map outputs
		for _, p := range n.pods {
			p.mapOutputs = 0
		}
	}
}

// Load implements machines.Cluster.
func (n *namespace) Load(context.Context) (in autoscale.Input, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pass()
	in.Demand[0], in.Busy = n.pending, n.done < n.total
	for _, p := range n.pods {
		in.Demand[0] += p.running
		if p.ready || p.running+p.mapOutputs > 0 {
			in.Workers = append(in.Workers, autoscale.Worker{Name: p.name, Registered: true, Drained: p.drained, Slots: autoscale.Slots{2, 1}, Running: p.running, Outputs: p.mapOutputs})
		}
	}
	return in, nil
}

// Drain implements machines.Cluster.
func (n *namespace) Drain(_ context.Context, name string, undo bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.pods {
		if p.name == name {
			p.drained = !undo
		}
	}
	return nil
}

// scale runs the master's loop until the work is done and the pods are gone.
func (n *namespace) scale(t *testing.T, cfg autoscale.Config) {
	t.Helper()
	srv := httptest.NewTLSServer(n)
	defer srv.Close()
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	for name, text := range map[string]string{"namespace": "ns", "token": "secret", "ca.crt": string(ca)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, err := open(srv.URL, dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := autoscale.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l := &machines.Loop{Cluster: n, Provider: newDeployment(a, "workers"), Scaler: s, Every: time.Millisecond, Log: slog.New(slog.DiscardHandler)}
		l.Run(ctx)
	}()
	over := func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.done == n.total && len(n.pods) == cfg.Min && n.replicas == cfg.Min
	}
	for !over() && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	late := ctx.Err()
	cancel()
	<-ended
	if late != nil {
		t.Fatalf("%d of %d tasks are done, %d pods of %d", n.done, n.total, len(n.pods), n.replicas)
	}
	if len(n.lost) > 0 {
		t.Errorf("scaling down took workers that held work: %v", n.lost)
	}
}

// TestSchedules scales clusters whose pods are deleted and become unready at random. All work
// gets done, and scaling down itself never costs any.
func TestSchedules(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			n := &namespace{random: rand.New(rand.NewPCG(seed, 1)), total: 60, pending: 60, kills: int(seed % 5), trouble: seed%2 == 1}
			n.scale(t, autoscale.Config{Min: int(seed % 3), Max: 6, Hold: time.Hour})
		})
	}
}

// TestThousandWorkers lets 1,000 workers join and go, which takes several pages of pods.
func TestThousandWorkers(t *testing.T) {
	n := &namespace{random: rand.New(rand.NewPCG(1, 1)), total: 20_000, pending: 20_000}
	n.scale(t, autoscale.Config{Max: 1000, Hold: time.Hour})
	if n.most != 1000 {
		t.Errorf("%d workers at once, want 1000", n.most)
	}
}
