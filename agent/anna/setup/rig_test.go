package setup

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/config"
	"github.com/stategraft/stategraft/agent/anna/config/fakedns"
)

const plain = `ebs: EBS
capacities: {memory-cap: 1, ebs-cap: 0}
threads: {memory: 2, ebs: 3, routing: 4, benchmark: 1}
replication: {memory: 1, ebs: 1, minimum: 2, local: 1}
`

// log is what was logged.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// rig is a pod of a cluster in namespace prod: two routing nodes, a monitor, two
// schedulers and a management.
type rig struct {
	*Setup
	zone   *fakedns.Zone
	log    *log
	conf   string // where memory and the like are rendered to
	volume string
}

func host(service string) string { return service + ".prod.svc.cluster.local" }

func newRig(t *testing.T, kind, role string) *rig {
	t.Helper()
	dir := t.TempDir()
	r := &rig{zone: &fakedns.Zone{}, log: &log{}, conf: filepath.Join(dir, "conf"), volume: filepath.Join(dir, "ebs")}
	for _, d := range []string{"config", "info", "ebs"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	name := "anna-" + role + "-0"
	r.zone.Service(host("anna-routing"), map[string]string{"anna-routing-0": "10.0.0.10", "anna-routing-1": "10.0.0.11"})
	r.zone.Service(host("anna-monitoring"), map[string]string{"anna-monitoring-0": "10.0.0.20"})
	r.zone.Service(host("cloudburst-scheduler"), map[string]string{"cloudburst-scheduler-0": "10.0.0.30", "cloudburst-scheduler-1": "10.0.0.31"})
	r.zone.Host(host("hydro-management"), "10.96.0.7")
	r.zone.Host(name+"."+host("anna-"+role), "10.0.0.1")
	r.Setup = &Setup{
		Pod:     Pod{Kind: kind, Role: role, Name: name, Namespace: "prod", Subdomain: "anna-" + role, Address: "10.0.0.1"},
		Renders: []Render{{Container: role + "-container", Kind: kind, Role: role, Dir: r.conf}},
		Config:  filepath.Join(dir, "config"), Info: filepath.Join(dir, "info"), Resolv: filepath.Join(dir, "resolv.conf"),
		Resolver: r.zone, Log: slog.New(slog.NewTextHandler(r.log, nil)),
		Times: Times{Ask: time.Millisecond, Name: 20 * time.Millisecond},
	}
	if role == config.RoleDisk {
		r.Pod.DataDir = r.volume
	}
	r.write(t, "config/"+config.File, strings.Replace(plain, "EBS", r.volume, 1))
	return r
}

// write writes a file beside the ConfigMap's directory.
func (r *rig) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(filepath.Dir(r.Config), name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run prepares the pod and gives what its process reads.
func (r *rig) run(t *testing.T) *config.Effective {
	t.Helper()
	if err := r.Run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, r.log)
	}
	e, err := config.Read(r.conf)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func text(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
