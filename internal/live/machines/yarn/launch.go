package yarn

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Spec describes a service of workers.
type Spec struct {
	Name    string
	Queue   string
	Workers int
	Cores   int // of a container
	Memory  int // of a container, in MiB
	// Command starts a worker in a shell, in the directory of its container, which holds
	// the files. YARN replaces ${COMPONENT_ID} by the worker's number. Quotes and
	// backslashes are not allowed.
	Command string
	Env     map[string]string
	Files   []File
}

// File is a file of a container.
type File struct {
	Name    string // in the directory of the container
	Mode    fs.FileMode
	Content io.Reader
}

// MaxWorkers limits the workers of a service.
const MaxWorkers = 10_000

// component is the name of the service's only component.
const component = "worker"

// serviceName matches the names that YARN takes.
var serviceName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z]([-a-z0-9]{0,60}[a-z0-9])?$`) })

// CheckName returns an error for a name that YARN does not take.
func CheckName(name string) error {
	if !serviceName().MatchString(name) {
		return fmt.Errorf("%q is no name of a YARN service (at most 62 small letters, digits and hyphens, a letter first)", name)
	}
	return nil
}

type configuration struct {
	Properties map[string]string `json:"properties,omitempty"`
	Env        map[string]string `json:"env,omitempty"`
	Files      []localFile       `json:"files,omitempty"`
}

// localFile is a file that YARN brings into a container.
type localFile struct {
	Type string `json:"type"`
	From string `json:"src_file"`
	To   string `json:"dest_file"`
}

// dir returns the directory of a service, as a path of c.files.
func (c *Cluster) dir(name string) string { return path.Join(c.home, ".yarn", "services", name) }

// definitionFile returns the path of a service's description.
func (c *Cluster) definitionFile(name string) string { return path.Join(c.dir(name), name+".json") }

// uploads is the directory of a service that holds the files of its containers.
const uploads = "slotwise"

// applicationFile returns the path of the file with the id of a service's application. YARN
// rewrites the service's description while the service runs, and not in one step.
func (c *Cluster) applicationFile(name string) string { return path.Join(c.dir(name), "application") }

// Launch uploads the files of a service and submits its application. It returns the
// application's id. If it fails, it removes all that it has made; if it cannot, the error
// names the application that may run. The workers start later.
func (c *Cluster) Launch(ctx context.Context, s *Spec) (id string, err error) {
	// Two launches at once are not kept apart: the second one overwrites the description of the first.
	old, err := c.application(ctx, s.Name)
	switch {
	case err == nil:
		return "", fmt.Errorf("YARN service %s exists already, as %s of user %s: use another --name, or remove it with slotwise yarn down --name %s", s.Name, old, c.user, s.Name)
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	// YARN's own command keeps its services in the same place. Launching over one would
	// overwrite its description.
	if err := c.checkDirectory(ctx, s.Name); err != nil {
		return "", err
	}
	var made struct {
		ID      string `json:"application-id"`
		Maximum struct {
			Memory int `json:"memory"`
			Cores  int `json:"vCores"`
		} `json:"maximum-resource-capability"`
	}
	if err := c.call(ctx, http.MethodPost, "/ws/v1/cluster/apps/new-application", nil, &made); err != nil {
		return "", err
	}
	// The service master looks at the size of the workers only after YARN has accepted the
	// application. Here the user still sees the error.
	switch {
	case s.Memory > made.Maximum.Memory:
		return "", fmt.Errorf("--memory %dMiB: the largest container of this YARN has %d MiB (yarn.scheduler.maximum-allocation-mb)", s.Memory, made.Maximum.Memory)
	case s.Cores > made.Maximum.Cores:
		return "", fmt.Errorf("--cpu %d: the largest container of this YARN has %d vcores (yarn.scheduler.maximum-allocation-vcores)", s.Cores, made.Maximum.Cores)
	}
	// Cleaning up must work after Ctrl-C, too, which has cancelled ctx.
	later := context.WithoutCancel(ctx)
	// Uploaded before the submission: YARN starts the service master within a second, which reads the
	// description.
	if err := c.upload(ctx, s, made.ID); err != nil {
		return "", errors.Join(err, c.files.Remove(later, c.dir(s.Name)))
	}
	if err := c.call(ctx, http.MethodPost, "/ws/v1/cluster/apps", c.submission(s, made.ID), nil); err != nil {
		return "", errors.Join(err, c.undo(later, s.Name, made.ID, err))
	}
	return made.ID, nil
}

// undo removes a service whose submission failed with the error cause. Without an answer from
// YARN the application may run. Then undo kills it before it removes the directory, because yarn down
// finds the application by a file there.
func (c *Cluster) undo(ctx context.Context, name, id string, cause error) error {
	// A refusal is YARN's word that the application was not accepted. Any other error may have come after it
	// was.
	if _, refused := errors.AsType[*refusal](cause); refused {
		return c.files.Remove(ctx, c.dir(name))
	}
	if err := c.Service(name).Remove(ctx); err != nil {
		return fmt.Errorf("application %s may run: end it with slotwise yarn down --name %s: %w", id, name, err)
	}
	return nil
}

// checkDirectory returns an error if another program has made a service's directory: yarn app
// -launch writes its descriptions to the same place, without uploads beside them. A launch that
// was interrupted leaves a directory without a description or with uploads, and the next launch
// uses it.
func (c *Cluster) checkDirectory(ctx context.Context, name string) error {
	dir := c.dir(name)
	if _, err := c.files.Stat(ctx, c.definitionFile(name)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	_, err := c.files.Stat(ctx, path.Join(dir, uploads))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the directory %s on HDFS belongs to a YARN service %s that slotwise has not started: use another --name", dir, name)
	}
	return err
}

// upload writes the files and the description of a service. Only its owner can read its
// directory.
func (c *Cluster) upload(ctx context.Context, s *Spec, id string) error {
	// Creating it would need the rights of HDFS's administrator; the error of the first
	// MakeDir would not say so.
	if _, err := c.files.Stat(ctx, c.home); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("user %s has no home directory on HDFS: as HDFS's administrator run hdfs dfs -mkdir -p /user/%s and hdfs dfs -chown %s /user/%s: %w", c.user, c.user, c.user, c.user, err)
	}
	dir := c.dir(s.Name)
	for _, d := range []string{path.Dir(path.Dir(dir)), path.Dir(dir), dir, path.Join(dir, uploads)} {
		if err := c.files.MakeDir(ctx, d); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	// Before the files, among which are tokens and keys of the workers.
	if err := c.files.SetMode(ctx, dir, 0o700); err != nil {
		return err
	}
	var localised []localFile
	for _, f := range s.Files {
		to := path.Join(dir, uploads, f.Name)
		if err := c.write(ctx, to, f.Mode, f.Content); err != nil {
			return err
		}
		// STATIC copies the bytes. The other type, TEMPLATE, would replace words like ${...} in scripts.
		localised = append(localised, localFile{"STATIC", "hdfs://" + to, f.Name})
	}
	// HDFS without Kerberos trusts this name. Containers may run as another user of the
	// system.
	env := map[string]string{"HADOOP_USER_NAME": c.user}
	// The caller's settings win, also over HADOOP_USER_NAME.
	for k, v := range s.Env {
		env[k] = v
	}
	text, err := json.Marshal(map[string]any{
		"id": id, "name": s.Name, "version": "1", "queue": s.Queue,
		"configuration": configuration{Properties: properties},
		"components": []any{map[string]any{
			"name": component, "number_of_containers": s.Workers, "restart_policy": "ALWAYS", "launch_command": s.Command,
			// YARN's class Resource has the memory as a text.
			"resource":      map[string]any{"cpus": s.Cores, "memory": strconv.Itoa(s.Memory)},
			"configuration": configuration{Env: env, Files: localised},
		}},
	})
	if err != nil {
		return err
	}
	if err := c.write(ctx, c.definitionFile(s.Name), 0o600, bytes.NewReader(text)); err != nil {
		return err
	}
	// Last: the service counts as existing once this file is there, and yarn down finds the
	// application by it.
	return c.write(ctx, c.applicationFile(s.Name), 0o600, strings.NewReader(id))
}

// properties are the settings of a service. A worker that ends is started again, on its node
// first. The service itself never gives up: over weeks many machines fail.
var properties = map[string]string{
	// Workers report to the master that they are ready.
	"yarn.service.default-readiness-check.enabled":           "false",
	"yarn.service.container-failure.retry-interval-ms":       "5000",
	"yarn.service.container-failure.retry.max":               "3",
	"yarn.service.container-failure-per-component.threshold": "1000000",
	// By default a node is avoided for six hours after four failures. If that happens to all
	// nodes of a small cluster, no worker is replaced any more.
	"yarn.service.node-blacklist.threshold":       "50",
	"yarn.service.failure-count-reset.window-sec": "600",
}

// write writes a file and then sets its permissions. In the meantime its directory keeps other
// users from reading it.
func (c *Cluster) write(ctx context.Context, to string, mode fs.FileMode, content io.Reader) error {
	w, err := c.files.CreateFile(ctx, to, true)
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, content); err != nil {
		return errors.Join(err, w.Discard())
	}
	if err := w.Commit(); err != nil {
		return errors.Join(err, w.Discard())
	}
	return c.files.SetMode(ctx, to, mode)
}

// defaultClasspath is the default of yarn.application.classpath.
const defaultClasspath = "$HADOOP_CONF_DIR,$HADOOP_COMMON_HOME/share/hadoop/common/*,$HADOOP_COMMON_HOME/share/hadoop/common/lib/*," +
	"$HADOOP_HDFS_HOME/share/hadoop/hdfs/*,$HADOOP_HDFS_HOME/share/hadoop/hdfs/lib/*," +
	"$HADOOP_YARN_HOME/share/hadoop/yarn/*,$HADOOP_YARN_HOME/share/hadoop/yarn/lib/*"

// noRegistry lets YARN's service master give up its registry at once. It stores the
// addresses of containers in ZooKeeper; without one it would wait for a minute.
const noRegistry = " -D hadoop.registry.zk.retry.times=0 -D hadoop.registry.zk.retry.interval.ms=100" +
	" -D hadoop.registry.zk.connection.timeout.ms=200 -D hadoop.registry.zk.session.timeout.ms=1000"

// submission returns the application that runs YARN's service master. Its type is not
// yarn-service: at the end of such an application the ResourceManager cleans the registry,
// and without a ZooKeeper it then does no other work for a minute.
func (c *Cluster) submission(s *Spec, id string) any {
	// The settings of YARN's own client, with its defaults, because this program takes that client's place.
	memory, err := strconv.Atoi(c.conf["yarn.service.am-resource.memory"])
	if err != nil {
		memory = 1024
	}
	options := cmp.Or(c.conf["yarn.service.am.java.opts"], "-Xmx768m")
	command := "$JAVA_HOME/bin/java " + options + " org.apache.hadoop.yarn.service.ServiceMaster -yarnfile hdfs://" + c.definitionFile(s.Name) +
		" -service_name " + s.Name
	if c.conf["hadoop.registry.zk.quorum"] == "" {
		command += noRegistry
	}
	classpath := "$HADOOP_CONF_DIR"
	for entry := range strings.SplitSeq(cmp.Or(c.conf["yarn.application.classpath"], defaultClasspath), ",") {
		// The variables stay: the NodeManager's shell replaces them, with the paths of its machine.
		if entry = strings.TrimSpace(entry); entry != "" && entry != "$HADOOP_CONF_DIR" {
			classpath += ":" + entry
		}
	}
	type entry struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}
	return map[string]any{
		"application-id": id, "application-name": s.Name, "application-type": "slotwise", "queue": s.Queue,
		"am-container-spec": map[string]any{
			"environment": map[string]any{"entry": []entry{{"CLASSPATH", classpath}, {"HADOOP_USER_NAME", c.user}}},
			// The NodeManager replaces <LOG_DIR> by the directory of the container.
			"commands": map[string]string{"command": command + " 1><LOG_DIR>/out 2><LOG_DIR>/err"},
		},
		"resource": map[string]int{"memory": memory, "vCores": 1},
		// YARN starts the service master again once within ten minutes. The workers run on meanwhile
		// (keep-containers-across-application-attempts), and the second one finds them.
		"max-app-attempts": 2,
		// Failures of the service master long ago do not count.
		"attempt-failures-validity-interval":          600_000,
		"keep-containers-across-application-attempts": true,
		// As YARN's own client tags its services.
		"application-tags": map[string]string{"tag": "name: " + s.Name},
	}
}

// maxID bounds the length of an application's id.
const maxID = 200

// application returns the id of a service's application. It returns fs.ErrNotExist if there
// is no service of this name.
func (c *Cluster) application(ctx context.Context, name string) (string, error) {
	f, err := c.files.Open(ctx, c.applicationFile(name))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.NewSectionReader(f, 0, min(f.Size(), maxID)))
	return string(text), errors.Join(err, f.Close())
}
