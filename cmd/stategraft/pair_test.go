package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/stategraft/stategraft/certs"
)

// kubelet keeps a folder as the kubelet keeps a mounted Secret: the files are
// links into ..data, which is itself a link to a folder, and is swapped
// (k8s.io/kubernetes/pkg/volume/util/atomic_writer.go).
type kubelet struct {
	dir     string
	version int
}

func newKubelet(t *testing.T, dir string) *kubelet {
	t.Helper()
	return &kubelet{dir: dir}
}

func (k *kubelet) swap(t *testing.T, pair certs.Pair) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	k.version++
	folder := fmt.Sprintf("..2026_01_01_%d", k.version)
	must(pair.Write(filepath.Join(k.dir, folder)))
	before, _ := os.Readlink(filepath.Join(k.dir, "..data"))
	must(os.Symlink(folder, filepath.Join(k.dir, "..data_tmp")))
	must(os.Rename(filepath.Join(k.dir, "..data_tmp"), filepath.Join(k.dir, "..data")))
	for _, name := range []string{certs.KeyCert, certs.KeyKey, certs.KeyCA} {
		if _, err := os.Lstat(filepath.Join(k.dir, name)); os.IsNotExist(err) {
			must(os.Symlink(filepath.Join("..data", name), filepath.Join(k.dir, name)))
		}
	}
	if before != "" {
		must(os.RemoveAll(filepath.Join(k.dir, before)))
	}
}

func selfSigned(t *testing.T, name string) certs.Pair {
	t.Helper()
	pair, err := certs.SelfSigned([]string{name}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// follow starts a serving pair over the folder, and answers it with the address
// of a server that serves it.
func follow(t *testing.T, dir string) (*servingPair, string) {
	t.Helper()
	p := &servingPair{dir: dir, log: logr.Discard(), interval: 10 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = p.Start(ctx) }()
	config := &tls.Config{}
	p.configure(config)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _ = conn.(*tls.Conn).Handshake(); _ = conn.Close() }()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); cancel(); await(t, "the pair to stop", ended) })
	return p, listener.Addr().String()
}

// served answers the certificate of a connection, in PEM. The handshake fails
// where the server's key does not belong to it.
func served(address string) ([]byte, error) {
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	leaf := conn.ConnectionState().PeerCertificates[0]
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw}), nil
}

func awaitServed(t *testing.T, address string, pair certs.Pair) {
	t.Helper()
	until := time.Now().Add(limit)
	for {
		got, err := served(address)
		if err == nil && bytes.Equal(got, pair.Cert) {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("the pair is not served (error %v)", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestPairSwapped replaces the pair as the kubelet does, again and again, while
// others connect. No handshake fails, and each new pair is served within seconds.
func TestPairSwapped(t *testing.T) {
	dir := t.TempDir()
	kubelet := newKubelet(t, dir)
	p, address := follow(t, dir)
	if p.ready(nil) == nil {
		t.Error("ready without a pair")
	}
	if _, err := served(address); err == nil {
		t.Error("served without a pair")
	}
	first := selfSigned(t, "a")
	kubelet.swap(t, first)
	awaitServed(t, address, first)
	if err := p.ready(nil); err != nil {
		t.Error(err)
	}

	stop, stopped := make(chan struct{}), make(chan struct{})
	var handshakes atomic.Int64
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := served(address); err != nil {
				t.Errorf("during a swap: %v", err)
				return
			}
			handshakes.Add(1)
		}
	}()
	for range 5 {
		pair := selfSigned(t, "a")
		kubelet.swap(t, pair)
		awaitServed(t, address, pair)
	}
	close(stop)
	await(t, "the handshakes", stopped)
	t.Logf("%d handshakes", handshakes.Load())
	if _, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}); err == nil || !strings.Contains(err.Error(), "version") {
		t.Errorf("a client of TLS 1.2: error %v, want one about the version", err)
	}
}

// TestPairHalfWritten damages the files. The last good pair is served until they
// are whole again.
func TestPairHalfWritten(t *testing.T) {
	good, other := selfSigned(t, "a"), selfSigned(t, "a")
	for name, damage := range map[string]certs.Pair{
		"new certificate, old key": {Cert: other.Cert, Key: good.Key},
		"old certificate, new key": {Cert: good.Cert, Key: other.Key},
		"certificate cut":          {Cert: other.Cert[:len(other.Cert)/2], Key: other.Key},
		"key cut":                  {Cert: other.Cert, Key: other.Key[:len(other.Key)/2]},
		"certificate empty":        {Key: other.Key},
		"both empty":               {},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := good.Write(dir); err != nil {
				t.Fatal(err)
			}
			p, address := follow(t, dir)
			awaitServed(t, address, good)
			if err := damage.Write(dir); err != nil {
				t.Fatal(err)
			}
			// Every look at the files in the meantime has to leave it alone.
			for range 20 {
				if p.load() == nil {
					t.Fatal("a damaged pair was taken")
				}
				if got, err := served(address); err != nil || !bytes.Equal(got, good.Cert) {
					t.Fatalf("another than the last good pair is served, error %v", err)
				}
			}
			if err := other.Write(dir); err != nil {
				t.Fatal(err)
			}
			awaitServed(t, address, other)
		})
	}
}

// TestPairVanishes removes the files and brings them back.
func TestPairVanishes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	good, other := selfSigned(t, "a"), selfSigned(t, "a")
	if err := good.Write(dir); err != nil {
		t.Fatal(err)
	}
	_, address := follow(t, dir)
	awaitServed(t, address, good)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := served(address); err != nil || !bytes.Equal(got, good.Cert) {
		t.Errorf("the pair is not served any more, error %v", err)
	}
	if err := other.Write(dir); err != nil {
		t.Fatal(err)
	}
	awaitServed(t, address, other)
}

// TestPairSaysOnce looks at files that are not there yet, and at damaged ones: what
// is wrong is said once, until it is something else.
func TestPairSaysOnce(t *testing.T) {
	dir, good := t.TempDir(), selfSigned(t, "a")
	var log []string
	p := &servingPair{dir: dir, log: funcr.New(func(_, args string) { log = append(log, args) }, funcr.Options{})}
	said := ""
	for _, step := range []struct {
		name, text, says string
	}{
		{certs.KeyCA, "", "tls.crt: no such file"},
		{certs.KeyCert, string(good.Cert), "tls.key: no such file"},
		{certs.KeyKey, string(good.Key), "serving certificate loaded"},
		{certs.KeyKey, "", "failed to find any PEM data in key"},
		{certs.KeyCert, "", "failed to find any PEM data in certificate"},
		{certs.KeyKey, string(good.Key), ""},
	} {
		if err := os.WriteFile(filepath.Join(dir, step.name), []byte(step.text), 0o600); err != nil {
			t.Fatal(err)
		}
		log = nil
		for range 3 {
			said = p.look(said)
		}
		if len(log) > 1 || (len(log) == 1) != (step.says != "") || !strings.Contains(strings.Join(log, "\n"), step.says) {
			t.Errorf("%s written: said %q, want %q once", step.name, log, step.says)
		}
	}
}
