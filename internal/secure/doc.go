// Package secure says who asks and what he may do.
//
// A process that listens where others than this machine's can reach it must
// speak TLS and must know everyone who asks: by a token, which is sent with
// each request and of which only a hash is stored, or by a certificate of the
// cluster's own authority, whose organisation names the role.
//
//	request ─► Server: time-outs, limits on headers and slow peers
//	        ─► Guard: token or certificate ─► Identity in the context, or 401
//	        ─► handler ─► Rules.May(identity, action, subject) ─► nil, or why not
//
// What holds each part together: Listen refuses an address that is not of this
// machine alone unless both TLS and a Guard that knows people are there; the
// rules are one pure function; nothing secret is ever logged or part of an
// error.
package secure
