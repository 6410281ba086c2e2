// Package yarn runs the workers of a cluster on Hadoop's YARN, as a YARN service: an
// application whose master is YARN's own service master, which starts the wanted number of
// containers and replaces containers that end.
//
// Launch submits the application through the REST API of the ResourceManager, which every
// YARN has. Fleet and Scale use YARN's services API, which an administrator enables by
// yarn.webapp.api-service.enable. The programs and the description of a service are in its
// owner's home directory on HDFS, below .yarn/services/NAME, where YARN expects them.
//
// The addresses come from the files in HADOOP_CONF_DIR.
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
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/slotwise/slotwise/internal/data/storage"
	"github.com/slotwise/slotwise/internal/data/storage/hdfs"
	"github.com/slotwise/slotwise/policies/hadoop/hadoopconf"
)

// maxAnswer bounds the answer to one call, in bytes.
const maxAnswer = 64 << 20

// callLimit is the time limit of one call.
// A ResourceManager that fails over answers again within some seconds, and the loop of machines tries again
// in any case.
const callLimit = 20 * time.Second

// files is the part of an HDFS that services need.
type files interface {
	storage.Editor
	SetMode(ctx context.Context, path string, mode fs.FileMode) error
}

// Cluster is a YARN with its HDFS, and the user who asks. Several goroutines may use it at
// once.
type Cluster struct {
	conf    map[string]string // of core-site.xml and yarn-site.xml
	servers []string          // URLs of the ResourceManagers
	user    string
	files   files
	home    string // the user's home directory, as a path of files
	http    *http.Client
}

// Open reads the configuration in HADOOP_CONF_DIR. It makes no call yet.
func Open(schemes *storage.Schemes) (*Cluster, error) {
	dir := os.Getenv("HADOOP_CONF_DIR")
	if dir == "" {
		return nil, errors.New("HADOOP_CONF_DIR is not set: it names the directory with core-site.xml, hdfs-site.xml and yarn-site.xml")
	}
	conf, err := readConf(dir)
	if err != nil {
		return nil, err
	}
	// Calls would fail later, with an error of Java that names no cause.
	if strings.EqualFold(conf["hadoop.security.authentication"], "kerberos") {
		return nil, fmt.Errorf("%s: hadoop.security.authentication is kerberos: slotwise cannot start workers on a YARN with Kerberos; start slotwise worker on the machines by other means", dir)
	}
	c := &Cluster{conf: conf, http: &http.Client{Timeout: callLimit}}
	if c.servers, err = resourceManagers(conf); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	// Without Kerberos Hadoop believes the name that a client gives, so the name decides whose service it is.
	if c.user, err = hdfs.UserName(); err != nil {
		return nil, err
	}
	// Without a host: fs.defaultFS decides, as in YARN's own client. The service master looks for the
	// description there.
	store, home, err := schemes.Resolve("hdfs:///user/" + c.user)
	if err != nil {
		return nil, err
	}
	hdfs, ok := store.(files)
	if !ok {
		return nil, errors.New("this program has no HDFS")
	}
	c.files, c.home = hdfs, home
	return c, nil
}

// readConf reads the settings of a configuration directory and substitutes variables.
func readConf(dir string) (map[string]string, error) {
	// As in Hadoop's yarn-default.xml, which is inside a jar and cannot be read here.
	conf := map[string]string{"yarn.resourcemanager.hostname": "0.0.0.0"}
	for _, name := range []string{"core-site.xml", "yarn-site.xml"} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("HADOOP_CONF_DIR: %w", err)
		}
		props, _, err := hadoopconf.ReadProperties(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("HADOOP_CONF_DIR: %s: %w", filepath.Join(dir, name), err)
		}
		for _, p := range props {
			// The later file wins, as in Hadoop, which loads core-site.xml first.
			conf[p.Name] = strings.TrimSpace(p.Value)
		}
	}
	// After both files, because a value may use a setting of the other one.
	for name, value := range conf {
		conf[name] = substitute(conf, value)
	}
	return conf, nil
}

// variable matches the use of another setting in a value.
var variable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{[^{}$\s]+\}`) })

// substitute replaces the settings that a value uses. As in Hadoop, it gives up after 20
// rounds, and leaves unknown names.
func substitute(conf map[string]string, value string) string {
	for range 20 {
		next := variable().ReplaceAllStringFunc(value, func(use string) string {
			if v, ok := conf[use[2:len(use)-1]]; ok {
				return v
			}
			return use
		})
		// Settings that refer to each other can double the text in each round.
		if next == value || len(next) > 1<<16 {
			break
		}
		value = next
	}
	return value
}

// resourceManagers returns the URLs of the ResourceManagers.
func resourceManagers(conf map[string]string) ([]string, error) {
	// The suffix of the settings' names: "" without failover, else a dot and the id of each ResourceManager.
	ids := []string{""}
	if strings.EqualFold(conf["yarn.resourcemanager.ha.enabled"], "true") {
		ids = nil
		for id := range strings.SplitSeq(conf["yarn.resourcemanager.ha.rm-ids"], ",") {
			ids = append(ids, "."+strings.TrimSpace(id))
		}
	}
	scheme, key, port := "http", "yarn.resourcemanager.webapp.address", "8088"
	if conf["yarn.http.policy"] == "HTTPS_ONLY" {
		scheme, key, port = "https", "yarn.resourcemanager.webapp.https.address", "8090"
	}
	var urls []string
	for _, id := range ids {
		address := conf[key+id]
		if address == "" {
			host := cmp.Or(conf["yarn.resourcemanager.hostname"+id], conf["yarn.resourcemanager.hostname"])
			address = net.JoinHostPort(host, port)
		}
		// The default of Hadoop's configuration. A client cannot connect to it.
		// Better now than a refused connection at the first call, long after the user has gone.
		if strings.HasPrefix(address, "0.0.0.0:") {
			return nil, fmt.Errorf("yarn-site.xml names no ResourceManager: set %s or yarn.resourcemanager.hostname", key+id)
		}
		urls = append(urls, scheme+"://"+address)
	}
	return urls, nil
}

// Address returns the URL of the first ResourceManager.
func (c *Cluster) Address() string { return c.servers[0] }

// refusal is an answer of YARN that is not a success.
type refusal struct {
	code int
	text string
}

// Error implements error.
func (e *refusal) Error() string { return e.text }

// notFound reports whether YARN does not know the object of a call.
func notFound(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.code == http.StatusNotFound
}

// call makes one call. body is sent as JSON unless it is nil; the answer is decoded into
// answer unless that is nil. With several ResourceManagers it tries one after the other
// until one answers; a passive one redirects to the active one.
func (c *Cluster) call(ctx context.Context, method, path string, body, answer any) error {
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return err
		}
	}
	var failed error
	// Each call begins with the first server again. Which one is active may have changed, and a refused connection costs a
	// millisecond.
	// The body is in memory, so that it can be sent again to the next server.
	for _, server := range c.servers {
		req, err := http.NewRequestWithContext(ctx, method, server+path+"?"+url.Values{"user.name": {c.user}}.Encode(), bytes.NewReader(sent))
		if err != nil {
			return err
		}
		req.Header.Set("Accept", "application/json")
		if body != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		// The client follows the redirect of a passive server (307), with method and body, because bytes.Reader can
		// be read again.
		resp, err := c.http.Do(req)
		if err != nil {
			failed = err
			continue
		}
		return c.answer(resp, method, path, answer)
	}
	return fmt.Errorf("no ResourceManager of YARN answers: %w; check yarn.resourcemanager.webapp.address in %s", failed,
		filepath.Join(os.Getenv("HADOOP_CONF_DIR"), "yarn-site.xml"))
}

// answer decodes the answer to a call.
func (c *Cluster) answer(resp *http.Response, method, path string, answer any) error {
	defer resp.Body.Close()
	limited := io.LimitReader(resp.Body, maxAnswer)
	if resp.StatusCode/100 != 2 {
		return c.refused(resp, method, path, limited)
	}
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(limited).Decode(answer); err != nil {
		return fmt.Errorf("the answer of YARN to %s %s: %w", method, path, err)
	}
	return nil
}

// javaClass matches the names of exceptions that begin a message.
var javaClass = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*([a-z]+\.)+[A-Za-z$]*Exception: (([a-z]+\.)+[A-Za-z$]*Exception: )*`)
})

// servicesPath begins the paths of the services API.
const servicesPath = "/app/v1/services"

// refused returns the error for an answer that is not a success, with the remedy.
func (c *Cluster) refused(resp *http.Response, method, path string, body io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(body, 64<<10))
	if err != nil {
		return err
	}
	var reply struct {
		Remote struct {
			Message string `json:"message"`
		} `json:"RemoteException"`
		Diagnostics string `json:"diagnostics"`
	}
	// The ResourceManager answers with RemoteException, and the services API with diagnostics.
	isJSON := json.Unmarshal(text, &reply) == nil
	// The first line without Java's class: the rest is a stack that helps no user.
	message, _, _ := strings.Cut(javaClass().ReplaceAllString(cmp.Or(reply.Remote.Message, reply.Diagnostics, http.StatusText(resp.StatusCode)), ""), "\n")
	remedy := ""
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		remedy = "; the web server of YARN wants a log-in, which slotwise has only as user.name (hadoop.http.authentication.type simple)"
	// Not every part of YARN answers missing rights with 403, so the text is looked at as well.
	case resp.StatusCode == http.StatusForbidden, strings.Contains(message, "does not have permission"):
		remedy = fmt.Sprintf("; use a queue or application of user %s (--queue, --name), or another user (HADOOP_USER_NAME)", c.user)
	// A ResourceManager without the services API answers with a page of HTML.
	case strings.HasPrefix(path, servicesPath) && !isJSON:
		message = "YARN's services API is off"
		remedy = "; set yarn.webapp.api-service.enable to true in the ResourceManager's yarn-site.xml and restart it"
	}
	return &refusal{resp.StatusCode, fmt.Sprintf("YARN refused %s %s: %s%s", method, path, message, remedy)}
}
