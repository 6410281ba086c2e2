// Package secure authenticates the peers of a server and authorises their requests.
//
// A server that other machines can reach must use TLS and must authenticate every
// client: by a token, which the client sends with each request and of which the
// server stores only a hash, or by a certificate of the cluster's own authority,
// whose organisation names the client's role.
//
//	request ─► Server: time-outs, limits on headers and slow clients
//	        ─► Guard: token or certificate ─► Identity in the context, or 401
//	        ─► handler ─► Rules.May(identity, action, subject) ─► nil, or *Denied
//
// Listen enforces this: it refuses an address other than loopback unless it gets a
// TLS configuration and a Guard that authenticates. Authorisation is one pure
// function, Rules.May. Secrets never appear in logs or errors.
package secure
