//go:build linux

package main

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// runDir is the node's own directory of programs, configuration and data, as its processes
// see it.
const runDir = "/run/kube"

// tempDir is the directory for temporary files of the node's programs.
const tempDir = runDir + "/tmp"

// configs are the configuration files of the node's programs, by their names below
// runDir/etc.
var configs = map[string]string{
	// The native snapshotter copies images. It works on every file system, also where overlay
	// mounts cannot be nested. Without restrict_oom_score_adj runc fails if this machine
	// withholds CAP_SYS_RESOURCE.
	"containerd.toml": `version = 3
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "native"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{{.Pause}}"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{{.Programs}}"]
    conf_dir = "{{.Dir}}/etc/cni"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
`,
	"cni/pods.conflist": `{"cniVersion": "1.0.0", "name": "pods", "plugins": [{
  "type": "ptp",
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "{{.Pods}}"}]], "routes": [{"dst": "0.0.0.0/0"}]}
}]}
`,
	// The kubelet must not remove images: there is no registry to get them from again.
	"kubelet.yaml": `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {{.Node}}
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /{{.Cgroup}}
clusterDNS: [{{.Node}}]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
enforceNodeAllocatable: []
evictionHard: {memory.available: 100Mi}
failCgroupV1: false
failSwapOn: false
imageGCHighThresholdPercent: 100
makeIPTablesUtilChains: false
resolvConf: ""
`,
	"Corefile": `cluster.local {
  bind {{.Node}}
  errors
  kubernetes cluster.local {
    kubeconfig {{.Dir}}/etc/coredns.conf
    ttl 1
  }
}
. {
  bind {{.Node}}
  template ANY ANY {
    rcode NXDOMAIN
  }
}
`,
}

// accounts are the users of the API with their groups. Each has a kubeconfig NAME.conf
// below runDir/etc.
var accounts = []struct{ name, user, group string }{
	{"admin", "admin", "system:masters"},
	{"coredns", "coredns", "system:masters"},
	{"kubelet", "system:node:" + nodeName, "system:nodes"},
	{"controller-manager", "system:kube-controller-manager", ""},
	{"scheduler", "system:kube-scheduler", ""},
}

// kubeconfig returns the kubeconfig of a user. The API server makes its certificate when it
// starts; ca is the certificate's path or, with -data, its content.
const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: kube, cluster: {server: "https://%s", certificate-authority%s: "%s"}}]
users: [{name: "%s", user: {token: %s}}]
contexts: [{name: kube, context: {cluster: kube, user: "%[4]s"}}]
current-context: kube
`

// writeConfigs writes the configuration of the node. It returns the administrator's token.
func writeConfigs(programs string) (adminToken string, err error) {
	values := map[string]string{"Dir": runDir, "Programs": programs, "Node": nodeIP, "Pods": podNetwork, "Cgroup": cgroup, "Pause": pauseImage}
	for name, text := range configs {
		var b bytes.Buffer
		if err := template.Must(template.New(name).Parse(text)).Execute(&b, values); err != nil {
			return "", err
		}
		if err := writeConfig(name, b.Bytes()); err != nil {
			return "", err
		}
	}
	var tokens strings.Builder
	for _, a := range accounts {
		token := rand.Text()
		if a.name == "admin" {
			adminToken = token
		}
		fmt.Fprintf(&tokens, "%s,%s,%s,%q\n", token, a.user, a.user, a.group)
		if err := writeConfig(a.name+".conf", fmt.Appendf(nil, kubeconfig, nodeIP, "", runDir+"/etc/apiserver.crt", a.user, token)); err != nil {
			return "", err
		}
	}
	if err := writeConfig("tokens.csv", []byte(tokens.String())); err != nil {
		return "", err
	}
	// Signs the tokens of service accounts.
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", err
	}
	return adminToken, writeConfig("accounts.key", pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

// writeConfig writes one file below runDir/etc.
func writeConfig(name string, data []byte) error {
	file := filepath.Join(runDir, "etc", name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}
