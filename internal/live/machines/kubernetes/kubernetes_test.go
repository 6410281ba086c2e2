package kubernetes

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeAPI answers like the API of Kubernetes for one Deployment.
type fakeAPI struct {
	t        *testing.T
	calls    []string
	pods     string // items
	failure  string // of the ReplicaSet
	refuse   int    // status of all answers, unless 0
	replicas int
}

// ServeHTTP implements http.Handler.
func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.calls = append(f.calls, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+string(body)))
	switch {
	case r.Header.Get("Authorization") != "Bearer secret":
		f.t.Errorf("%s without the token", r.URL.Path)
	case r.Method == http.MethodPatch && r.Header.Get("Content-Type") != "application/merge-patch+json":
		f.t.Errorf("content type %s", r.Header.Get("Content-Type"))
	case f.refuse != 0:
		w.WriteHeader(f.refuse)
		fmt.Fprint(w, `{"kind":"Status","message":"no, because"}`)
	case strings.HasSuffix(r.URL.Path, "/pods/gone"):
		w.WriteHeader(http.StatusNotFound)
	case strings.HasSuffix(r.URL.Path, "/deployments/workers"):
		conditions := ""
		if f.failure != "" {
			conditions = fmt.Sprintf(`{"type":"ReplicaFailure","status":"True","message":%q}`, f.failure)
		}
		fmt.Fprintf(w, `{"spec":{"replicas":%d,"selector":{"matchLabels":{"a":"b","c":"d"}}},"status":{"conditions":[%s]}}`, f.replicas, conditions)
	case strings.HasSuffix(r.URL.Path, "/pods"):
		if q := r.URL.Query(); q.Get("labelSelector") != "a=b,c=d" {
			f.t.Errorf("selector %v", q)
		} else if q.Get("continue") == "" {
			fmt.Fprintf(w, `{"metadata":{"continue":"more"},"items":[]}`)
			return
		}
		fmt.Fprintf(w, `{"items":[%s]}`, f.pods)
	default:
		fmt.Fprint(w, `{}`)
	}
}

// serve starts the API and returns a Deployment on it.
func serve(t *testing.T, f *fakeAPI) *Deployment {
	t.Helper()
	f.t = t
	srv := httptest.NewTLSServer(f)
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	for name, text := range map[string]string{"namespace": "ns", "token": "secret\n", "ca.crt": string(ca)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, err := open(srv.URL, dir)
	if err != nil {
		t.Fatal(err)
	}
	return newDeployment(a, "workers")
}

// TestFleet reads pods over two pages.
func TestFleet(t *testing.T) {
	waiting := func(reason string) string {
		return `,"containerStatuses":[{"image":"i:1","state":{"waiting":{"reason":"` + reason + `"}}}]`
	}
	f := &fakeAPI{replicas: 7, failure: "pods is forbidden: exceeded quota: small", pods: strings.Join([]string{
		`{"metadata":{"name":"a"},"spec":{"nodeName":"m1"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`,
		`{"metadata":{"name":"b","annotations":{"` + costKey + `":"-1"}},"status":{"phase":"Running"}}`,
		`{"metadata":{"name":"c","deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"phase":"Running"}}`,
		`{"metadata":{"name":"d"},"status":{"phase":"Pending"` + waiting("ImagePullBackOff") + `}}`,
		`{"metadata":{"name":"e"},"status":{"phase":"Pending"` + waiting("ContainerCreating") + `}}`,
		`{"metadata":{"name":"f"},"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/1 nodes"}]}}`,
		`{"metadata":{"name":"g"},"status":{"phase":"Failed"}}`,
	}, ",")}
	got, err := serve(t, f).Fleet(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got.Replicas != 7 || !strings.Contains(got.Trouble, "deployment ns/workers") || !strings.Contains(got.Trouble, "ResourceQuota") {
		t.Errorf("%+v", got)
	}
	want := []struct {
		name, trouble string
		leaving, ok   bool
	}{{"a", "", false, true}, {"b", "", true, false}, {"d", "image i:1 does not start (ImagePullBackOff): check the name", false, false}, {"e", "", false, false}, {"f", "no node has room", false, false}}
	if len(got.Machines) != len(want) {
		t.Fatalf("%+v", got.Machines)
	}
	for i, want := range []string{"pod a in namespace ns on node m1", "pod b in namespace ns"} {
		if place := got.Machines[i].Place; place != want {
			t.Errorf("place %q, want %q", place, want)
		}
	}
	for i, w := range want {
		if m := got.Machines[i]; m.Name != w.name || m.Leaving != w.leaving || m.Unready == w.ok || !strings.Contains(m.Trouble, w.trouble) || w.trouble == "" && m.Trouble != "" {
			t.Errorf("got %+v, want %+v", m, w)
		}
	}
}

// TestChanges compares the calls of each change.
func TestChanges(t *testing.T) {
	f := &fakeAPI{}
	d, ctx := serve(t, f), context.Background()
	for _, err := range []error{d.Mark(ctx, "a", true), d.Mark(ctx, "a", false), d.Mark(ctx, "gone", true), d.Scale(ctx, 3, "b")} {
		if err != nil {
			t.Error(err)
		}
	}
	cost := func(v any) string {
		b, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{costKey: v}}})
		return string(b)
	}
	want := []string{
		"PATCH /api/v1/namespaces/ns/pods/a " + cost("-1"), "PATCH /api/v1/namespaces/ns/pods/a " + cost(nil),
		"PATCH /api/v1/namespaces/ns/pods/gone " + cost("-1"), "PATCH /api/v1/namespaces/ns/pods/b " + cost("-2"),
		`PATCH /apis/apps/v1/namespaces/ns/deployments/workers/scale {"spec":{"replicas":3}}`,
	}
	if got := strings.Join(f.calls, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("calls:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

// TestRefused names the object, the reason and the remedy.
func TestRefused(t *testing.T) {
	for code, remedy := range map[int]string{403: "RoleBinding slotwise-master", 404: "--worker-deployment", 500: "no, because"} {
		_, err := serve(t, &fakeAPI{refuse: code}).Fleet(context.Background())
		if err == nil || !strings.Contains(err.Error(), remedy) || !strings.Contains(err.Error(), "deployments/workers: no, because") {
			t.Errorf("%d: %v", code, err)
		}
	}
}
