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
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
	host, port := freePort(t)
	r := &rig{t: t, log: log, ended: make(chan struct{}), Config: Config{
		Address: host, Port: port, Log: slog.New(slog.NewTextHandler(log, nil)), Secrets: &event.Secrets{},
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
	case <-time.After(time.Minute):
		r.t.Error("the service does not end")
	}
}

// freePort is on an address of the loopback network where no other test is, so that it
// stays free until it is listened on.
func freePort(t *testing.T) (host string, port int) {
	t.Helper()
	host = fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(255), 1+rand.IntN(250))
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return host, l.Addr().(*net.TCPAddr).Port
}

func (r *rig) address() string { return net.JoinHostPort(r.Address, strconv.Itoa(r.Port)) }

// listening waits until the service takes connections. It makes none itself: that would
// count among those of this address until the service has seen its end.
func (r *rig) listening() {
	r.t.Helper()
	eventually(r.t, func() bool { return strings.Contains(r.log.String(), "the node's service runs") })
}

func eventually(t *testing.T, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
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
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config}, Timeout: time.Minute}
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
