package adopted

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/files"
)

const podUID = "3f1c8a52-7b64-4d0e-9a11-0c5d2e6f7a88"

// given sets the variables of a container.
func given(t *testing.T, env map[string]string) (root string) {
	t.Helper()
	for _, c := range Contents() {
		if _, ok := env[c.Env]; !ok {
			// Setenv puts back what Unsetenv takes away.
			t.Setenv(c.Env, "")
			if err := os.Unsetenv(c.Env); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
	return filepath.Join(t.TempDir(), "root")
}

// TestPlace: what the variables hold is where files.Standard has it, for this user only,
// and neither in the environment nor in the log.
func TestPlace(t *testing.T) {
	root := given(t, map[string]string{
		"STATEGRAFT_FILE_INI":          "[storage]\nbucket_name = b\n",
		"STATEGRAFT_FILE_CREDENTIALS":  "[default]\naws_access_key_id = AKIA1\naws_secret_access_key = s3cr3t-of-storage\n",
		"STATEGRAFT_FILE_CQL_USERNAME": "backup", "STATEGRAFT_FILE_CQL_PASSWORD": "s3cr3t-of-cql",
		"STATEGRAFT_FILE_JMX_USERNAME": "jmx", "STATEGRAFT_FILE_JMX_PASSWORD": "s3cr3t-of-jmx\n",
		"STATEGRAFT_FILE_TLS_CRT": "certificate", "STATEGRAFT_FILE_TLS_KEY": "-----BEGIN\ns3cr3t-of-tls\n-----END\n", "STATEGRAFT_FILE_TLS_CA": "",
		"POD_UID": podUID,
	})
	var secrets event.Secrets
	if err := Place(root, &secrets); err != nil {
		t.Fatal(err)
	}
	places := files.Standard(root)
	for path, want := range map[string]string{
		places.User + "/medusa.ini": "[storage]\nbucket_name = b\n", places.Credentials(): "[default]\naws_access_key_id = AKIA1\naws_secret_access_key = s3cr3t-of-storage\n",
		root + "/etc/stategraft/cql/username": "backup", root + "/etc/stategraft/cql/password": "s3cr3t-of-cql",
		places.JMX + "/username": "jmx", places.JMX + "/password": "s3cr3t-of-jmx\n",
		places.GRPCTLS + "/tls.crt": "certificate", places.GRPCTLS + "/tls.key": "-----BEGIN\ns3cr3t-of-tls\n-----END\n", places.GRPCTLS + "/ca.crt": "",
		places.Segment(): "3f1c8a527b644d0e9a110c5d2e6f7a88",
	} {
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if segment, err := files.ReadSegment(places.Segment()); err != nil || len(segment) != 32 {
		t.Errorf("the snapshot server does not take %q: %v", segment, err)
	}
	// What was not given is not there: its absence means something.
	if _, err := os.Stat(root + "/etc/stategraft/config/anna-config.yml"); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, variable := range os.Environ() {
		if strings.HasPrefix(variable, "STATEGRAFT_FILE_") {
			t.Errorf("%.40s is still there", variable)
		}
	}
	// A program that was started again has the files alone.
	var again event.Secrets
	if err := Place(root, &again); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*event.Secrets{&secrets, &again} {
		text := s.Hide("s3cr3t-of-storage s3cr3t-of-cql s3cr3t-of-jmx -----BEGIN\ns3cr3t-of-tls\n-----END AKIA1 backup")
		if text != "*** *** *** *** AKIA1 backup" {
			t.Errorf("the log would have %q", text)
		}
	}
}

// TestPlaceGoesOn: what cannot be written keeps nothing else from it, and is in no
// environment either.
func TestPlaceGoesOn(t *testing.T) {
	root := given(t, map[string]string{"STATEGRAFT_FILE_CREDENTIALS": "s3cr3t-of-storage", "STATEGRAFT_FILE_INI": "[storage]", "POD_UID": "no-uid"})
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "etc/medusa-secrets"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var secrets event.Secrets
	err := Place(root, &secrets)
	if err == nil || !strings.Contains(err.Error(), "medusa-secrets") || !strings.Contains(err.Error(), `POD_UID is "no-uid"`) || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(files.Standard(root).User + "/medusa.ini"); err != nil || string(text) != "[storage]" {
		t.Errorf("%q %v", text, err)
	}
	if _, ok := os.LookupEnv("STATEGRAFT_FILE_CREDENTIALS"); ok || secrets.Hide("s3cr3t-of-storage") != "***" {
		t.Error("the credentials are not hidden")
	}
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want Environment
		err  []string
	}{
		{map[string]string{"POD_UID": podUID, "STATEGRAFT_ADOPTED": "3", "STATEGRAFT_MEMORY": "1073741824"}, Environment{PodUID: podUID, Number: 3, Memory: 1 << 30}, nil},
		{map[string]string{"POD_UID": podUID, "STATEGRAFT_ADOPTED": "1", "STATEGRAFT_ADOPTED_DIR": "/data/.stategraft/adopted/1", "STATEGRAFT_ADOPTED_TAKERS": "snapshot-2 medusa-3"},
			Environment{PodUID: podUID, Number: 1, Dir: "/data/.stategraft/adopted/1", Takers: []Taker{{podUID, RoleSnapshot, 2}, {podUID, RoleMedusa, 3}}}, nil},
		{map[string]string{"POD_UID": podUID, "STATEGRAFT_ADOPTED": "1", "STATEGRAFT_ADOPTED_TAKERS": "snapshot medusa-3 -2 medusa-0"},
			Environment{PodUID: podUID, Number: 1, Takers: []Taker{{podUID, RoleMedusa, 3}}}, []string{`"snapshot"`, `"-2"`, `"medusa-0"`}},
		{map[string]string{"STATEGRAFT_ADOPTED": "0", "STATEGRAFT_MEMORY": "1Gi"}, Environment{}, []string{"POD_UID", "STATEGRAFT_ADOPTED", "STATEGRAFT_MEMORY"}},
		{map[string]string{"POD_UID": podUID, "STATEGRAFT_ADOPTED": "1", "STATEGRAFT_MEMORY": "-1"}, Environment{PodUID: podUID, Number: 1}, []string{"STATEGRAFT_MEMORY"}},
	} {
		for _, name := range []string{"POD_UID", "STATEGRAFT_ADOPTED", "STATEGRAFT_MEMORY", "STATEGRAFT_ADOPTED_DIR", "STATEGRAFT_ADOPTED_TAKERS"} {
			t.Setenv(name, c.env[name])
		}
		got, err := Read()
		if got.PodUID != c.want.PodUID || got.Number != c.want.Number || got.Memory != c.want.Memory || got.Dir != c.want.Dir || len(got.Takers) != len(c.want.Takers) {
			t.Errorf("%v: got %+v", c.env, got)
			continue
		}
		for i := range got.Takers {
			if got.Takers[i] != c.want.Takers[i] {
				t.Errorf("%v: got %+v", c.env, got)
			}
		}
		if (err == nil) != (len(c.err) == 0) {
			t.Errorf("%v: %v", c.env, err)
		}
		for _, part := range c.err {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%v: %v does not say %s", c.env, err, part)
			}
		}
	}
}
