package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// files returns the files of a tar.
func files(t *testing.T, b []byte) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if all[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// blob returns the blob of a descriptor and verifies its size and digest.
func blob(t *testing.T, all map[string][]byte, d v1.Descriptor) []byte {
	t.Helper()
	b, ok := all["blobs/sha256/"+d.Digest.Encoded()]
	if !ok || int64(len(b)) != d.Size || d.Digest.Validate() != nil || d.Digest.Algorithm().FromBytes(b) != d.Digest {
		t.Fatalf("the blob of %+v is missing or differs", d)
	}
	return b
}

// decode decodes JSON.
func decode[T any](t *testing.T, b []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestArchive follows the digests of an archive from the index to the program.
func TestArchive(t *testing.T) {
	dir := t.TempDir()
	o := options{output: filepath.Join(dir, "o.tar"), tag: "localhost/slotwise:7", arch: "amd64", binary: filepath.Join(dir, "b"), authorities: filepath.Join(dir, "ca")}
	for _, f := range []string{o.binary, o.authorities} {
		if err := os.WriteFile(f, []byte(filepath.Base(f)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(o); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(o.output)
	if err != nil {
		t.Fatal(err)
	}
	all := files(t, first)
	index := decode[v1.Index](t, all["index.json"])
	if len(index.Manifests) != 1 || index.Manifests[0].Annotations["io.containerd.image.name"] != o.tag {
		t.Fatalf("index: %+v", index)
	}
	manifest := decode[v1.Manifest](t, blob(t, all, index.Manifests[0]))
	config := decode[v1.Image](t, blob(t, all, manifest.Config))
	if config.Config.User != "65532:65532" || config.Config.Labels[v1.AnnotationVersion] != "7" || config.RootFS.DiffIDs[0] != manifest.Layers[0].Digest {
		t.Errorf("configuration: %+v", config)
	}
	root := files(t, blob(t, all, manifest.Layers[0]))
	if string(root["usr/local/bin/slotwise"]) != "b" || string(root["etc/ssl/certs/ca-certificates.crt"]) != "ca" {
		t.Errorf("the layer has other files than were given")
	}
	if err := run(o); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(o.output); err != nil || !bytes.Equal(again, first) {
		t.Errorf("the same inputs gave another archive (%v)", err)
	}
	o.tag = "localhost/slotwise"
	if err := run(o); err == nil {
		t.Error("a name without a tag was accepted")
	}
}
