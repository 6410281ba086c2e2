package stream

import (
	"archive/tar"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnpackLinks unpacks an archive with a second name of a file, which tar stores as a
// hard link, and archives with entries that cannot be unpacked.
func TestUnpackLinks(t *testing.T) {
	dir := t.TempDir()
	pack := func(name string, entries ...tar.Header) string {
		t.Helper()
		file := filepath.Join(dir, name)
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		w := tar.NewWriter(f)
		for _, h := range entries {
			h.Mode = 0o644
			if h.Typeflag == tar.TypeReg {
				h.Size = 4
			}
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if h.Typeflag == tar.TypeReg {
				if _, err := w.Write([]byte("text")); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		return file
	}
	good := pack("good.tar", tar.Header{Name: "a", Typeflag: tar.TypeReg}, tar.Header{Name: "d/b", Linkname: "a", Typeflag: tar.TypeLink})
	out := filepath.Join(dir, "out")
	if err := Unpack(good, out, "good.tar"); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(out, "d", "b")); err != nil || string(b) != "text" {
		t.Errorf("the second name has %q, error %v", b, err)
	}
	device := pack("device.tar", tar.Header{Name: "null", Typeflag: tar.TypeChar})
	if err := Unpack(device, filepath.Join(dir, "device"), "device.tar"); err == nil || !strings.Contains(err.Error(), "null: ") {
		t.Errorf("a device: error %v", err)
	}
	outside := pack("outside.tar", tar.Header{Name: "x", Linkname: "../good.tar", Typeflag: tar.TypeLink})
	if err := Unpack(outside, filepath.Join(dir, "outside"), "outside.tar"); err == nil {
		t.Error("a link to a file outside is unpacked")
	}
}
