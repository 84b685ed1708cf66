package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/stategraft/stategraft/api/medusa"
	"github.com/stategraft/stategraft/certs"
)

// mounted writes the Secret as kubelet would.
func mounted(t *testing.T, dir string, ca, trusted certs.CA) {
	t.Helper()
	issued, err := certs.Issue(ca, certs.Template{CommonName: "x", Names: []string{"medusa.hydro.stategraft.io"}, Usage: x509.ExtKeyUsageServerAuth, Validity: time.Hour}, time.Now())
	must(t, err)
	bundle := certs.Authority{Trusted: []*x509.Certificate{trusted.Certificate}}.Bundle()
	for name, content := range map[string][]byte{"tls.crt": issued.CertPEM, "tls.key": issued.KeyPEM, "ca.crt": bundle} {
		must(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
}

// TestTLS: the service waits for its Secret, lets in clients of its authority and nobody
// else, and none any more whose authority has gone, on whatever connection.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca, err := certs.NewCA(time.Hour, time.Now())
	must(t, err)
	other, err := certs.NewCA(time.Hour, time.Now())
	must(t, err)
	r := newRig(t)
	r.TLSDir = t.TempDir()
	s := newServer(r.Config)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.serveGRPC(ctx) }()
	defer func() { cancel(); <-done }()
	at := net.JoinHostPort("127.0.0.1", fmt.Sprint(r.GRPCPort))
	time.Sleep(50 * time.Millisecond)
	if _, err := net.Dial("tcp", at); err == nil {
		t.Fatal("it serves without its Secret")
	}
	mounted(t, r.TLSDir, ca, ca)
	eventually(t, func() bool {
		conn, err := net.Dial("tcp", at)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	client := func(of *certs.CA) medusa.MedusaClient {
		secured := insecure.NewCredentials()
		if of != nil {
			pair, err := certs.Issue(*of, certs.Template{CommonName: "controller", Usage: x509.ExtKeyUsageClientAuth, Validity: time.Hour}, time.Now())
			must(t, err)
			shown, err := pair.TLS()
			must(t, err)
			config := &tls.Config{ServerName: "medusa.hydro.stategraft.io", RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{shown}, MinVersion: tls.VersionTLS13}
			config.RootCAs.AddCert(ca.Certificate)
			secured = credentials.NewTLS(config)
		}
		conn, err := grpc.NewClient(at, grpc.WithTransportCredentials(secured))
		must(t, err)
		t.Cleanup(func() { conn.Close() })
		return medusa.NewMedusaClient(conn)
	}
	good := client(&ca)
	if got := statusOf(t, good, "b1"); got != "NotFound" {
		t.Errorf("a client of the authority: %s", got)
	}
	if got := statusOf(t, client(&other), "b1"); got != "Unavailable" {
		t.Errorf("another authority's: %s", got)
	}
	if got := statusOf(t, client(nil), "b1"); got != "Unavailable" {
		t.Errorf("in the clear: %s", got)
	}
	mounted(t, r.TLSDir, ca, other)
	eventually(t, func() bool {
		_, err := good.BackupStatus(t.Context(), &medusa.BackupStatusRequest{BackupName: "b1"})
		return status.Code(err) == codes.Unavailable
	})
}
