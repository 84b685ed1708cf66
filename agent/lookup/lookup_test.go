package lookup

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/agent/medusa"
)

// interpreter stands for Medusa's: it keeps what it was called with, and answers
// with $FAKE_DIR/answer or does what $FAKE_DIR/mode says.
const interpreter = `#!/bin/sh
shift 2 # -c and the script
printf '%s|' "$@" >"$FAKE_DIR/args"
env >"$FAKE_DIR/env"
case $(cat "$FAKE_DIR/mode" 2>/dev/null) in
dies) echo "Traceback"; echo "ImportError: no medusa, s3cret-key"; exit 1;;
mute) exit 0;;
slow) while :; do sleep 0.1; done;;
esac
echo "the token map of backup odd cannot be read, s3cret-key" >&2
cp "$FAKE_DIR/answer" "$2"
`

type rig struct {
	t   *testing.T
	dir string
	log bytes.Buffer
	Config
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	t.Setenv("FAKE_DIR", r.dir)
	t.Setenv("POD_IP", "cassandra-0")
	t.Setenv("MEDUSA_CQL_K8S_SECRETS_PATH", "/not/there")
	r.set("python", interpreter)
	r.set("medusa/medusa.ini", "[storage]\nstorage_provider = s3\nbucket_name = b\n")
	r.set("secrets/credentials", "[default]\naws_secret_access_key = s3cret-key\n")
	secrets := &event.Secrets{}
	r.Config = Config{
		Places:  files.Places{Medusa: r.dir + "/medusa", Storage: r.dir + "/secrets"},
		Private: r.dir + "/private", Limit: time.Minute, Secrets: secrets, Log: event.New(&r.log, secrets, "test"),
		Image: func() (medusa.Image, error) { return medusa.Image{Home: r.dir, Python: r.dir + "/python"}, nil },
	}
	return r
}

func (r *rig) set(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) get(name string) string {
	text, _ := os.ReadFile(filepath.Join(r.dir, name))
	return string(text)
}

func TestBackups(t *testing.T) {
	r := newRig(t)
	r.set("answer", `{"prefix": "ns_c", "backups": [{"name": "b1", "started": "2026-01-01T00:00:00Z", "nodes": ["c-0"], "complete": false}]}`)
	got, err := r.Backups(t.Context(), "")
	if err != nil || got.Prefix != "ns_c" || len(got.Backups) != 1 || got.Backups[0].Name != "b1" || !got.Backups[0].Finished.IsZero() {
		t.Errorf("got %+v, %v", got, err)
	}
	args := strings.Split(r.get("args"), "|")
	if len(args) != 4 || args[0] != r.dir+"/private/medusa.ini" || args[2] != "" {
		t.Errorf("called with %q", args)
	}
	// The password for CQL may be missing, and the DNS away.
	if env := r.get("env"); !strings.Contains(env, "POD_IP=stategraft-lookup\n") || strings.Contains(env, "CQL_K8S") {
		t.Errorf("environment %s", env)
	}
	if log := r.log.String(); !strings.Contains(log, "backup odd cannot be read, ***") {
		t.Errorf("log %s", log)
	}
	if left, _ := filepath.Glob(r.dir + "/private/lookup-*"); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	if info, err := os.Stat(r.dir + "/private"); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestBackup(t *testing.T) {
	r := newRig(t)
	r.set("answer", `{"prefix": "other", "name": "b1", "nodes": ["c-0"], "complete": true, "members": [{"node": "c-0", "bytes": 7}], "ring": {"c-0": {"tokens": ["1"], "rack": "r"}}}`)
	got, err := r.Backup(t.Context(), "other", "b1")
	if err != nil || got.Name != "b1" || !got.Complete || got.Members[0].Bytes != 7 || got.Ring["c-0"].Rack != "r" {
		t.Errorf("got %+v, %v", got, err)
	}
	if args := r.get("args"); !strings.HasSuffix(args, "|other|b1|") {
		t.Errorf("called with %q", args)
	}
	for _, name := range []string{"", "../b1"} {
		if _, err := r.Backup(t.Context(), "", name); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

// TestTells: whatever goes wrong is told, in one line without secrets, and in time.
func TestTells(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rig)
		want   string
	}{
		"the storage":      {func(r *rig) { r.set("answer", `{"error": "ClientError: refused s3cret-key"}`) }, "list the backups: ClientError: refused ***"},
		"an old image":     {func(r *rig) { r.set("mode", "dies") }, "exit status 1: ImportError: no medusa, ***"},
		"no answer":        {func(r *rig) { r.set("mode", "mute") }, "read the answer"},
		"half an answer":   {func(r *rig) { r.set("answer", `{"prefix":`) }, "unexpected end of JSON"},
		"a slow storage":   {func(r *rig) { r.set("mode", "slow"); r.Limit = 200 * time.Millisecond }, "no answer from the storage within 200ms"},
		"no configuration": {func(r *rig) { _ = os.Remove(r.dir + "/medusa/medusa.ini") }, "medusa.ini is not there yet"},
		"no interpreter": {func(r *rig) { r.Image = func() (medusa.Image, error) { return medusa.Image{Entry: "/x"}, nil } },
			"this image holds no Medusa with an interpreter"},
		"no Medusa": {func(r *rig) { r.Image = func() (medusa.Image, error) { return medusa.Image{}, medusa.ErrNone } }, "this image holds no Medusa"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c.change(r)
			_, err := r.Backups(t.Context(), "")
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error()+r.log.String(), "s3cret-key") {
				t.Error("the secret is told")
			}
		})
	}
}

// TestEnds: nobody waits for an answer that nobody wants.
func TestEnds(t *testing.T) {
	r := newRig(t)
	r.set("mode", "slow")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	// Behind the limit it would be another error.
	if _, err := r.Backups(ctx, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
