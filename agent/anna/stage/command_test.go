package stage

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/stategraft/stategraft/agent/anna/manifest"
	"github.com/stategraft/stategraft/agent/anna/pack"
	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/api/node"
)

// container is a pod's files, with a storage that is a directory.
type container struct {
	root, data string
	identity   *age.X25519Identity
}

func newContainer(t *testing.T) *container {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	c := &container{root: t.TempDir(), identity: identity}
	c.data = filepath.Join(c.root, "ebs")
	c.write(t, "dev/termination-log", "")
	c.write(t, "etc/stategraft/medusa/medusa.ini", "[storage]\nstorage_provider = local\nbase_path = "+c.root+"\nbucket_name = bucket\n\n[stategraft]\nage_recipient = "+identity.Recipient().String()+"\n")
	c.write(t, "bucket/.keep", "")
	c.write(t, "ebs/ebs_0/old", "old")
	for name, value := range map[string]string{
		"STATEGRAFT_ROOT": c.root, "POD_NAME": "ebs-0", "POD_NAMESPACE": "ns", "STATEGRAFT_CLUSTER": "", "STATEGRAFT_BACKUP": "b",
		"STATEGRAFT_DATA_DIRECTORY": c.data, "STATEGRAFT_NODE_PORT": "", "STATEGRAFT_SUBDOMAIN": "", "STATEGRAFT_RESTORE_ID": "r/1", "STATEGRAFT_KEEP_PREVIOUS": "Always",
	} {
		t.Setenv(name, value)
	}
	return c
}

func (c *container) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(c.root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// backup writes an encrypted part of one pack.
func (c *container) backup(t *testing.T) {
	t.Helper()
	s, err := OpenStore(t.Context(), files.Standard(c.root), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Begin(t.Context(), store.Started{Name: "b", Node: "ebs-0", Started: time.Now()}); err != nil {
		t.Fatal(err)
	}
	object, err := s.CreatePack(t.Context(), "b", "ebs-0", 0)
	if err != nil {
		t.Fatal(err)
	}
	w := pack.NewWriter(object)
	for _, key := range []string{"a", "funcs/f", "../../escape/x", "x/y/z"} {
		if err := w.Add(pack.Record{Key: key, Lattice: wire.TypeLWW, Payload: wire.AppendLWW(nil, wire.LWW{Timestamp: 1, Value: []byte("v")})}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	p, err := object.Close()
	if err != nil {
		t.Fatal(err)
	}
	p.Records, p.Plain = w.Records(), w.Plain()
	err = s.Commit(t.Context(), manifest.Manifest{Version: manifest.Version, Name: "b", Node: "ebs-0", Started: time.Now(), Finished: time.Now(), Keys: 4, Packs: []manifest.Pack{p}, Encrypted: s.Encrypted()})
	if err != nil {
		t.Fatal(err)
	}
}

// run gives the exit status and the termination message.
func (c *container) run(t *testing.T) (int, string) {
	t.Helper()
	code := Command(t.Context(), &event.Secrets{}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	message, err := os.ReadFile(filepath.Join(c.root, "dev/termination-log"))
	if err != nil {
		t.Fatal(err)
	}
	return code, string(message)
}

// The container as it is called, with the storage's own code and an encrypted backup.
func TestCommand(t *testing.T) {
	c := newContainer(t)
	code, message := c.run(t)
	if _, cause := node.ParseFailure(message); code != 1 || cause != node.CauseNoBackup {
		t.Errorf("no backup: %d, %s", code, message)
	}
	c.backup(t)
	if code, message = c.run(t); code != 1 || !strings.Contains(message, "decryption-secret") {
		t.Errorf("no key: %d, %s", code, message)
	}
	c.write(t, "etc/stategraft/decryption/identity", "AGE-SECRET-KEY-1NONSENSE")
	if code, message = c.run(t); code != 1 || !strings.Contains(message, "identity") || strings.Contains(message, "NONSENSE") {
		t.Errorf("a wrong key: %d, %s", code, message)
	}
	c.write(t, "etc/stategraft/decryption/identity", "# a comment\n"+c.identity.String()+"\n")
	for range 2 {
		code, message = c.run(t)
		text, done, err := node.ParseOutcome(message)
		if code != 0 || err != nil || done.ID != "r/1" || !done.Previous || !strings.Contains(text, "4 keys") {
			t.Errorf("%d, %s", code, message)
		}
	}
	s, err := Read(Dir(Root(files.Standard(c.root)), "r/1"))
	if err != nil || s.Keys != 4 {
		t.Fatalf("%+v, %v", s, err)
	}
	for name, there := range map[string]bool{"ebs_0/funcs": true, "ebs_0/x/y": true, "ebs_0/old": false, "../escape": false, "escape": false, "ebs_0/escape": false} {
		if _, err := os.Stat(filepath.Join(c.data, name)); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}

	// When all is replayed, nothing is done any more, whatever became of the backup.
	if err := s.Remove(); err != nil {
		t.Fatal(err)
	}
	if all, err := All(Root(files.Standard(c.root))); len(all) != 0 || err != nil {
		t.Errorf("%+v, %v", all, err)
	}
	c.write(t, "ebs/ebs_0/new", "new")
	if err := os.RemoveAll(filepath.Join(c.root, "bucket")); err != nil {
		t.Fatal(err)
	}
	code, message = c.run(t)
	if text, done, err := node.ParseOutcome(message); code != 0 || err != nil || done.Backup != "b" || !done.Previous || !strings.Contains(text, "nothing to do") {
		t.Errorf("%d, %s", code, message)
	}
	if _, err := os.Stat(filepath.Join(c.data, "ebs_0/new")); err != nil {
		t.Error(err)
	}
}

// Where the storage is not configured, it is said what is missing.
func TestNoStorage(t *testing.T) {
	c := newContainer(t)
	if err := os.Remove(filepath.Join(c.root, "etc/stategraft/medusa/medusa.ini")); err != nil {
		t.Fatal(err)
	}
	if code, message := c.run(t); code != 1 || !strings.Contains(message, "stategraft.io/medusa-config") {
		t.Errorf("%d, %s", code, message)
	}
}

// A pod is gone when DNS says so for some time; not when it does not answer.
func TestGone(t *testing.T) {
	asked := 0
	look := GoneByDNS(func(_ context.Context, host string) ([]string, error) {
		asked++
		switch {
		case host == "late.sub.ns.svc" && asked > 2, host == "there.sub.ns.svc":
			return []string{"10.0.0.1"}, nil
		case host == "broken.sub.ns.svc":
			return nil, &net.DNSError{Err: "server misbehaving", IsTemporary: true}
		}
		return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
	}, ".sub.ns.svc")
	for _, test := range []struct {
		pod   string
		limit time.Duration
		want  bool
	}{{"late", time.Hour, false}, {"there", time.Hour, false}, {"broken", 50 * time.Millisecond, false}, {"gone", 50 * time.Millisecond, true}} {
		if got := patient(look, test.limit, time.Millisecond)(t.Context(), test.pod); got != test.want {
			t.Errorf("%s: %v", test.pod, got)
		}
	}
}
