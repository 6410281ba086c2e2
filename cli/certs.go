package cli

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/base/terminal"
	"github.com/slotwise/slotwise/internal/live/secure"
)

// certsFlags are the flags of certs.
type certsFlags struct {
	dir, user, role string
	groups, hosts   []string
	valid           time.Duration
	json            bool
}

// newCerts returns the command that makes certificates. It serves development and small clusters:
// the authority's key is a file. A site with an authority makes certificates with the same fields
// by its own tools; package secure describes them.
func newCerts() *cobra.Command {
	f := &certsFlags{}
	c := &cobra.Command{
		Use:   "certs --dir DIR",
		Short: "Make certificates for a cluster",
		Long: `Creates a certificate authority in DIR, and signs certificates for a master
(server), a worker, an admin and a user. This is for development, and for clusters
with a single user, because the key of the authority lies in the same directory.

With --user and --role the authority in DIR signs one more certificate, such as
user-NAME.pem or worker-NAME.pem. Only the owner can read the files (mode 0600).
Existing files are not overwritten.

Only the master's certificate is valid for localhost and the names that --host gives. With
--role worker, --host gives names of that worker, for programs that check them, such as
Prometheus. Never give a worker a name of the master.`,
		Example: `  slotwise certs --dir certs --host master.example.org --host 10.0.0.1
  slotwise certs --dir certs --user ana --role user --group data
  slotwise master --dir m --listen 10.0.0.1:7077 --tls-ca certs/ca.pem --tls-cert certs/server.pem --tls-key certs/server-key.pem
  slotwise jobs --master 10.0.0.1:7077 --tls-ca certs/ca.pem --tls-cert certs/user-ana.pem --tls-key certs/user-ana-key.pem`,
		Args: noArgs,
	}
	s := c.Flags()
	s.SortFlags = false
	s.StringVar(&f.dir, "dir", "", "`directory` of the authority (required)")
	s.StringArrayVar(&f.hosts, "host", nil, "`name` or address of the master, beside localhost, or of one worker (repeatable)")
	s.StringVar(&f.user, "user", "", "`name` that the certificate is for (default: you)")
	// Without it, the directory is a new one and gets one certificate for each role.
	s.StringVar(&f.role, "role", "", "make one certificate for this `role`: user, admin, worker or master")
	// Groups are for the rules of --access; a certificate states them, so the master needs no directory
	// of users.
	s.StringArrayVar(&f.groups, "group", nil, "`group` that the user is in (repeatable)")
	// Longer than the authority would be no use: verifiers check both.
	s.DurationVar(&f.valid, "valid", 365*24*time.Hour, "for how `long` certificates are valid; at most as long as the authority, 5 years")
	addPrint(c, &f.json)
	c.RunE = func(c *cobra.Command, _ []string) error { return f.run(c) }
	return c
}

// run makes the certificates and prints their files.
func (f *certsFlags) run(c *cobra.Command) error {
	switch {
	case f.dir == "":
		return misuse("--dir is missing: the directory of the authority")
	case f.valid <= 0:
		return misuse("--valid %v: must be positive", f.valid)
	}
	if f.user == "" {
		f.user = currentUser()
	}
	var names []string
	var err error
	// Without a role the directory has no authority yet, and one is made.
	if f.role == "" {
		names, err = f.begin()
	} else {
		names, err = f.issue()
	}
	if err != nil {
		return err
	}
	files := make([]string, len(names))
	for i, n := range names {
		files[i] = filepath.Join(f.dir, n+".pem")
	}
	if f.json {
		return encode(c.OutOrStdout(), map[string][]string{"files": files})
	}
	for _, name := range files {
		terminal.Fprintf(c.OutOrStdout(), "%s\n", name)
	}
	return nil
}

// masterHosts returns the names and addresses for which a master's certificate is valid. localhost
// is among them, so that commands on the master's machine need no other address.
func (f *certsFlags) masterHosts() []string {
	return append([]string{"localhost", "127.0.0.1", "::1"}, f.hosts...)
}

// begin makes an authority, and one certificate for each role. Only the master's is valid
// for any name: the key of the worker's lies on every worker, and a browser takes a server
// with the right name for the master.
func (f *certsFlags) begin() ([]string, error) {
	a, err := secure.NewAuthority(f.dir)
	if err != nil {
		return nil, err
	}
	names := []string{"ca"}
	for _, x := range []struct {
		name string
		id   secure.Identity
		host []string
	}{
		{"server", secure.Identity{User: "master", Role: secure.Master}, f.masterHosts()},
		{"worker", secure.Identity{User: "worker", Role: secure.Worker}, nil},
		{"admin", secure.Identity{User: "admin", Role: secure.Admin}, nil},
		{"user", secure.Identity{User: f.user, Role: secure.User, Groups: f.groups}, nil},
	} {
		if err := a.Issue(x.name, x.id, x.host, f.valid); err != nil {
			return nil, err
		}
		names = append(names, x.name)
	}
	return names, nil
}

// issue makes one certificate with an existing authority.
func (f *certsFlags) issue() ([]string, error) {
	role, err := secure.ParseRole(f.role)
	if err != nil {
		return nil, misuse("--role: %w", err)
	}
	a, err := secure.OpenAuthority(f.dir)
	if err != nil {
		return nil, misuse("--dir: %w", err)
	}
	// The name of the file has the certificate's user and role. A second one for the same user and role
	// needs the first one removed: Issue does not overwrite.
	name, hosts := f.role+"-"+f.user, f.hosts
	if role == secure.Master {
		hosts = f.masterHosts()
	}
	return []string{name}, a.Issue(name, secure.Identity{User: f.user, Role: role, Groups: f.groups}, hosts, f.valid)
}

// currentUser returns the login name of the process, or its number where the system has no name for
// it: a certificate and a token must name somebody.
func currentUser() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return fmt.Sprintf("uid%d", os.Getuid())
}

// tokenFlags are the flags of token.
type tokenFlags struct {
	file, user, role string
	groups           []string
	json             bool
}

// newToken returns the command that makes a token. It prints nothing but the token, for a
// redirection into a file. A running master reads the file again when it has changed.
func newToken() *cobra.Command {
	f := &tokenFlags{}
	c := &cobra.Command{
		Use:   "token --tokens FILE",
		Short: "Make a token that identifies a user or a worker",
		Long: `Creates a random token, prints it, and adds a line to FILE, the tokens file of a
master. The master accepts the token from then on. The file holds hashes only, so a
lost token cannot be recovered. To revoke a token, remove its line.

A line has a role, a name, groups separated by commas (or -), and the SHA-256 of
the token.`,
		Example: `  slotwise token --tokens tokens --user ana --group data > ana.token && chmod 600 ana.token
  slotwise token --tokens tokens --role worker --user workers > join.token && chmod 600 join.token
  slotwise jobs --token-file ana.token`,
		Args: noArgs,
	}
	s := c.Flags()
	s.SortFlags = false
	s.StringVar(&f.file, "tokens", "", "the tokens `file` (required)")
	s.StringVar(&f.user, "user", "", "`name` that the token is for (default: you)")
	s.StringVar(&f.role, "role", "user", "`role`: user, admin or worker")
	s.StringArrayVar(&f.groups, "group", nil, "`group` that the user is in (repeatable)")
	addPrint(c, &f.json)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if f.file == "" {
			return misuse("--tokens is missing: the tokens file")
		}
		if f.user == "" {
			f.user = currentUser()
		}
		role, err := secure.ParseRole(f.role)
		if err != nil {
			return misuse("--role: %w", err)
		}
		// The line of the file is written before the token is printed: a token that a user has must be
		// accepted.
		token, err := secure.AddToken(f.file, secure.Identity{User: f.user, Role: role, Groups: f.groups})
		if err != nil {
			return fmt.Errorf("--tokens: %w", err)
		}
		if f.json {
			return encode(c.OutOrStdout(), map[string]string{"token": token, "user": f.user, "role": f.role})
		}
		_, err = terminal.Fprintf(c.OutOrStdout(), "%s\n", token)
		return err
	}
	return c
}
