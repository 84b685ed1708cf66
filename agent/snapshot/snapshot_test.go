package snapshot

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/event"
)

// fake is an image with a nodetool.
type fake struct {
	t   *testing.T
	dir string
	*Nodetool
	server *Server
}

const segment = "0123456789abcdef0123456789abcdef"

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{t: t, dir: t.TempDir()}
	home, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(f.dir, "home", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(home, "nodetool"), filepath.Join(bin, "nodetool")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CASSANDRA_HOME", filepath.Join(f.dir, "home"))
	t.Setenv("FAKE_DIR", f.dir)
	f.Nodetool = &Nodetool{Env: os.Getenv, Port: 7199, JMX: filepath.Join(f.dir, "jmx"), Temp: f.dir, Timeout: time.Minute, Secrets: &event.Secrets{}}
	f.server = NewServer(func() (string, error) { return segment, nil }, f.Nodetool, slog.New(slog.DiscardHandler))
	return f
}

func (f *fake) set(name, content string) {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) get(name string) string {
	content, _ := os.ReadFile(filepath.Join(f.dir, name))
	return string(content)
}

func (f *fake) snapshots() string {
	found, _ := filepath.Glob(filepath.Join(f.dir, "snapshot.*"))
	for i := range found {
		found[i] = strings.TrimPrefix(filepath.Base(found[i]), "snapshot.")
	}
	return strings.Join(found, " ")
}

func (f *fake) call(method, path, body string) (int, string) {
	answer := httptest.NewRecorder()
	f.server.ServeHTTP(answer, httptest.NewRequest(method, path, strings.NewReader(body)))
	text, _ := io.ReadAll(answer.Body)
	return answer.Code, string(text)
}

const at = "/" + segment + "/snapshots"

func take(name string) string { return fmt.Sprintf(`{"snapshot_name": %q}`, name) }

func TestTakeAndClear(t *testing.T) {
	f := newFake(t)
	if code, text := f.call("POST", at, take("medusa-b1")); code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	if got := f.snapshots(); got != "medusa-b1" {
		t.Fatalf("snapshots %q", got)
	}
	if code, text := f.call("DELETE", at+"?snapshotNames=medusa-b1", ""); code != 200 || f.snapshots() != "" {
		t.Fatalf("%d %s, left %q", code, text, f.snapshots())
	}
	want := "-Dcom.sun.jndi.rmiURLParsing=legacy -h 127.0.0.1 -p 7199 snapshot -t medusa-b1\n" +
		"-Dcom.sun.jndi.rmiURLParsing=legacy -h 127.0.0.1 -p 7199 clearsnapshot -t medusa-b1\n"
	if f.get("calls") != want {
		t.Errorf("calls\n%s", f.get("calls"))
	}
}

func TestRefused(t *testing.T) {
	f := newFake(t)
	for _, c := range []struct {
		method, path, body string
		code               int
	}{
		{"POST", "/snapshots", take("medusa-b"), 404},
		{"POST", "/" + strings.Repeat("0", 32) + "/snapshots", take("medusa-b"), 404},
		{"POST", at + "/", take("medusa-b"), 404},
		{"GET", at, "", 405},
		{"PUT", at, take("medusa-b"), 405},
		{"POST", at, "", 400},
		{"POST", at, "{}", 400},
		{"POST", at, take("mine"), 400},
		{"POST", at, take("medusa-"), 400},
		{"POST", at, take("medusa-a b"), 400},
		{"POST", at, take("medusa-$(x)"), 400},
		{"POST", at, take("medusa-../x"), 400},
		{"POST", at, take("medusa-x\n"), 400},
		{"POST", at, take("medusa-..x"), 400},
		{"POST", at, take("-t"), 400},
		{"POST", at, take("medusa-" + strings.Repeat("a", 300)), 400},
		{"POST", at, `{"snapshot_name": "medusa-b", "keyspaces": ["x"]}`, 400},
		{"DELETE", at, "", 400}, // nodetool would clear all
		{"DELETE", at + "?snapshotNames=", "", 400},
		{"DELETE", at + "?snapshotNames=medusa-a,mine", "", 400},
		{"DELETE", at + "?snapshotNames=medusa-a&keyspaces=x", "", 400},
	} {
		if code, text := f.call(c.method, c.path, c.body); code != c.code {
			t.Errorf("%s %s %s: %d %s, want %d", c.method, c.path, c.body, code, text, c.code)
		}
	}
	if calls := f.get("calls"); calls != "" {
		t.Errorf("nodetool was called:\n%s", calls)
	}
	if code, _ := f.call("DELETE", at+"?snapshotNames=medusa-a,medusa-b&snapshotNames=medusa-c", ""); code != 200 || strings.Count(f.get("calls"), "clearsnapshot -t medusa-") != 3 {
		t.Errorf("%d, calls\n%s", code, f.get("calls"))
	}
}

func TestFailure(t *testing.T) {
	f := newFake(t)
	f.set("mode", "fail")
	code, text := f.call("POST", at, take("medusa-b1"))
	if code != 500 || !strings.Contains(text, "exit status 1: error: Access denied!\njava.lang.SecurityException: Access denied!\nCaused by: at the door (and out)") || strings.Contains(text, "AccessController") {
		t.Errorf("%d %s", code, text)
	}
	if got := f.snapshots(); got != "" {
		t.Errorf("a partial snapshot stays, which Medusa takes for a complete one: %q", got)
	}
	f.set("snapshot.medusa-b2", "")
	f.set("mode", "")
	if code, text := f.call("POST", at, take("medusa-b2")); code != 500 || !strings.Contains(text, "already exists") || f.snapshots() != "medusa-b2" {
		t.Errorf("%d %s, left %q", code, text, f.snapshots())
	}
	f.set("mode", "noclear")
	if code, _ := f.call("DELETE", at+"?snapshotNames=medusa-b2", ""); code != 500 {
		t.Errorf("clearing failed, answer %d", code)
	}
	// While the pod ends, the backup is stored and must not fail for this.
	f.server.stopping.Store(true)
	if code, _ := f.call("DELETE", at+"?snapshotNames=medusa-b2", ""); code != 200 {
		t.Errorf("while stopping: answer %d", code)
	}
}

func TestHangingNodetool(t *testing.T) {
	f := newFake(t)
	f.set("mode", "hang")
	f.Timeout = 200 * time.Millisecond
	code, text := f.call("POST", at, take("medusa-b1"))
	if code != 500 || !strings.Contains(text, "no answer within 200ms") {
		t.Errorf("%d %s", code, text)
	}
	f.set("mode", "")
	f.Timeout = time.Minute
	if code, text := f.call("POST", at, take("medusa-b2")); code != 200 {
		t.Errorf("nothing works after it: %d %s", code, text)
	}
}

func TestOneAtATime(t *testing.T) {
	f := newFake(t)
	f.set("mode", "slow")
	var wait sync.WaitGroup
	for i := range 5 {
		wait.Go(func() {
			if code, text := f.call("POST", at, take(fmt.Sprintf("medusa-%d", i))); code != 200 {
				t.Errorf("%d: %d %s", i, code, text)
			}
		})
	}
	wait.Wait()
	if got := f.get("overlap"); got != "" {
		t.Error("two nodetools ran at once")
	}
	if got := f.snapshots(); got != "medusa-0 medusa-1 medusa-2 medusa-3 medusa-4" {
		t.Errorf("snapshots %q", got)
	}
}

func TestClientThatLeaves(t *testing.T) {
	f := newFake(t)
	f.set("mode", "held")
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(f.server)
	defer server.Close()
	go func() {
		for f.get("calls") == "" {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	request, _ := http.NewRequestWithContext(ctx, "POST", server.URL+at, strings.NewReader(take("medusa-b1")))
	if _, err := server.Client().Do(request); err == nil {
		t.Fatal("the client did not leave")
	}
	f.set("mode", "")
	f.set("go", "")
	if code, text := f.call("POST", at, take("medusa-b2")); code != 200 || f.snapshots() != "medusa-b1 medusa-b2" {
		t.Errorf("%d %s, snapshots %q: a snapshot was broken off", code, text, f.snapshots())
	}
}

func TestCredentials(t *testing.T) {
	f := newFake(t)
	f.set("jmx/username", "admin\n")
	f.set("jmx/password", "s3cret-jmx\n")
	f.set("mode", "fail")
	_, text := f.call("POST", at, take("medusa-b1"))
	if strings.Contains(f.get("calls"), "s3cret-jmx") || !strings.Contains(f.get("calls"), "-u admin -pwf ") {
		t.Errorf("calls\n%s", f.get("calls"))
	}
	if f.get("pwf") != "admin s3cret-jmx\n" || f.get("pwf-mode") != "600\n" {
		t.Errorf("password file %q, mode %q", f.get("pwf"), f.get("pwf-mode"))
	}
	if left, _ := filepath.Glob(filepath.Join(f.dir, "jmx-*")); len(left) > 0 {
		t.Errorf("password files stay: %v", left)
	}
	if strings.Contains(text, "s3cret-jmx") {
		t.Errorf("the answer has the password: %s", text)
	}
	f.set("jmx/password", "with space")
	if code, text := f.call("POST", at, take("medusa-b1")); code != 500 || !strings.Contains(text, "space") || strings.Contains(text, "with space") {
		t.Errorf("%d %s", code, text)
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	make := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name, "nodetool")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	home, second := make("home/bin", 0o755), make("second", 0o755)
	make("first", 0o644)
	env := map[string]string{"CASSANDRA_HOME": filepath.Join(dir, "home"), "PATH": filepath.Join(dir, "first") + ":" + filepath.Join(dir, "second")}
	get := func(key string) string { return env[key] }
	if path, err := Find(get); err != nil || path != home {
		t.Errorf("%q, %v", path, err)
	}
	delete(env, "CASSANDRA_HOME")
	if path, err := Find(get); err != nil || path != second {
		t.Errorf("what cannot be run counts: %q, %v", path, err)
	}
	defer func(before []string) { places = before }(places)
	places = []string{filepath.Join(dir, "apache-cassandra*", "bin")}
	env = nil
	if path, err := Find(get); err == nil {
		t.Errorf("found %q", path)
	}
	want := make("apache-cassandra-5.0.1/bin", 0o755)
	if path, err := Find(get); err != nil || path != want {
		t.Errorf("%q, %v", path, err)
	}
}
