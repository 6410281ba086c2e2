package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/slotwise/slotwise/internal/data/storage"
)

// settings select a server and credentials. The driver compares them, so a program
// that changes its environment gets another client.
type settings struct {
	endpoint string // URL of the server
	variable string // the environment variable with the endpoint; "" for the default
	region   string // "" means that the client asks the server for the bucket's region
	access   string // access key; "" means to look for credentials elsewhere
	secret   string // secret key for access
	session  string // token of temporary credentials
	profile  string // section of the credentials file
	file     string // credentials file; "" means ~/.aws/credentials
}

// defaultEndpoint is Amazon's server.
const defaultEndpoint = "https://s3.amazonaws.com"

// endpoint returns the URL of the server and the environment variable that sets it.
func endpoint() (url, variable string) {
	for _, name := range []string{"SLOTWISE_S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"} {
		if v := os.Getenv(name); v != "" {
			return v, name
		}
	}
	return defaultEndpoint, ""
}

// load reads the settings from the environment.
func load() settings {
	url, variable := endpoint()
	return settings{
		endpoint: url, variable: variable,
		region:  cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")),
		access:  os.Getenv("AWS_ACCESS_KEY_ID"),
		secret:  os.Getenv("AWS_SECRET_ACCESS_KEY"),
		session: os.Getenv("AWS_SESSION_TOKEN"),
		profile: os.Getenv("AWS_PROFILE"),
		file:    os.Getenv("AWS_SHARED_CREDENTIALS_FILE"),
	}
}

// metadataLimit bounds the request for the machine's own credentials. Outside of the
// clouds that have them, no server answers it.
const metadataLimit = 3 * time.Second

// client returns a client for the settings, and a function that closes the connections that
// no request uses. It does not connect yet. Without an access key the client reads the
// credentials file, and then asks the machine's metadata service, when it sends its first
// request.
func (s settings) client() (c minio.Core, closeIdle func(), err error) {
	u, err := url.Parse(s.endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Path != "" && u.Path != "/" {
		return c, nil, fmt.Errorf("the S3 endpoint %q (SLOTWISE_S3_ENDPOINT or AWS_ENDPOINT_URL) is not of the form https://host:port", s.endpoint)
	}
	transport, err := minio.DefaultTransport(u.Scheme == "https")
	if err != nil {
		return c, nil, err
	}
	// Completing an upload of many parts may take a server that long before its first byte.
	transport.ResponseHeaderTimeout = time.Minute
	transport.DialContext = s.explainUnknown(u.Hostname(), transport.DialContext)
	// Keys in the environment win, as in Amazon's own tools.
	creds := credentials.NewStaticV4(s.access, s.secret, s.session)
	if s.access == "" {
		creds = credentials.NewChainCredentials([]credentials.Provider{
			&credentials.FileAWSCredentials{Filename: s.file, Profile: s.profile},
			&credentials.IAM{Client: &http.Client{Timeout: metadataLimit}},
		})
	}
	made, err := minio.NewCore(u.Host, &minio.Options{
		Creds: creds, Secure: u.Scheme == "https", Region: s.region, Transport: transport,
	})
	if err != nil {
		return c, nil, fmt.Errorf("the S3 endpoint %q: %w", s.endpoint, err)
	}
	return *made, transport.CloseIdleConnections, nil
}

// dialer connects to an address, as net.Dialer.DialContext does.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// explainUnknown returns a dialer that marks the error about a host name that does not exist
// in DNS as storage.ErrUnknownHost, and adds what to correct. A host name that was found before
// keeps the plain error. endpoint is the host name in the endpoint.
func (s settings) explainUnknown(endpoint string, dial dialer) dialer {
	var found sync.Map // host names
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = address
		}
		conn, err := dial(ctx, network, address)
		var lookup *net.DNSError
		if !errors.As(err, &lookup) {
			found.Store(host, true) // the dialer had an address, with or without an answer
			return conn, err
		}
		// DNS servers fail for moments. A name that was right once is no mistake of the user's.
		if _, before := found.Load(host); before || !lookup.IsNotFound {
			return conn, err
		}
		remedy := "set SLOTWISE_S3_ENDPOINT to https://HOST:PORT of your S3 server, or check this machine's DNS"
		switch {
		case host != endpoint && !strings.HasSuffix(host, "."+endpoint):
			remedy = "correct the proxy (HTTPS_PROXY, HTTP_PROXY) or the region (AWS_REGION), or check this machine's DNS"
		case s.variable != "":
			remedy = fmt.Sprintf("correct %s=%s, or check this machine's DNS", s.variable, s.endpoint)
		}
		return conn, storage.UnknownHost(fmt.Errorf("the host name %q of the S3 server does not exist: %s: %w", host, remedy, err))
	}
}
