package render

import (
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/stategraft/stategraft/agent/ini"
	"github.com/stategraft/stategraft/api/node"
)

var pod = Pod{
	Namespace: "prod", Cluster: "demo", DataMount: "/var/lib/cassandra", DataDirectory: "/var/lib/cassandra/data",
	Commitlog: "/var/lib/cassandra/commitlog", SavedCaches: "/var/lib/cassandra/saved_caches",
	CQLPort: 9042, GRPCPort: 50051, SnapshotPort: 9188, Segment: "5e9", Yaml: "/etc/medusa/cassandra.yaml",
}

const minimal = "[storage]\nstorage_provider = s3\nbucket_name = b\n"

func effective(t *testing.T, r Result) func(section, key string) string {
	t.Helper()
	if len(r.Problems) > 0 {
		t.Fatalf("problems: %q", r.Problems)
	}
	file, err := ini.Parse(r.Text)
	if err != nil {
		t.Fatal(err)
	}
	return func(section, key string) string { value, _ := file.Get(section, key); return value }
}

func TestRenderMinimal(t *testing.T) {
	r := Render(minimal, pod)
	get := effective(t, r)
	for _, c := range [][3]string{
		{"storage", "storage_provider", "s3"}, {"storage", "bucket_name", "b"}, {"storage", "prefix", "prod_demo"},
		{"storage", "use_sudo_for_restore", "False"}, {"storage", "key_file", ""},
		{"grpc", "enabled", "1"}, {"grpc", "port", "50051"},
		{"kubernetes", "enabled", "1"}, {"kubernetes", "use_mgmt_api", "1"},
		{"kubernetes", "cassandra_url", "http://127.0.0.1:9188/5e9/snapshots"}, {"kubernetes", "tls_cert", ""},
		{"cassandra", "config_file", "/etc/medusa/cassandra.yaml"}, {"cassandra", "use_sudo", "False"},
	} {
		if got := get(c[0], c[1]); got != c[2] {
			t.Errorf("[%s] %s = %q, want %q", c[0], c[1], got, c[2])
		}
	}
	if len(r.Notes) > 0 {
		t.Errorf("notes without a conflict: %q", r.Notes)
	}
}

// TestRenderIsStable renders pods again and again: another text would restart Medusa.
func TestRenderIsStable(t *testing.T) {
	managed := pod
	managed.ManagementAPI, managed.ManagementAPICerts, managed.GRPCTLS, managed.KeyFile = "https://127.0.0.1:8080", "/certs", "/tls", "/secrets/credentials"
	for name, pod := range map[string]Pod{"plain": pod, "with a management API and TLS": managed} {
		for _, user := range []string{minimal, minimal + "[kubernetes]\ntls_key = /own\n[grpc]\nca_cert = /own\n[logging]\nenabled = 1\n"} {
			first := Render(user, pod)
			effective(t, first)
			for range 50 {
				if again := Render(user, pod); !reflect.DeepEqual(again, first) {
					t.Fatalf("%s: first\n%s\nthen\n%s", name, first.Text, again.Text)
				}
			}
		}
	}
}

func TestUserWins(t *testing.T) {
	with := pod
	with.KeyFile = "/etc/medusa-secrets/credentials"
	get := effective(t, Render(minimal+"prefix = mine\nkey_file = /x\nregion = eu\n[cassandra]\nresolve_ip_addresses = False\n[grpc]\nenabled = yes\n", with))
	for _, c := range [][3]string{
		{"storage", "prefix", "mine"}, {"storage", "key_file", "/x"}, {"storage", "region", "eu"}, {"cassandra", "resolve_ip_addresses", "False"},
	} {
		if got := get(c[0], c[1]); got != c[2] {
			t.Errorf("[%s] %s = %q, want %q", c[0], c[1], got, c[2])
		}
	}
	if got := effective(t, Render(minimal, with))("storage", "key_file"); got != with.KeyFile {
		t.Errorf("key_file = %q", got)
	}
}

func TestConflicts(t *testing.T) {
	r := Render(minimal+"[grpc]\nport = 1\nenabled = off\n[kubernetes]\ncassandra_url = http://x\nenabled = true\n[DEFAULT]\nuse_sudo = on\n[nonsense]\na = 1\n", pod)
	get := effective(t, r)
	if get("grpc", "port") != "50051" || get("grpc", "enabled") != "1" || get("cassandra", "use_sudo") != "False" {
		t.Errorf("not forced:\n%s", r.Text)
	}
	if strings.Contains(r.Text, "nonsense") {
		t.Error("a section that Medusa fails on is kept")
	}
	for _, want := range []string{"[nonsense]", "[grpc] port = 1 is replaced by 50051", "[grpc] enabled = off", "[kubernetes] cassandra_url = http://x is replaced by the pod's own", "[cassandra] use_sudo = on"} {
		found := 0
		for _, note := range r.Notes {
			if strings.Contains(note, want) {
				found++
			}
			if strings.Contains(note, pod.Segment) || strings.Contains(note, "\n") {
				t.Errorf("note %q", note)
			}
		}
		if found != 1 {
			t.Errorf("%d notes with %q in %q", found, want, r.Notes)
		}
	}
	if len(r.Notes) != 5 {
		t.Errorf("notes %q", r.Notes)
	}
}

func TestProblemsNameTheKey(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "section [storage] is missing"},
		{"[grpc]\nport = 1\n", "section [storage] is missing"},
		{"[storage]\nbucket_name = b\n", "[storage] storage_provider is missing"},
		{"[storage]\nstorage_provider = s3\nbucket_name =\n", "[storage] bucket_name is missing"},
		{"[storage]\nstorage_provider = s3\nbucket_name = a/b\n", "[storage] bucket_name = a/b must not contain a slash"},
		{minimal + "prefix = a/b\n", "[storage] prefix = a/b must not"},
		{"[storage]\nstorage_provider = local\nbucket_name = b\n", "[storage] base_path is missing"},
		{"[storage]\nstorage_provider = s3_compatible\nbucket_name = b\n", "[storage] host is missing"},
		{"[storage]\nstorage_provider = ftp\nbucket_name = b\n", "storage_provider = ftp is none"},
		{"[storage\n", "medusa.ini cannot be read: line 1"},
	} {
		r := Render(c.text, pod)
		if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], c.want) || r.Text != "" {
			t.Errorf("%q: problems %q, text %q, want %q", c.text, r.Problems, r.Text, c.want)
		}
	}
	for _, provider := range []string{"google_storage", "azure_blobs", "s3_us_west_oregon", "S3", "s3_rgw"} {
		if r := Render("[storage]\nstorage_provider = "+provider+"\nbucket_name = b\n", pod); len(r.Problems) > 0 {
			t.Errorf("%s: %q", provider, r.Problems)
		}
	}
}

func TestManagementAPI(t *testing.T) {
	with := pod
	with.ManagementAPI, with.ManagementAPICerts, with.SnapshotPort = "https://127.0.0.1:8080/api/v0/ops/node/snapshots", "/certs", 0
	get := effective(t, Render(minimal+"[kubernetes]\ntls_key = /my/key\n", with))
	for _, c := range [][2]string{{"cassandra_url", with.ManagementAPI}, {"tls_cert", "/certs/tls.crt"}, {"tls_key", "/my/key"}} {
		if got := get("kubernetes", c[0]); got != c[1] {
			t.Errorf("%s = %q, want %q", c[0], got, c[1])
		}
	}
}

func TestPrefix(t *testing.T) {
	seen := map[string]string{}
	for _, pair := range [][2]string{
		{"a-b", "c"}, {"a", "b-c"}, {"a", ""}, {"a", "Test Cluster"}, {"a", "Test-Cluster"}, {"a", "x/y"},
		{"getting-started", "c"}, {"a", "schema"}, {"a", "manifest"}, {"", ""},
	} {
		prefix := node.Prefix(pair[0], pair[1])
		if other, ok := seen[prefix]; ok {
			t.Errorf("%q and %q are both %q", pair, other, prefix)
		}
		seen[prefix] = strings.Join(pair[:], " ")
		if prefix == "" || strings.ContainsAny(prefix, "/ ") || node.Confusing(prefix) {
			t.Errorf("%q: prefix %q", pair, prefix)
		}
		if prefix != node.Prefix(pair[0], pair[1]) {
			t.Error("not always the same")
		}
	}
	if got := node.Prefix("ns", "c"); got != "ns_c" {
		t.Errorf("%q", got)
	}
	if r := Render(minimal+"prefix = my-schema\n", pod); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "prefix = my-schema") {
		t.Errorf("notes %q", r.Notes)
	}
}

func TestYaml(t *testing.T) {
	guess := Pod{DataMount: "/vol/data"}
	other := Pod{DataMount: "/vol"}
	for _, c := range []struct {
		name, shared string
		pod          Pod
		want         map[string]any // of the stand-in; nil if the shared one is used
		note         string
		problem      string
	}{
		{"none", "", pod, map[string]any{"data_file_directories": []any{"/var/lib/cassandra/data"}, "commitlog_directory": "/var/lib/cassandra/commitlog",
			"saved_caches_directory": "/var/lib/cassandra/saved_caches", "native_transport_port": 9042.0}, "", ""},
		{"good", "listen_address: 10.0.0.1\ndata_file_directories: [/d]\n", pod, nil, "", ""},
		{"interface", "listen_interface: eth0\n", pod, nil, "", ""},
		{"name", "listen_address: cassandra-0\n", pod, nil, "", ""},
		{"stock file", "listen_address: localhost\nnative_transport_port: 9043\nstorage_port: 7000\nclient_encryption_options: {enabled: true, keystore: x}\ndata_file_directories:\n  - /d\n", pod,
			map[string]any{"data_file_directories": []any{"/d"}, "commitlog_directory": "/var/lib/cassandra/commitlog", "saved_caches_directory": "/var/lib/cassandra/saved_caches",
				"native_transport_port": 9043.0, "storage_port": 7000.0, "client_encryption_options": map[string]any{"enabled": true}}, "listen_address localhost", ""},
		{"template", "listen_address: ${POD_IP}\n", other, map[string]any{"data_file_directories": []any{"/vol/data"}, "commitlog_directory": "/vol/commitlog", "saved_caches_directory": "/vol/saved_caches"}, "listen_address ${POD_IP}", ""},
		{"loopback", "listen_address: 127.0.0.1\n", guess, map[string]any{"data_file_directories": []any{"/vol/data"}, "commitlog_directory": "/vol/commitlog", "saved_caches_directory": "/vol/saved_caches"}, "listen_address 127.0.0.1", ""},
		{"no directory", "cluster_name: x\n", other, map[string]any{"data_file_directories": []any{"/vol/data"}, "commitlog_directory": "/vol/commitlog", "saved_caches_directory": "/vol/saved_caches"}, "", ""},
		{"not yaml", "a: [b\n", guess, map[string]any{"data_file_directories": []any{"/vol/data"}, "commitlog_directory": "/vol/commitlog", "saved_caches_directory": "/vol/saved_caches"}, "cannot be read", ""},
		{"two disks", "data_file_directories: [/a, /b]\n", pod, nil, "", "has 2 entries"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, note, problem := Yaml([]byte(c.shared), c.pod)
			if !strings.Contains(note, c.note) || note != "" && c.note == "" || !strings.Contains(problem, c.problem) || problem != "" && c.problem == "" {
				t.Errorf("note %q, problem %q", note, problem)
			}
			if c.want == nil {
				if text != "" {
					t.Errorf("stand-in\n%s", text)
				}
				return
			}
			var got map[string]any
			if err := yaml.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			want, _ := yaml.Marshal(c.want)
			if have, _ := yaml.Marshal(got); string(have) != string(want) {
				t.Errorf("stand-in\n%swant\n%s", have, want)
			}
		})
	}
}
