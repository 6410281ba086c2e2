package cli

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/testkit/clustertest"
)

// threeMasters is a cluster whose three masters are processes.
type threeMasters struct {
	*testCluster
	peers     string
	processes map[string]*clustertest.Process // by address
}

func newThreeMasters(t *testing.T) *threeMasters {
	t.Helper()
	c := &threeMasters{testCluster: &testCluster{clustertest.New(t, self(t))}, processes: map[string]*clustertest.Process{}}
	var list []string
	host := clustertest.LoopbackHost()
	for range 3 {
		l, err := net.Listen("tcp", host+":0")
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, l.Addr().String())
		defer l.Close()
	}
	c.peers = strings.Join(list, ",")
	c.URL = c.peers
	return c
}

// serve starts the master with an address, again if it has ended.
func (c *threeMasters) serve(address string) {
	dir := filepath.Join(c.Dir, "m"+address[strings.LastIndex(address, ":")+1:])
	c.processes[address] = c.Start("master "+address, "master", "--dir", dir, "--listen", address, "--advertise", address, "--peers", c.peers, "--bootstrap")
}

// leads waits until a master other than one leads, and returns its address.
func (c *threeMasters) leads(other string) (found string) {
	c.T.Helper()
	h := &http.Client{Timeout: 5 * time.Second}
	clustertest.Eventually(c.T, "a master leads", func() bool {
		for a := range c.processes {
			if a == other {
				continue
			}
			resp, err := h.Get("http://" + a + "/leader")
			if err != nil {
				continue
			}
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				found = a
				return true
			}
		}
		return false
	})
	return found
}

// TestStoppedLeader stops the leader within a commit, while it waits for the lock of the staging, for
// longer than its lease lasts. Another master leads, and jobs answers although the frozen master comes
// first in its list. Then only the first one runs: it continues, gets the lock, and publishes nothing. The
// job succeeds when a majority is back.
func TestStoppedLeader(t *testing.T) {
	t.Parallel()
	c := newThreeMasters(t)
	list := strings.Split(c.URL, ",")
	for _, a := range list {
		c.serve(a)
	}
	first := c.leads("")
	others := slices.DeleteFunc(slices.Clone(list), func(a string) bool { return a == first })
	c.URL = first + "," + strings.Join(others, ",")
	c.StartWorker("w1")
	mapper, started, open := c.gate("m")
	wait := c.begin("--mapper", mapper, "--input", c.Write("in.txt", "a\n"), "--output", "out")
	c.appears(started + "*")
	root, err := os.Open(c.appears(filepath.Join(c.Dir, ".out.slotwise-shared-*"))[0])
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := syscall.Flock(int(root.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(open, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, "the job commits", func() bool { return strings.Contains(c.asks("jobs"), "committing") })
	time.Sleep(300 * time.Millisecond) // until the leader waits for the lock
	c.processes[first].Signal(syscall.SIGSTOP)
	c.leads(first)
	began := time.Now()
	out := c.asks("jobs")
	t.Logf("jobs takes %v", time.Since(began))
	if !strings.Contains(out, "committing") {
		t.Errorf("jobs prints %s", out)
	}
	for _, a := range others {
		c.processes[a].Kill()
	}
	c.processes[first].Signal(syscall.SIGCONT)
	if err := syscall.Flock(int(root.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	if _, err := os.Stat(filepath.Join(c.Dir, "out")); err == nil {
		t.Error("the stopped leader has published the output")
	}
	for _, a := range others {
		c.serve(a)
	}
	if status, text := wait(); status != 0 {
		t.Errorf("the job ends with %d: %s", status, text)
	}
	if got := c.Lines("out"); !slices.Equal(got, []string{"a"}) {
		t.Errorf("the output has %q", got)
	}
	if left, _ := filepath.Glob(filepath.Join(c.Dir, ".out*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
