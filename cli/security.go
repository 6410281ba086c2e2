package cli

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/slotwise/slotwise/internal/secure"
)

// tlsFlags name the certificates of a process.
type tlsFlags struct{ files secure.Files }

// register declares the flags; peers says whom the authority vouches for.
func (f *tlsFlags) register(c *cobra.Command, peers string) {
	s := c.Flags()
	s.StringVar(&f.files.CA, "tls-ca", "", "`file` with the certificate of the authority that "+peers+" are known by")
	s.StringVar(&f.files.Cert, "tls-cert", "", "`file` with the own certificate")
	s.StringVar(&f.files.Key, "tls-key", "", "`file` with its key")
}

// serverFlags say how a server knows who asks.
type serverFlags struct {
	tlsFlags
	tokens string
}

// register declares the flags.
func (f *serverFlags) register(c *cobra.Command) {
	f.tlsFlags.register(c, "others")
	c.Flags().StringVar(&f.tokens, "tokens", "", "`file` with the tokens that others are known by; see slotwise token")
}

// serve listens and returns what finds out who asks.
func (f *serverFlags) serve(address string, log *slog.Logger) (net.Listener, *secure.Guard, error) {
	g := &secure.Guard{Public: []string{"/healthz", "/readyz"}, Log: log}
	var config *tls.Config
	var err error
	if f.files != (secure.Files{}) {
		if config, err = secure.ServerTLS(f.files); err != nil {
			return nil, nil, misuseError{err}
		}
		g.Certificates = f.files.CA != ""
	}
	if f.tokens != "" {
		if g.Tokens, err = secure.OpenTokens(f.tokens); err != nil {
			return nil, nil, misuse("--tokens: %w", err)
		}
	}
	l, err := secure.Listen(address, config, g)
	if err != nil {
		return nil, nil, misuse("--listen %w", err)
	}
	return l, g, nil
}

// workers returns what a master asks its workers with, and how. They are known by
// their role, so without the authority there is nobody to ask.
func (f *serverFlags) workers() (*http.Client, string, error) {
	if f.files.CA == "" {
		return nil, "", nil
	}
	config, err := secure.WorkerTLS(f.files)
	if err != nil {
		return nil, "", misuseError{err}
	}
	return secure.Client(config, ""), "https", nil
}

// peerFlags say as whom a command asks a master.
type peerFlags struct {
	tlsFlags
	tokenFile string
}

// register declares the flags.
func (f *peerFlags) register(c *cobra.Command) {
	f.tlsFlags.register(c, "masters")
	c.Flags().StringVar(&f.tokenFile, "token-file", "", "`file` with the token that says who you are")
}

// dial returns the master's URL and what to ask it with. Nothing is sent yet.
func (f *peerFlags) dial(master string) (string, *http.Client, error) {
	url, cl, err := secure.Dial(master, f.files, f.tokenFile)
	if err != nil {
		return "", nil, misuseError{err}
	}
	return url, cl, nil
}
