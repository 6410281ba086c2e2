package serverstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// YARN is a ResourceManager with NodeManagers that belong to one test. It uses the shared
// HDFS. NodeManagers run on the first hosts of its DataNodes, so that containers are
// beside some of the blocks.
type YARN struct {
	HDFS    *Cluster
	HTTP    string // URL of the ResourceManager's HTTP server
	ConfDir string // for HADOOP_CONF_DIR, with the configuration of HDFS, too
	// Dir holds the configuration, the logs and the containers of the daemons.
	Dir      string
	resource *process
	nodes    []*process
}

// The queues of the test's YARN. No user may submit to ClosedQueue.
const (
	OpenQueue   = "default"
	ClosedQueue = "closed"
)

// Sizes of a NodeManager of the test's YARN.
const (
	nodeMemory = 4096 // MiB
	nodeCores  = 8
)

// NewYARN starts a YARN for this test alone. It ends with the test. settings replace
// settings of yarn-site.xml.
func NewYARN(t testing.TB, nodeManagers int, settings map[string]string) *YARN {
	t.Helper()
	hdfs, dir := HDFS(t), t.TempDir()
	jars, err := yarnJars()
	if err != nil {
		t.Fatal(err)
	}
	for try := range 3 { // another process may take a port between its choice and its use
		y := &YARN{HDFS: hdfs, Dir: filepath.Join(dir, strconv.Itoa(try))}
		if err = y.start(t.Context(), jars, nodeManagers, settings); err == nil {
			t.Cleanup(y.stop)
			return y
		}
		y.stop()
	}
	t.Fatal(fmt.Errorf("starting YARN: %w", err))
	return nil
}

// Env returns the environment variables that lead a process to YARN and its HDFS.
func (y *YARN) Env() []string {
	return []string{"HADOOP_CONF_DIR=" + y.ConfDir, "HADOOP_USER_NAME=" + superUser}
}

// start starts the daemons and waits until all NodeManagers have registered.
func (y *YARN) start(ctx context.Context, jars string, nodeManagers int, settings map[string]string) error {
	home, err := javaHome()
	if err != nil {
		return err
	}
	ports, err := freePorts(5)
	if err != nil {
		return err
	}
	y.HTTP = fmt.Sprintf("http://127.0.0.1:%d", ports[4])
	site := func(own map[string]string) map[string]string {
		conf := map[string]string{
			"yarn.resourcemanager.hostname":  "127.0.0.1",
			"yarn.application.classpath":     jars + "/*",
			"yarn.webapp.api-service.enable": "true",
			"yarn.acl.enable":                "true",
			// With the default, *, every user is an administrator, and no queue would be closed to anyone.
			"yarn.admin.acl":                                          "nobody",
			"yarn.nodemanager.resource.memory-mb":                     strconv.Itoa(nodeMemory),
			"yarn.nodemanager.resource.cpu-vcores":                    strconv.Itoa(nodeCores),
			"yarn.scheduler.minimum-allocation-mb":                    "64",
			"yarn.nodemanager.vmem-check-enabled":                     "false", // of a JVM and of Go it says nothing
			"yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "250",
			// A developer's disk is often more than 90 % full, from where on YARN takes no container.
			"yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
			"yarn.nodemanager.disk-health-checker.min-free-space-per-disk-mb":               "0",
			// The service master would otherwise keep half a gigabyte.
			"yarn.service.am-resource.memory": "384",
			"yarn.service.am.java.opts":       "-Xmx192m -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
		}
		// Fixed ports, because the defaults of two tests that run at the same time would collide.
		for i, name := range []string{"address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address"} {
			conf["yarn.resourcemanager."+name] = fmt.Sprintf("127.0.0.1:%d", ports[i])
		}
		for _, more := range []map[string]string{settings, own} {
			for k, v := range more {
				conf[k] = v
			}
		}
		return conf
	}
	y.ConfDir = filepath.Join(y.Dir, "client")
	if err := y.configure(y.ConfDir, site(nil)); err != nil {
		return err
	}
	dir := filepath.Join(y.Dir, "resourcemanager")
	if err := y.configure(dir, site(nil)); err != nil {
		return err
	}
	if y.resource, err = startJava(jars, dir, "resourcemanager", "-Xshare:auto", nil, "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"); err != nil {
		return err
	}
	for i := range nodeManagers {
		// The address of a DataNode, so that YARN can place containers beside blocks.
		host := y.HDFS.Hosts[i]
		dir := filepath.Join(y.Dir, host)
		err := y.configure(dir, site(map[string]string{
			"yarn.nodemanager.hostname":                  host,
			"yarn.nodemanager.address":                   host + ":0",
			"yarn.nodemanager.localizer.address":         host + ":0",
			"yarn.nodemanager.webapp.address":            host + ":0",
			"yarn.nodemanager.collector-service.address": host + ":0",
			"yarn.nodemanager.local-dirs":                filepath.Join(dir, "local"),
			"yarn.nodemanager.log-dirs":                  filepath.Join(dir, "containers"),
		}))
		if err != nil {
			return err
		}
		env := []string{"JAVA_HOME=" + home, "HADOOP_CONF_DIR=" + dir}
		p, err := startJava(jars, dir, "nodemanager", "-Xshare:auto", env, "org.apache.hadoop.yarn.server.nodemanager.NodeManager")
		if err != nil {
			return err
		}
		y.nodes = append(y.nodes, p)
	}
	return await(ctx, "YARN", y.ready, append(y.nodes, y.resource)...)
}

// configure writes the configuration of a daemon, or of clients, into dir.
func (y *YARN) configure(dir string, site map[string]string) error {
	if err := os.CopyFS(dir, os.DirFS(y.HDFS.ConfDir)); err != nil {
		return err
	}
	return errors.Join(
		writeConf(filepath.Join(dir, "yarn-site.xml"), site),
		writeConf(filepath.Join(dir, "capacity-scheduler.xml"), map[string]string{
			"yarn.scheduler.capacity.root.queues":                                      OpenQueue + "," + ClosedQueue,
			"yarn.scheduler.capacity.root." + OpenQueue + ".capacity":                  "90",
			"yarn.scheduler.capacity.root." + ClosedQueue + ".capacity":                "10",
			"yarn.scheduler.capacity.root.acl_submit_applications":                     " ",
			"yarn.scheduler.capacity.root.acl_administer_queue":                        " ",
			"yarn.scheduler.capacity.root." + OpenQueue + ".acl_submit_applications":   "*",
			"yarn.scheduler.capacity.root." + ClosedQueue + ".acl_submit_applications": " ",
			"yarn.scheduler.capacity.maximum-am-resource-percent":                      "0.5",
			"yarn.scheduler.capacity.resource-calculator":                              "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
		}),
	)
}

// javaHome returns the directory of the Java installation.
func javaHome() (string, error) {
	path, err := exec.LookPath("java")
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	return filepath.Dir(filepath.Dir(path)), err
}

// ready returns nil when all NodeManagers run.
func (y *YARN) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, y.HTTP+"/ws/v1/cluster/metrics", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var state struct {
		Metrics struct {
			Active int `json:"activeNodes"`
		} `json:"clusterMetrics"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&state); err != nil {
		return err
	}
	if state.Metrics.Active != len(y.nodes) {
		return fmt.Errorf("%d of %d NodeManagers run", state.Metrics.Active, len(y.nodes))
	}
	return nil
}

// StopResourceManager ends the ResourceManager, as kill -9 does.
func (y *YARN) StopResourceManager() { y.resource.kill() }

// stop kills all daemons, and the containers that a failed test has left.
func (y *YARN) stop() {
	for _, p := range append(y.nodes, y.resource) {
		if p != nil {
			p.kill()
		}
	}
	dirs, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		return
	}
	// Containers run in sessions of their own, so no process group has them. Their working directory gives
	// them away.
	for _, dir := range dirs {
		at, err := os.Readlink(dir)
		pid, numeric := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err == nil && numeric == nil && strings.HasPrefix(at, y.Dir+"/") {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}
