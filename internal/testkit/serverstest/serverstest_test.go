package serverstest

import (
	"net/http"
	"testing"
)

// TestShared: a second call returns the same servers, and they answer requests.
func TestShared(t *testing.T) {
	t.Run("hdfs", func(t *testing.T) {
		a, b := HDFS(t), HDFS(t)
		if a.Address != b.Address || len(a.Hosts) != sharedDataNodes {
			t.Errorf("got %+v and %+v", a, b)
		}
		get(t, a.HTTP+"/webhdfs/v1/?op=LISTSTATUS", http.StatusOK)
	})
	t.Run("s3", func(t *testing.T) {
		a, b := S3(t), S3(t)
		if *a != *b {
			t.Errorf("got %+v and %+v", a, b)
		}
		get(t, a.Endpoint+"/"+a.Bucket, http.StatusForbidden) // without credentials
	})
}

func get(t *testing.T, url string, want int) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != want {
		t.Errorf("%s: %s", url, res.Status)
	}
}
