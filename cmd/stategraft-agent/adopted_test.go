package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/adopted"
	"github.com/stategraft/stategraft/patches"
)

// TestAdopted runs what patches.Adopt adds to a pod: the binary comes over the volume, and
// goes again; Medusa and the snapshot server serve as in an injected pod; and the next
// containers take over from them, when no backup runs.
func TestAdopted(t *testing.T) {
	t.Parallel()
	p := newAdoptedPod(t)
	first := p.add()
	if want := []string{"stategraft-agent-1", "stategraft-snapshot-2", "stategraft-medusa-3"}; strings.Join(first, " ") != strings.Join(want, " ") {
		t.Fatalf("got %q", first)
	}
	p.ended("stategraft-agent-1")
	p.says("stategraft-snapshot-2", `"msg":"serving"`)
	p.says("stategraft-medusa-3", `"msg":"started Medusa"`)
	p.serves("stategraft-medusa-3")
	p.bounded("stategraft-medusa-3", "1000", 10, 2<<30)
	p.bounded("stategraft-snapshot-2", "1000", 10, 768<<20)
	pid := strings.TrimSpace(p.read("pid"))
	p.boundedPID(pid, "1000", 10, 2<<30)
	p.quiet()
	for _, name := range first[1:] {
		if _, err := os.Stat(filepath.Join(p.running[name].root, "tmp", adopted.Binary)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s keeps its copy of the agent on the node's disk: %v", name, err)
		}
	}
	if entries, err := os.ReadDir(p.volume); err != nil || len(entries) != 1 {
		t.Errorf("the volume has %v, %v", entries, err)
	}

	// Medusa makes a backup, as far as it tells.
	file, err := os.OpenFile(filepath.Join(p.dir, "stategraft-medusa-3/tmp/stategraft-root/tmp/stategraft/running.json"), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil {
		_, err = file.WriteString(`{"kind": "backup", "name": "b7", "since": "2026-11-30T10:00:00Z", "phase": "uploading"}`)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.add()
	// The binary has been taken all the same, so that nothing stays on the volume.
	p.ended("stategraft-agent-4")
	p.says("stategraft-medusa-3", "a newer container is to serve")
	p.says("stategraft-snapshot-2", "a newer container is to serve")
	if status, body := p.report(); status != http.StatusOK || !strings.Contains(body, `"backupRunning":true`) {
		t.Errorf("%d %s", status, body)
	}
	if got := strings.TrimSpace(p.read("pid")); got != pid {
		t.Errorf("Medusa was started again in the middle of a backup")
	}
	file.Close()
	p.ended("stategraft-snapshot-2", "stategraft-medusa-3")
	p.says("stategraft-medusa-6", `"msg":"started Medusa"`)
	p.says("stategraft-snapshot-5", `"msg":"serving"`)
	p.serves("stategraft-medusa-6")
	if text := p.read("collisions"); text != "" {
		t.Error("two Medusas ran at once")
	}
	p.quiet()

	// One that comes late has nothing to do.
	for role, env := range map[string][]string{"install": {"STATEGRAFT_ADOPTED_DIR=" + p.volume + "/.stategraft/adopted/4"}, "snapshot": nil, "medusa": nil} {
		late := agent(t, append(env, "POD_UID="+p.uid, "STATEGRAFT_ADOPTED=4"), "adopted", role)
		if out, err := late.CombinedOutput(); err != nil || role != "install" && !strings.Contains(string(out), adopted.ErrNewer.Error()) {
			t.Errorf("%s: %v\n%s", role, err, out)
		}
	}
	p.jsonLines()
	p.stop("stategraft-snapshot-5", "stategraft-medusa-6")
	if entries, err := os.ReadDir(p.volume); err != nil || len(entries) != 1 {
		t.Errorf("the volume has %v, %v", entries, err)
	}
}

// TestAdoptedEndsAtOnce: a backup does not delay the end of a pod that was adopted.
func TestAdoptedEndsAtOnce(t *testing.T) {
	log, _ := logger("medusa")
	for _, c := range []struct {
		number, said string
		want         time.Duration
	}{{"", "", stopLimit}, {"3", "", 0}, {"3", "7s", 7 * time.Second}, {"", "7s", 7 * time.Second}} {
		t.Setenv("STATEGRAFT_ADOPTED", c.number)
		t.Setenv("STATEGRAFT_STOP_LIMIT", c.said)
		if got := mayStop(log); got != c.want {
			t.Errorf("container %q, told %q: %v, want %v", c.number, c.said, got, c.want)
		}
	}
}

// TestAdoptedLeftOver: containers whose agent has ended before they had its binary take that
// of a later round. The kubelet starts all of a pod's once more where a node has lost what it
// knew of them: then one of an earlier round may be the only one of its role.
func TestAdoptedLeftOver(t *testing.T) {
	t.Parallel()
	p := newAdoptedPod(t)
	p.lost = "stategraft-agent-1"
	p.add()
	p.add(patches.RoleMedusa)
	p.ended("stategraft-medusa-3")
	p.says("stategraft-medusa-5", `"msg":"started Medusa"`)
	p.says("stategraft-snapshot-2", `"msg":"serving"`)
	p.ended("stategraft-agent-4")
	if text := p.read("collisions"); text != "" {
		t.Error("two Medusas ran at once")
	}
	if entries, err := os.ReadDir(p.volume); err != nil || len(entries) != 1 {
		t.Errorf("the volume has %v, %v", entries, err)
	}
	p.stop("stategraft-snapshot-2", "stategraft-medusa-5")
}

// TestAdoptedNotTaken: an agent that is ended before all have its binary does not end well,
// so that another is added; and leaves nothing on the volume.
func TestAdoptedNotTaken(t *testing.T) {
	t.Parallel()
	volume := t.TempDir()
	uid := fmt.Sprintf("%08x-0000-4000-8000-%012x", os.Getpid(), time.Now().UnixNano()&(1<<48-1))
	command := agent(t, []string{"POD_UID=" + uid, "STATEGRAFT_ADOPTED=1", "STATEGRAFT_ADOPTED_DIR=" + volume + "/.stategraft/adopted/1", "STATEGRAFT_ADOPTED_TAKERS=medusa-2"}, "adopted", "install")
	out := &lines{}
	command.Stdout, command.Stderr = out, out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = command.Process.Kill() }()
	for deadline := time.Now().Add(patience); !strings.Contains(out.String(), "waiting until"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it brings nothing: %s", out)
		}
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); command.ProcessState.ExitCode() != 1 || !strings.Contains(out.String(), "before all had taken") {
		t.Errorf("%v\n%s", err, out)
	}
	if entries, err := os.ReadDir(volume); err != nil || len(entries) > 0 {
		t.Errorf("the volume has %v, %v", entries, err)
	}
}

// stop asks containers to end.
func (p *adoptedPod) stop(names ...string) {
	p.t.Helper()
	for _, name := range names {
		if c := p.running[name]; c != nil {
			if err := c.Process.Signal(syscall.SIGTERM); err != nil {
				p.t.Errorf("%s has ended: %v", name, err)
			}
			p.ended(name)
		}
	}
}

// serves checks what the pod tells of itself, and that its Medusa finds the snapshot server.
func (p *adoptedPod) serves(medusa string) {
	p.t.Helper()
	p.eventually("the pod reports that Medusa runs", func() bool { _, body := p.report(); return !strings.Contains(body, `"waiting"`) })
	if status, body := p.report(); status != http.StatusOK || !strings.Contains(body, `"node":"cassandra-0","prefix":"ns_demo"`) {
		p.t.Errorf("%d %s", status, body)
	}
	ini := p.read(medusa + "/tmp/stategraft-root/tmp/stategraft/medusa.ini")
	var url string
	for line := range strings.Lines(ini) {
		if name, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(name) == "cassandra_url" {
			url = strings.TrimSpace(value)
		}
	}
	if want := fmt.Sprintf("http://127.0.0.1:%s/%s/snapshots", p.ports["STATEGRAFT_SNAPSHOT_PORT"], strings.ReplaceAll(p.uid, "-", "")); url != want {
		p.t.Errorf("Medusa asks %q for snapshots, want %q\n%s", url, want, ini)
	}
	for _, want := range []string{"grpc-tls", "medusa-secrets/credentials", "/etc/medusa/cassandra.yaml"} {
		if strings.Contains(ini, want) == (want == "grpc-tls") || strings.Contains(ini, "= /etc") {
			p.t.Errorf("%s is not as it should be in\n%s", want, ini)
		}
	}
	p.eventually("the snapshot server answers", func() bool {
		response, err := http.Post(url, "application/json", strings.NewReader(`{"snapshot_name": "medusa-b1"}`))
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	if calls := p.read("nodetool.calls"); !strings.Contains(calls, "-u jmx -pwf") || !strings.Contains(calls, "snapshot -t medusa-b1") {
		p.t.Errorf("nodetool was called with %s", calls)
	}
	if env := p.read("env"); !strings.Contains(env, "MEDUSA_CQL_K8S_SECRETS_PATH="+p.dir+"/"+medusa+"/tmp/stategraft-root/etc/stategraft/cql") {
		p.t.Errorf("Medusa finds no CQL credentials\n%s", env)
	}
}

func (p *adoptedPod) bounded(name, score string, nice int, data uint64) {
	p.t.Helper()
	p.boundedPID(strconv.Itoa(p.running[name].Process.Pid), score, nice, data)
}

func (p *adoptedPod) boundedPID(pid, score string, nice int, data uint64) {
	p.t.Helper()
	got, err := os.ReadFile("/proc/" + pid + "/oom_score_adj")
	if err != nil || strings.TrimSpace(string(got)) != score {
		p.t.Errorf("%s: oom_score_adj %s, %v", pid, got, err)
	}
	tasks, err := os.ReadDir("/proc/" + pid + "/task")
	if err != nil || len(tasks) == 0 {
		p.t.Errorf("%s: %v", pid, err)
	}
	for _, task := range tasks {
		id, _ := strconv.Atoi(task.Name())
		if was, err := syscall.Getpriority(syscall.PRIO_PROCESS, id); err == nil && 20-was < nice { // where tests run behind others, it is more
			p.t.Errorf("%s: thread %d has nice %d", pid, id, 20-was)
		}
	}
	limits, err := os.ReadFile("/proc/" + pid + "/limits")
	if want := fmt.Sprintf("Max data size             %d ", data); err != nil || !strings.Contains(string(limits), want) {
		p.t.Errorf("%s: %v, want %s in\n%s", pid, err, want, limits)
	}
}
