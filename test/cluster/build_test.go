package cluster

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const sampleGoMod = `module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require (
	example.org/one v1.2.3
	k8s.io/api v0.0.0
	k8s.io/utils v0.0.0-20260101000000-0123456789ab
)

require (
	example.org/two v2.0.0+incompatible // indirect
	k8s.io/client-go v0.0.0 // indirect
)

replace (
	example.org/two => example.org/fork v2.1.0+incompatible
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/client-go => ./staging/src/k8s.io/client-go
)
`

// asJSON lets the go command parse a module file, as the rig does.
func asJSON(t *testing.T, text string) []byte {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "go.mod")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := goCommand(t.Context(), dir, "mod", "edit", "-json", file)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDeriveKubernetesModule(t *testing.T) {
	got, err := deriveKubernetesModule(asJSON(t, sampleGoMod), "1.37.2")
	if err != nil {
		t.Fatal(err)
	}
	const want = `module rig

go 1.26.0
godebug default=go1.26

require k8s.io/kubernetes v1.37.2

replace (
	example.org/two => example.org/fork v2.1.0+incompatible
	k8s.io/api => k8s.io/api v0.37.2
	k8s.io/client-go => k8s.io/client-go v0.37.2
)

require (
	example.org/one v1.2.3
	k8s.io/api v0.37.2
	k8s.io/utils v0.0.0-20260101000000-0123456789ab
	example.org/two v2.0.0+incompatible
	k8s.io/client-go v0.37.2
)
`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	asJSON(t, got) // the go command takes it
}

func TestDeriveKubernetesModuleRefuses(t *testing.T) {
	elsewhere := strings.ReplaceAll(sampleGoMod, "./staging/src/k8s.io/api", "./elsewhere/api")
	if _, err := deriveKubernetesModule(asJSON(t, elsewhere), "1.37.2"); err == nil || !strings.Contains(err.Error(), "./elsewhere/api") {
		t.Errorf("a folder that is not staged: got error %v", err)
	}
	if _, err := deriveKubernetesModule(asJSON(t, sampleGoMod), "2.0.0"); err == nil {
		t.Error("version 2.0.0: got no error")
	}
}

func TestBuildFailureLeavesNothing(t *testing.T) {
	home := t.TempDir()
	bin := filepath.Join(home, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	broken := program{
		name: "broken",
		pkg:  "example.invalid/nothing",
		module: func(context.Context, string) (string, error) {
			return "module rig\n\ngo 1.26.0\n\nreplace example.invalid/nothing => ./nowhere\n", nil
		},
	}
	err := broken.build(t.Context(), newLog(&log), home, bin)
	if err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("the error lacks what the go command said: %v", err)
	}
	for _, pattern := range []string{"bin/*", "module-*"} {
		if files, _ := filepath.Glob(filepath.Join(home, pattern)); len(files) > 0 {
			t.Errorf("left behind: %v", files)
		}
	}
	if !strings.Contains(log.String(), "building broken") {
		t.Errorf("progress lacks the name: %q", log.String())
	}
}

func TestBuildRefusesUnknownProgram(t *testing.T) {
	t.Setenv(CacheEnv, t.TempDir())
	if _, err := Build(t.Context(), nil, "kube-nonsense"); err == nil || !strings.Contains(err.Error(), "kube-nonsense") {
		t.Errorf("got error %v", err)
	}
}

func TestBuildTakesWhatIsCached(t *testing.T) {
	cache := t.TempDir()
	t.Setenv(CacheEnv, cache)
	want := filepath.Join(cache, KubernetesVersion+"-"+EtcdVersion, "bin")
	if err := os.MkdirAll(want, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(want, Kubectl), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := Build(t.Context(), nil, Kubectl)
	if err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func TestLockFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var log bytes.Buffer
	unlock, err := lockFile(t.Context(), path, &log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lockFile(ctx, path, &log); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second holder: got error %v", err)
	}
	if !strings.Contains(log.String(), "another process is building") {
		t.Errorf("the wait is not told: %q", log.String())
	}
	unlock()
	unlock, err = lockFile(t.Context(), path, &log)
	if err != nil {
		t.Fatalf("after unlocking: %v", err)
	}
	unlock()
}
