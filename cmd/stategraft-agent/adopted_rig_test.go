package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/test/ports"
	"github.com/stategraft/stategraft/workload"
)

// adoptedPod is a pod that runs, with the containers that patches.Adopt gives it, run as
// the kubelet would, but for where they are: each has a root of its own, and the volume is
// a directory.
type adoptedPod struct {
	t       *testing.T
	dir     string
	volume  string
	uid     string
	ports   map[string]string // variables
	next    int
	lost    string // container that is not started
	running map[string]*adoptedContainer
}

type adoptedContainer struct {
	*exec.Cmd
	name, root string
	out        lines
	ended      chan error
}

type lines struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.String()
}

// medusaOfTests serves nothing. It writes its environment down, and has a lock while it
// runs: two that run at once are told.
const medusaOfTests = `#!/bin/sh
env >%[1]s/env
mkdir %[1]s/lock || echo collision >>%[1]s/collisions
trap 'rmdir %[1]s/lock; exit 0' TERM
echo "[2026-01-01 00:00:00,000] INFO: key is s3cr3t-of-storage"
echo $$ >%[1]s/pid
while :; do sleep 0.02; done
`

// nodetoolOfTests takes any snapshot.
const nodetoolOfTests = "#!/bin/sh\necho \"$@\" >>%s/nodetool.calls\n"

func newAdoptedPod(t *testing.T) *adoptedPod {
	t.Helper()
	p := &adoptedPod{t: t, dir: t.TempDir(), next: 1, running: map[string]*adoptedContainer{}, ports: map[string]string{}}
	p.volume = filepath.Join(p.dir, "volume")
	p.uid = fmt.Sprintf("%08x-0000-4000-8000-%012x", os.Getpid(), time.Now().UnixNano()&(1<<48-1))
	for _, name := range []string{"STATEGRAFT_NODE_PORT", "STATEGRAFT_SNAPSHOT_PORT", "STATEGRAFT_GRPC_PORT"} {
		p.ports[name] = freePort(t)
	}
	for name, text := range map[string]string{
		"volume/data/x": "", "bin/nodetool": fmt.Sprintf(nodetoolOfTests, p.dir), "medusa": fmt.Sprintf(medusaOfTests, p.dir), "python": "#!/bin/sh\nexit 1\n",
	} {
		path := filepath.Join(p.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func freePort(t *testing.T) string {
	t.Helper()
	port, err := ports.Row(1)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}

// adoptable is a Cassandra pod with its data in a directory.
func adoptable(t *testing.T, volume string) (*workload.Pod, workload.Workload) {
	t.Helper()
	pod, err := workload.Parse(fmt.Appendf(nil, `{"metadata":{"name":"cassandra-0","namespace":"ns"},"spec":{"hostname":"cassandra-0",
		"securityContext":{"runAsUser":999,"runAsGroup":999,"fsGroup":999},
		"containers":[{"name":"cassandra","image":"docker.io/library/cassandra:4.1.5","env":[{"name":"CASSANDRA_CLUSTER_NAME","value":"demo"}],
			"ports":[{"containerPort":9042,"name":"cql"},{"containerPort":7000},{"containerPort":7199}],"volumeMounts":[{"name":"data","mountPath":%q}]}],
		"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data-cassandra-0"}}]}}`, volume))
	if err != nil {
		t.Fatal(err)
	}
	d := workload.Recognize(pod, workload.Hints{NamespaceLabelled: true, DataVolume: "data"})
	if d.Verdict != workload.Inject {
		t.Fatalf("the pod is not recognised: %+v", d)
	}
	return pod, d.Workload
}

// add adds containers for the roles, all for none, and gives their names.
func (p *adoptedPod) add(roles ...patches.Role) (names []string) {
	p.t.Helper()
	pod, w := adoptable(p.t, p.volume)
	s := patches.Default()
	s.GRPCTLS, s.CQLSecret, s.JMXSecret = false, "cql", "jmx"
	containers, err := patches.Adopt(pod, w, s, patches.Adoption{Next: p.next, Roles: roles, At: time.Now()})
	if err != nil {
		p.t.Fatal(err)
	}
	for i := range containers {
		if containers[i].Name == p.lost {
			continue
		}
		p.start(&containers[i])
		names = append(names, containers[i].Name)
	}
	p.next += len(containers)
	return names
}

// secrets are what the pod's objects hold.
var contentsOfTests = map[string]string{
	"medusa.ini":   "[storage]\nstorage_provider = s3\nbucket_name = b\n",
	"credentials":  "[default]\naws_secret_access_key = s3cr3t-of-storage\n",
	"cql/password": "s3cr3t-of-cql", "cql/username": "backup", "jmx/password": "s3cr3t-of-jmx", "jmx/username": "jmx",
}

func (p *adoptedPod) start(of *corev1.EphemeralContainer) {
	p.t.Helper()
	c := &adoptedContainer{name: of.Name, root: filepath.Join(p.dir, of.Name), ended: make(chan error, 1)}
	if err := os.MkdirAll(filepath.Join(c.root, "tmp"), 0o755); err != nil {
		p.t.Fatal(err)
	}
	here := func(text string) string {
		return strings.ReplaceAll(text, patches.RootAdopted, c.root+"/tmp/stategraft-root")
	}
	var env []string
	for _, v := range of.Env {
		value := here(v.Value)
		if v.ValueFrom != nil {
			value = p.from(v.ValueFrom)
		}
		if port, ok := p.ports[v.Name]; ok {
			value = port
		}
		if v.Name == "STATEGRAFT_CQL_PORT" {
			value = "1"
		}
		if v.Name == patches.EnvMemory && strings.HasPrefix(of.Name, patches.ContainerAgent) {
			value = "1073741824" // the race detector needs more than the agent
		}
		env = append(env, v.Name+"="+value)
	}
	env = append(env, "PATH="+p.dir+"/bin:"+os.Getenv("PATH"), "STATEGRAFT_TEST_AGENT=1", "STATEGRAFT_DATABASE_FIRST=0s", "STATEGRAFT_POLL=20ms",
		"STATEGRAFT_MEDUSA_COMMAND="+p.dir+"/medusa", "STATEGRAFT_MEDUSA_PYTHON="+p.dir+"/python", "TMPDIR="+c.root+"/tmp")
	command := of.Command
	if command[0] == patches.AgentInImage {
		command = append([]string{"/proc/self/exe"}, command[1:]...)
	} else {
		command = append([]string{command[0], command[1], strings.ReplaceAll(command[2], "/tmp/", c.root+"/tmp/")}, command[3:]...)
	}
	c.Cmd = exec.Command(command[0], command[1:]...)
	c.Env, c.Stdout, c.Stderr = env, &c.out, &c.out
	if err := c.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.running[c.name] = c
	go func() { c.ended <- c.Wait() }()
	p.t.Cleanup(func() { _ = c.Process.Kill() })
}

// from is what the kubelet puts into a variable.
func (p *adoptedPod) from(source *corev1.EnvVarSource) string {
	switch {
	case source.FieldRef != nil:
		return map[string]string{"metadata.uid": p.uid, "metadata.name": "cassandra-0", "metadata.namespace": "ns"}[source.FieldRef.FieldPath]
	case source.ConfigMapKeyRef != nil:
		return contentsOfTests[source.ConfigMapKeyRef.Key]
	}
	if text, ok := contentsOfTests[source.SecretKeyRef.Key]; ok {
		return text
	}
	return contentsOfTests[source.SecretKeyRef.Name+"/"+source.SecretKeyRef.Key]
}

// ended waits for containers to end by themselves, with status 0.
func (p *adoptedPod) ended(names ...string) {
	p.t.Helper()
	for _, name := range names {
		select {
		case err := <-p.running[name].ended:
			if err != nil {
				p.t.Fatalf("%s ended with %v\n%s", name, err, p.running[name].out.String())
			}
		case <-time.After(patience):
			p.t.Fatalf("%s does not end\n%s", name, p.logs())
		}
		delete(p.running, name)
	}
}

func (p *adoptedPod) logs() string {
	var all strings.Builder
	for name, c := range p.running {
		fmt.Fprintf(&all, "--- %s\n%s\n", name, c.out.String())
	}
	return all.String()
}

func (p *adoptedPod) eventually(what string, holds func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("never: %s\n%s", what, p.logs())
		}
	}
}

// says waits for a message in a container's log.
func (p *adoptedPod) says(name, message string) {
	p.t.Helper()
	p.eventually(name+" says "+message, func() bool { return strings.Contains(p.running[name].out.String(), message) })
}

// report is what the pod tells of itself.
func (p *adoptedPod) report() (status int, body string) {
	return serving{address: "127.0.0.1:" + p.ports["STATEGRAFT_NODE_PORT"]}.ask("/v1/node")
}

func (p *adoptedPod) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(p.dir, name))
	return string(text)
}

// quiet checks that no secret has got where it may be read.
func (p *adoptedPod) quiet() {
	p.t.Helper()
	places := map[string]string{"what the child has": p.read("env")}
	for name, c := range p.running {
		places["the log of "+name] = c.out.String()
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", c.Process.Pid))
		if err != nil {
			p.t.Error(err)
		}
		places["the environment of "+name] = string(environ)
	}
	for what, text := range places {
		if strings.Contains(text, "s3cr3t") {
			p.t.Errorf("%s has a secret:\n%s", what, text)
		}
		if text == "" {
			p.t.Errorf("nothing is known of %s", what)
		}
	}
}

// jsonLines checks that each line of a log is one object.
func (p *adoptedPod) jsonLines() {
	p.t.Helper()
	for name, c := range p.running {
		for line := range strings.Lines(c.out.String()) {
			if !json.Valid([]byte(line)) {
				p.t.Errorf("%s: not JSON: %s", name, line)
			}
		}
	}
}
