package yarn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// disk is an HDFS in a local directory.
type disk struct{ storage.Local }

// SetMode implements files.
func (disk) SetMode(_ context.Context, path string, mode fs.FileMode) error {
	return os.Chmod(path, mode)
}

// fakeRM answers like a ResourceManager with one service, sw.
type fakeRM struct {
	t      *testing.T
	calls  []string
	state  string // of the application
	wanted int
	names  []string // of the containers
	refuse int      // status of the services API, unless 0
	html   bool     // the services API is off
	cut    func()   // called when the application has been submitted; the answer never comes
	away   bool     // it does not answer questions about the application
}

// ServeHTTP implements http.Handler.
func (f *fakeRM) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.URL.Query().Get("user.name") != "ana" {
		f.t.Errorf("%s without the user", r.URL)
	}
	if r.Method != http.MethodGet {
		f.calls = append(f.calls, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+string(body)))
	}
	switch {
	case f.cut != nil && r.URL.Path == "/ws/v1/cluster/apps":
		f.state = "RUNNING"
		f.cut()
		<-r.Context().Done()
	case f.away && r.URL.Path == "/ws/v1/cluster/apps/application_1_0001":
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/ws/v1/cluster/apps/new-application":
		fmt.Fprint(w, `{"application-id":"application_1_0001","maximum-resource-capability":{"memory":4096,"vCores":4}}`)
	case r.URL.Path == "/ws/v1/cluster/apps/application_1_0001":
		fmt.Fprintf(w, `{"app":{"id":"application_1_0001","state":%q,"runningContainers":-1,"diagnostics":"because\nof this"}}`, f.state)
	case r.URL.Path == "/ws/v1/cluster/apps/application_1_0001/state":
		f.state = "KILLED"
		fmt.Fprint(w, `{}`)
	case strings.HasPrefix(r.URL.Path, servicesPath) && f.html:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, "<html>")
	case strings.HasPrefix(r.URL.Path, servicesPath) && f.refuse != 0:
		w.WriteHeader(f.refuse)
		fmt.Fprint(w, `{"diagnostics":"org.apache.hadoop.X: java.lang.NoException: no, because"}`)
	case r.URL.Path == servicesPath+"/sw" && r.Method == http.MethodGet:
		var containers []string
		for _, n := range f.names {
			containers = append(containers, fmt.Sprintf(`{"id":"container_1_0001_01_%s","component_instance_name":%q,"bare_host":"m1","state":"READY"}`, n, n))
		}
		fmt.Fprintf(w, `{"components":[{"name":"worker","number_of_containers":%d,"containers":[%s]}]}`, f.wanted, strings.Join(containers, ","))
	default:
		fmt.Fprint(w, `{}`)
	}
}

// serve starts a ResourceManager and returns a cluster with it.
func serve(t *testing.T, f *fakeRM) *Cluster {
	t.Helper()
	f.t = t
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	return &Cluster{conf: map[string]string{}, servers: []string{"http://127.0.0.1:1", srv.URL}, user: "ana", files: disk{}, home: t.TempDir(), http: srv.Client()}
}

// launch launches the service sw.
func launch(t *testing.T, c *Cluster) *Service {
	t.Helper()
	spec := &Spec{
		Name: "sw", Queue: "q", Workers: 2, Cores: 1, Memory: 512, Command: "exec ./program",
		Files: []File{{Name: "program", Mode: 0o500, Content: strings.NewReader("x")}, {Name: "token", Mode: 0o400, Content: strings.NewReader("secret")}},
	}
	if id, err := c.Launch(t.Context(), spec); err != nil || id != "application_1_0001" {
		t.Fatal(id, err)
	}
	return c.Service("sw")
}

// TestLaunch compares what a launch leaves on HDFS and sends, and a removal cleans up.
func TestLaunch(t *testing.T) {
	f := &fakeRM{state: "RUNNING"}
	c := serve(t, f)
	s := launch(t, c)
	for name, mode := range map[string]fs.FileMode{"": 0o700, "slotwise/program": 0o500, "slotwise/token": 0o400, "sw.json": 0o600} {
		if st, err := os.Stat(filepath.Join(c.dir("sw"), name)); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v, want mode %v", name, err, mode)
		}
	}
	text, err := os.ReadFile(c.definitionFile("sw"))
	if err != nil || !json.Valid(text) || !strings.Contains(string(text), `"id":"application_1_0001"`) {
		t.Errorf("%v: %s", err, text)
	}
	submitted := f.calls[len(f.calls)-1]
	if !strings.Contains(submitted, "org.apache.hadoop.yarn.service.ServiceMaster") || !strings.Contains(submitted, "registry.zk.retry.times=0") {
		t.Error(submitted)
	}
	for _, text := range []string{submitted, string(text)} {
		if strings.Contains(text, "secret") {
			t.Errorf("it has a secret: %s", text)
		}
	}
	if _, err := c.Launch(t.Context(), &Spec{Name: "sw"}); err == nil || !strings.Contains(err.Error(), "slotwise yarn down --name sw") {
		t.Errorf("launched twice: %v", err)
	}
	if err := s.Remove(t.Context()); err != nil || f.state != "KILLED" {
		t.Errorf("%v: %s", err, f.state)
	}
	if _, err := os.Stat(c.dir("sw")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory stays: %v", err)
	}
	for word, spec := range map[string]*Spec{"--memory 5000MiB": {Name: "sw", Memory: 5000}, "--cpu 9": {Name: "sw", Cores: 9}} {
		if _, err := c.Launch(t.Context(), spec); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v, want %s", err, word)
		}
	}
}

// TestCutSubmission: YARN has accepted an application, and the launch is interrupted before it
// receives the answer. The launch kills the application. If that fails, the directory stays for yarn
// down.
func TestCutSubmission(t *testing.T) {
	for _, away := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		f := &fakeRM{cut: cancel, away: away}
		c := serve(t, f)
		_, err := c.Launch(ctx, &Spec{Name: "sw"})
		_, gone := os.Stat(c.dir("sw"))
		switch {
		case err == nil:
			t.Error("no error")
		case !away && (f.state != "KILLED" || !errors.Is(gone, fs.ErrNotExist)):
			t.Errorf("the application is %s, its directory %v, after %v", f.state, gone, err)
		case away && (gone != nil || !strings.Contains(err.Error(), "slotwise yarn down --name sw")):
			t.Errorf("the directory: %v; %v", gone, err)
		}
	}
}

// TestForeignService: the directory of a service that yarn app -launch has started stays
// unchanged. A launch after an interrupted one succeeds.
func TestForeignService(t *testing.T) {
	f := &fakeRM{}
	c := serve(t, f)
	if err := os.MkdirAll(c.dir("sw"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.definitionFile("sw"), []byte("foreign"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Launch(t.Context(), &Spec{Name: "sw"}); err == nil || !strings.Contains(err.Error(), "use another --name") {
		t.Errorf("launched over a foreign service: %v", err)
	}
	if text, err := os.ReadFile(c.definitionFile("sw")); string(text) != "foreign" || len(f.calls) > 0 {
		t.Errorf("%q, %v, calls %q", text, err, f.calls)
	}
	if err := os.Mkdir(filepath.Join(c.dir("sw"), uploads), 0o755); err != nil {
		t.Fatal(err)
	}
	launch(t, c)
}

// TestScale marks and scales, as the loop of package machines does.
func TestScale(t *testing.T) {
	f := &fakeRM{state: "RUNNING", wanted: 4, names: []string{"worker-0", "worker-2", "worker-3", "worker-4"}}
	s := launch(t, serve(t, f))
	f.calls = nil
	ctx := t.Context()
	if err := errors.Join(s.Mark(ctx, "sw-2", true), s.Mark(ctx, "sw-3", true), s.Mark(ctx, "sw-3", true), s.Mark(ctx, "sw-9", false)); err != nil {
		t.Fatal(err)
	}
	fleet, err := s.Cluster.Service("sw").Fleet(ctx) // as after a restart of the master
	if err != nil || fleet.Replicas != 4 || len(fleet.Machines) != 4 {
		t.Fatal(fleet, err)
	}
	for _, m := range fleet.Machines {
		if m.Leaving != (m.Name == "sw-2" || m.Name == "sw-3") || m.Place != "container container_1_0001_01_worker"+strings.TrimPrefix(m.Name, "sw")+" on m1" {
			t.Errorf("%+v", m)
		}
	}
	if err := errors.Join(s.Scale(ctx, 6), s.Scale(ctx, 3, "sw-0"), s.Scale(ctx, 1, "sw-4")); err != nil {
		t.Fatal(err)
	}
	out := func(name string) string {
		return `PUT /app/v1/services/sw {"components":[{"decommissioned_instances":["` + name + `"],"name":"worker"}]}`
	}
	want := []string{
		`PUT /app/v1/services/sw/components/worker {"name":"worker","number_of_containers":6}`, out("worker-0"),
		out("worker-4"), out("worker-2"), out("worker-3"),
	}
	if !slices.Equal(f.calls, want) {
		t.Errorf("calls:\n%s\nwant:\n%s", strings.Join(f.calls, "\n"), strings.Join(want, "\n"))
	}
	if marks, err := s.marks(ctx); err != nil || len(marks) > 0 {
		t.Errorf("marks of machines that are gone: %v (%v)", marks, err)
	}
}

// TestRefused names the object, the reason and the remedy.
func TestRefused(t *testing.T) {
	f := &fakeRM{state: "RUNNING", refuse: http.StatusForbidden}
	s := launch(t, serve(t, f))
	fails := func(words ...string) {
		t.Helper()
		_, err := s.Fleet(t.Context())
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%v, want %s", err, w)
			}
		}
	}
	fails("/services/sw", "no, because", "HADOOP_USER_NAME")
	f.html = true
	fails("yarn.webapp.api-service.enable")
	f.state = "FAILED"
	fails("service sw has ended", "application_1_0001 is FAILED: because;")
	f.state = "ACCEPTED"
	fails("service sw has not started", "because")
	s.servers = s.servers[:1]
	if _, err := s.App(t.Context()); err == nil || !strings.Contains(err.Error(), "no ResourceManager of YARN answers") {
		t.Error(err)
	}
	if err := s.Cluster.Service("none").Remove(t.Context()); err == nil || !strings.Contains(err.Error(), "has no YARN service none") {
		t.Error(err)
	}
}

// TestOpen reads addresses from Hadoop's files.
func TestOpen(t *testing.T) {
	for _, c := range []struct{ site, urls, trouble string }{
		{"yarn.resourcemanager.hostname=rm", "http://rm:8088", ""},
		{"yarn.resourcemanager.hostname=rm,yarn.resourcemanager.webapp.address=${yarn.resourcemanager.hostname}:80", "http://rm:80", ""},
		{"yarn.resourcemanager.hostname=rm,yarn.http.policy=HTTPS_ONLY", "https://rm:8090", ""},
		{"yarn.resourcemanager.ha.enabled=true,yarn.resourcemanager.ha.rm-ids=a\\,b,yarn.resourcemanager.hostname.a=x,yarn.resourcemanager.webapp.address.b=y:1", "http://x:8088 http://y:1", ""},
		{"a=${b},b=${a}", "", "yarn-site.xml names no ResourceManager"},
		{"hadoop.security.authentication=Kerberos", "", "YARN with Kerberos"},
	} {
		dir := t.TempDir()
		t.Setenv("HADOOP_CONF_DIR", dir)
		t.Setenv("HADOOP_USER_NAME", "ana")
		var xml strings.Builder
		for p := range strings.SplitSeq(strings.ReplaceAll(c.site, "\\,", ";"), ",") {
			name, value, _ := strings.Cut(p, "=")
			fmt.Fprintf(&xml, "<property><name>%s</name><value>%s</value></property>", name, strings.ReplaceAll(value, ";", ","))
		}
		for name, text := range map[string]string{"core-site.xml": "", "yarn-site.xml": xml.String()} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("<configuration>"+text+"</configuration>"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		conf, err := readConf(dir)
		if err != nil {
			t.Fatal(err)
		}
		if c.trouble != "" {
			if _, err := Open(nil); err == nil || !strings.Contains(err.Error(), c.trouble) {
				t.Errorf("%s: %v", c.site, err)
			}
			continue
		}
		if urls, err := resourceManagers(conf); err != nil || strings.Join(urls, " ") != c.urls {
			t.Errorf("%s: %v %v", c.site, urls, err)
		}
	}
}

// TestListOfOne decodes lists as YARN writes them.
func TestListOfOne(t *testing.T) {
	for text, want := range map[string][]int{`[{"N":1},{"N":2}]`: {1, 2}, ` {"N":3}`: {3}, `[]`: {}, `null`: nil} {
		var l list[struct{ N int }]
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, e := range l {
			got = append(got, e.N)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
