//go:build unix

package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"connectrpc.com/connect"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// With Config.RunAs = RunAsOwner the worker runs as root, and every attempt and driver
// runs as the operating system's user with the name of the job's user. Three parties must
// not trust each other then: the worker, the users, and users among each other. The rules:
//
//   - The name is one that the master has authenticated. The worker does not register with
//     a master without authentication, and runs no job that was submitted to such a
//     master.
//   - The uid is at least Config.RunAsMinUID, and never 0.
//   - An attempt's directory belongs to the user and is closed to others. Its parent
//     belongs to root, so the user cannot replace it. The worker writes to it only before
//     it belongs to the user. Later it moves the map output out of the directory, verifies
//     the moved file (see takeOver), and removes the directory without following links.
//   - Map outputs, logs and downloaded files belong to root, in directories that no user
//     can enter. Reduces fetch map outputs from this machine over HTTP, too, with the
//     secret of their own job.
//   - A process inherits five descriptors (nothing on 0, the log on 1 and 2, the pipes to
//     the worker on 3 and 4), a few harmless variables of the environment, and a session of
//     its own, without the worker's terminal. It cannot gain rights by set-user-ID programs.

// RunAsOwner is the value of Config.RunAs that makes attempts run as their job's user.
const RunAsOwner = "owner"

// account is a user of the operating system.
type account struct {
	name, home string
	uid, gid   uint32
	groups     []uint32 // supplementary ones
}

// ownerError says why no process of a job may run here as the job's user. It is
// storage.ErrDenied to callers: another try on this machine would fail in the same way,
// and a worker that does not know the users must not delay their jobs.
type ownerError struct{ why string }

// Error implements error.
func (e *ownerError) Error() string { return e.why }

// Is makes the error a denied permission, which fails the job at once.
func (e *ownerError) Is(target error) bool { return target == storage.ErrDenied }

// findOwner returns the account as which the processes of a job run, or nil if they run as
// the worker's user. owner is the authenticated user, "" if there is none.
func (c *Config) findOwner(owner string) (*account, error) {
	if c.RunAs != RunAsOwner {
		return nil, nil
	}
	// The name in a job is only a claim if the master has not authenticated its submitter.
	if owner == "" {
		return nil, &ownerError{"this worker runs each job as its user (--run-as owner), and the job was submitted without authentication: submit it again with a token or certificate"}
	}
	u, err := user.Lookup(owner)
	if errors.As(err, new(user.UnknownUserError)) {
		return nil, &ownerError{fmt.Sprintf("machine %s has no user %s, as whom the job must run there (--run-as owner of its worker): create the account, or use a user that the machine has", c.Host, owner)}
	}
	// The directory of users may be unreachable for a moment. That is a failure of this node,
	// not of the job.
	if err != nil {
		return nil, fmt.Errorf("looking up user %s on machine %s: %w", owner, c.Host, err)
	}
	// Some directories ignore case or add a domain. Two names for one account would share its
	// files although the master tells the users apart.
	if u.Username != owner {
		return nil, &ownerError{fmt.Sprintf("machine %s knows user %s under the name %s: jobs run as users of exactly the same name (--run-as owner)", c.Host, owner, u.Username)}
	}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("looking up the groups of user %s on machine %s: %w", owner, c.Host, err)
	}
	ids, err := parseIDs(append([]string{u.Uid, u.Gid}, groups...))
	if err != nil {
		return nil, fmt.Errorf("user %s on machine %s: %w", owner, c.Host, err)
	}
	// System accounts own files of services; a job that runs as one could change them.
	if ids[0] == 0 || int64(ids[0]) < int64(c.RunAsMinUID) {
		return nil, &ownerError{fmt.Sprintf("user %s has the uid %d on machine %s, whose worker runs jobs only as users with a uid of at least %d (--run-as-min-uid), and never as root", owner, ids[0], c.Host, c.RunAsMinUID)}
	}
	return &account{name: owner, home: u.HomeDir, uid: ids[0], gid: ids[1], groups: ids[2:]}, nil
}

// parseIDs parses the numbers of users and groups.
func parseIDs(texts []string) ([]uint32, error) {
	var ids []uint32
	for _, s := range texts {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%q is not the number of a user or group", s)
		}
		ids = append(ids, uint32(n))
	}
	return ids, nil
}

// checkRunAs validates Config.RunAs.
func (c *Config) checkRunAs() error {
	switch {
	case c.RunAs == "":
		return nil
	case c.RunAs != RunAsOwner:
		return fmt.Errorf("--run-as %q: the only value is %s", c.RunAs, RunAsOwner)
	case runtime.GOOS != "linux":
		return fmt.Errorf("--run-as %s needs Linux", RunAsOwner)
	case os.Geteuid() != 0:
		return fmt.Errorf("--run-as %s starts the processes of each job as the job's user, which only root may: start the worker as root, not as uid %d", RunAsOwner, os.Geteuid())
	case c.RunAsMinUID < 1:
		return fmt.Errorf("--run-as-min-uid %d: must be at least 1, because no job may run as root", c.RunAsMinUID)
	}
	st, err := os.Stat(c.Executable)
	if err == nil && st.Mode().Perm()&0o005 != 0o005 {
		err = fmt.Errorf("all users must be able to read and execute it with --run-as %s: chmod o+rx", RunAsOwner)
	}
	if err != nil {
		return fmt.Errorf("executable %s: %w", c.Executable, err)
	}
	return nil
}

// checkOwned fails unless the worker's directory, those above it and those directly in it
// are real directories that only root can replace. Otherwise a user could put a link in
// their place, and the worker, which is root, would remove or give away what the link
// leads to.
func (h *home) checkOwned() error {
	refuse := func(dir, why string) error {
		return fmt.Errorf("with --run-as %s only root may be able to replace --dir and what is in it: %s %s; choose a new --dir below directories of root", RunAsOwner, dir, why)
	}
	check := func(dir string) error {
		st, err := os.Lstat(dir)
		if err != nil {
			return err
		}
		owner, _ := st.Sys().(*syscall.Stat_t)
		switch {
		case !st.IsDir():
			return refuse(dir, "is not a directory")
		case owner == nil || owner.Uid != 0:
			return refuse(dir, "is not root's")
		// In a sticky directory only root and the owner of an entry can replace it.
		case st.Mode().Perm()&0o022 != 0 && st.Mode()&os.ModeSticky == 0:
			return refuse(dir, "can be written by other users")
		}
		return nil
	}
	for _, dir := range []string{h.attempts(), h.outputs(), h.logs(), h.files()} {
		if err := check(dir); err != nil {
			return err
		}
	}
	// A link above the directory is safe if the directories that it leads through are.
	real, err := filepath.EvalSymlinks(filepath.Dir(h.path))
	if err != nil {
		return err
	}
	for dir := filepath.Join(real, filepath.Base(h.path)); ; dir = filepath.Dir(dir) {
		if err := check(dir); err != nil {
			return err
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// openToUsers lets all users pass through the worker's directory to the directories of
// their attempts, and shuts them out of the others. It fails if they cannot reach it.
func (h *home) openToUsers() error {
	for dir := filepath.Dir(h.path); ; dir = filepath.Dir(dir) {
		st, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if st.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("with --run-as %s all users must be able to pass through the directories above --dir %s: chmod o+x %s, or choose another --dir", RunAsOwner, h.path, dir)
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	for _, d := range []string{h.outputs(), h.logs(), h.files()} {
		if err := os.Chmod(d, 0o700); err != nil {
			return err
		}
	}
	// Users may pass through, but not list the entries.
	return errors.Join(os.Chmod(h.attempts(), 0o711), os.Chmod(h.path, 0o711))
}

// needsUsers refuses a master without authentication, which would let every client
// choose the user as whom a job runs. A master with authentication gives each session a
// key. A master refuses such a registration itself; the worker does not rely on it,
// because it alone would execute the jobs.
func (c *Config) needsUsers(key []byte) error {
	if c.RunAs == RunAsOwner && len(key) == 0 {
		return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("--run-as %s: the master authenticates nobody, so every client could run jobs as any user: give the master --tokens or --tls-ca", RunAsOwner))
	}
	return nil
}

// giveDir hands an attempt's directory and the files in its working directory to the user.
// Until the last step no user can enter dir.
func giveDir(dir, work string, to *account) error {
	if to == nil {
		return nil
	}
	entries, err := os.ReadDir(work)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Lchown(filepath.Join(work, e.Name()), int(to.uid), int(to.gid)); err != nil {
			return err
		}
	}
	return errors.Join(os.Lchown(work, int(to.uid), int(to.gid)), os.Lchown(dir, int(to.uid), int(to.gid)))
}

// runAs makes a process run as the user.
func (a *account) runAs(attr *syscall.SysProcAttr) {
	attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid, Groups: a.groups}
	attr.Setsid, attr.Setpgid = true, false // without a terminal, into which it could type
}

// ownerVariables are the variables of the worker's environment that processes of other
// users get. An entry that ends in an underscore is a prefix. Access keys are not among
// them: the user's own are in the user's home.
var ownerVariables = []string{
	"PATH", "LANG", "LANGUAGE", "LC_", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"HADOOP_CONF_DIR", "HADOOP_HOME", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3",
}

// environment returns the part of the worker's environment that the user's processes get,
// and the variables that a login sets. HADOOP_USER_NAME names the user to
// HDFS, which without Kerberos trusts its clients.
func (a *account) environment(worker []string) []string {
	var env []string
	for _, v := range worker {
		name, _, _ := strings.Cut(v, "=")
		if slices.ContainsFunc(append(ownerVariables, storageSettings...), func(allowed string) bool {
			return name == allowed || strings.HasSuffix(allowed, "_") && strings.HasPrefix(name, allowed)
		}) {
			env = append(env, v)
		}
	}
	return append(env, "HOME="+a.home, "USER="+a.name, "LOGNAME="+a.name, "HADOOP_USER_NAME="+a.name)
}

// errForeign reports that an attempt has left something else than its own file as its map
// output: a link, a device, or a file of another user.
var errForeign = errors.New("the attempt's map output is not a plain file of its own")

// takeOver verifies that path, which the user named, is a plain file of the user without
// further names, and makes it root's. The caller has moved it to a directory that no user
// can enter, so no user replaces it meanwhile.
func takeOver(path string, from *account) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	// A link gives ELOOP, and a socket ENXIO.
	if errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENXIO) {
		return errForeign
	}
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); !ok || !st.Mode().IsRegular() || sys.Uid != from.uid || sys.Nlink != 1 {
		return errForeign
	}
	return errors.Join(f.Chown(os.Geteuid(), os.Getegid()), f.Chmod(0o600))
}

// keepOutputOf is keepOutput for an attempt of another user. A worker that starts after a
// crash between the two renames removes the file, since its name is no attempt's.
func (h *home) keepOutputOf(owner *account, from, to string, partitions int) error {
	unverified := to + ".unverified"
	err := os.Rename(from, unverified)
	if err != nil {
		return err
	}
	if err = takeOver(unverified, owner); err == nil {
		err = checkRun(unverified, partitions)
	}
	if err == nil {
		err = os.Rename(unverified, to)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = errors.Join(err, h.remove(unverified))
	}
	return err
}
