package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"

	"github.com/slotwise/slotwise/lab/harness"
)

// machine says which kinds of runs this machine permits.
type machine struct {
	disks      bool // small disks can be mounted
	s3         bool // the S3 server can be built and started
	hdfs       bool // HDFS can be started
	namespaces bool // network namespaces can be made
	netem      bool // and can lose packets
	owners     bool // workers can run tasks as taskUser
}

// probe finds out what the machine permits. It uses dir for scratch files. missing has an
// error for each capability that the machine lacks, with the reason.
func (s *settings) probe(dir string) (m machine, missing []error) {
	note := func(what string, err error) bool {
		if err != nil {
			missing = append(missing, fmt.Errorf("%s: %w", what, err))
		}
		return err == nil
	}
	disk := filepath.Join(dir, "disk")
	m.disks = note("disks of workers", mountDisk(disk)) && note("disks of workers", unmountDisk(disk))
	m.s3 = note("S3", harness.PrepareServers(s.keeper, "s3"))
	m.hdfs = note("HDFS", harness.PrepareServers(s.keeper, "hdfs"))
	namespaces, netem := s.networks.probe()
	m.namespaces = note("network namespaces", namespaces)
	m.netem = note("loss of packets in namespaces", netem)
	m.owners = note("tasks as their users", canOwn(dir))
	return m, missing
}

// taskUser is the user of all jobs. The account exists on every Linux system.
const taskUser = "nobody"

// canOwn returns why workers cannot run tasks as taskUser, and opens the runs' directory to
// that user.
func canOwn(dir string) error {
	if os.Geteuid() != 0 {
		return errors.New("only root can start processes as other users")
	}
	if _, err := user.Lookup(taskUser); err != nil {
		return err
	}
	return os.Chmod(dir, 0o711)
}

// The values of plan.security.
const (
	openDoors    = "open"         // no authentication, no TLS
	tokens       = "tokens"       // TLS; workers and users have tokens
	certificates = "certificates" // TLS; workers and users have certificates
)

// securities are the values of plan.security in the order of draws.
var securities = []string{openDoors, tokens, certificates}

// credentials are the files of TLS and tokens that all runs share.
type credentials struct{ dir string }

// makeCredentials creates an authority, certificates and tokens in dir. hosts are the
// addresses of masters.
func makeCredentials(ctx context.Context, binary, dir string, hosts ...string) (credentials, error) {
	c := credentials{dir}
	args := []string{"certs", "--dir", dir, "--user", taskUser}
	for _, h := range hosts {
		args = append(args, "--host", h)
	}
	if out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput(); err != nil {
		return c, fmt.Errorf("slotwise certs: %w\n%s", err, out)
	}
	var all error
	for role, user := range map[string]string{"user": taskUser, "worker": "workers"} {
		token, err := exec.CommandContext(ctx, binary, "token", "--tokens", c.file("tokens"), "--role", role, "--user", user).Output()
		all = errors.Join(all, err, os.WriteFile(c.file(role+".token"), token, 0o600))
	}
	return c, all
}

// file returns the path of one of the files.
func (c credentials) file(name string) string { return filepath.Join(c.dir, name) }

// flags returns the flags that give a process its credentials. who is "server" (the
// master), "worker" or "user".
func (c credentials) flags(security, who string) []string {
	if security == openDoors {
		return nil
	}
	args := []string{"--tls-ca", c.file("ca.pem")}
	if security == certificates || who != "user" {
		args = append(args, "--tls-cert", c.file(who+".pem"), "--tls-key", c.file(who+"-key.pem"))
	}
	switch {
	case security == tokens && who == "server":
		args = append(args, "--tokens", c.file("tokens"))
	case security == tokens:
		args = append(args, "--token-file", c.file(who+".token"))
	}
	return args
}

// prepare builds slotwise in dir, makes credentials and finds out what the machine
// permits.
func (s *settings) prepare(ctx context.Context, dir string) (err error) {
	s.dir, s.binary = dir, filepath.Join(dir, "slotwise")
	if err := harness.Build(ctx, s.binary); err != nil {
		return err
	}
	if s.keeper, err = harness.BuildKeeper(ctx, dir); err != nil {
		return err
	}
	if s.credentials, err = makeCredentials(ctx, s.binary, filepath.Join(dir, "certs"), append(nearAddresses(), loopback)...); err != nil {
		return err
	}
	s.machine, s.missing = s.probe(dir)
	return nil
}
