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

// Action is something that a peer wants to do.
type Action string

// The actions, as they appear in "may not …".
const (
	View      Action = "look at jobs"
	Submit    Action = "submit to"    // Subject.Pool, as Subject.Owner
	Change    Action = "change"       // Subject.Job: kill, priority; its logs too
	Move      Action = "move jobs to" // Subject.Pool, of Subject.Job
	Policy    Action = "change the policy"
	Nodes     Action = "drain nodes"
	Serve     Action = "act as a worker"
	ShareFile Action = "store files"
	ReadLogs  Action = "read a worker's logs"
)

// Subject is what an action is done to.
type Subject struct {
	Job   string // its name, for messages
	Owner string // whose job it is or is to be
	Pool  string // the pool that it is in or is to be in
	From  string // of Move: the pool that it is in
}

// Pool says who may use a pool. Entries are users, or groups after an @; *
// stands for everybody.
type Pool struct {
	Submit []string `yaml:"submit"`
	// Manage lists who may change other people's jobs in the pool as well.
	Manage []string `yaml:"manage"`
}

// Rules say who may do what. The zero Rules are the defaults: everyone submits
// to every pool and changes his own jobs, admins do everything.
type Rules struct {
	// Pools are the rules by pool. That of "*" is for all pools that are not
	// listed; without it these are open to all. The pool of a job that names
	// none is "default".
	Pools map[string]Pool `yaml:"pools"`
}

// LoadRules reads rules from a YAML file: "pools:", then a Pool for each name.
func LoadRules(path string) (Rules, error) {
	var r Rules
	data, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
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

// Denied is why somebody may not do something; it is fit to be shown to him.
type Denied struct{ Why string }

// Error returns why.
func (d *Denied) Error() string { return d.Why }

func deny(format string, args ...any) error { return &Denied{fmt.Sprintf(format, args...)} }

// May returns nil if somebody may do something, and otherwise a *Denied.
func (r Rules) May(id Identity, a Action, s Subject) error {
	if id.Open {
		return nil
	}
	switch id.Role {
	case Worker, Master:
		if id.Role == Worker && a == Serve || id.Role == Master && a == ReadLogs {
			return nil
		}
		return deny("a %s may not %s", id.Role, a)
	case Admin:
		if a == Serve {
			return deny("only a worker may %s", a)
		}
		return nil
	case User:
		return r.userMay(id, a, s)
	}
	return deny("nobody may %s without saying who he is", a)
}

func (r Rules) userMay(id Identity, a Action, s Subject) error {
	switch a {
	case View, ShareFile:
		return nil
	case Submit:
		if s.Owner != "" && s.Owner != id.User {
			return deny("%s may not submit as %s: only an admin may", id.User, s.Owner)
		}
		return r.mayUse(id, a, s.Pool)
	case Change:
		return r.mayChange(id, s, s.Pool)
	case Move:
		if err := r.mayChange(id, s, s.From); err != nil {
			return err
		}
		return r.mayUse(id, a, s.Pool)
	case Serve:
		return deny("only a worker may %s", a)
	}
	return deny("only an admin may %s", a)
}

// mayUse checks that somebody may put jobs into a pool.
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

// mayChange checks that somebody may change a job that is in a pool.
func (r Rules) mayChange(id Identity, s Subject, pool string) error {
	if s.Owner == id.User && id.User != "" {
		return nil
	}
	if p, listed := r.pool(pool); listed && listedIn(id, p.Manage) {
		return nil
	}
	return deny("job %s is %s's: only %s or an admin may change it or read its logs", s.Job, s.Owner, s.Owner)
}

// defaultPool is where jobs are that name no pool.
const defaultPool = "default"

func (r Rules) pool(name string) (Pool, bool) {
	p, ok := r.Pools[cmp.Or(name, defaultPool)]
	if !ok {
		p, ok = r.Pools["*"]
	}
	return p, ok
}

func listedIn(id Identity, list []string) bool {
	return slices.ContainsFunc(list, func(who string) bool {
		group, isGroup := strings.CutPrefix(who, "@")
		return who == "*" || who == id.User || isGroup && slices.Contains(id.Groups, group)
	})
}
