package setup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/agent/anna/config"
	"github.com/stategraft/stategraft/agent/files"
)

func TestDirectories(t *testing.T) {
	r := newRig(t, KindAnna, config.RoleDisk)
	file := filepath.Join(r.volume, "ebs_0", "key")
	for range 2 {
		r.run(t)
		for _, tid := range []string{"0", "1", "2"} {
			if info, err := os.Stat(filepath.Join(r.volume, "ebs_"+tid, "funcs")); err != nil || !info.IsDir() || info.Mode().Perm() != 0o755 {
				t.Errorf("thread %s: %v, %v", tid, info, err)
			}
		}
		if _, err := os.Stat(filepath.Join(r.volume, "ebs_3")); err == nil {
			t.Error("a directory of no thread")
		}
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if text(t, file) != "x" {
		t.Error("the node's files are not ours")
	}
}

func TestDirectoryThatIsAFile(t *testing.T) {
	r := newRig(t, KindAnna, config.RoleDisk)
	if err := os.WriteFile(filepath.Join(r.volume, "ebs_1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "ebs_1") {
		t.Errorf("%v", err)
	}
	// A pod whose own commands make them starts all the same.
	r.Renders = nil
	if err := r.Run(t.Context()); err != nil || !strings.Contains(r.log.String(), "left to the pod's own commands") {
		t.Errorf("%v; log\n%s", err, r.log)
	}
}

func TestRoot(t *testing.T) {
	for _, c := range []struct{ disk, volume, want string }{
		{"/ebs", "/ebs", "/ebs"}, {"/ebs/", "/ebs", "/ebs"}, {"/ebs/data", "/ebs", "/ebs/data"},
		{"/other", "/ebs", "/ebs"}, {"./", "/ebs", "/ebs"}, {"", "/ebs", "/ebs"}, {"/ebs-2", "/ebs", "/ebs"}, {"/ebs/../x", "/ebs", "/ebs"},
	} {
		if got := Root(c.disk, c.volume); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		role, old, text, want string
		change                func(*rig)
	}{
		"the disk tier stays empty":        {role: config.RoleDisk, old: "ebs: 1, minimum", text: "ebs: 0, minimum", want: "stays empty"},
		"files beside the volume":          {role: config.RoleDisk, old: "ebs: EBS", text: "ebs: /elsewhere", want: "do not go to the data volume"},
		"no volume":                        {role: config.RoleDisk, change: func(r *rig) { r.Pod.DataDir = "" }, want: "no data volume"},
		"more than the volume":             {role: config.RoleDisk, old: "ebs-cap: 0", text: "ebs-cap: 4000", want: "than the volume has"},
		"more than the container":          {role: config.RoleMemory, change: func(r *rig) { r.Pod.MemoryLimit = 5e8 }, want: "more than the container may take"},
		"what Load warns of":               {role: config.RoleMemory, old: "replication", text: "policy: {elasticity: true}\nreplication", want: "nothing does so here"},
		"directories of an earlier number": {role: config.RoleDisk, change: func(r *rig) { _ = Directories(r.volume, 9, files.Owner{}) }, want: "more threads than threads.ebs"},
	} {
		r := newRig(t, KindAnna, c.role)
		text := plain
		if c.old != "" {
			text = strings.Replace(plain, c.old, c.text, 1)
		}
		r.write(t, "config/"+config.File, strings.Replace(text, "EBS", r.volume, 1))
		if c.change != nil {
			c.change(r)
		}
		r.run(t)
		if got := r.log.String(); !strings.Contains(got, c.want) || !strings.Contains(got, "level=WARN") {
			t.Errorf("%s: log\n%s", name, got)
		}
	}
	r := newRig(t, KindAnna, config.RoleDisk)
	r.run(t)
	if got := r.log.String(); strings.Contains(got, "level=WARN") {
		t.Errorf("nothing is wrong here:\n%s", got)
	}
}

func TestFromEnvironment(t *testing.T) {
	env := map[string]string{
		"STATEGRAFT_KIND": "anna", "STATEGRAFT_ROLE": "memory", "POD_NAME": "m-0", "POD_NAMESPACE": "prod", "POD_IP": "10.0.0.1", "HOST_IP": "10.0.0.1",
		"STATEGRAFT_SUBDOMAIN": "m", "STATEGRAFT_EXPOSE": "true", "STATEGRAFT_DATA_DIRECTORY": "/ebs", "STATEGRAFT_OWNER": "7:8", "STATEGRAFT_MEMORY_LIMIT": "1000",
		"STATEGRAFT_RENDER": `[{"container":"memory-container","kind":"anna","role":"memory","dir":"/stategraft-conf/memory-container","threadID":"0"}]`,
	}
	s, err := FromEnvironment(func(name string) string { return env[name] }, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Pod.HostNetwork || !s.Pod.Exposed || s.Owner != (files.Owner{Set: true, UID: 7, GID: 8}) || s.Pod.MemoryLimit != 1000 ||
		len(s.Renders) != 1 || s.Renders[0] != (Render{"memory-container", "anna", "memory", "/stategraft-conf/memory-container", "0"}) {
		t.Errorf("%+v", s)
	}
	for name, bad := range map[string]string{
		"STATEGRAFT_OWNER": "x", "STATEGRAFT_MEMORY_LIMIT": "1Gi", "STATEGRAFT_RENDER": "[",
	} {
		_, err := FromEnvironment(func(n string) string {
			if n == name {
				return bad
			}
			return env[n]
		}, nil)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{`[{"kind":"redis","dir":"/x"}]`, `[{"kind":"anna","dir":"x"}]`, `[{"kind":"anna","dir":"/x","what":1}]`} {
		if _, err := parseRenders(bad); err == nil {
			t.Errorf("%s: accepted", bad)
		}
	}
	if renders, err := parseRenders(""); err != nil || renders != nil {
		t.Errorf("%v, %v", renders, err)
	}
}
