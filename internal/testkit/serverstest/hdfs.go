package serverstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The shared HDFS has four DataNodes and two replicas of each block. So no node holds
// all blocks.
const (
	sharedDataNodes = 4
	replicas        = 2
)

// loopback is the address of NameNodes and S3 servers. The DataNodes beside it have an
// address of 127.0.0.0/8 each.
const loopback = "127.0.0.1"

// superUser is the user that runs the daemons and that tests act as.
const superUser = "tester"

// hdfsServer is an HDFS whose daemons are children of this process.
type hdfsServer struct {
	Cluster
	host     string     // address of the NameNode; another one than loopback is also the DataNode's
	dir      string     // configuration and data of the daemons
	cache    string     // from hadoopJars
	name     *process   // the NameNode
	data     []*process // the DataNodes, in the order of Hosts
	forwards []*forwarder
	settings map[string]string // override the settings that configure writes
}

// PrivateHDFS is an HDFS that belongs to one test, which may kill its daemons.
type PrivateHDFS struct {
	Cluster
	s *hdfsServer
}

// SlowToNotice are Hadoop's default times after which the NameNode notices that a
// DataNode is dead: it offers the DataNode to writers for ten minutes.
var SlowToNotice = map[string]string{
	"dfs.heartbeat.interval":                  "3",
	"dfs.namenode.heartbeat.recheck-interval": "300000",
	"dfs.namenode.stale.datanode.interval":    "30000",
	"dfs.namenode.avoid.read.stale.datanode":  "false",
	"dfs.namenode.avoid.write.stale.datanode": "false",
}

// NewHDFS starts an HDFS for this test alone. It ends with the test. settings replace
// settings of hdfs-site.xml.
func NewHDFS(t testing.TB, dataNodes int, settings ...map[string]string) *PrivateHDFS {
	t.Helper()
	own := map[string]string{}
	for _, s := range settings {
		maps.Copy(own, s)
	}
	return newHDFS(t, loopback, dataNodes, own)
}

// NewHDFSAt starts an HDFS for this test alone, whose NameNode and only DataNode listen on
// an address of this machine. It ends with the test.
func NewHDFSAt(t testing.TB, host string) *PrivateHDFS {
	t.Helper()
	return newHDFS(t, host, 1, map[string]string{"dfs.replication": "1"})
}

func newHDFS(t testing.TB, host string, dataNodes int, settings map[string]string) *PrivateHDFS {
	t.Helper()
	_, err := hadoopJars()
	var s *hdfsServer
	if err == nil {
		s, err = startHDFS(t.Context(), t.TempDir(), host, dataNodes, settings)
	}
	skipOrFail(t, err)
	t.Cleanup(s.stop)
	return &PrivateHDFS{Cluster: s.Cluster, s: s}
}

// KillDataNode ends the DataNode of a host, as kill -9 does.
func (h *PrivateHDFS) KillDataNode(host string) { h.s.data[h.node(host)].kill() }

// Alive reports whether the DataNode of a host still runs.
func (h *PrivateHDFS) Alive(host string) bool {
	select {
	case <-h.s.data[h.node(host)].done:
		return false
	default:
		return true
	}
}

// FreezeDataNode suspends the DataNode of a host. It keeps its connections and does not
// answer.
func (h *PrivateHDFS) FreezeDataNode(host string) error {
	return h.s.data[h.node(host)].signal(syscall.SIGSTOP)
}

func (h *PrivateHDFS) node(host string) int { return slices.Index(h.Hosts, host) }

// startHDFS starts an HDFS below dir and waits until all DataNodes have registered.
func startHDFS(ctx context.Context, dir, host string, dataNodes int, settings map[string]string) (*hdfsServer, error) {
	cache, err := hadoopJars()
	if err != nil {
		return nil, err
	}
	archive, err := classArchive(cache)
	if err != nil {
		return nil, err
	}
	// Another process may take a port between its choice and its use.
	for try := range 3 {
		s := &hdfsServer{host: host, dir: filepath.Join(dir, strconv.Itoa(try)), cache: cache, settings: settings}
		s.Archive = archive
		if err = s.start(ctx, dataNodes); err == nil {
			return s, nil
		}
		s.stop()
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("starting HDFS: %w", err)
}

func (s *hdfsServer) start(ctx context.Context, dataNodes int) error {
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	s.Address, s.HTTP = fmt.Sprintf("%s:%d", s.host, ports[0]), fmt.Sprintf("http://%s:%d", s.host, ports[1])
	s.ConfDir, s.JarsDir = filepath.Join(s.dir, "client"), filepath.Join(s.cache, jarsDir)
	if err := s.configure(s.ConfDir, s.Address, nil); err != nil {
		return err
	}
	dir := filepath.Join(s.dir, "namenode")
	if err := s.configure(dir, s.Address, map[string]string{"dfs.namenode.name.dir": fileURI(dir, nameDir)}); err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(dir, nameDir), os.DirFS(filepath.Join(s.cache, nameDir))); err != nil {
		return err
	}
	if s.name, err = s.java(dir, "namenode", nameNodeClass); err != nil {
		return err
	}
	for i := range dataNodes {
		host := s.host
		if host == loopback {
			// Another address for each: block locations name hosts by address, and with one address all data
			// would be local.
			host = fmt.Sprintf("127.0.0.%d", i+2)
		}
		if err := s.startDataNode(host); err != nil {
			return err
		}
	}
	return await(ctx, "HDFS", s.ready, append(s.data, s.name)...)
}

const nameNodeClass = "org.apache.hadoop.hdfs.server.namenode.NameNode"

// format formats a NameNode in the cache. Each start copies its data, which is faster
// than formatting.
func format(cache string) error {
	dir := filepath.Join(cache, "format")
	s := &hdfsServer{dir: dir, cache: cache}
	// Formatting starts no server, so the address is not used.
	if err := s.configure(dir, "127.0.0.1:1", map[string]string{"dfs.namenode.name.dir": fileURI(cache, nameDir)}); err != nil {
		return err
	}
	p, err := s.java(dir, "format", nameNodeClass, "-format", "-nonInteractive")
	if err != nil {
		return err
	}
	<-p.done
	if _, err := os.Stat(filepath.Join(cache, nameDir, "current", "VERSION")); err != nil {
		return fmt.Errorf("formatting the NameNode: %s", tail(p.log))
	}
	return os.RemoveAll(dir)
}

func (s *hdfsServer) startDataNode(host string) error {
	f, err := forward(host, s.Address)
	if err != nil {
		return err
	}
	s.forwards = append(s.forwards, f)
	dir := filepath.Join(s.dir, host)
	err = s.configure(dir, f.addr(), map[string]string{
		"dfs.datanode.data.dir":     fileURI(dir, "data"),
		"dfs.datanode.hostname":     host,
		"dfs.datanode.address":      host + ":0",
		"dfs.datanode.http.address": host + ":0",
		"dfs.datanode.ipc.address":  host + ":0",
	})
	if err != nil {
		return err
	}
	p, err := s.launchDataNode(dir)
	if err != nil {
		return err
	}
	s.data = append(s.data, p)
	s.Hosts = append(s.Hosts, host)
	return nil
}

// launchDataNode starts the DataNode that is configured in dir, possibly again.
func (s *hdfsServer) launchDataNode(dir string) (*process, error) {
	return s.java(dir, "datanode", "org.apache.hadoop.hdfs.server.datanode.DataNode")
}

func fileURI(dir, name string) string { return "file://" + filepath.Join(dir, name) }

// configure writes the configuration of a daemon, or of clients, into dir.
func (s *hdfsServer) configure(dir, nameNode string, own map[string]string) error {
	core := map[string]string{
		"fs.defaultFS":                       "hdfs://" + nameNode,
		"hadoop.tmp.dir":                     filepath.Join(dir, "tmp"),
		"hadoop.prometheus.endpoint.enabled": "false",
		"hadoop.http.staticuser.user":        superUser,
	}
	hdfs := map[string]string{
		"dfs.replication": strconv.Itoa(replicas),
		// Small enough that the 20 MiB of the conformance suite have three blocks.
		"dfs.blocksize":             strconv.Itoa(8 << 20),
		"dfs.namenode.rpc-address":  nameNode,
		"dfs.namenode.http-address": strings.TrimPrefix(s.HTTP, "http://"),
		// A NameNode stays in safe mode for 30 seconds more otherwise, after its DataNodes have registered.
		"dfs.namenode.safemode.extension":    "0",
		"dfs.permissions.enabled":            "false",
		"dfs.webhdfs.enabled":                "true",
		"dfs.client.use.datanode.hostname":   "false",
		"dfs.namenode.handler.count":         "4",
		"dfs.datanode.handler.count":         "2",
		"dfs.datanode.directoryscan.threads": "1",
		// Tests write small blocks. The NameNode notices dead nodes within seconds
		// instead of ten minutes.
		"dfs.namenode.fs-limits.min-block-size":                "1024",
		"dfs.heartbeat.interval":                               "1",
		"dfs.namenode.heartbeat.recheck-interval":              "5000",
		"dfs.namenode.stale.datanode.interval":                 "5000",
		"dfs.namenode.avoid.read.stale.datanode":               "true",
		"dfs.namenode.avoid.write.stale.datanode":              "true",
		"dfs.namenode.datanode.registration.ip-hostname-check": "false",
		"dfs.datanode.ec.reconstruction.threads":               "1",
		// No fsync of the edit log: no test cuts the power of a NameNode.
		"dfs.namenode.edits.noeditlogchannelflush": "true",
		// The NameNode would avoid busy DataNodes, and among four find none for a new block.
		"dfs.namenode.redundancy.considerLoad":                      "false",
		"dfs.namenode.decommission.interval":                        "1",
		"dfs.namenode.path.based.cache.refresh.interval.ms":         "3600000",
		"dfs.namenode.delegation.token.always-use":                  "false",
		"dfs.namenode.write-lock-reporting-threshold-ms":            "60000",
		"dfs.namenode.read-lock-reporting-threshold-ms":             "60000",
		"dfs.client.block.write.replace-datanode-on-failure.policy": "NEVER",
	}
	// The test's settings first: a daemon's own addresses and directories are not for tests to change.
	maps.Copy(hdfs, s.settings)
	maps.Copy(hdfs, own)
	// The HTTP servers do not start without these directories, which Maven's jars lack.
	for _, d := range []string{"webapps/hdfs", "webapps/datanode"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	return errors.Join(
		writeConf(filepath.Join(dir, "core-site.xml"), core),
		writeConf(filepath.Join(dir, "hdfs-site.xml"), hdfs),
		os.WriteFile(filepath.Join(dir, "log4j.properties"), []byte(log4j), 0o644),
	)
}

const log4j = `log4j.rootLogger=WARN,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
`

func writeConf(path string, conf map[string]string) error {
	var b strings.Builder
	b.WriteString("<configuration>\n")
	for k, v := range conf {
		fmt.Fprintf(&b, "<property><name>%s</name><value>%s</value></property>\n", k, html.EscapeString(v))
	}
	b.WriteString("</configuration>\n")
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// java starts a daemon whose configuration is in dir.
func (s *hdfsServer) java(dir, name, class string, args ...string) (*process, error) {
	classes := mapped(s.Archive)
	if s.Archive == "" {
		classes = loadedClasses(dir)
	}
	return startJava(filepath.Join(s.cache, jarsDir), dir, name, classes, nil, class, args...)
}

// JVM returns the words of a command line before a class of Hadoop's clients and its arguments.
func (c *Cluster) JVM() []string {
	return append(jvm(c.JarsDir, c.ConfDir, mapped(c.Archive)), "-Xmx256m") // the last size counts
}

// mapped is the option with which a JVM maps an archive of classes.
func mapped(archive string) string {
	if archive == "" {
		return "-Xshare:auto" // the JVM's own archive only: an older program keeps the shared HDFS
	}
	return "-XX:SharedArchiveFile=" + archive
}

// jvm returns the words of a command line before the class, whose classes are in the directory jars
// and whose configuration is in dir. classes is an option of the archive of classes.
func jvm(jars, dir, classes string) []string {
	// The archive serves class paths that begin as its own does, so dir comes last.
	return []string{"java", "-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", classes, "-cp", jars + "/*:" + dir}
}

// startJava starts a daemon of Hadoop, whose configuration is in dir and whose classes are
// in the directory jars, with an option of the archive of classes. The daemon also gets the
// variables of env.
func startJava(jars, dir, name, classes string, env []string, class string, args ...string) (*process, error) {
	argv := append(jvm(jars, dir, classes),
		"-Djava.net.preferIPv4Stack=true", "-Dhadoop.home.dir="+dir, "-Dhadoop.log.dir="+dir, "-Dyarn.log.dir="+dir)
	// Hadoop reads private fields of these packages, which Java 17 forbids otherwise.
	for _, p := range []string{"lang", "util", "net", "io", "nio"} {
		argv = append(argv, "--add-opens=java.base/java."+p+"=ALL-UNNAMED")
	}
	argv = append(argv, "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED", class)
	return startProcess(dir, name, append([]string{"HADOOP_USER_NAME=" + superUser}, env...), append(argv, args...)...)
}

// ready returns nil when all DataNodes have registered and the NameNode permits
// writing.
func (s *hdfsServer) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		s.HTTP+"/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var state struct {
		Beans []struct {
			NumLiveDataNodes int
			FSState          string
		} `json:"beans"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&state); err != nil {
		return err
	}
	if len(state.Beans) != 1 || state.Beans[0].NumLiveDataNodes != len(s.data) || state.Beans[0].FSState != "Operational" {
		return fmt.Errorf("its state is %+v", state.Beans)
	}
	return nil
}

// stop kills all daemons.
func (s *hdfsServer) stop() {
	for _, p := range append(s.data, s.name) {
		if p != nil {
			p.kill()
		}
	}
	for _, f := range s.forwards {
		_ = f.close() // its daemons have ended
	}
}
