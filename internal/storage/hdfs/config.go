package hdfs

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/colinmarc/hdfs/v2"
	"github.com/colinmarc/hdfs/v2/hadoopconf"
)

// defaultPort is the NameNode's where a URI names none.
const defaultPort = "8020"

// settings are what the environment says of one HDFS.
type settings struct {
	authority string   // as paths begin
	addresses []string // of the NameNodes
	http      string   // URLs of their HTTP servers, separated by commas; "" if unknown
	user      string
	options   hdfs.ClientOptions // what Hadoop's configuration says of the protocol
	timeout   time.Duration      // of a connection that says nothing
	blockSize int64              // of new files; 0 is the server's default
}

func (s settings) equal(o settings) bool {
	return s.http == o.http && s.user == o.user && slices.Equal(s.addresses, o.addresses)
}

// load reads the settings of the HDFS that authority names: host:port, host, a
// name service, or nothing for the configured default.
func load(authority string) (settings, error) {
	conf, err := hadoopconf.LoadFromEnvironment()
	if err != nil {
		return settings{}, fmt.Errorf("reading Hadoop's configuration: %w", err)
	}
	if authority == "" {
		_, authority, _ = strings.Cut(cmp.Or(conf["fs.defaultFS"], conf["fs.default.name"]), "://")
		authority, _, _ = strings.Cut(authority, "/")
		if authority == "" {
			return settings{}, fmt.Errorf("names no NameNode, and HADOOP_CONF_DIR leads to no core-site.xml with fs.defaultFS")
		}
	}
	if strings.EqualFold(conf["hadoop.security.authentication"], "kerberos") {
		return settings{}, fmt.Errorf("this HDFS wants Kerberos, which is not supported")
	}
	s := settings{authority: authority, options: hdfs.ClientOptionsFromConf(conf), timeout: 30 * time.Second}
	if s.user, err = userName(); err != nil {
		return settings{}, err
	}
	var web []string
	if nodes := conf["dfs.ha.namenodes."+authority]; nodes != "" {
		for _, n := range strings.Split(nodes, ",") {
			key := "." + authority + "." + strings.TrimSpace(n)
			s.addresses = append(s.addresses, conf["dfs.namenode.rpc-address"+key])
			web = append(web, httpURL(conf, key))
		}
	} else {
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

// soleURL is the HTTP server of a NameNode that a URI names by its address. The
// configuration counts if it is that NameNode's.
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
	return "http://" + net.JoinHostPort(host, "9870")
}

// httpURL is the configured HTTP server of a NameNode; key tells which of
// several.
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

// userName is whom to act as: HDFS believes the client.
func userName() (string, error) {
	if name := os.Getenv("HADOOP_USER_NAME"); name != "" {
		return name, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("finding out the user's name (HADOOP_USER_NAME sets it): %w", err)
	}
	return u.Username, nil
}
