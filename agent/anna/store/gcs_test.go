package store

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var serviceKey = sync.OnceValue(func() string {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}))
})

// serveGCS gives the [storage] of a medusa.ini, with the key of a service account.
func serveGCS(t *testing.T) (*gcs, string) {
	t.Helper()
	g := &gcs{}
	server := serve(t, &g.service, g)
	text, err := json.Marshal(map[string]string{"type": "service_account", "project_id": "project", "private_key_id": "1", "private_key": serviceKey(),
		"client_email": "medusa@project.iam.gserviceaccount.com", "client_id": "1", "token_uri": server.URL + "/token"})
	if err != nil {
		t.Fatal(err)
	}
	return g, storageINI(t, "google_storage", server.Listener.Addr().String()) + "key_file = " + written(t, string(text)) + "\n"
}

// storageINI is [storage] for a service in the clear, without credentials.
func storageINI(t *testing.T, provider, address string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("[storage]\nstorage_provider = %s\nbucket_name = backups\nhost = %s\nport = %s\nsecure = False\n", provider, host, port)
}

func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func opened(t *testing.T, text string) *Store {
	t.Helper()
	s, err := openINI(t, text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestGCS(t *testing.T) {
	g, text := serveGCS(t)
	wholeLife(t, opened(t, text), &g.service)
	if g.tokens != 1 || g.metadata != 0 {
		t.Errorf("%d tokens for the key, %d for the identity", g.tokens, g.metadata)
	}
}

func TestGCSBusy(t *testing.T) {
	g, text := serveGCS(t)
	whileBusy(t, opened(t, text), &g.service)
}

// Google answers that the right to look is missing as if that were another way not to be there.
func TestGCSRefuses(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusUnauthorized} {
		g, text := serveGCS(t)
		refusing(t, opened(t, text), &g.service, always(status))
	}
}

// A bucket that is removed meanwhile has the status of an object that is not there.
func TestGCSBucketRemoved(t *testing.T) {
	g, text := serveGCS(t)
	s := opened(t, text)
	makeBackup(t, s, "b1", "n", makePack(t, s, "b1", "n", 1, 4))
	g.with(func(of *service) {
		g.words, of.refuse = "The specified bucket does not exist.", always(http.StatusNotFound)
	})
	if _, err := s.Manifest(t.Context(), "b1", "n"); err == nil || errors.Is(err, ErrNoBackup) || errors.Is(err, ErrUnfinished) {
		t.Errorf("manifest: %v", err)
	}
	deleting(t, s, always(http.StatusNotFound, http.MethodDelete), &g.service)
}

// Who asks for tokens too often has the right key, or the right identity.
func TestGCSTokenLater(t *testing.T) {
	g, text := serveGCS(t)
	g.hurried = true
	if _, err := openINI(t, text); err == nil || strings.Contains(err.Error(), "make a new key") || !strings.Contains(err.Error(), "429") {
		t.Errorf("%v", err)
	}
	for status, want := range map[int]bool{403: true, 404: true, 429: false, 503: false} {
		if text := fmt.Sprintf("compute: Received %d `x`", status); unavailable(text) != want {
			t.Error(text)
		}
	}
}

// Without a key it is the pod's identity that Google's metadata server tells, and no key is used.
func TestGCSIdentity(t *testing.T) {
	g, _ := serveGCS(t)
	told := httptest.NewServer(g)
	defer told.Close()
	secure := httptest.NewTLSServer(g)
	defer secure.Close()
	t.Setenv("GCE_METADATA_HOST", told.Listener.Addr().String())
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	t.Setenv("HOME", t.TempDir())
	text := strings.Replace(storageINI(t, "google_storage", secure.Listener.Addr().String()), "secure = False", "secure = True", 1)
	if _, err := openINI(t, text); err == nil || !strings.Contains(err.Error(), "set [storage] ssl_verify = False") {
		t.Errorf("not verified: %v", err)
	}
	text += "ssl_verify = False\n"
	s := opened(t, text)
	makeBackup(t, s, "b1", "n", makePack(t, s, "b1", "n", 1, 30000))
	if g.tokens != 0 || g.metadata == 0 || g.inParts != 1 {
		t.Errorf("%d tokens for the key, %d for the identity; %d in parts", g.tokens, g.metadata, g.inParts)
	}
	g.with(func(*service) { g.revoked = true })
	if _, err := openINI(t, text); err == nil || !strings.Contains(err.Error(), "the workload identity may not list the bucket backups: give it rights") {
		t.Errorf("no identity: %v", err)
	}
}

// Where no host is named it is Google's own.
func TestGCSHost(t *testing.T) {
	g, text := serveGCS(t)
	secure := httptest.NewTLSServer(g)
	defer secure.Close()
	before := http.DefaultTransport
	defer func() { http.DefaultTransport = before }()
	dialled := ""
	http.DefaultTransport = &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "127.0.0.1:") {
				return new(net.Dialer).DialContext(ctx, network, address) // for the token
			}
			dialled = address
			return new(net.Dialer).DialContext(ctx, network, secure.Listener.Addr().String())
		},
	}
	_, key, _ := strings.Cut(text, "key_file")
	s := opened(t, "[storage]\nstorage_provider = google_storage\nbucket_name = backups\nkey_file"+key)
	p := makePack(t, s, "b1", "n", 1, 4)
	if n, err := count(s, t, p); n != 4 || err != nil || dialled != "storage.googleapis.com:443" {
		t.Errorf("%d, %v; %s", n, err, dialled)
	}
}

// A service for tests knows no credentials, and gets none.
func TestGCSAnonymous(t *testing.T) {
	g, text := serveGCS(t)
	text, _, _ = strings.Cut(text, "key_file")
	if _, err := openINI(t, text); err == nil || g.tokens+g.metadata != 0 {
		t.Errorf("%v; %d, %d", err, g.tokens, g.metadata)
	}
	g.with(func(*service) { g.anyone = true })
	makeBackup(t, opened(t, text), "b1", "n")
}

func TestGCSErrors(t *testing.T) {
	g, good := serveGCS(t)
	key := func(text string) string {
		before, _, _ := strings.Cut(good, "key_file")
		return before + "key_file = " + written(t, text) + "\n"
	}
	for name, c := range map[string]struct {
		text, want string
		change     func()
	}{
		"no bucket":   {strings.Replace(good, "= backups", "= other", 1), "the bucket other is not there: make it, or correct [storage] bucket_name", nil},
		"no rights":   {good, "the credentials may not list the bucket backups: correct the Secret", func() { g.refuse = always(http.StatusForbidden) }},
		"old key":     {good, "make a new key of the service account", func() { g.revoked = true }},
		"no file":     {strings.Replace(good, "key_file = ", "key_file = /none", 1), "leave [storage] key_file out", nil},
		"no key":      {key("[default]"), "are not the JSON of a service account's key", nil},
		"half a key":  {key(`{"type": "service_account", "client_email": "medusa@project", "private_key": "x"}`), "private key", nil},
		"other key":   {key(`{"type": "other"}`), "the storage credentials in ", nil},
		"http":        {strings.Replace(good, "secure = False", "secure = True", 1), "secure = False", nil},
		"unreachable": {strings.Replace(good, "port = ", "port = 1\n;", 1), "check [storage] host, port and secure", nil},
	} {
		g.with(func(s *service) {
			if g.revoked, s.refuse = false, nil; c.change != nil {
				c.change()
			}
		})
		if _, err := openINI(t, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Setenv("STORAGE_EMULATOR_HOST", "127.0.0.1:1")
	if _, err := openINI(t, good); err == nil || !strings.Contains(err.Error(), "STORAGE_EMULATOR_HOST is set: take it out") {
		t.Errorf("emulator: %v", err)
	}
}
