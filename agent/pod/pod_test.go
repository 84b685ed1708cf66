package pod

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/agent/ini"
	"github.com/stategraft/stategraft/agent/render"
)

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

func config(t *testing.T) (Config, *buffer) {
	t.Helper()
	root := t.TempDir()
	places := files.Places{
		Shared: filepath.Join(root, "shared"), Medusa: filepath.Join(root, "medusa"), User: filepath.Join(root, "user"),
		Storage: filepath.Join(root, "secrets"), JMX: filepath.Join(root, "jmx"),
	}
	for _, dir := range []string{places.Shared, places.Medusa, places.User} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	log := &buffer{}
	return Config{
		Places: places, Poll: 2 * time.Millisecond, Log: slog.New(slog.NewJSONHandler(log, nil)),
		Pod: render.Pod{Namespace: "ns", Cluster: "c", DataMount: "/data", CQLPort: 9042, GRPCPort: 50051, SnapshotPort: 9188},
	}, log
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// project writes a ConfigMap's key as kubelet does: the file is a symlink into
// a directory that a symlink swap replaces.
func project(t *testing.T, dir, content string) {
	t.Helper()
	version, err := os.MkdirTemp(dir, "..v")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(version, "medusa.ini"), content)
	if err := os.Symlink(filepath.Base(version), filepath.Join(dir, "..tmp")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("..data/medusa.ini", filepath.Join(dir, "medusa.ini")); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func key(c Config, section, name string) string {
	content, err := os.ReadFile(c.Places.Ini())
	if err != nil {
		return ""
	}
	file, err := ini.Parse(string(content))
	if err != nil {
		return "unreadable: " + err.Error()
	}
	value, _ := file.Get(section, name)
	return value
}

func state(c Config) State {
	var s State
	content, _ := os.ReadFile(c.Places.State("agent"))
	_ = json.Unmarshal(content, &s)
	return s
}

const good = "[storage]\nstorage_provider = s3\nbucket_name = one\n"

func TestRun(t *testing.T) {
	c, log := config(t)
	c.CassandraConfig = filepath.Join(t.TempDir(), "conf")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { Run(ctx, c); close(ended) }()

	eventually(t, "it says what it waits for", func() bool { return strings.Contains(log.String(), "waiting for the ConfigMap") })
	if _, err := os.Stat(c.Places.Binary()); err != nil {
		t.Errorf("the other containers wait for the binary: %v", err)
	}
	project(t, c.Places.User, "[storage]\nstorage_provider = s3\n")
	eventually(t, "it names the missing key", func() bool {
		return state(c).State == degraded && strings.Contains(strings.Join(state(c).Problems, ""), "[storage] bucket_name")
	})
	if key(c, "storage", "storage_provider") != "" {
		t.Error("an incomplete medusa.ini was written")
	}
	project(t, c.Places.User, good)
	eventually(t, "a complete ConfigMap is used", func() bool { return key(c, "storage", "bucket_name") == "one" })
	eventually(t, "it is ready", func() bool { return state(c).State == ready })
	if got := key(c, "cassandra", "config_file"); got != c.Places.Yaml() {
		t.Errorf("config_file = %q without a shared cassandra.yaml", got)
	}
	segment, err := files.ReadSegment(c.Places.Segment())
	if err != nil || key(c, "kubernetes", "cassandra_url") != "http://127.0.0.1:9188/"+segment+"/snapshots" {
		t.Errorf("cassandra_url = %q, segment %q, %v", key(c, "kubernetes", "cassandra_url"), segment, err)
	}

	project(t, c.Places.User, strings.Replace(good, "one", "two", 1)+"[grpc]\nport = 1\n")
	eventually(t, "a changed ConfigMap is used", func() bool { return key(c, "storage", "bucket_name") == "two" })
	eventually(t, "a conflict is said", func() bool { return strings.Contains(log.String(), "[grpc] port = 1 is replaced") })

	project(t, c.Places.User, "[storage]\n")
	eventually(t, "it is degraded", func() bool { return state(c).State == degraded })
	if got := key(c, "storage", "bucket_name"); got != "two" {
		t.Errorf("the last complete configuration is gone: %q", got)
	}

	project(t, c.Places.User, good)
	shared := filepath.Join(c.CassandraConfig, "cassandra.yaml")
	write(t, shared, "listen_address: 10.1.1.1\ndata_file_directories: [/d]\n")
	eventually(t, "the shared cassandra.yaml is used", func() bool { return key(c, "cassandra", "config_file") == shared })

	cancel()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("it does not stop")
	}
	if n := strings.Count(log.String(), "[grpc] port = 1"); n != 1 {
		t.Errorf("the conflict is said %d times", n)
	}
	if strings.Contains(log.String(), segment) {
		t.Error("the secret path is in the log")
	}
}

// TestAlone: nothing waits for the agent's binary, so there is no copy of it.
func TestAlone(t *testing.T) {
	c, log := config(t)
	c.Alone = true
	project(t, c.Places.User, "[storage]\nstorage_provider = s3\nbucket_name = b\n")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { Run(ctx, c); close(ended) }()
	eventually(t, "it is ready", func() bool { return state(c).State == ready })
	cancel()
	<-ended
	if _, err := os.Stat(c.Places.Binary()); !os.IsNotExist(err) || strings.Contains(log.String(), "placed") {
		t.Errorf("%v, %s", err, log)
	}
}

func TestSetup(t *testing.T) {
	c, _ := config(t)
	if err := Setup(c); err == nil || !strings.Contains(err.Error(), "waiting for the ConfigMap") {
		t.Errorf("without a ConfigMap: %v", err)
	}
	project(t, c.Places.User, "[storage]\nstorage_provider = s3\n")
	if err := Setup(c); err == nil || !strings.Contains(err.Error(), "bucket_name") {
		t.Errorf("without a bucket: %v", err)
	}
	project(t, c.Places.User, good)
	write(t, c.Places.Credentials(), "x")
	if err := Setup(c); err != nil {
		t.Fatal(err)
	}
	if key(c, "storage", "bucket_name") != "one" || key(c, "storage", "key_file") != c.Places.Credentials() {
		t.Error("not what was asked for")
	}
	if _, err := os.Stat(c.Places.Binary()); err != nil {
		t.Error(err)
	}
}

// TestSetupOwns is the pod whose database starts as root: what setup leaves has
// to be the database's, which the restore and all later containers run as.
func TestSetupOwns(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root gives files away")
	}
	c, _ := config(t)
	c.Owner = files.Owner{Set: true, UID: 999, GID: 999}
	c.Pod.DataMount = t.TempDir()
	project(t, c.Places.User, good)
	if err := Setup(c); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{c.Pod.DataMount, c.Places.Binary(), filepath.Dir(c.Places.Binary()), c.Places.Ini(), c.Places.Yaml(), c.Places.Segment(), filepath.Dir(c.Places.Segment())} {
		before := c.Owner
		if changed, err := files.Own(path, before); err != nil && !strings.Contains(err.Error(), "not a directory") || changed != 0 {
			t.Errorf("%s was not given: %d, %v", path, changed, err)
		}
	}
}
