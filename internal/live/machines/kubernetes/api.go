package kubernetes

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// accountDir is where Kubernetes puts the credentials of a pod's service account.
const accountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// maxAnswer bounds the answer to one call, in bytes, for lists of pods.
const maxAnswer = 64 << 20

// api is the API of Kubernetes, with the credentials of this pod's service account.
type api struct {
	server, namespace string
	tokenFile         string
	http              *http.Client
	maxAnswer         int64          // bytes of the answer to one call
	remedies          map[int]string // for the user, by the status of a refusal
}

// inCluster returns the API of the cluster in which this pod runs. It makes no call yet.
func inCluster() (*api, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("this process does not run in a pod of Kubernetes: KUBERNETES_SERVICE_HOST is not set")
	}
	return open("https://"+net.JoinHostPort(host, port), accountDir)
}

// open returns the API at a server, with the credentials in a directory.
func open(server, dir string) (*api, error) {
	const remedy = "the pod needs its service account's token: automountServiceAccountToken: true"
	namespace, err := os.ReadFile(filepath.Join(dir, "namespace"))
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, remedy)
	}
	// Read once, unlike the token: a new authority of the cluster needs a restart of the master.
	pem, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, remedy)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", filepath.Join(dir, "ca.crt"))
	}
	return &api{
		server: server, namespace: strings.TrimSpace(string(namespace)), tokenFile: filepath.Join(dir, "token"), maxAnswer: maxAnswer,
		// No proxy of the environment: the API server is inside the cluster.
		http: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		}},
	}, nil
}

// path returns the path of an object or list in the namespace.
func (a *api) path(group string, names ...string) string {
	return "/" + group + "/namespaces/" + a.namespace + "/" + strings.Join(names, "/")
}

// get reads an object or a list.
func (a *api) get(ctx context.Context, path string, answer any) error {
	return a.call(ctx, http.MethodGet, path, "", nil, answer)
}

// patch changes an object by a JSON merge patch.
func (a *api) patch(ctx context.Context, path string, patch any) error {
	return a.call(ctx, http.MethodPatch, path, "application/merge-patch+json", patch, nil)
}

// create sends an object and reads the object in the answer.
func (a *api) create(ctx context.Context, path string, object, answer any) error {
	return a.call(ctx, http.MethodPost, path, "application/json", object, answer)
}

// statusError is an answer of the API that is not a success.
type statusError struct {
	code int
	text string
}

// Error implements error.
func (e *statusError) Error() string { return e.text }

// call makes one call. content, of the given type, is sent unless it is nil; the answer is
// decoded into answer unless that is nil. The token is read for each call, because
// Kubernetes replaces it about once an hour.
func (a *api) call(ctx context.Context, method, path, contentType string, content, answer any) error {
	token, err := os.ReadFile(a.tokenFile)
	if err != nil {
		return err
	}
	var body io.Reader
	if content != nil {
		b, err := json.Marshal(content)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.server+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	req.Header.Set("Accept", "application/json")
	if content != nil {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return fmt.Errorf("the API of Kubernetes: %w", err)
	}
	defer resp.Body.Close()
	// The master's memory must not depend on the size of an answer.
	limited := io.LimitReader(resp.Body, a.maxAnswer)
	// Refusals become errors with a remedy: most are missing rights, which the operator can
	// grant.
	if resp.StatusCode/100 != 2 {
		return a.refused(method, path, resp.StatusCode, limited)
	}
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(limited).Decode(answer); err != nil {
		return fmt.Errorf("the answer of Kubernetes to %s %s: %w", method, path, err)
	}
	return nil
}

// refused returns the error for an answer that is not a success, with the remedy.
func (a *api) refused(method, path string, code int, body io.Reader) error {
	var status struct {
		Message string `json:"message"`
	}
	if err := json.NewDecoder(body).Decode(&status); err != nil || status.Message == "" {
		status.Message = http.StatusText(code)
	}
	remedy := ""
	if a.remedies[code] != "" {
		remedy = "; " + a.remedies[code]
	}
	// The query is left out, so equal refusals of two pages are one message in the log.
	path, _, _ = strings.Cut(path, "?")
	return &statusError{code, fmt.Sprintf("Kubernetes refused %s %s: %s%s", method, path, status.Message, remedy)}
}
