// Package serverstest runs real servers for tests on this machine: an HDFS with a NameNode
// and several DataNodes, a YARN beside it, and an S3 server. They listen on loopback
// addresses only, unless a test names another address of this machine.
//
// The first test that needs a server starts it, and tests of other packages share it.
// A keeper process owns the servers. Every user keeps a lease file locked, and the
// keeper stops the servers some time after the last user has ended. The programs are
// fetched once into a cache directory: jars from Maven Central as listed in
// hadoop/pom.xml and yarn/pom.xml, and a binary built from the Go module in s3server.
// A YARN is not shared: the test that starts it owns it.
//
// If a tool is missing, tests are skipped with a message that says which package to
// install. With CI=true in the environment they fail instead.
package serverstest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Cluster is a running HDFS.
type Cluster struct {
	Address string   // of the NameNode, host:port
	HTTP    string   // URL of the NameNode's HTTP server
	ConfDir string   // for HADOOP_CONF_DIR
	JarsDir string   // Hadoop's classes
	Archive string   // file with some of these classes for the JVM to map; empty while the file is made
	Hosts   []string // the DataNodes, by their names in block locations
}

// URI returns the URI of an absolute path.
func (c *Cluster) URI(path string) string { return "hdfs://" + c.Address + path }

// Env returns the environment variables that lead a process to the cluster.
func (c *Cluster) Env() []string {
	return []string{"HADOOP_CONF_DIR=" + c.ConfDir, "HADOOP_USER_NAME=" + superUser}
}

// Server is a running S3 server with one bucket.
type Server struct {
	Endpoint string // URL
	Access   string
	Secret   string
	Bucket   string
}

// URI returns the URI of a key.
func (s *Server) URI(key string) string { return "s3://" + s.Bucket + "/" + key }

// Env returns the environment variables that lead a process to the server.
func (s *Server) Env() []string {
	return []string{
		"SLOTWISE_S3_ENDPOINT=" + s.Endpoint, "AWS_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=" + s.Access, "AWS_SECRET_ACCESS_KEY=" + s.Secret,
	}
}

// Setenv sets the variables that Env returns for the duration of a test.
func Setenv(t testing.TB, env []string) {
	t.Helper()
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		t.Setenv(name, value)
	}
}

// environment is held while With has changed the environment.
var environment sync.Mutex

// With calls open while the environment has the variables of env, which Env returns or which is nil. t.Setenv
// forbids parallel tests, so these open a storage in With. The storage must not read the environment later.
// Parallel tests of one package change and read the environment in With only.
func With(t testing.TB, env []string, open func()) {
	t.Helper()
	environment.Lock()
	defer environment.Unlock()
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if old, present := os.LookupEnv(name); present {
			defer os.Setenv(name, old)
		} else {
			defer os.Unsetenv(name)
		}
		if err := os.Setenv(name, value); err != nil {
			t.Fatal(err)
		}
	}
	open()
}

// HDFS returns the shared HDFS and starts it if necessary. It runs at least until the
// test process ends. Each test uses another directory in it.
func HDFS(t testing.TB) *Cluster {
	t.Helper()
	var c Cluster
	obtain(t, "hdfs", &c)
	return &c
}

// S3 returns the shared S3 server, in the same way as HDFS.
func S3(t testing.TB) *Server {
	t.Helper()
	var s Server
	obtain(t, "s3", &s)
	return &s
}

// obtain leases the servers of a kind and stores their addresses in into. If that is
// impossible, it skips or fails the test.
func obtain(t testing.TB, kind string, into any) {
	t.Helper()
	skipOrFail(t, lease(kind, into))
}

// skipOrFail ends the test if err is not nil: it skips the test if a tool is missing, except
// in CI, and otherwise fails it.
func skipOrFail(t testing.TB, err error) {
	t.Helper()
	var missing *missingError
	// In CI a missing tool is a broken set-up, and skipped tests would hide it for months.
	if errors.As(err, &missing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// missingError reports that a tool must be installed first.
type missingError struct{ what string }

func (e *missingError) Error() string { return e.what }

// Prepare fetches and builds the programs of a kind of servers ("hdfs", "yarn" or
// "s3"), unless the cache has them.
func Prepare(kind string) error {
	switch kind {
	case "hdfs":
		cache, err := hadoopJars()
		if err != nil {
			return err
		}
		_, err = classArchive(cache)
		return err
	case "yarn":
		_, err := yarnJars()
		return err
	case "s3":
		_, err := s3Binary()
		return err
	}
	return fmt.Errorf("no servers of kind %q", kind)
}

// needTools returns a missingError if one of the commands is not installed.
func needTools(kind, install string, tools ...string) error {
	// Loopback addresses beyond 127.0.0.1 need no set-up on Linux alone.
	if runtime.GOOS != "linux" {
		return &missingError{"the test's " + kind + " servers need Linux"}
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			return &missingError{fmt.Sprintf("the test's %s servers need %s: install %s", kind, tool, install)}
		}
	}
	return nil
}

// SourceDir returns a directory of this project, given by the elements of its path from the
// root. The working directory must be below the root.
func SourceDir(elements ...string) (string, error) {
	// From the working directory upwards: go test runs each test in the directory of its package.
	dir, err := os.Getwd()
	for err == nil {
		here := filepath.Join(dir, filepath.Join(elements...))
		if _, statErr := os.Stat(here); statErr == nil {
			return here, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			err = fmt.Errorf("the working directory is not below the project")
		}
		dir = up
	}
	return "", err
}
