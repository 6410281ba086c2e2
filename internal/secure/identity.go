package secure

import (
	"context"
	"fmt"
	"slices"
)

// Role is what kind of peer asks.
type Role string

// The roles. A master and a worker are programs, users and admins are people
// and their programs.
const (
	Master Role = "master"
	Worker Role = "worker"
	User   Role = "user"
	Admin  Role = "admin"
)

// ParseRole reads a role's name.
func ParseRole(s string) (Role, error) {
	if r := Role(s); slices.Contains([]Role{Master, Worker, User, Admin}, r) {
		return r, nil
	}
	return "", fmt.Errorf("unknown role %q (one of master, worker, user, admin)", s)
}

// Identity is who asks. The zero Identity is nobody and may do nothing.
type Identity struct {
	User   string // the name of the person, worker or master
	Groups []string
	Role   Role
	// Open says that nobody is asked who he is: a server for this machine
	// alone, whose peers may do everything under any name.
	Open bool
}

// String is for logs.
func (id Identity) String() string {
	switch {
	case id.Open:
		return "anybody here"
	case id.Role == "":
		return "nobody"
	}
	return string(id.Role) + " " + id.User
}

type identityKey struct{}

// With returns a context that carries who asks.
func With(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// From returns who asks: nobody if the context does not say.
func From(ctx context.Context) Identity {
	id, _ := ctx.Value(identityKey{}).(Identity)
	return id
}
