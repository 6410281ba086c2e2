package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/colinmarc/hdfs/v2"

	"github.com/slotwise/slotwise/lab/harness"
)

// hdfsPool keeps HDFS clusters, because each needs half a minute of a core to start. A
// run has one for itself, and waits for one if all are in use.
type hdfsPool struct {
	dir    string
	keeper string        // see harness.StartServers
	used   chan struct{} // its capacity is the number of clusters
	mu     struct {
		sync.Mutex
		free    []*harness.Servers
		started int
	}
}

// newHDFSPool returns a pool of at most n clusters, with their files in dir. It starts
// them when runs need them.
func newHDFSPool(keeper, dir string, n int) *hdfsPool {
	return &hdfsPool{keeper: keeper, dir: dir, used: make(chan struct{}, n)}
}

// take returns the store of a run on a free HDFS, or on a new one, and uploads the
// input.
func (p *hdfsPool) take(name string, in *input) (*hdfsStore, error) {
	s := &hdfsStore{pool: p, dir: "/" + name}
	p.used <- struct{}{}
	p.mu.Lock()
	if n := len(p.mu.free); n > 0 {
		s.server, p.mu.free = p.mu.free[n-1], p.mu.free[:n-1]
	}
	number := p.mu.started
	if s.server == nil {
		p.mu.started++
	}
	p.mu.Unlock()
	if s.server == nil {
		var err error
		if s.server, err = harness.StartServers(p.keeper, "hdfs", filepath.Join(p.dir, fmt.Sprint("hdfs-", number))); err != nil {
			<-p.used
			return nil, err
		}
	}
	if err := s.server.Do("await"); err != nil { // some may have been restarted just now
		return s, err
	}
	var err error
	s.client, err = hdfs.NewClient(hdfs.ClientOptions{Addresses: []string{s.server.Cluster.Address}, User: "tester"})
	if err != nil {
		return s, err
	}
	if err := errors.Join(s.client.MkdirAll(path.Join(s.dir, "in"), 0o777), s.client.MkdirAll(path.Join(s.dir, "out"), 0o777)); err != nil {
		return s, err
	}
	names, err := namesIn(in.dir)
	for _, n := range names {
		err = errors.Join(err, s.upload(filepath.Join(in.dir, n), path.Join(s.dir, "in", n)))
	}
	return s, err
}

// upload copies a file to HDFS. It tries again, because a DataNode that has just been
// started again may not be ready although the NameNode counts it as live.
func (s *hdfsStore) upload(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var last error
	err = eventually("HDFS stores "+to, func() (bool, error) {
		if last = s.write(b, to); last != nil {
			last = errors.Join(last, ignore(s.client.Remove(to), os.ErrNotExist))
		}
		return last == nil, nil
	})
	if err != nil {
		err = errors.Join(err, last)
	}
	return err
}

// write writes a file and waits until its last block is reported.
func (s *hdfsStore) write(b []byte, to string) error {
	w, err := s.client.Create(to)
	if err != nil {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return errors.Join(err, w.Close())
	}
	return eventually("HDFS has replicated "+to, func() (bool, error) {
		err := w.Close()
		if hdfs.IsErrReplicating(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// stop stops all clusters. No run may use one any more.
func (p *hdfsPool) stop() (err error) {
	for _, h := range p.mu.free {
		err = errors.Join(err, h.Stop())
	}
	return err
}

// hdfsStore is a directory of an HDFS that no other run uses at the same time.
type hdfsStore struct {
	sync.Mutex
	pool   *hdfsPool
	server *harness.Servers
	client *hdfs.Client
	dir    string
}

func (s *hdfsStore) uri(name string) string {
	return "hdfs://" + s.server.Cluster.Address + path.Join(s.dir, name)
}

func (s *hdfsStore) env() []string { return s.server.Env }

func (s *hdfsStore) names(dir string) (names []string, err error) {
	entries, err := s.client.ReadDir(path.Join(s.dir, dir)) // sorted by name
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (s *hdfsStore) read(file string) ([]byte, error) {
	return s.client.ReadFile(path.Join(s.dir, file))
}

func (s *hdfsStore) leftovers() ([]string, error) { return hidden(s) }

// servers returns the NameNode and all ports on which something listens at the addresses of the DataNodes.
func (s *hdfsStore) servers() ([]string, error) {
	all := []string{s.server.Cluster.Address}
	table, err := os.ReadFile("/proc/net/tcp")
	for line := range strings.Lines(string(table)) {
		// sl, local address as hexadecimal IP:port in the order of this machine, remote address, state: 0A listens.
		f := strings.Fields(line)
		var ip uint32
		var port int
		if len(f) < 4 || f[3] != "0A" {
			continue
		}
		if n, _ := fmt.Sscanf(f[1], "%08X:%04X", &ip, &port); n != 2 {
			continue
		}
		host := net.IP(binary.NativeEndian.AppendUint32(nil, ip)).String()
		if slices.Contains(s.server.Cluster.Hosts, host) {
			all = append(all, fmt.Sprint(host, ":", port))
		}
	}
	return all, err
}

func (s *hdfsStore) target() *sync.Mutex { return &s.Mutex }

// close removes the run's directory and gives the HDFS to the next run.
func (s *hdfsStore) close() error {
	var err error
	if s.client != nil {
		err = errors.Join(ignore(s.client.RemoveAll(s.dir), os.ErrNotExist), s.client.Close())
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.pool.mu.free = append(s.pool.mu.free, s.server)
	<-s.pool.used
	return err
}

// dataNode returns the DataNode of s that a fault affects.
func dataNode(s *harness.Servers, f fault) string {
	return s.Cluster.Hosts[f.amount%uint64(len(s.Cluster.Hosts))]
}

// killDataNode kills a DataNode and starts it again.
func killDataNode(c *cluster, f fault) (func() error, bool, error) {
	h := c.store.(*hdfsStore).server
	host := dataNode(h, f)
	return func() error { return h.Do("restart", host) }, true, h.Do("kill", host)
}

// freezeDataNode stops a DataNode with SIGSTOP.
func freezeDataNode(c *cluster, f fault) (func() error, bool, error) {
	h := c.store.(*hdfsStore).server
	host := dataNode(h, f)
	return func() error { return h.Do("thaw", host) }, true, h.Do("freeze", host)
}
