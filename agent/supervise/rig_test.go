package supervise

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/process"
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

// rig is a supervisor with a fake Medusa.
type rig struct {
	t      *testing.T
	dir    string
	log    *buffer
	config Config
	cancel context.CancelFunc
	ended  chan struct{}
}

func newRig(t *testing.T, mode string) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), log: &buffer{}, ended: make(chan struct{})}
	program, err := filepath.Abs("testdata/medusa")
	if err != nil {
		t.Fatal(err)
	}
	r.set("mode", mode)
	r.set("ini", "one")
	r.set("password", "s3cret-key")
	secrets := &event.Secrets{}
	r.config = Config{
		Prepare: func() (process.Spec, error) {
			if r.get("ini") == "" {
				return process.Spec{}, errors.New("medusa.ini: [storage] bucket_name is missing")
			}
			return process.Spec{Path: program, Args: []string{"serve"}, Env: append(os.Environ(), "FAKE_DIR="+r.dir)}, nil
		},
		Watch: []string{r.path("ini")}, Marker: r.path("marker"), StatePath: r.path("run/medusa.json"),
		Secrets: secrets, Hidden: []string{r.path("password")},
		StopLimit: time.Hour, Poll: 5 * time.Millisecond, First: 10 * time.Millisecond, Longest: 40 * time.Millisecond, Steady: time.Minute,
		Log: event.New(r.log, secrets, "medusa"),
	}
	return r
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

// set changes a file in one step, as kubelet does: nobody reads half of it.
func (r *rig) set(name, content string) {
	r.t.Helper()
	half := r.path("." + name + ".half")
	if err := os.WriteFile(half, []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(half, r.path(name)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) get(name string) string {
	content, _ := os.ReadFile(r.path(name))
	return string(content)
}

func (r *rig) start() {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.cancel = cancel
	go func() { Run(ctx, r.config); close(r.ended) }()
	r.t.Cleanup(func() { cancel(); <-r.ended })
}

func (r *rig) state() State {
	var s State
	_ = json.Unmarshal([]byte(r.get("run/medusa.json")), &s)
	return s
}

func (r *rig) starts() []string {
	return strings.Fields(strings.ReplaceAll(r.get("starts"), " serve", ""))
}

func (r *rig) eventually(what string, holds func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("never: %s\nstate %+v\n%s", what, r.state(), r.log)
		}
	}
}

// stop asks the supervisor to end, sees to it that it does, and tells how long it took.
func (r *rig) stop() time.Duration {
	r.t.Helper()
	start := time.Now()
	r.cancel()
	select {
	case <-r.ended:
	case <-time.After(time.Minute):
		r.t.Fatalf("it does not end\n%s", r.log)
	}
	return time.Since(start)
}

func (r *rig) alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
