package secure

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	mathrand "math/rand/v2"
	"syscall"
	"testing"

	"github.com/slotwise/slotwise/internal/testkit/faultfs"
)

// TestTokenCrashes cuts the power after each operation of AddToken. The tokens that were
// there before stay, and so does the new one if AddToken has returned it.
func TestTokenCrashes(t *testing.T) {
	before, err := TokenLine(Identity{User: "ana", Role: User}, "before")
	if err != nil {
		t.Fatal(err)
	}
	for _, exists := range []bool{false, true} {
		stopped := true
		for after := 0; stopped; after++ {
			for seed := range uint64(20) {
				disk := faultfs.NewDisk()
				if exists {
					disk.Put("tokens", []byte(before))
				}
				disk.StopAfter(after)
				token, err := addToken(disk, "tokens", Identity{User: "bob", Role: User})
				if stopped = disk.Stopped(); stopped == (err == nil) {
					t.Fatalf("stopped: %v, %v", stopped, err)
				}
				disk = disk.Crash(mathrand.New(mathrand.NewPCG(seed, uint64(after))))
				data := disk.Bytes("tokens")
				if exists && string(data[:len(before)]) != before {
					t.Fatalf("stopped after %d, seed %d: the old line is lost: %q", after, seed, data)
				}
				if stopped {
					continue
				}
				tokens, bad := ParseTokens(data)
				if len(bad) > 0 {
					t.Fatalf("stopped after %d, seed %d: %v", after, seed, bad)
				}
				if id, ok := tokens.find(hashToken(token)); !ok || id.User != "bob" {
					t.Fatalf("stopped after %d, seed %d: the new token is lost", after, seed)
				}
			}
		}
	}
}

// TestPairCrashes cuts the power after each operation of writePair. Both files are whole
// if it has returned.
func TestPairCrashes(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c, err := template(pkix.Name{CommonName: "x"}, authorityFor)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	stopped := true
	for after := 0; stopped; after++ {
		for seed := range uint64(20) {
			disk := faultfs.NewDisk()
			disk.StopAfter(after)
			err := writePair(disk, ".", "c.pem", "k.pem", der, key)
			if stopped = disk.Stopped(); stopped == (err == nil) {
				t.Fatalf("stopped: %v, %v", stopped, err)
			}
			whole := [2]string{string(disk.Bytes("c.pem")), string(disk.Bytes("k.pem"))}
			disk = disk.Crash(mathrand.New(mathrand.NewPCG(seed, uint64(after))))
			got := [2]string{string(disk.Bytes("c.pem")), string(disk.Bytes("k.pem"))}
			if !stopped && (got != whole || got[0] == "" || got[1] == "") {
				t.Fatalf("seed %d: the files after the power cut are %q", seed, got)
			}
		}
	}
	disk := faultfs.NewDisk()
	disk.Inject(faultfs.Rule{Op: faultfs.Write, Nth: 2, Err: syscall.ENOSPC})
	if err := writePair(disk, ".", "c.pem", "k.pem", der, key); !errors.Is(err, syscall.ENOSPC) || len(disk.Names()) != 0 {
		t.Errorf("on a full disk: %v, left %v", err, disk.Names())
	}
}
