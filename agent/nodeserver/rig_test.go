package nodeserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/certs"
)

const serverName = "medusa.ring.stategraft.io"

type buffer struct {
	mutex sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.Buffer.Write(p)
}

func (b *buffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.Buffer.String()
}

// rig is a running service.
type rig struct {
	Config
	t     *testing.T
	log   *buffer
	end   context.CancelFunc
	ended chan struct{}
}

func start(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	log := &buffer{}
	r := &rig{t: t, log: log, ended: make(chan struct{}), Config: Config{
		Address: "127.0.0.1", Port: freePort(t), Log: slog.New(slog.NewTextHandler(log, nil)), Secrets: &event.Secrets{},
		Report: func(context.Context) (node.Report, error) {
			return node.Report{Node: "cassandra-0", Size: 7}, nil
		},
	}}
	change(&r.Config)
	ctx, cancel := context.WithCancel(t.Context())
	r.end = cancel
	go func() { defer close(r.ended); Run(ctx, r.Config) }()
	t.Cleanup(r.stop)
	return r
}

// stop ends the service as SIGTERM does.
func (r *rig) stop() {
	r.end()
	select {
	case <-r.ended:
	case <-time.After(5 * time.Second):
		r.t.Error("the service does not end")
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (r *rig) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.Port)) }

// listening waits until the service answers connections.
func (r *rig) listening() {
	r.t.Helper()
	eventually(r.t, func() bool {
		conn, err := net.Dial("tcp", r.address())
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

func eventually(t *testing.T, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not come to be")
		}
	}
}

// get asks, with TLS where a configuration is given, on a connection of its own.
func (r *rig) get(config *tls.Config, path string) (int, []byte, error) {
	client, url := client(config), "http://"
	defer client.CloseIdleConnections()
	if config != nil {
		url = "https://"
	}
	return ask(client, url+r.address()+path)
}

func client(config *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: 20 * time.Second}
}

func ask(client *http.Client, url string) (int, []byte, error) {
	response, err := client.Get(url)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, body, err
}

// message is what an answer that is not 200 says.
func message(t *testing.T, body []byte) string {
	t.Helper()
	var e node.Error
	if err := json.Unmarshal(body, &e); err != nil || e.Message == "" {
		t.Errorf("%q is no error of ours: %v", body, err)
	}
	return e.Message
}

func authority(t *testing.T) certs.CA {
	t.Helper()
	ca, err := certs.NewCA(time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func issue(t *testing.T, ca certs.CA, usage x509.ExtKeyUsage, life time.Duration, names ...string) certs.Issued {
	t.Helper()
	issued, err := certs.Issue(ca, certs.Template{CommonName: "x", Names: names, Usage: usage, Validity: life}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return issued
}

// clientOf is TLS of a client that shows the pair and trusts the authorities.
func clientOf(t *testing.T, shown certs.Issued, trusted ...certs.CA) *tls.Config {
	t.Helper()
	config := &tls.Config{ServerName: serverName, RootCAs: x509.NewCertPool()}
	for _, ca := range trusted {
		config.RootCAs.AddCert(ca.Certificate)
	}
	if !shown.None() {
		pair, err := shown.TLS()
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

// secret is a directory as kubelet mounts a Secret: the files are symlinks through
// ..data, which is swapped.
type secret struct {
	t   *testing.T
	dir string
	n   int
}

func (s *secret) write(pair certs.Issued, trusted ...certs.CA) {
	s.t.Helper()
	var bundle []byte
	for _, ca := range trusted {
		bundle = append(bundle, certs.Authority{Trusted: []*x509.Certificate{ca.Certificate}}.Bundle()...)
	}
	s.swap(map[string][]byte{"tls.crt": pair.CertPEM, "tls.key": pair.KeyPEM, "ca.crt": bundle})
}

func (s *secret) swap(files map[string][]byte) {
	s.t.Helper()
	s.n++
	version := fmt.Sprintf("..version-%d", s.n)
	check(s.t, os.Mkdir(filepath.Join(s.dir, version), 0o755))
	for name, content := range files {
		check(s.t, os.WriteFile(filepath.Join(s.dir, version, name), content, 0o600))
		if _, err := os.Lstat(filepath.Join(s.dir, name)); err != nil {
			check(s.t, os.Symlink("..data/"+name, filepath.Join(s.dir, name)))
		}
	}
	check(s.t, os.Symlink(version, filepath.Join(s.dir, "..next")))
	check(s.t, os.Rename(filepath.Join(s.dir, "..next"), filepath.Join(s.dir, "..data")))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
