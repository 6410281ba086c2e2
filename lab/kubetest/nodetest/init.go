//go:build linux

package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// kernelSettings are the settings that the kubelet requires. They belong to the whole
// machine, so the node sees files with the wanted values in their places and the machine
// keeps its own.
var kernelSettings = map[string]string{
	"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}

// initNode is process 1 of a node with its state in dir. It starts the node's programs and
// collects orphans until it is killed. outer is the parent's result of ownNamespaces.
func initNode(dir, programs, outer string) error {
	if err := refuseNamespaces(outer); err != nil {
		return err
	}
	err := errors.Join(os.Setenv("PATH", programs+":"+os.Getenv("PATH")), os.Setenv("TMPDIR", tempDir))
	// Each step relies on the one before. The first error ends the node.
	for _, step := range []func() error{awaitDevice, func() error { return mountAll(dir) }, connect, makeCgroups} {
		if err == nil {
			err = step()
		}
	}
	if err != nil {
		return err
	}
	token, err := writeConfigs(programs)
	if err != nil {
		return err
	}
	if err := startServer(programs); err != nil {
		return err
	}
	if err := awaitServer(token); err != nil {
		return err
	}
	if err := writeAdmin(token); err != nil {
		return err
	}
	if err := startClients(programs); err != nil {
		return err
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if name, ok := started[pid]; ok {
			fmt.Fprintf(os.Stderr, "%s ended: exit status %d, signal %d\n", name, status.ExitStatus(), status.Signal())
		}
	}
}

// awaitDevice waits until the machine has put its end of the network into this namespace.
func awaitDevice() error {
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if _, err := net.InterfaceByName("eth0"); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// namespaceFiles are the files that name the namespaces of a process.
var namespaceFiles = []string{"pid", "mnt", "net", "uts"}

// ownNamespaces returns the names of this process's namespaces, in the order of
// namespaceFiles.
func ownNamespaces() ([]string, error) {
	var names []string
	for _, f := range namespaceFiles {
		name, err := os.Readlink("/proc/self/ns/" + f)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// refuseNamespaces returns an error if this process has a namespace of the machine. The
// steps of initNode would then change the machine's own mounts and network.
func refuseNamespaces(outer string) error {
	theirs := strings.Fields(outer)
	own, err := ownNamespaces()
	if err != nil {
		return err
	}
	if os.Getpid() != 1 || len(theirs) != len(own) {
		return errors.New("init runs as the first process of a node; use up")
	}
	for i, name := range own {
		if name == theirs[i] {
			return fmt.Errorf("init must not run in the machine's namespace %s; use up", name)
		}
	}
	return nil
}

// mountAll gives the node its own /proc and directories. All other file systems of the
// machine become read-only for the node's processes, except devices and control groups. So
// no program of the node and no pod can damage the machine's files.
func mountAll(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	readOnly := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	writable := &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, readOnly); err != nil {
		return fmt.Errorf("making the machine's files read-only for the node (needs Linux 5.12): %w", err)
	}
	for _, system := range []string{"/dev", "/sys"} {
		if err := unix.MountSetattr(unix.AT_FDCWD, system, unix.AT_RECURSIVE, writable); err != nil {
			return fmt.Errorf("%s: %w", system, err)
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	volumes := filepath.Join(dir, volumesDir)
	for from, to := range map[string]string{"lib": "/var/lib", logDir: "/var/log", "run": "/run", volumesDir: volumes} {
		if err := unix.Mount(filepath.Join(dir, from), to, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", to, err)
		}
		if err := unix.MountSetattr(unix.AT_FDCWD, to, 0, writable); err != nil {
			return fmt.Errorf("%s: %w", to, err)
		}
	}
	if err := os.MkdirAll(tempDir, 0o700); err != nil {
		return err
	}
	for name, value := range kernelSettings {
		file := filepath.Join(runDir, "sys", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(value+"\n"), 0o644)); err != nil {
			return err
		}
		if err := unix.Mount(file, "/proc/sys/"+name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("/proc/sys/%s: %w", name, err)
		}
	}
	return unix.Sethostname([]byte(nodeName))
}

// connect configures the network of the node. The node itself has the address of the API's
// Service, so that pods reach the API without a proxy.
func connect() error {
	for _, args := range []string{
		"link set lo up", "addr add " + apiIP + "/32 dev lo", "addr add " + nodeIP + "/30 dev eth0", "link set eth0 up", "route add unreachable default",
	} {
		if err := ip(strings.Fields(args)...); err != nil {
			return err
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
}

// makeCgroups makes the parents of the control groups that the kubelet makes for pods.
func makeCgroups() error {
	roots, err := cgroupRoots()
	if err != nil {
		return err
	}
	for _, r := range roots {
		if err := os.Mkdir(filepath.Join(r, cgroup), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// started holds the names of the programs that init has started, by pid.
var started = map[int]string{}

// run starts a program of the node. Its output goes to /var/log. Its pid, as the node
// counts, goes to runDir/pid.
func run(programs, name string, args ...string) error {
	log, err := os.Create(filepath.Join("/var/log", name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	p, err := os.StartProcess(filepath.Join(programs, name), append([]string{name}, args...), &os.ProcAttr{
		Dir: runDir, Env: os.Environ(), Files: []*os.File{null, log, log}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return err
	}
	started[p.Pid] = name
	pids := filepath.Join(runDir, "pid")
	return errors.Join(os.MkdirAll(pids, 0o755), os.WriteFile(filepath.Join(pids, name), []byte(strconv.Itoa(p.Pid)), 0o644), p.Release())
}

// startServer starts the programs that the API needs.
func startServer(programs string) error {
	return errors.Join(
		run(programs, "containerd", "--config", "etc/containerd.toml"),
		run(programs, "etcd", "--data-dir", "etcd", "--unsafe-no-fsync", "--listen-client-urls", "http://127.0.0.1:2379",
			"--advertise-client-urls", "http://127.0.0.1:2379", "--listen-peer-urls", "http://127.0.0.1:2380"),
		run(programs, "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--cert-dir=etc", "--token-auth-file=etc/tokens.csv",
			"--bind-address=0.0.0.0", "--secure-port=443", "--advertise-address="+nodeIP, "--service-cluster-ip-range="+services,
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--kubelet-preferred-address-types=InternalIP",
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=etc/accounts.key", "--service-account-signing-key-file=etc/accounts.key"),
	)
}

// startClients starts the programs that need the API. A kubelet that starts before the API
// is ready waits half a minute.
func startClients(programs string) error {
	return errors.Join(
		run(programs, "kube-controller-manager", "--kubeconfig=etc/controller-manager.conf", "--bind-address=127.0.0.1", "--leader-elect=false",
			"--use-service-account-credentials", "--service-account-private-key-file=etc/accounts.key", "--root-ca-file=etc/apiserver.crt"),
		run(programs, "kube-scheduler", "--kubeconfig=etc/scheduler.conf", "--bind-address=127.0.0.1", "--leader-elect=false"),
		run(programs, "kubelet", "--config=etc/kubelet.yaml", "--kubeconfig=etc/kubelet.conf", "--hostname-override="+nodeName, "--node-ip="+nodeIP),
		run(programs, "coredns", "-conf", "etc/Corefile"),
	)
}

// awaitServer waits until the API is ready.
func awaitServer(token string) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		client, err := apiClient()
		if err == nil {
			err = ask(client, token)
		}
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// apiClient returns a client that trusts the certificate that the API server has made.
func apiClient() (*http.Client, error) {
	text, err := os.ReadFile(runDir + "/etc/apiserver.crt")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, errors.New("apiserver.crt is not complete")
	}
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
	}}, nil
}

// ask asks the API whether it is ready.
func ask(client *http.Client, token string) error {
	req, err := http.NewRequest(http.MethodGet, "https://"+nodeIP+"/readyz", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the API is not ready: %s", resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

// writeAdmin writes the administrator's kubeconfig for processes of the machine. It appears
// whole.
func writeAdmin(token string) error {
	ca, err := os.ReadFile(runDir + "/etc/apiserver.crt")
	if err != nil {
		return err
	}
	text := fmt.Appendf(nil, kubeconfig, nodeIP, "-data", base64.StdEncoding.EncodeToString(ca), "admin", token)
	file := filepath.Join(runDir, configFile)
	return errors.Join(os.WriteFile(file+".new", text, 0o600), os.Rename(file+".new", file))
}
