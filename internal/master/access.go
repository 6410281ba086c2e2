package master

import (
	"context"
	"slices"
	"strings"

	"connectrpc.com/connect"

	slotwisev1 "github.com/slotwise/slotwise/proto/slotwise/v1"
)

// Identity is who asks.
type Identity struct {
	User   string // "" where nobody is asked who he is: then a spec's word is taken
	Groups []string
	Admin  bool
	Worker bool // may use the service of workers
}

// identityKey is that of the Identity in a context.
type identityKey struct{}

// WithIdentity returns a context that carries who asks. Whatever stands before
// the handlers and knows it, says it so.
func WithIdentity(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// identity tells who asks. Without anything that asks people who they are,
// which is allowed on one machine only, everybody may do everything.
func identity(ctx context.Context) Identity {
	if id, ok := ctx.Value(identityKey{}).(Identity); ok {
		return id
	}
	return Identity{Admin: true, Worker: true}
}

// Access says who may submit to which pools.
type Access struct {
	// Pools lists, by pool, users and @groups that may submit to it or move
	// jobs there. A pool that is not listed is open to all.
	Pools map[string][]string
}

// admit sets the user of a spec and checks that he may submit it.
func (a Access) admit(who Identity, spec *slotwisev1.JobSpec) error {
	switch {
	case who.User == "" && spec.User == "":
		return fault(connect.CodeInvalidArgument, "the job does not say whose it is")
	case spec.User == "" || spec.User == who.User:
		spec.User = who.User
	case who.User != "" && !who.Admin:
		return fault(connect.CodePermissionDenied, "%s may not submit as %s: only an admin may", who.User, spec.User)
	}
	return a.pool(who, spec.Pool)
}

// pool checks that somebody may put jobs into a pool.
func (a Access) pool(who Identity, pool string) error {
	may, listed := a.Pools[pool]
	if !listed || who.Admin || slices.Contains(may, who.User) {
		return nil
	}
	for _, g := range who.Groups {
		if slices.Contains(may, "@"+g) {
			return nil
		}
	}
	return fault(connect.CodePermissionDenied, "%s may not use pool %s; %s may", who.User, pool, strings.Join(may, ", "))
}

// own checks that somebody may change a user's job.
func own(who Identity, owner, job string) error {
	if who.Admin || who.User == owner {
		return nil
	}
	return fault(connect.CodePermissionDenied, "job %s is %s's: only %s or an admin may change it", job, owner, owner)
}

// admin checks that somebody may change the cluster.
func admin(who Identity, what string) error {
	if who.Admin {
		return nil
	}
	return fault(connect.CodePermissionDenied, "only an admin may %s", what)
}

// worker checks that it is a worker that asks.
func worker(ctx context.Context) error {
	if identity(ctx).Worker {
		return nil
	}
	return fault(connect.CodePermissionDenied, "this is for workers")
}
