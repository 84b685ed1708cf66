package store

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// serveAzure gives the [storage] of a medusa.ini, with the key of an account.
func serveAzure(t *testing.T) (*azure, string) {
	t.Helper()
	a := &azure{code: "ServerBusy"}
	server := serve(t, &a.service, a)
	return a, storageINI(t, "azure_blobs", server.Listener.Addr().String()) + "key_file = " + written(t, `{"storage_account": "account", "key": "c2VjcmV0"}`) + "\n"
}

func TestAzure(t *testing.T) {
	a, text := serveAzure(t)
	wholeLife(t, opened(t, text), &a.service)
	if a.tokens != 0 {
		t.Errorf("%d tokens for the identity", a.tokens)
	}
}

func TestAzureBusy(t *testing.T) {
	a, text := serveAzure(t)
	whileBusy(t, opened(t, text), &a.service)
}

func TestAzureRefuses(t *testing.T) {
	for code, status := range map[string]int{"AuthorizationPermissionMismatch": http.StatusForbidden, "AuthenticationFailed": http.StatusForbidden, "ContainerNotFound": http.StatusNotFound} {
		t.Run(code, func(t *testing.T) {
			a, text := serveAzure(t)
			a.code = code
			refusing(t, opened(t, text), &a.service, always(status))
		})
	}
}

// A name that cannot be resolved has the code of what is not there.
func TestAzureNoName(t *testing.T) {
	a, text := serveAzure(t)
	secure := httptest.NewTLSServer(a)
	defer secure.Close()
	var gone atomic.Bool
	before := http.DefaultTransport
	defer func() { http.DefaultTransport = before }()
	http.DefaultTransport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if gone.Load() || address != "azure:443" {
			return nil, &net.DNSError{Err: "no such host", Name: address, IsNotFound: true}
		}
		return new(net.Dialer).DialContext(ctx, network, secure.Listener.Addr().String())
	}}
	_, key, _ := strings.Cut(text, "key_file")
	text = "[storage]\nstorage_provider = azure_blobs\nbucket_name = backups\nhost = azure\nssl_verify = False\nkey_file" + key
	s := opened(t, text)
	p := makePack(t, s, "b1", "n", 1, 4)
	makeBackup(t, s, "b1", "n", p)
	gone.Store(true)
	if _, err := s.Manifest(t.Context(), "b1", "n"); err == nil || errors.Is(err, ErrNoBackup) || errors.Is(err, ErrUnfinished) {
		t.Errorf("manifest: %v", err)
	}
	if _, err := count(s, t, p); err == nil || errors.Is(err, ErrDamaged) {
		t.Errorf("read: %v", err)
	}
	if _, err := openINI(t, text); err == nil || !strings.Contains(err.Error(), "the storage's name cannot be resolved: check [storage] host") {
		t.Errorf("open: %v", err)
	}
	gone.Store(false)
	if _, err := openINI(t, strings.Replace(text, "host = azure", "host = example.org", 1)); err == nil || !strings.Contains(err.Error(), "account.blob.core.example.org") {
		t.Errorf("another cloud: %v", err)
	}
}

// Without a key in the file, or without a file, it is the identity that opens the account.
func TestAzureIdentity(t *testing.T) {
	a, inTheClear := serveAzure(t)
	told := httptest.NewServer(a)
	defer told.Close()
	secure := httptest.NewTLSServer(a)
	defer secure.Close()
	t.Setenv("IDENTITY_ENDPOINT", told.URL+"/identity")
	t.Setenv("IDENTITY_HEADER", "secret")
	t.Setenv("AZURE_STORAGE_ACCOUNT", "")
	base := strings.Replace(storageINI(t, "azure_blobs", secure.Listener.Addr().String()), "secure = False", "secure = True", 1)
	if _, err := openINI(t, base); err == nil || !strings.Contains(err.Error(), "the Azure storage account is not known") {
		t.Errorf("no account: %v", err)
	}
	named := base + "key_file = " + written(t, `{"storage_account": "account"}`) + "\n"
	a.with(func(*service) { a.none = true })
	if _, err := openINI(t, named); err == nil || !strings.Contains(err.Error(), "the workload identity may not list the bucket backups: give it rights") {
		t.Errorf("no identity: %v", err)
	}
	a.with(func(*service) { a.none = false })
	if _, err := openINI(t, named); err == nil || !strings.Contains(err.Error(), "set [storage] ssl_verify = False") {
		t.Errorf("not verified: %v", err)
	}
	named += "ssl_verify = False\n"
	s := opened(t, named)
	makeBackup(t, s, "b1", "n", makePack(t, s, "b1", "n", 1, 30000))
	if a.tokens == 0 || a.inParts != 1 {
		t.Errorf("%d tokens, %d in parts", a.tokens, a.inParts)
	}
	t.Setenv("AZURE_STORAGE_ACCOUNT", "account")
	if entries, err := opened(t, base+"ssl_verify = False\n").Backups(t.Context()); len(entries) != 1 || err != nil {
		t.Errorf("account of the environment: %v, %v", entries, err)
	}
	before, _, _ := strings.Cut(inTheClear, "key_file")
	if _, err := openINI(t, before); err == nil || !strings.Contains(err.Error(), "a workload identity is not sent in the clear: set [storage] secure = True") {
		t.Errorf("in the clear: %v", err)
	}
}

func TestAzureErrors(t *testing.T) {
	a, good := serveAzure(t)
	key := func(text string) string {
		before, _, _ := strings.Cut(good, "key_file")
		return before + "key_file = " + written(t, text) + "\n"
	}
	refuse := func(code string) func() {
		return func() { a.code, a.refuse = code, always(http.StatusForbidden) }
	}
	for name, c := range map[string]struct {
		text, want string
		change     func()
	}{
		"no container":  {strings.Replace(good, "= backups", "= other", 1), "the bucket other is not there: make it, or correct [storage] bucket_name", nil},
		"other key":     {good, "correct the Secret", refuse("AuthenticationFailed")},
		"no role":       {good, "give its account rights to list, read, write and delete there", refuse("AuthorizationPermissionMismatch")},
		"firewall":      {good, "the credentials may not list the bucket backups", refuse("AuthorizationFailure")},
		"no keys":       {good, "the credentials may not list the bucket backups", refuse("KeyBasedAuthenticationNotPermitted")},
		"no file":       {strings.Replace(good, "key_file = ", "key_file = /none", 1), "leave [storage] key_file out", nil},
		"no JSON":       {key("[default]"), `are not JSON as {"storage_account": …, "key": …}`, nil},
		"other JSON":    {key(`{"connection_string": "x"}`), `name no account: they have to be {"storage_account": …, "key": …}`, nil},
		"empty key":     {key(`{"storage_account": "account", "key": ""}`), "is empty: put it there, or leave key out", nil},
		"no key at all": {key(`{"storage_account": "account", "key": "?"}`), "it has to be base64", nil},
		"http":          {strings.Replace(good, "secure = False", "secure = True", 1), "secure = False", nil},
		"unreachable":   {strings.Replace(good, "port = ", "port = 1\n;", 1), "check [storage] host, port and secure", nil},
	} {
		a.with(func(s *service) {
			if s.refuse = nil; c.change != nil {
				c.change()
			}
		})
		if _, err := openINI(t, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
