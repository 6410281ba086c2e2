package s3

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// settings select a server and credentials. The driver compares them, so a program
// that changes its environment gets another client.
type settings struct {
	endpoint string // URL of the server
	region   string // "" means that the client asks the server for the bucket's region
	access   string // access key; "" means to look for credentials elsewhere
	secret   string // secret key for access
	session  string // token of temporary credentials
	profile  string // section of the credentials file
	file     string // credentials file; "" means ~/.aws/credentials
}

// load reads the settings from the environment.
func load() settings {
	return settings{
		endpoint: cmp.Or(os.Getenv("SLOTWISE_S3_ENDPOINT"), os.Getenv("AWS_ENDPOINT_URL_S3"),
			os.Getenv("AWS_ENDPOINT_URL"), "https://s3.amazonaws.com"),
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

// client returns a client for the settings. It does not connect yet. Without an access
// key the client reads the credentials file, and then asks the machine's metadata
// service, when it sends its first request.
func (s settings) client() (minio.Core, error) {
	u, err := url.Parse(s.endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Path != "" && u.Path != "/" {
		return minio.Core{}, fmt.Errorf("the S3 endpoint %q (SLOTWISE_S3_ENDPOINT or AWS_ENDPOINT_URL) is not of the form https://host:port", s.endpoint)
	}
	transport, err := minio.DefaultTransport(u.Scheme == "https")
	if err != nil {
		return minio.Core{}, err
	}
	transport.ResponseHeaderTimeout = time.Minute
	creds := credentials.NewStaticV4(s.access, s.secret, s.session)
	if s.access == "" {
		creds = credentials.NewChainCredentials([]credentials.Provider{
			&credentials.FileAWSCredentials{Filename: s.file, Profile: s.profile},
			&credentials.IAM{Client: &http.Client{Timeout: metadataLimit}},
		})
	}
	c, err := minio.NewCore(u.Host, &minio.Options{
		Creds: creds, Secure: u.Scheme == "https", Region: s.region, Transport: transport,
	})
	if err != nil {
		return minio.Core{}, fmt.Errorf("the S3 endpoint %q: %w", s.endpoint, err)
	}
	return *c, nil
}
