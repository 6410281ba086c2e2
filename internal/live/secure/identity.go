package secure

import (
	"context"
	"fmt"
	"slices"
)

// Role is the kind of a client.
type Role string

// The roles. Masters and workers are daemons of the cluster; users and admins are
// people and programs that act for them.
const (
	Master Role = "master"
	Worker Role = "worker"
	User   Role = "user"
	Admin  Role = "admin"
	// Driver is the process that runs the function of a chain. No file of tokens and no
	// certificate gives this role: the master makes the tokens itself.
	Driver Role = "driver"
)

// ParseRole returns the role of that name.
func ParseRole(s string) (Role, error) {
	if r := Role(s); slices.Contains([]Role{Master, Worker, User, Admin}, r) {
		return r, nil
	}
	return "", fmt.Errorf("unknown role %q: use master, worker, user or admin", s)
}

// Identity is the authenticated sender of a request. Rules.May allows the zero
// Identity nothing.
type Identity struct {
	User   string // the name of the person, worker or master
	Groups []string
	Role   Role
	// Open is set by a server without authentication, which listens on loopback
	// only. Its clients may do everything under any name.
	Open bool
	// Chain is the chain that a Driver may submit steps of; "" for all others.
	Chain string
	// AnyFile is set for the Driver of a chain whose submitter may name files outside the
	// storage roots.
	AnyFile bool
}

// Account returns the name under which a server counts the sender's use of shared
// resources. A driver counts as the user of its chain. All clients of a server without
// authentication are one account, because each could claim any name.
func (id Identity) Account() string {
	if id.Role == Worker || id.Role == Master {
		return "\x00" + string(id.Role) + "\x00" + id.User // no user has such a name
	}
	return id.User
}

// String returns the identity as logs show it.
func (id Identity) String() string {
	switch {
	case id.Open:
		return "unauthenticated local client"
	case id.Role == "":
		return "unauthenticated client"
	}
	if id.Chain != "" {
		return "driver of " + id.Chain
	}
	return string(id.Role) + " " + id.User
}

type identityKey struct{}

// With returns a context that carries the sender's identity.
func With(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// From returns the identity in a context, or the zero Identity.
func From(ctx context.Context) Identity {
	id, _ := ctx.Value(identityKey{}).(Identity)
	return id
}
