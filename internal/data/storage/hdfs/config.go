package hdfs

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/colinmarc/hdfs/v2"
	"github.com/colinmarc/hdfs/v2/hadoopconf"
)

// defaultPort is the NameNode's port if the URI names none.
const defaultPort = "8020"

// settings configure the client of one HDFS.
type settings struct {
	authority string             // the first element of every path
	addresses []string           // of the NameNodes
	http      string             // URLs of the NameNodes' HTTP servers, separated by commas; "" if unknown
	user      string             // name that the client acts under
	options   hdfs.ClientOptions // from Hadoop's configuration
	timeout   time.Duration      // for a connection that transfers nothing
	blockSize int64              // bytes, of new files; 0 means the server's default
	umask     os.FileMode        // permissions that new files and directories do not give
}

// equal reports whether a client with settings s also serves o.
func (s settings) equal(o settings) bool {
	return s.http == o.http && s.user == o.user && s.umask == o.umask && slices.Equal(s.addresses, o.addresses)
}

// load reads the settings for an authority from the environment. The authority is
// host:port, a host, a name service, or empty for the configured default.
//
// A name service has several NameNodes, of which the client finds the active one. For
// a NameNode by address, the configuration contributes only options and the address of
// the HTTP server. SLOTWISE_HDFS_HTTP overrides the latter.
func load(authority string) (settings, error) {
	// At every call: a test or a long-lived program may change HADOOP_CONF_DIR, and the driver compares the
	// result.
	conf, err := hadoopconf.LoadFromEnvironment()
	if err != nil {
		return settings{}, fmt.Errorf("reading Hadoop's configuration: %w", err)
	}
	// fs.default.name is the name of the property before Hadoop 2, and old configurations still
	// have it.
	if authority == "" {
		_, authority, _ = strings.Cut(cmp.Or(conf["fs.defaultFS"], conf["fs.default.name"]), "://")
		authority, _, _ = strings.Cut(authority, "/")
		if authority == "" {
			return settings{}, fmt.Errorf("the URI names no NameNode, and there is no core-site.xml with fs.defaultFS in HADOOP_CONF_DIR; use hdfs://host:port/path")
		}
	}
	// Refused here, because the failure of the first call would not name Kerberos.
	if strings.EqualFold(conf["hadoop.security.authentication"], "kerberos") {
		return settings{}, fmt.Errorf("this HDFS requires Kerberos (hadoop.security.authentication), which slotwise does not support")
	}
	s := settings{authority: authority, options: hdfs.ClientOptionsFromConf(conf), timeout: 30 * time.Second}
	if s.user, err = UserName(); err != nil {
		return settings{}, err
	}
	if s.umask, err = parseUmask(cmp.Or(conf["fs.permissions.umask-mode"], "022")); err != nil {
		return settings{}, err
	}
	var web []string
	// The name of a name service is no host name. Each of its NameNodes has properties with the
	// service's and the NameNode's name at their ends.
	if nodes := conf["dfs.ha.namenodes."+authority]; nodes != "" {
		for _, n := range strings.Split(nodes, ",") {
			key := "." + authority + "." + strings.TrimSpace(n)
			s.addresses = append(s.addresses, conf["dfs.namenode.rpc-address"+key])
			web = append(web, httpURL(conf, key))
		}
	} else {
		// With its port, so that hdfs://host and hdfs://host:8020 are one file system: paths begin
		// with the authority, and the driver keeps one FS for each.
		if _, _, err := net.SplitHostPort(authority); err != nil {
			authority = net.JoinHostPort(authority, defaultPort)
			s.authority = authority
		}
		s.addresses = []string{authority}
		web = []string{soleURL(conf, authority)}
	}
	s.http = cmp.Or(os.Getenv("SLOTWISE_HDFS_HTTP"), strings.Join(web, ","))
	return s, nil
}

// parseUmask parses the value of fs.permissions.umask-mode.
func parseUmask(value string) (os.FileMode, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(value), 8, 32)
	if err != nil || n > 0o777 {
		return 0, fmt.Errorf("fs.permissions.umask-mode %q in Hadoop's configuration: write it as an octal number, such as 022", value)
	}
	return os.FileMode(n), nil
}

// soleURL returns the URL of the HTTP server of a NameNode that a URI names by its
// address. The configuration applies only if it is about the same NameNode.
func soleURL(conf hadoopconf.HadoopConf, authority string) string {
	host, _, err := net.SplitHostPort(authority)
	if err != nil {
		return ""
	}
	if slices.Contains(conf.Namenodes(), authority) || conf["dfs.namenode.rpc-address"] == authority {
		if u := httpURL(conf, ""); u != "" {
			return u
		}
	}
	// The port of Hadoop 3. Hadoop 2 had 50070, which SLOTWISE_HDFS_HTTP must name.
	return "http://" + net.JoinHostPort(host, "9870")
}

// httpURL returns the configured URL of a NameNode's HTTP server. key is the end of
// the property's name if there are several NameNodes.
func httpURL(conf hadoopconf.HadoopConf, key string) string {
	if conf["dfs.http.policy"] == "HTTPS_ONLY" {
		if a := conf["dfs.namenode.https-address"+key]; a != "" {
			return "https://" + a
		}
	}
	if a := conf["dfs.namenode.http-address"+key]; a != "" {
		return "http://" + a
	}
	return ""
}

// UserName returns the user to act as. Without Kerberos Hadoop's servers trust the client.
func UserName() (string, error) {
	// Hadoop's own clients read this variable first, too.
	if name := os.Getenv("HADOOP_USER_NAME"); name != "" {
		return name, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("looking up the name of the current user (HADOOP_USER_NAME overrides it): %w", err)
	}
	return u.Username, nil
}
