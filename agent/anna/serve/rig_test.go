package serve

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/api/medusa"
	"github.com/stategraft/stategraft/api/node"
)

// rig is a sidecar that runs.
type rig struct {
	Config
	t       *testing.T
	bucket  *bucket
	machine *machine
	log     *lines
	*server
	end   context.CancelFunc
	ended chan struct{}
}

type lines struct {
	mutex sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.Buffer.Write(p)
}

func (l *lines) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.Buffer.String()
}

// newRig makes a sidecar of memory node m-0 that does not run yet.
func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, bucket: newBucket(), machine: &machine{}, log: &lines{}}
	root := t.TempDir()
	r.Config = Config{
		Pod:    Pod{Name: "m-0", Namespace: "hydro", IP: "127.0.0.1", Cluster: "anna", Role: "memory"},
		Places: files.Standard(root), Private: filepath.Join(root, "private"), Config: filepath.Join(root, "config"),
		Address: "127.0.0.1", GRPCPort: port(t), NodePort: port(t), LifePort: port(t),
		Log: slog.New(slog.NewTextHandler(r.log, nil)), Resolver: nobody{}, every: 20 * time.Millisecond,
		open: func(_ context.Context, c store.Config) (storage, error) {
			if c.Prefix != "hydro_anna" && c.Prefix != "" {
				return newBucket(), nil // of somebody else, with nothing in it
			}
			return r.bucket, nil
		},
		engine: r.machine,
	}
	must(t, os.MkdirAll(r.Places.User, 0o755))
	must(t, os.MkdirAll(r.Places.Shared, 0o755))
	r.configure("[storage]\nstorage_provider = local\nbucket_name = b\nbase_path = " + root + "\n")
	return r
}

func (r *rig) configure(text string) {
	must(r.t, os.WriteFile(filepath.Join(r.Places.User, "medusa.ini"), []byte(text), 0o600))
}

// start runs it until the test ends, or stop is called.
func (r *rig) start() *rig {
	r.t.Helper()
	r.server = newServer(r.Config)
	ctx, cancel := context.WithCancel(context.Background())
	r.end, r.ended = cancel, make(chan struct{})
	var all sync.WaitGroup
	r.server.start(ctx, &all)
	go func() {
		defer close(r.ended)
		<-ctx.Done()
		r.server.leaving.Wait()
		all.Wait()
	}()
	r.t.Cleanup(r.stop)
	for _, p := range []int{r.GRPCPort, r.NodePort, r.LifePort} {
		eventually(r.t, func() bool {
			conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(p)))
			if err == nil {
				conn.Close()
			}
			return err == nil
		})
	}
	return r
}

// stop ends it as SIGTERM does.
func (r *rig) stop() {
	r.end()
	select {
	case <-r.ended:
	case <-time.After(time.Minute):
		r.t.Error("the sidecar does not end")
	}
}

// medusa is a client of its gRPC.
func (r *rig) medusa() medusa.MedusaClient {
	r.t.Helper()
	return dialMedusa(r.t, net.JoinHostPort("127.0.0.1", fmt.Sprint(r.GRPCPort)))
}

// asking asks each time on a connection of its own: one that is kept may be to a sidecar that
// has ended meanwhile.
var asking = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func (r *rig) reported() node.Report {
	r.t.Helper()
	report, err := r.report(r.t.Context())
	must(r.t, err)
	return report
}

// ports are those that were given out.
var ports atomic.Int32

// port is one that is free, and stays so until it is listened on: no connection is given it
// (ip_local_port_range), and no other test.
func port(t *testing.T) int {
	t.Helper()
	var err error
	for range 1000 {
		n := 10_000 + (137*os.Getpid()+int(ports.Add(1)))%20_000
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(n))); err == nil {
			l.Close()
			return n
		}
	}
	t.Fatal(err)
	return 0
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not come to be")
		}
	}
}

// nobody is a DNS that knows nobody.
type nobody struct{}

func (nobody) none(name string) error {
	return &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func (n nobody) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	return "", nil, n.none(name)
}
func (n nobody) LookupHost(_ context.Context, name string) ([]string, error) {
	return nil, n.none(name)
}
func (n nobody) LookupAddr(_ context.Context, name string) ([]string, error) {
	return nil, n.none(name)
}

func dialMedusa(t *testing.T, at string) medusa.MedusaClient {
	t.Helper()
	conn, err := grpc.NewClient(at, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return medusa.NewMedusaClient(conn)
}
