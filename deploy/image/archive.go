package main

import (
	"archive/tar"
	"bytes"
	_ "crypto/sha256" // go-digest uses the hash functions that are linked
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// user is the user and group that processes of the image run as. It has no rights.
const user = "65532"

// write writes an OCI archive with one image to w: a tar of an OCI image layout.
func write(w io.Writer, tag, arch string, program, authorities []byte) error {
	layer, err := rootFS(program, authorities)
	if err != nil {
		return err
	}
	config, err := json.Marshal(v1.Image{
		Platform: v1.Platform{Architecture: arch, OS: "linux"},
		Config: v1.ImageConfig{
			User: user + ":" + user, Entrypoint: []string{"/usr/local/bin/slotwise"}, WorkingDir: "/tmp",
			// HOME, because caches go below it, and /tmp is the only directory that user 65532 may write.
			Env:    []string{"PATH=/usr/local/bin", "HOME=/tmp"},
			Labels: labels(tag),
		},
		RootFS:  v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(layer)}},
		History: []v1.History{{CreatedBy: "go run ./deploy/image"}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest,
		Config: descriptor(v1.MediaTypeImageConfig, config), Layers: []v1.Descriptor{descriptor(v1.MediaTypeImageLayer, layer)},
	})
	if err != nil {
		return err
	}
	top := descriptor(v1.MediaTypeImageManifest, manifest)
	_, version, _ := strings.Cut(filepath.Base(tag), ":")
	// In the index, too, where registries look for the image of a node's processor.
	top.Platform = &v1.Platform{Architecture: arch, OS: "linux"}
	// containerd names the image by the first annotation, other tools by the second.
	top.Annotations = map[string]string{"io.containerd.image.name": tag, v1.AnnotationRefName: version}
	index, err := json.Marshal(v1.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Manifests: []v1.Descriptor{top},
	})
	if err != nil {
		return err
	}
	marker, err := json.Marshal(v1.ImageLayout{Version: v1.ImageLayoutVersion})
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	return errors.Join(
		addFile(t, v1.ImageLayoutFile, 0o644, marker), addFile(t, v1.ImageIndexFile, 0o644, index),
		addBlob(t, manifest), addBlob(t, config), addBlob(t, layer), t.Close(),
	)
}

// labels describe the image to people and scanners.
func labels(tag string) map[string]string {
	_, version, _ := strings.Cut(filepath.Base(tag), ":")
	return map[string]string{
		v1.AnnotationTitle: "slotwise", v1.AnnotationDescription: "MapReduce over files of any size: master, worker and client",
		v1.AnnotationVersion: version, v1.AnnotationSource: "https://github.com/slotwise/slotwise",
	}
}

// rootFS returns the image's only layer, uncompressed, so that its bytes do not depend on
// a version of gzip. Registries and clients compress it if they want to.
func rootFS(program, authorities []byte) ([]byte, error) {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	err := errors.Join(
		// Each directory has an entry: a missing parent gets the mode and the owner that the runtime chooses.
		addDir(t, "etc/", 0o755), addDir(t, "etc/ssl/", 0o755), addDir(t, "etc/ssl/certs/", 0o755), addDir(t, "tmp/", 0o1777),
		addDir(t, "usr/", 0o755), addDir(t, "usr/local/", 0o755), addDir(t, "usr/local/bin/", 0o755),
		addFile(t, "etc/passwd", 0o644, []byte("root:x:0:0::/:/nologin\nslotwise:x:"+user+":"+user+"::/tmp:/nologin\n")),
		addFile(t, "etc/group", 0o644, []byte("root:x:0:\nslotwise:x:"+user+":\n")),
		addFile(t, "etc/ssl/certs/ca-certificates.crt", 0o644, authorities),
		addFile(t, "usr/local/bin/slotwise", 0o755, program), t.Close(),
	)
	return b.Bytes(), err
}

// descriptor names a blob by its digest.
func descriptor(mediaType string, blob []byte) v1.Descriptor {
	return v1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(blob), Size: int64(len(blob))}
}

// addBlob adds a blob of the layout.
func addBlob(t *tar.Writer, blob []byte) error {
	d := digest.FromBytes(blob)
	return addFile(t, v1.ImageBlobsDir+"/"+d.Algorithm().String()+"/"+d.Encoded(), 0o644, blob)
}

// addFile adds a file of root.
func addFile(t *tar.Writer, name string, mode int64, data []byte) error {
	// No owner and no time, so that the archive has equal bytes wherever it is made.
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data)), ModTime: time.Unix(0, 0)}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err := t.Write(data)
	return err
}

// addDir adds a directory of root.
func addDir(t *tar.Writer, name string, mode int64) error {
	return t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode, ModTime: time.Unix(0, 0)})
}
