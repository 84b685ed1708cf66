package kvs

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/stategraft/stategraft/agent/anna/serve"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/api/medusa"
)

// limit is what the sidecar's container may take (patches.Default).
const limit = 256 << 20

// sidecar is one that stands beside a node.
type sidecar struct {
	Dir  string `json:"dir"`  // has what a pod's volumes have
	Node string `json:"node"` // its address
	Port int    `json:"port"`
}

func serveSidecar(ctx context.Context, given string, tell func(any)) error {
	var s sidecar
	if err := json.Unmarshal([]byte(given), &s); err != nil {
		return fmt.Errorf("reading the sidecar's configuration: %w", err)
	}
	places := files.Standard(s.Dir)
	tell(s)
	serve.Run(ctx, serve.Config{
		Pod:    serve.Pod{Name: "anna-memory-0", Namespace: "kvs", IP: s.Node, Cluster: "kvs", Kind: "anna", Role: "memory", Grace: 30 * time.Second},
		Places: places, Config: filepath.Join(s.Dir, "config"), Conf: filepath.Join(s.Dir, "conf"), Private: filepath.Join(s.Dir, "private"),
		Address: s.Node, Local: s.Node, GRPCPort: s.Port, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	return nil
}

// beside starts a sidecar of the first node of a cluster, in a process of its own with
// the limit of memory that its container has, and answers its process.
func beside(t *testing.T, c cluster) (pid int, service medusa.MedusaClient) {
	t.Helper()
	dir := t.TempDir()
	s := sidecar{Dir: dir, Node: c.Memory[0], Port: 50051}
	anna := "threads: {memory: 1, ebs: 1, routing: 1, benchmark: 1}\nreplication: {memory: 1, ebs: 0, minimum: 1, local: 1}\n" +
		"ebs: /ebs\ncapacities: {memory-cap: 4, ebs-cap: 4}\npolicy: {elasticity: false, selective-rep: false, tiering: false}\n"
	server := fmt.Sprintf("server:\n    seed_ip: %[1]s\n    public_ip: %[2]s\n    private_ip: %[2]s\n    mgmt_ip: \"NULL\"\n    monitoring: []\n    routing:\n        - %[1]s\n", c.Routing[0], c.Memory[0])
	for name, text := range map[string]string{
		"config/anna-config.yml":           anna,
		"conf/anna-config.yml":             anna + server,
		"etc/stategraft/medusa/medusa.ini": fmt.Sprintf("[storage]\nstorage_provider = local\nbucket_name = bucket\nbase_path = %s\nprefix = kvs\n", dir),
		"bucket/.there":                    "",
		"stategraft/.there":                "",
		"private/.there":                   "",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := spawn(t, "sidecar", []string{fmt.Sprintf("GOMEMLIMIT=%d", limit*9/10)}, s, &s)
	connection, err := grpc.NewClient(fmt.Sprintf("%s:%d", s.Node, s.Port), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return cmd.Process.Pid, medusa.NewMedusaClient(connection)
}

// backUp has a sidecar make a backup and waits for its end.
func backUp(t *testing.T, service medusa.MedusaClient, name string) time.Duration {
	t.Helper()
	began := time.Now()
	if _, err := service.AsyncBackup(t.Context(), &medusa.BackupRequest{Name: name, Mode: medusa.BackupRequest_FULL}, grpc.WaitForReady(true)); err != nil {
		t.Fatalf("asking for a backup: %v", err)
	}
	for {
		status, err := service.BackupStatus(t.Context(), &medusa.BackupStatusRequest{BackupName: name})
		if err != nil {
			t.Fatalf("asking how the backup is: %v", err)
		}
		switch status.GetStatus() {
		case medusa.StatusType_SUCCESS:
			return time.Since(began)
		case medusa.StatusType_FAILED:
			t.Fatal("the backup failed")
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// The sidecar keeps within its container's memory, with a million keys in one thread, whose list
// comes in one message of 23 MB, and with values that are a multiple of it together.
func TestMemory(t *testing.T) {
	small := Data{Keys: scale(20_000, 1_000_000), Seed: 31}
	small.Large = small.Keys / 1000
	big := Data{Keys: scale(500, 8000), Seed: 32}
	big.Large = big.Keys // 100 kB each
	for _, each := range []struct {
		what string
		data Data
	}{{"most values of 100 B", small}, {"all values of 100 kB", big}} {
		t.Run(each.what, func(t *testing.T) {
			report := time.Duration(0)
			if !full() {
				report = time.Second
			}
			one := start(t, wish{Memory: 1, Threads: 1, Report: report})
			fillAll(t, one, each.data)
			pid, service := beside(t, one)
			took := backUp(t, service, "memory")
			most, err := peak(pid)
			if err != nil {
				t.Fatal(err)
			}
			figure(t, "%d keys of one thread, %s, backed up in %s: peak %d MB of %d", each.data.Keys, each.what, took.Round(time.Second), most>>20, limit>>20)
			if most > limit && os.Getenv("STATEGRAFT_RACE") != "1" {
				t.Errorf("the sidecar took %d MB, and its container has %d", most>>20, limit>>20)
			}
		})
	}
}

// fillAll writes the data with a client of the plain kind, a part at a time.
func fillAll(t *testing.T, c cluster, d Data) {
	t.Helper()
	plain := bare(t)
	part := 50_000
	if d.Large == d.Keys {
		part = 500
	}
	for from := 0; from < d.Keys; from += part {
		var tuples []wire.Tuple
		for i := from; i < min(from+part, d.Keys); i++ {
			tuples = append(tuples, d.Tuple(i, 0))
		}
		if err := plain.Put(t.Context(), c.Routing[0], 1, tuples); err != nil {
			t.Fatal(err)
		}
	}
}
