package secure

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Action is an operation that a client requests. Its value completes the sentence
// "… may not …" in errors.
type Action string

// The actions, with the fields of Subject that they need.
const (
	View      Action = "view jobs"
	Submit    Action = "submit to"    // Subject.Pool, as Subject.Owner
	Change    Action = "change"       // Subject.Job: kill, change the priority, read logs
	Move      Action = "move jobs to" // Subject.Pool, of Subject.Job
	Policy    Action = "change the policy"
	Nodes     Action = "drain nodes"
	Members   Action = "change the masters"
	Serve     Action = "act as a worker"
	Replicate Action = "act as another master"
	ShareFile Action = "store files"
	FetchFile Action = "fetch files"
	ReadLogs  Action = "read a worker's logs"
	Drive     Action = "act as the driver of a chain"
	Scrape    Action = "read metrics"
)

// Subject is the object of an action.
type Subject struct {
	Job   string // the job's id, for messages
	Owner string // the user who owns or will own the job
	Pool  string // the pool of the job; for Move and Submit the new one
	From  string // for Move: the pool that the job leaves
	Chain string // for Submit and Change: the chain that the job is a step of
}

// Pool lists who may use a pool. An entry is a user, a group with a leading @, or *
// for all users.
type Pool struct {
	Submit []string `yaml:"submit"`
	// Manage lists who may also change the jobs of other users in the pool.
	Manage []string `yaml:"manage"`
}

// Rules are the access rules of a master. By the zero Rules every user submits to
// every pool and changes only jobs of his own; admins may do everything.
type Rules struct {
	// Pools holds the rules by pool name. The entry "*" applies to all pools that
	// are not listed; without it every user may use them. A job that names no pool
	// is in pool "default".
	Pools map[string]Pool `yaml:"pools"`
}

// LoadRules reads rules from a YAML file. Its key "pools" maps names to Pools.
func LoadRules(path string) (Rules, error) {
	var r Rules
	data, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	// A misspelled key would be ignored, and the rule that was meant would not exist.
	d.KnownFields(true)
	if err := d.Decode(&r); err != nil {
		return Rules{}, fmt.Errorf("access rules %s: %w", path, err)
	}
	for name, p := range r.Pools {
		for _, who := range slices.Concat(p.Submit, p.Manage) {
			if who == "" || who == "@" {
				return Rules{}, fmt.Errorf("access rules %s: pool %s lists an empty name", path, name)
			}
		}
	}
	return r, nil
}

// Denied is the error of an action that the rules forbid. Its text may be shown to
// the client.
type Denied struct{ Why string }

// Error implements error.
func (d *Denied) Error() string { return d.Why }

// deny returns a *Denied.
func deny(format string, args ...any) error { return &Denied{fmt.Sprintf(format, args...)} }

// May returns nil if the client may perform the action, and a *Denied otherwise.
func (r Rules) May(id Identity, a Action, s Subject) error {
	if id.Open {
		return nil
	}
	switch id.Role {
	// Daemons have no more rights than their messages need: a worker's machine may be the
	// weakest of the cluster.
	case Worker, Master:
		if id.Role == Worker && (a == Serve || a == FetchFile) || id.Role == Master && (a == ReadLogs || a == Replicate) {
			return nil
		}
		return deny("a %s may not %s", id.Role, a)
	case Admin:
		// An admin who registers a worker would get other users' code and data under a name of his
		// choice.
		if a == Serve {
			return deny("only a worker may %s", a)
		}
		// Who speaks for a master could change anything without a record.
		if a == Replicate {
			return deny("only a master may %s", a)
		}
		return nil
	case User:
		return r.userMay(id, a, s)
	case Driver:
		// The token of a driver is in the hands of the user's code, so it reaches its own chain
		// and nothing else.
		if a == Drive || a == FetchFile || (a == Submit || a == Change) && id.Chain != "" && s.Chain == id.Chain {
			return nil
		}
		return deny("the driver of %s may only submit, follow and kill steps of its chain", id.Chain)
	}
	return deny("an unauthenticated client may not %s", a)
}

// userMay decides for the role User.
func (r Rules) userMay(id Identity, a Action, s Subject) error {
	switch a {
	case View, ShareFile, FetchFile, Scrape:
		return nil
	case Submit:
		if s.Owner != "" && s.Owner != id.User {
			return deny("%s may not submit as %s: only an admin may", id.User, s.Owner)
		}
		return r.mayUse(id, a, s.Pool)
	case Change:
		return r.mayChange(id, s, s.Pool)
	case Move:
		// Moving takes two permissions: to take the job out of its pool, and to use the other
		// pool.
		if err := r.mayChange(id, s, s.From); err != nil {
			return err
		}
		return r.mayUse(id, a, s.Pool)
	case Serve:
		return deny("only a worker may %s", a)
	}
	return deny("only an admin may %s", a)
}

// mayUse decides whether a user may put jobs into a pool.
func (r Rules) mayUse(id Identity, a Action, pool string) error {
	p, listed := r.pool(pool)
	if !listed || listedIn(id, p.Submit) || listedIn(id, p.Manage) {
		return nil
	}
	who := "only an admin"
	if len(p.Submit) > 0 {
		who = strings.Join(p.Submit, ", ")
	}
	return deny("%s may not %s pool %s; %s may", id.User, a, cmp.Or(pool, defaultPool), who)
}

// mayChange decides whether a user may change a job in a pool.
func (r Rules) mayChange(id Identity, s Subject, pool string) error {
	if s.Owner == id.User && id.User != "" {
		return nil
	}
	if p, listed := r.pool(pool); listed && listedIn(id, p.Manage) {
		return nil
	}
	return deny("job %s belongs to %s: only %s or an admin may change it or read its logs", s.Job, s.Owner, s.Owner)
}

// defaultPool is the pool of jobs that name none.
const defaultPool = "default"

// pool returns the rules of a pool, and false if every user may use it.
func (r Rules) pool(name string) (Pool, bool) {
	p, ok := r.Pools[cmp.Or(name, defaultPool)]
	if !ok {
		p, ok = r.Pools["*"]
	}
	return p, ok
}

// listedIn reports whether a list of users and groups includes a user.
func listedIn(id Identity, list []string) bool {
	return slices.ContainsFunc(list, func(who string) bool {
		group, isGroup := strings.CutPrefix(who, "@")
		return who == "*" || who == id.User || isGroup && slices.Contains(id.Groups, group)
	})
}
