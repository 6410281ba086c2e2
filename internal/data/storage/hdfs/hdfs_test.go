package hdfs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/testkit/serverstest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write publishes one file of random bytes in blocks of 1 MiB.
func write(t *testing.T, f *FS, dir, name string, size int) []byte {
	t.Helper()
	data := make([]byte, size)
	src := rand.NewChaCha8([32]byte{2})
	_, _ = src.Read(data) // never fails
	f.settings.blockSize = 1 << 20
	s, err := f.Stage(t.Context(), dir, storage.ReplaceNothing)
	must(t, err)
	w, err := s.Create(t.Context(), name)
	must(t, err)
	_, err = io.Copy(w, bytes.NewReader(data))
	must(t, err)
	must(t, w.Commit())
	must(t, s.Commit(t.Context()))
	return data
}

// TestFailures uses its own HDFS. It writes small blocks faster than DataNodes
// report them, locates them, and reads on when one DataNode dies and another one
// freezes.
func TestFailures(t *testing.T) {
	t.Parallel() // with TestPipelines
	c := serverstest.NewHDFS(t, 3)
	f, dir := open(t, c.Env(), c.URI("/x/out"))
	f.settings.timeout = 2 * time.Second
	data := write(t, f, dir, "f", 12<<20)
	located := map[string]int{}
	for off := int64(0); off < int64(len(data)); off += 1 << 20 {
		hosts, err := f.Hosts(t.Context(), dir+"/f", off, 1<<20)
		must(t, err)
		if len(hosts) != 2 {
			t.Fatalf("block at %d: hosts %v, want two of %v", off, hosts, c.Hosts)
		}
		for _, h := range hosts {
			if !slices.Contains(c.Hosts, h) {
				t.Errorf("host %s is none of %v", h, c.Hosts)
			}
			located[h]++
		}
	}
	if len(located) != len(c.Hosts) {
		t.Errorf("only %v have blocks", located)
	}
	file, err := f.Open(t.Context(), dir+"/f")
	must(t, err)
	defer file.Close()
	got := make([]byte, len(data))
	half := len(data) / 2
	_, err = file.ReadAt(got[:half], 0)
	must(t, err)
	hosts, err := f.Hosts(t.Context(), dir+"/f", int64(len(data))-1, 1)
	must(t, err)
	c.KillDataNode(hosts[0])
	_, err = file.ReadAt(got[half:], int64(half))
	must(t, err)
	if !bytes.Equal(got, data) {
		t.Error("the bytes differ")
	}
	frozen(t, c, data)
	halfWritten(t, c)
}

// halfWritten kills all DataNodes while a file is written. The error names the URI,
// and the staging can be aborted.
func halfWritten(t *testing.T, c *serverstest.PrivateHDFS) {
	t.Helper()
	f, dir := open(t, c.Env(), c.URI("/y/out"))
	f.settings.timeout = 2 * time.Second
	s, err := f.Stage(t.Context(), dir, storage.ReplaceNothing)
	must(t, err)
	w, err := s.Create(t.Context(), "f")
	must(t, err)
	for _, h := range c.Hosts {
		c.KillDataNode(h)
	}
	_, err = io.Copy(w, bytes.NewReader(make([]byte, 4<<20)))
	if err == nil {
		err = w.Commit()
	}
	if err == nil || !strings.Contains(err.Error(), c.URI("/y/out/f")) {
		t.Errorf("a write without DataNodes: %v", err)
	}
	must(t, w.Discard())
	must(t, s.Abort(t.Context()))
	if entries, err := f.readDir(t.Context(), "/y"); err != nil || len(entries) > 0 {
		t.Errorf("left %v, %v", entries, err)
	}
}

// frozen reads a block with a new client while one of its DataNodes does not answer.
func frozen(t *testing.T, c *serverstest.PrivateHDFS, data []byte) {
	t.Helper()
	f, dir := open(t, c.Env(), c.URI("/x/out"))
	f.settings.timeout = 2 * time.Second
	hosts, err := f.Hosts(t.Context(), dir+"/f", 0, 1)
	must(t, err)
	alive := slices.DeleteFunc(slices.Clone(hosts), func(h string) bool { return !c.Alive(h) })
	if len(alive) < 2 {
		t.Logf("of %v only %v is alive, so no node can be frozen", hosts, alive)
		return
	}
	must(t, c.FreezeDataNode(alive[0]))
	file, err := f.Open(t.Context(), dir+"/f")
	must(t, err)
	defer file.Close()
	got := make([]byte, 1<<20)
	_, err = file.ReadAt(got, 0)
	must(t, err)
	if !bytes.Equal(got, data[:len(got)]) {
		t.Error("the bytes differ")
	}
}

func TestNoServer(t *testing.T) {
	f, dir := open(t, nil, "hdfs://127.0.0.1:1/x")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := f.Stat(ctx, dir)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "hdfs://127.0.0.1:1/x") ||
		!strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
	if _, err := f.Hosts(t.Context(), dir, 0, 1); err == nil {
		t.Error("blocks were located")
	}
}

func TestSettings(t *testing.T) {
	dir := t.TempDir()
	conf := func(properties string) {
		must(t, os.WriteFile(filepath.Join(dir, "hdfs-site.xml"), []byte("<configuration>"+properties+"</configuration>"), 0o666))
	}
	property := func(name, value string) string {
		return "<property><name>" + name + "</name><value>" + value + "</value></property>"
	}
	t.Setenv("HADOOP_HOME", "")
	t.Setenv("HADOOP_CONF_DIR", dir)
	t.Setenv("HADOOP_USER_NAME", "someone")
	ha := property("fs.defaultFS", "hdfs://big") + property("dfs.ha.namenodes.big", "a, b") +
		property("dfs.namenode.rpc-address.big.a", "a:1") + property("dfs.namenode.rpc-address.big.b", "b:2") +
		property("dfs.namenode.http-address.big.a", "a:3") + property("dfs.namenode.http-address.big.b", "b:4")
	for _, c := range []struct {
		name, conf, env, authority string
		want                       settings
		err                        string
	}{
		{"an address", "", "", "nn:9000", settings{authority: "nn:9000", addresses: []string{"nn:9000"}, http: "http://nn:9870"}, ""},
		{"a host", "", "", "nn", settings{authority: "nn:8020", addresses: []string{"nn:8020"}, http: "http://nn:9870"}, ""},
		{"the default", property("fs.defaultFS", "hdfs://nn:1/") + property("dfs.namenode.http-address", "nn:2"), "", "",
			settings{authority: "nn:1", addresses: []string{"nn:1"}, http: "http://nn:2"}, ""},
		{"another's address", property("fs.defaultFS", "hdfs://nn:1/") + property("dfs.namenode.http-address", "nn:2"), "", "other:1",
			settings{authority: "other:1", addresses: []string{"other:1"}, http: "http://other:9870"}, ""},
		{"HTTPS", property("fs.defaultFS", "hdfs://nn:1") + property("dfs.http.policy", "HTTPS_ONLY") + property("dfs.namenode.https-address", "nn:3"),
			"", "", settings{authority: "nn:1", addresses: []string{"nn:1"}, http: "https://nn:3"}, ""},
		{"the environment", ha, "https://x", "nn:1", settings{authority: "nn:1", addresses: []string{"nn:1"}, http: "https://x"}, ""},
		{"a name service", ha, "", "", settings{authority: "big", addresses: []string{"a:1", "b:2"}, http: "http://a:3,http://b:4"}, ""},
		{"a umask", property("fs.permissions.umask-mode", "002"), "", "nn", settings{authority: "nn:8020", addresses: []string{"nn:8020"}, http: "http://nn:9870", umask: 0o002}, ""},
		{"a umask in words", property("fs.permissions.umask-mode", "u=rwx,g=rx"), "", "nn", settings{}, "as an octal number"},
		{"nothing", "", "", "", settings{}, "fs.defaultFS"},
		{"Kerberos", property("hadoop.security.authentication", "kerberos"), "", "nn", settings{}, "Kerberos"},
	} {
		conf(c.conf)
		t.Setenv("SLOTWISE_HDFS_HTTP", c.env)
		got, err := load(c.authority)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		c.want.user = "someone"
		if c.want.umask == 0 {
			c.want.umask = 0o022 // Hadoop's default
		}
		if err != nil || !got.equal(c.want) || got.authority != c.want.authority {
			t.Errorf("%s: got %+v, %v", c.name, got, err)
		}
	}
}

// TestSweep: a new staging removes the stagings whose TTL has passed, and no others.
func TestSweep(t *testing.T) {
	c := serverstest.HDFS(t)
	f, dir := open(t, c.Env(), c.URI("/sweep-"+storage.NewToken()+"/out"))
	ctx := t.Context()
	parent := path.Dir(f.inner(dir))
	roots := func() (names []string) {
		t.Helper()
		entries, err := f.readDir(ctx, parent)
		must(t, err)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	age := func(root string, by time.Duration) {
		t.Helper()
		old := time.Now().Add(-by)
		client, err := f.acquire(t.Context())
		must(t, err)
		defer f.release(client, false)
		root = path.Join(parent, root)
		entries, err := client.ReadDir(root)
		must(t, err)
		for _, e := range entries {
			must(t, client.Chtimes(path.Join(root, e.Name()), old, old))
		}
		must(t, client.Chtimes(root, old, old))
	}
	for _, token := range []string{"dead", "used"} {
		_, err := f.StageShared(ctx, dir, token, storage.ReplaceAll)
		must(t, err)
	}
	_, err := f.Stage(ctx, dir, storage.ReplaceAll)
	must(t, err)
	all := roots() // sorted: own, shared-dead, shared-used
	if len(all) != 3 {
		t.Fatalf("stagings: %v", all)
	}
	age(all[0], storage.OwnTTL+time.Minute)
	age(all[1], storage.SharedTTL+time.Hour)
	age(all[2], storage.SharedTTL-time.Hour)
	next, err := f.Stage(ctx, dir, storage.ReplaceAll)
	must(t, err)
	must(t, next.Abort(ctx))
	if got := roots(); !slices.Equal(got, all[2:]) {
		t.Errorf("after the sweep: %v, want %v", got, all[2:])
	}
	must(t, f.Remove(ctx, strings.TrimSuffix(dir, "/out")))
}

// CloseIdle leaves a writer its connection until the file is committed, and later calls connect
// again, on the same FS.
func TestCloseIdle(t *testing.T) {
	uri := serverstest.HDFS(t).URI("/idle-" + storage.NewToken())
	d := newDriver()
	_, rest := storage.SplitURI(uri)
	opened, p, err := d.Open(rest)
	must(t, err)
	f := opened.(*FS)
	must(t, f.MakeDir(t.Context(), p))
	t.Cleanup(func() { must(t, f.Remove(context.Background(), p)) })
	w, err := f.CreateFile(t.Context(), p+"/f", false)
	must(t, err)
	_, err = w.Write([]byte("x"))
	must(t, err)
	d.CloseIdle()
	if f.mu.client != nil {
		t.Error("the connection is still in use for new calls")
	}
	must(t, w.Commit())
	info, err := f.Stat(t.Context(), p+"/f")
	if err != nil || info.Size != 1 {
		t.Errorf("after CloseIdle: %d bytes, %v", info.Size, err)
	}
	if again, _, err := d.Open(rest); err != nil || again != opened {
		t.Errorf("another FS for the same URI: %v", err)
	}
}
