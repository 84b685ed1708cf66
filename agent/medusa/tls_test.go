package medusa

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/files"
)

// newPair makes a certificate, signed by itself, and its key in PEM.
func newPair(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, content []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}))
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", keyDER)
}

// TestCheckTLS has Medusa wait for a pair that is whole, where it is to use ours.
func TestCheckTLS(t *testing.T) {
	certificate, key := newPair(t)
	_, other := newPair(t)
	const ours = "[grpc]\ntls_cert = DIR/tls.crt\n"
	for _, c := range []struct {
		what, ini    string
		ca, crt, key string
		say          string // empty where it starts
	}{
		{"whole", ours, certificate, certificate, key, ""},
		{"nothing there", ours, "", "", "", "waiting for Secret stategraft-grpc"},
		{"no authority", ours, "", certificate, key, "waiting for Secret stategraft-grpc"},
		{"no key", ours, certificate, certificate, "", "waiting for Secret stategraft-grpc"},
		{"another's key", ours, certificate, certificate, other, "private key does not match"},
		{"cut short", ours, certificate, certificate[:100], key, "cannot be used"},
		{"no authority in it", ours, key, certificate, key, "holds no certificate"},
		{"in the clear, as asked for", "[grpc]\nenabled = 1\n", "", "", "", ""},
		{"the user's own", "[grpc]\ntls_cert = /own/tls.crt\n", "", "", "", ""},
	} {
		dir := t.TempDir()
		places := files.Places{GRPCTLS: dir}
		ini := write(t, filepath.Join(dir, "medusa.ini"), strings.ReplaceAll(c.ini, "DIR", dir), 0o600)
		for name, content := range map[string]string{"ca.crt": c.ca, "tls.crt": c.crt, "tls.key": c.key} {
			if content != "" {
				write(t, filepath.Join(dir, name), content, 0o600)
			}
		}
		err := CheckTLS(places, ini, true)
		switch {
		case c.say == "" && err != nil:
			t.Errorf("%s: %v", c.what, err)
		case c.say != "" && (!errors.Is(err, ErrNotServed) || !strings.Contains(err.Error(), c.say)):
			t.Errorf("%s: error %v, want one that says %q", c.what, err, c.say)
		case err != nil && strings.Contains(err.Error(), "PRIVATE"):
			t.Errorf("%s: the key is in the error", c.what)
		}
	}
	if err := CheckTLS(files.Places{}, filepath.Join(t.TempDir(), "none"), true); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no configuration: %v", err)
	}
}

// TestCheckTLSUnwrapped has nothing served where TLS is asked for and an old Medusa
// would serve in the clear, however good the pair is.
func TestCheckTLSUnwrapped(t *testing.T) {
	certificate, key := newPair(t)
	dir := t.TempDir()
	for name, content := range map[string]string{"ca.crt": certificate, "tls.crt": certificate, "tls.key": key} {
		write(t, filepath.Join(dir, name), content, 0o600)
	}
	for text, served := range map[string]bool{
		"[grpc]\ntls_cert = " + dir + "/tls.crt\n": false,
		"[grpc]\ntls_cert = /own/tls.crt\n":        false,
		"[grpc]\ntls_cert =\n":                     true,
		"[grpc]\nenabled = 1\n":                    true,
	} {
		ini := write(t, filepath.Join(dir, "medusa.ini"), text, 0o600)
		switch err := CheckTLS(files.Places{GRPCTLS: dir}, ini, false); {
		case served && err != nil:
			t.Errorf("%s: %v", text, err)
		case !served && (!errors.Is(err, ErrNotServed) || !strings.Contains(err.Error(), `stategraft.io/grpc-tls: "off"`)):
			t.Errorf("%s: error %v, want one that names the annotation", text, err)
		}
	}
}
