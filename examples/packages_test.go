package examples

import (
	"os/exec"
	"strings"
	"testing"
)

// maxPackages is the largest number of packages that a plain word count may
// link, including the standard library.
const maxPackages = 157

// A program links only the features that it names. wordlen names none, so it
// must not contain the clients of HDFS (with Kerberos), S3 and clusters.
func TestPackages(t *testing.T) {
	plain := dependencies(t, "./wordlen")
	if len(plain) > maxPackages {
		t.Errorf("wordlen links %d packages; the limit is %d", len(plain), maxPackages)
	}
	t.Logf("wordlen links %d packages", len(plain))
	heavy := []string{"krb5", "minio", "connectrpc.com", "google.golang.org/protobuf", "net/http", "colinmarc/hdfs", "gopsutil", "klauspost/compress/zstd", "crypto/tls"}
	for _, name := range heavy {
		if found := containing(plain, name); found != "" {
			t.Errorf("wordlen links %s", found)
		}
	}
	// Check the names above: the program with all features links each package.
	all := dependencies(t, "./anywhere")
	for _, name := range heavy {
		if containing(all, name) == "" {
			t.Errorf("anywhere, which names all features, has no package with %q in its path", name)
		}
	}
}

// dependencies returns the paths of all packages that a program links.
func dependencies(t *testing.T, program string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// containing returns the first path that contains name, or "".
func containing(paths []string, name string) string {
	for _, p := range paths {
		if strings.Contains(p, name) {
			return p
		}
	}
	return ""
}
