package setup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/config"
)

var routingNodes = []string{"anna-routing-0." + host("anna-routing"), "anna-routing-1." + host("anna-routing")}

func TestDataNode(t *testing.T) {
	for _, role := range []string{config.RoleMemory, config.RoleDisk} {
		r := newRig(t, KindAnna, role)
		e := r.run(t)
		name := "anna-" + role + "-0." + host("anna-"+role)
		if e.Self.Private != name || e.Self.Public != name || e.Seed != routingNodes[0] || !slices.Equal(e.Routing, routingNodes) ||
			!slices.Equal(e.Monitoring, []string{"anna-monitoring-0." + host("anna-monitoring")}) || e.Management != host("hydro-management") {
			t.Errorf("%s: %+v", role, e)
		}
	}
}

func TestOtherRoles(t *testing.T) {
	if e := newRig(t, KindAnna, config.RoleRouting).run(t); e.IP != "anna-routing-0."+host("anna-routing") || len(e.Monitoring) != 1 {
		t.Errorf("routing: %+v", e)
	}
	if e := newRig(t, KindAnna, config.RoleMonitoring).run(t); e.IP != "anna-monitoring-0."+host("anna-monitoring") || e.Management != host("hydro-management") {
		t.Errorf("monitoring: %+v", e)
	}
}

// An executor's pod has three executors and a cache; all of them are found by the pod's
// address, and executors count their threads.
func TestExecutors(t *testing.T) {
	r := newRig(t, KindCloudburst, config.RoleExecutor)
	r.Renders = nil
	for i, name := range []string{"function-1", "function-2", "function-3"} {
		r.Renders = append(r.Renders, Render{name, KindCloudburst, config.RoleExecutor, filepath.Join(r.conf, name), string(rune('0' + i))})
	}
	r.Renders = append(r.Renders, Render{"cache-container", KindCache, config.RoleExecutor, r.conf, ""})
	if e := r.run(t); e.IP != "10.0.0.1" {
		t.Errorf("cache: %+v", e)
	}
	if got := text(t, filepath.Join(r.conf, config.File)); !strings.Contains(got, `routing-elb: "`+host("anna-routing")+`"`) {
		t.Errorf("cache:\n%s", got)
	}
	want := "# executor of this pod, made by Stategraft.\nip: \"10.0.0.1\"\nmgmt_ip: \"" + host("hydro-management") + "\"\nexecutor:\n  thread_id: 2\n  scheduler_ips:\n" +
		"    - \"cloudburst-scheduler-0." + host("cloudburst-scheduler") + "\"\n    - \"cloudburst-scheduler-1." + host("cloudburst-scheduler") + "\"\n"
	if got := text(t, filepath.Join(r.conf, "function-3", config.FileCloudburst)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	r.Renders[1].ThreadID = "two"
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), `function-2: THREAD_ID is "two"`) {
		t.Errorf("%v", err)
	}
}

// Cloudburst is named its management whether the DNS knows it yet or not: without one it
// takes itself for a single machine. It needs no ConfigMap.
func TestScheduler(t *testing.T) {
	r := newRig(t, KindCloudburst, config.RoleScheduler)
	r.zone.Host(host("hydro-management"))
	if err := os.Remove(filepath.Join(r.Config, config.File)); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := text(t, filepath.Join(r.conf, config.FileCloudburst))
	for _, want := range []string{`mgmt_ip: "` + host("hydro-management"), `routing_address: "` + host("anna-routing"), `policy: "locality"`, `ip: "10.0.0.1"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	r.write(t, "config/"+config.FileCloudburst, "scheduler: [\n")
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), config.FileCloudburst) {
		t.Errorf("a bad file: %v", err)
	}
}

func TestTwiceTheSame(t *testing.T) {
	r := newRig(t, KindAnna, config.RoleMemory)
	r.run(t)
	path := filepath.Join(r.conf, config.File)
	first, before := text(t, path), stat(t, path)
	r.run(t)
	if text(t, path) != first || !os.SameFile(before, stat(t, path)) {
		t.Error("written again")
	}
	// The container starts again: the entry point appends. Then the pod does.
	if err := os.WriteFile(path, []byte(first+"server: {private_ip: x}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if e, err := config.Read(r.conf); err != nil || e.Self.Private == "x" {
		t.Errorf("%+v, %v", e, err)
	}
	r.run(t)
	if text(t, path) != first {
		t.Error("another file after the pod started again")
	}
	if entries, err := os.ReadDir(r.conf); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func stat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestNoManagementNoMonitor(t *testing.T) {
	for name, c := range map[string]struct {
		role  string
		named bool
		want  string // in the log
		warns bool
	}{
		"memory":         {config.RoleMemory, true, "the DNS knows no such Service", true},
		"disk":           {config.RoleDisk, true, "the DNS knows no such Service", true},
		"none is wanted": {config.RoleMemory, false, "services of anna-config.yml names none", true},
		"no data":        {config.RoleMonitoring, true, "caches hear of no changes", false},
	} {
		r := newRig(t, KindAnna, c.role)
		r.zone.Host(host("hydro-management"))
		r.zone.SRV(host("anna-monitoring"))
		r.zone.Host(host("anna-monitoring"))
		if !c.named {
			conf := filepath.Join(r.Config, config.File)
			r.write(t, "config/"+config.File, text(t, conf)+"stategraft: {services: {management: \"\"}}\n")
		}
		if e := r.run(t); e.Management != "NULL" || len(e.Monitoring) != 0 {
			t.Errorf("%s: %+v", name, e)
		}
		got := text(t, filepath.Join(r.conf, config.File))
		if !strings.Contains(got, `mgmt_ip: "NULL"`) || c.warns && !strings.Contains(got, "monitoring: []") {
			t.Errorf("%s: read in different ways:\n%s", name, got)
		}
		said := r.log.String()
		if warns := strings.Contains(said, "level=WARN") && strings.Contains(said, "the Deployment hydro-management of deploy/examples/anna"); warns != c.warns || !strings.Contains(said, c.want) {
			t.Errorf("%s: %s", name, said)
		}
	}
}

func TestHostNetwork(t *testing.T) {
	r := newRig(t, KindAnna, config.RoleMemory)
	r.Pod.HostNetwork = true
	if e := r.run(t); e.Self.Private != "10.0.0.1" || e.Self.Public != "10.0.0.1" {
		t.Errorf("%+v", e)
	}
	r.Pod.Address = "fd00::7"
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "IPv6") {
		t.Errorf("%v", err)
	}
	r.Pod.Address = ""
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "POD_IP") {
		t.Errorf("%v", err)
	}
}

// eventually runs the setup in the background, does something once it waits and says so,
// and gives what came of it.
func (r *rig) eventually(t *testing.T, says string, then func()) error {
	t.Helper()
	r.Times.Say = time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	for !strings.Contains(r.log.String(), says) {
		select {
		case err := <-done:
			t.Fatalf("it did not wait: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	then()
	return <-done
}

func TestExposedWaitsForItsAddress(t *testing.T) {
	r := newRig(t, KindAnna, config.RoleDisk)
	r.Pod.Exposed = true
	if err := r.eventually(t, "waiting for the pod's public address", func() {
		r.write(t, "info/public-address", "")
		r.write(t, "info/public-address", "lb-7.example\n")
	}); err != nil {
		t.Fatal(err)
	}
	if e := r.run(t); e.Self.Public != "lb-7.example" || e.Self.Private != "anna-ebs-0."+host("anna-ebs") {
		t.Errorf("%+v", e)
	}
	for _, bad := range []string{"fd00::1", "a_b", "10.0.0.1:6200", "a b", "a|b"} {
		r.write(t, "info/public-address", bad)
		if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "public-address") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestWaitsForRouting(t *testing.T) {
	r := newRig(t, KindAnna, config.RoleMemory)
	r.zone.SRV(host("anna-routing"))
	r.zone.Host(host("anna-routing"))
	if err := r.eventually(t, "names no routing nodes behind "+host("anna-routing"), func() {
		r.zone.Service(host("anna-routing"), map[string]string{"anna-routing-0": "10.0.0.10", "anna-routing-1": "10.0.0.11"})
	}); err != nil {
		t.Fatal(err)
	}
	if e := r.run(t); !slices.Equal(e.Routing, routingNodes) {
		t.Errorf("%+v", e)
	}
}

// A DNS that does not answer does not mean that there is no management.
func TestWaitsForTheDNS(t *testing.T) {
	r := newRig(t, KindAnna, config.RoleMonitoring)
	r.zone.Fail(true)
	if err := r.eventually(t, "the DNS does not answer", func() { r.zone.Fail(false) }); err != nil {
		t.Fatal(err)
	}
	if e := r.run(t); e.Management != host("hydro-management") {
		t.Errorf("%+v", e)
	}
}

func TestInterrupted(t *testing.T) {
	r := newRig(t, KindAnna, config.RoleMemory)
	r.zone.SRV(host("anna-routing"))
	r.zone.Host(host("anna-routing"))
	r.Times.Say = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil && !strings.Contains(r.log.String(), "names no routing nodes") {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if err := r.Run(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "routing nodes behind") {
		t.Errorf("%v", err)
	}
}

// A pod whose own name the DNS does not give starts even so, with a word about it.
func TestOwnNameUnknown(t *testing.T) {
	r := newRig(t, KindAnna, config.RoleMemory)
	r.zone.Host("anna-memory-0."+host("anna-memory"), "10.0.0.99") // of the pod before
	r.run(t)
	if got := r.log.String(); !strings.Contains(got, "publishNotReadyAddresses: true") {
		t.Errorf("log:\n%s", got)
	}
}

func TestBadConfiguration(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"missing": {"", "give it that key"},
		"bad":     {strings.Replace(plain, "routing: 4", "routing: four", 1), "threads.routing is"},
	} {
		r := newRig(t, KindAnna, config.RoleDisk)
		r.write(t, "config/"+config.File, c.text)
		if c.text == "" {
			if err := os.Remove(filepath.Join(r.Config, config.File)); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		// Where the pod's own commands make the file it is theirs to judge.
		r.Renders = nil
		if err := r.Run(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(r.log.String(), c.want) {
			t.Errorf("%s: log\n%s", name, r.log)
		}
		if _, err := os.Stat(filepath.Join(r.volume, "ebs_3", "funcs")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
