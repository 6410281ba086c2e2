package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/slotwise/slotwise/internal/base/proctree"
	"github.com/slotwise/slotwise/internal/live/history"
	"github.com/slotwise/slotwise/internal/live/secure"
	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// trio is a cluster with three masters. Each has a network namespace, and a bridge in another
// namespace, the switch, connects them. Workers and users are in the switch's namespace. So
// nothing outside the run sees its packets, and all runs use the same addresses.
type trio struct {
	*cluster
	masters []*seat
	hub     namespace // of the switch
	old     string    // the earlier program with which the run begins; "" if there is no upgrade
	links   []*link   // from the namespaces to the storage's servers
	dialer  func(ctx context.Context, network, address string) (net.Conn, error)
	close2  func()
}

// seat is one of the masters.
type seat struct {
	daemon
	net    namespace
	number int // from 1
	dir    string
	starts int
}

// namespace is the name of a network namespace.
type namespace string

func (n namespace) command(argv ...string) []string {
	return append([]string{"nsenter", "--net=/run/netns/" + string(n)}, argv...)
}

func (n namespace) ip(lines ...string) error { return ip([]string{"-n", string(n)}, lines...) }

// trioAddress returns the address of a master; 9 is the switch's own, which workers and users have.
func trioAddress(number int) string { return fmt.Sprint("10.77.0.", number) }

const (
	trioPort = "7077"
	hubHost  = 9
)

// trioHosts are the hosts of the certificates.
func trioHosts() []string {
	return []string{trioAddress(1), trioAddress(2), trioAddress(3), trioAddress(hubHost)}
}

func (t *trio) list() string {
	var all []string
	for i := 1; i <= 3; i++ {
		all = append(all, net.JoinHostPort(trioAddress(i), trioPort))
	}
	return strings.Join(all, ",")
}

// newTrio starts three masters and two workers. The caller must call end even after an error.
func (s *settings) newTrio(ctx context.Context, p plan, dir string, in *input, number int, old string) (*trio, error) {
	c := &cluster{settings: s, plan: p, dir: dir, mark: "FAULT_RUN=" + dir}
	t := &trio{cluster: c, old: old, hub: namespace(fmt.Sprintf("sw%dx%d", os.Getpid(), number))}
	if err := os.MkdirAll(c.temp(), 0o777); err != nil {
		return t, err
	}
	var err error
	if c.store, err = s.openStore(ctx, p, dir, in); err != nil {
		return t, err
	}
	if err := errors.Join(ip(nil, "netns add "+string(t.hub)),
		t.hub.ip("link set lo up", "link add br0 type bridge", fmt.Sprintf("addr add %s/24 dev br0", trioAddress(hubHost)), "link set br0 up")); err != nil {
		return t, err
	}
	for i := 1; i <= 3; i++ {
		m := &seat{daemon: daemon{c: c, name: fmt.Sprint("m", i)}, number: i, dir: filepath.Join(dir, "masters", fmt.Sprint("m", i)), net: namespace(fmt.Sprintf("%sm%d", t.hub, i))}
		t.masters = append(t.masters, m)
		if err := errors.Join(mountDisk(m.journal()), ip(nil, "netns add "+string(m.net)),
			t.hub.ip(fmt.Sprintf("link add m%d type veth peer name %s netns %s", i, inside, m.net), fmt.Sprintf("link set m%d master br0 up", i)),
			m.net.ip("link set lo up", fmt.Sprintf("addr add %s/24 dev %s", trioAddress(i), inside), "link set "+inside+" up")); err != nil {
			return t, err
		}
	}
	if err := t.reachStorage(); err != nil {
		return t, err
	}
	if t.dialer, t.close2, err = dialIn(string(t.hub)); err != nil {
		return t, err
	}
	for _, m := range t.masters {
		m.program = t.old
		if err := t.startMaster(m, "--bootstrap"); err != nil {
			return t, err
		}
	}
	for i := range 2 {
		w := &worker{daemon: daemon{c: c, name: fmt.Sprint("w", i), program: t.old}, dir: filepath.Join(dir, "disks", fmt.Sprint("w", i))}
		c.workers = append(c.workers, w)
		args := []string{"worker", "--master", t.list(), "--dir", w.dir, "--name", w.name, "--listen", trioAddress(hubHost) + ":0", "--map-slots", "2", "--reduce-slots", "1",
			"--memory", "48MiB", "--min-free", "2MiB", "--drain-timeout", "1s", "--serve-timeout", "5s"}
		if err := errors.Join(os.MkdirAll(w.dir, 0o777), w.launchIn(t.hub, append(args, s.credentials.flags(certificates, "worker")...)...)); err != nil {
			return t, err
		}
	}
	for _, w := range c.workers {
		err = errors.Join(err, w.awaitLog("msg=registered", 1))
	}
	return t, err
}

// startMaster starts a master, possibly again and with further flags, and waits until it serves.
func (t *trio) startMaster(m *seat, more ...string) error {
	m.starts++
	own := net.JoinHostPort(trioAddress(m.number), trioPort)
	args := []string{"master", "--dir", m.dir, "--policy", "fair", "--listen", own, "--advertise", own, "--peers", t.list(), "--storage-root", rootURI(t.store.uri("out")), "--storage-root", rootURI(t.store.uri("in"))}
	args = append(args, more...)
	if t.plan.snapshots {
		args = append(args, "--snapshot-size", "8KiB")
	}
	if err := m.launchIn(m.net, append(args, t.credentials.flags(certificates, "server")...)...); err != nil {
		return err
	}
	return eventually(m.name+" serves", func() (bool, error) {
		conn, err := t.dialer(context.Background(), "tcp", own)
		if err != nil {
			return false, m.exited()
		}
		return true, conn.Close()
	})
}

// reachStorage lets the processes of all namespaces reach the servers of the storage, which listen on this
// machine's loopback addresses: links listen on the same addresses in each namespace. So a master that is cut off
// from the others still reaches its storage.
func (t *trio) reachStorage() error {
	addresses, err := t.store.servers()
	if err != nil {
		return err
	}
	all := []namespace{t.hub}
	for _, m := range t.masters {
		all = append(all, m.net)
	}
	for _, n := range all {
		for _, a := range addresses {
			l, err := listenIn(string(n), a)
			if err != nil {
				return fmt.Errorf("%s in %s: %w", a, n, err)
			}
			k := newLinkOn(l)
			k.to(a)
			t.links = append(t.links, k)
		}
	}
	return nil
}

// httpClient returns a user's client in the switch's namespace.
func (t *trio) httpClient() (*http.Client, error) {
	c := t.credentials
	config, err := secure.ClientTLS(secure.Files{CA: c.file("ca.pem"), Cert: c.file("user.pem"), Key: c.file("user-key.pem")})
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &http.Transport{DialContext: t.dialer, TLSClientConfig: config, ForceAttemptHTTP2: true,
		HTTP2: &http.HTTP2Config{SendPingTimeout: time.Second, PingTimeout: time.Second}}}, nil
}

// began matches the line of a master's log when it begins to lead.
var began = regexp.MustCompile(`(?m)^time=(\S+) .*msg="this master leads" term=(\d+)`)

// lead is a leadership.
type lead struct {
	at     time.Time
	term   int
	master *seat
}

var journalFailed = regexp.MustCompile(`(?m)^time=(\S+) .*msg="the journal cannot be written`)

// failed returns when the master's journal first failed after a time, zero if it did not.
func (m *seat) failed(after time.Time) time.Time {
	b, _ := os.ReadFile(m.logFile())
	for _, x := range journalFailed.FindAllSubmatch(b, -1) {
		if at, err := time.Parse(time.RFC3339Nano, string(x[1])); err == nil && at.After(after) {
			return at
		}
	}
	return time.Time{}
}

// leads returns all leaderships by term.
func (t *trio) leads() (list []lead) {
	for _, m := range t.masters {
		b, _ := os.ReadFile(m.logFile())
		for _, x := range began.FindAllSubmatch(b, -1) {
			at, _ := time.Parse(time.RFC3339Nano, string(x[1]))
			term, _ := strconv.Atoi(string(x[2]))
			list = append(list, lead{at, term, m})
		}
	}
	slices.SortFunc(list, func(a, b lead) int { return a.term - b.term })
	return list
}

// leader waits until a master leads, and returns it.
func (t *trio) leader() (m *seat, err error) {
	err = eventually("a master leads", func() (bool, error) {
		if list := t.leads(); len(list) > 0 {
			m = list[len(list)-1].master
		}
		return m != nil, nil
	})
	return m, err
}

var attemptEnded = regexp.MustCompile(`(?m)^time=(\S+) .*msg="attempt ended" .*took=(\S+)`)

// starts returns when attempts have started on the workers, in order.
func (t *trio) attemptStarts() (list []time.Time) {
	for _, w := range t.workers {
		b, _ := os.ReadFile(w.logFile())
		for _, x := range attemptEnded.FindAllSubmatch(b, -1) {
			at, err := time.Parse(time.RFC3339Nano, string(x[1]))
			took, err2 := time.ParseDuration(string(x[2]))
			if err == nil && err2 == nil {
				list = append(list, at.Add(-took))
			}
		}
	}
	slices.SortFunc(list, time.Time.Compare)
	return list
}

var registered = regexp.MustCompile(`(?m)^time=(\S+) .*msg=registered `)

// registrations returns when workers have registered, in order.
func (t *trio) registrations() (list []time.Time) {
	for _, w := range t.workers {
		b, _ := os.ReadFile(w.logFile())
		for _, x := range registered.FindAllSubmatch(b, -1) {
			if at, err := time.Parse(time.RFC3339Nano, string(x[1])); err == nil {
				list = append(list, at)
			}
		}
	}
	slices.SortFunc(list, time.Time.Compare)
	return list
}

// stop ends all daemons in order. Each must exit with 0.
func (t *trio) stop() error {
	var all error
	for _, w := range t.workers {
		all = errors.Join(all, w.cmd.Process.Signal(syscall.SIGTERM))
	}
	for _, w := range t.workers {
		all = errors.Join(all, w.awaitExit(startLimit))
	}
	for _, m := range t.masters {
		all = errors.Join(all, m.cmd.Process.Signal(syscall.SIGTERM))
	}
	for _, m := range t.masters {
		all = errors.Join(all, m.awaitExit(startLimit))
	}
	return all
}

var leftMetric = regexp.MustCompile(`(?m)^slotwise_master_(?:jobs\{.*\}|history_unsaved) (\d+)$`)

// awaitHistories waits until the leader's journal has no job any more that the histories of a majority may lack.
// Masters that end before that lose nothing, because their journals keep such a job, but histories cannot see it.
func (t *trio) awaitHistories(ctx context.Context) error {
	h, err := t.httpClient()
	if err != nil {
		return err
	}
	return eventually("a majority has stored the history of all jobs", func() (bool, error) {
		for _, m := range t.masters {
			limited, cancel := context.WithTimeout(ctx, callLimit)
			left, leads := m.unstored(limited, h)
			cancel()
			if leads {
				return left == 0, nil
			}
		}
		return false, ctx.Err()
	})
}

// unstored returns the number of jobs that a master's journal keeps. leads is false unless the master leads.
func (m *seat) unstored(ctx context.Context, h *http.Client) (left int, leads bool) {
	at := "https://" + net.JoinHostPort(trioAddress(m.number), trioPort)
	var text [2][]byte
	for i, path := range []string{"/leader", "/metrics"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at+path, nil)
		if err != nil {
			return 0, false
		}
		resp, err := h.Do(req)
		if err != nil {
			return 0, false
		}
		text[i], err = io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			return 0, false
		}
	}
	found := leftMetric.FindAllSubmatch(text[1], -1)
	for _, x := range found {
		n, _ := strconv.Atoi(string(x[1]))
		left += n
	}
	return left, len(found) > 0 // a master whose loop did not answer names none
}

// keepJournals copies the masters' journals beside them, for a run that has failed: they are on disks in memory.
func (t *trio) keepJournals() (err error) {
	for _, m := range t.masters {
		err = errors.Join(err, os.CopyFS(m.journal()+"-kept", os.DirFS(m.journal())))
	}
	return err
}

// histories compares the masters' histories after they have ended: an ended job is in those of a
// majority, with one outcome. missing counts the entries that one master lacks.
func (t *trio) histories(ctx context.Context) (missing int, err error) {
	states := map[string][]slotwisev1.JobState{}
	for _, m := range t.masters {
		h, openErr := history.OpenRead(filepath.Join(m.dir, "history"))
		if openErr != nil {
			return 0, openErr
		}
		names, listErr := h.Names(ctx)
		for _, name := range names {
			if j, getErr := h.Head(name); getErr == nil {
				states[name] = append(states[name], j.Job.State)
			}
		}
		err = errors.Join(err, listErr, h.Close())
	}
	for name, list := range states {
		if len(list) < 2 || len(slices.Compact(list)) > 1 {
			err = errors.Join(err, fmt.Errorf("%s is in the histories as %v", name, list))
		}
		missing += len(t.masters) - len(list)
	}
	return missing, err
}

// end kills what still runs and removes the networks and disks.
func (t *trio) end() error {
	var all error
	for _, m := range t.masters {
		if m.cmd != nil {
			m.cmd.Process.Signal(syscall.SIGCONT)
			m.kill()
		}
	}
	for _, w := range t.workers {
		if w.cmd != nil {
			w.kill()
		}
	}
	for _, p := range proctree.Marked(t.mark) {
		proctree.End(p)
	}
	if t.close2 != nil {
		t.close2()
	}
	for _, k := range t.links {
		k.close()
	}
	if t.store != nil {
		all = errors.Join(all, t.store.close())
	}
	for _, m := range t.masters {
		all = errors.Join(all, ip(nil, "netns del "+string(m.net)), ignore(unmountDisk(m.journal()), syscall.EINVAL))
	}
	return errors.Join(all, ip(nil, "netns del "+string(t.hub)))
}

// journal is the directory of the master's journal, which is a small disk.
func (m *seat) journal() string { return filepath.Join(m.dir, "journal") }
