package realanna

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/stategraft/stategraft/agent/anna/serve"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/api/medusa"
	api "github.com/stategraft/stategraft/api/node"
)

// childEnv has this test binary be a sidecar ("serve") or a setup container that saves
// keys ("save"); given names its configuration.
const (
	childEnv = "STATEGRAFT_REALANNA_CHILD"
	givenEnv = "STATEGRAFT_REALANNA_GIVEN"
)

const (
	portGRPC = 50051
	portNode = 50061
	portLife = 6982
)

// given is what a child has to know.
type given struct{ Dir, Name, Role, IP, Zone string }

func TestMain(m *testing.M) {
	kind := os.Getenv(childEnv)
	if kind == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var g given
	if err := json.Unmarshal([]byte(os.Getenv(givenEnv)), &g); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	c := serve.Config{
		Pod:    serve.Pod{Name: g.Name, Namespace: "kvs", IP: g.IP, Cluster: "kvs", Kind: "anna", Role: g.Role, Grace: 30 * time.Second, DataDirectory: filepath.Join(g.Dir, "ebs")},
		Places: files.Standard(g.Dir), Config: filepath.Join(g.Dir, "config"), Conf: filepath.Join(g.Dir, "anna/conf"), Private: filepath.Join(g.Dir, "private"),
		GRPCPort: portGRPC, NodePort: portNode, LifePort: portLife, Resolver: resolver(g.Zone), Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if kind == "save" {
		keys, err := serve.SaveKeys(ctx, c)
		fmt.Println(keys)
		if err != nil && !errors.Is(err, serve.ErrNothingToSave) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	serve.Run(ctx, c)
}

func (n *node) child(kind string) []string {
	text, err := json.Marshal(given{n.dir, n.name, n.role, n.ip, n.net.zone()})
	must(n.t, err)
	return append(os.Environ(), childEnv+"="+kind, givenEnv+"="+string(text), "GOMEMLIMIT=230000000")
}

// attend starts the sidecar.
func (n *node) attend() {
	n.t.Helper()
	var err error
	n.log, err = os.OpenFile(filepath.Join(n.dir, "sidecar.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(n.t, err)
	n.sidecar = n.within(os.Args[0])
	n.sidecar.Env = n.child("serve")
	n.sidecar.Stdout, n.sidecar.Stderr = n.log, n.log
	must(n.t, n.sidecar.Start())
}

func (n *node) killSidecar() {
	if n.sidecar != nil {
		_ = n.sidecar.Process.Kill()
		_ = n.sidecar.Wait()
		_ = n.log.Close()
		n.sidecar = nil
	}
}

// save does what the setup container does before a node joins.
func (n *node) save() string {
	n.t.Helper()
	cmd := n.within(os.Args[0])
	cmd.Env = n.child("save")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must(n.t, err)
	return strings.TrimSpace(string(out))
}

func (n *node) service() medusa.MedusaClient {
	n.t.Helper()
	connection, err := grpc.NewClient(fmt.Sprintf("%s:%d", n.ip, portGRPC), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(n.t, err)
	n.t.Cleanup(func() { _ = connection.Close() })
	return medusa.NewMedusaClient(connection)
}

// ask asks the node's service.
func (n *node) ask(method, path string, question, answer any) error {
	var body io.Reader
	if question != nil {
		text, err := json.Marshal(question)
		must(n.t, err)
		body = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(n.t.Context(), 2*time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://%s:%d%s", n.ip, portNode, path), body)
	must(n.t, err)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err == nil && got.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", got.Status, text)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, answer)
}

func (n *node) report() (r api.Report, err error) {
	err = n.ask(http.MethodGet, api.PathReport, nil, &r)
	return r, err
}

// said is what the sidecar has logged.
func (n *node) said() string {
	text, _ := os.ReadFile(filepath.Join(n.dir, "sidecar.log"))
	return string(text)
}
