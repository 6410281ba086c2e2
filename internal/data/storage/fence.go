package storage

import "context"

// WithFence returns a context whose stagings ask permit before each step of Stage, Commit and Abort that
// changes storage, and fail with its error. A master passes its lease: one that was stopped in the
// middle of a commit, and continues when another master leads, changes nothing more.
//
// # Why the lease is asked, and not a term compared
//
// None of the three kinds of storage can compare a term and change something in one request: local
// directories and HDFS have no conditional rename, and S3 has conditions on one object only, while a commit has
// several. A term in a marker would be read before the request, and leave the same gap between the look and the
// request as the lease does, at the cost of a request for each look. What closes the gap is that a request names the
// token of its staging, and has no effect, or the same one, when it comes late. Workers, which can compare terms,
// do.
//
// # What a late request can still do
//
// A process may be stopped between the answer of permit and the one request that it permits. That
// request may arrive when another master has continued or ended the same staging, which the token
// names. Local directories and HDFS change the target by a rename of data/ below the root of this token:
//
//   - The other master has committed: data/ has been renamed, or after an exchange has the old output
//     and the owner marker is gone. A rename of data/ fails because it or the root does not exist.
//     An exchange could arrive before the root is removed; local directories hold the root's lock from
//     the look at the phase to the exchange, so there the other master still waits for the lock.
//     HDFS has no exchange.
//   - The other master has aborted: the root has been removed, so every later request to it fails.
//   - A marker that is put into a root that is gone fails, because its directory does not exist.
//   - A staging that is begun late has a token that no job commits. A sweep removes it after SharedTTL.
//
// On HDFS one case is left: with an old output, its rename to old/ may arrive after the other master has
// published and before it has removed the root. The new output is in old/ then, and it is lost with the
// root unless the other master's removal meets it.
//
// On S3 the objects of a commit are completed by the ids of their uploads, which end with the first
// completion, and _SUCCESS has the same content from both. A removal is the case that is left: a late
// removal of _SUCCESS hides a published output, and a late removal of an object that was there before
// the commit removes the new object of the same name. Each is one request that a stopped process had
// not sent yet; its next requests are refused.
func WithFence(ctx context.Context, permit func() error) context.Context {
	return context.WithValue(ctx, fenceKey{}, permit)
}

type fenceKey struct{}

// Permitted returns the error of the fence of a context, nil without a fence. Publishers call it before
// requests that change the target.
func Permitted(ctx context.Context) error {
	if permit, ok := ctx.Value(fenceKey{}).(func() error); ok {
		return permit()
	}
	return nil
}
