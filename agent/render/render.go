// Package render makes the medusa.ini and the cassandra.yaml that Medusa runs
// with from what the user wrote and what is known of the pod. It is pure: files
// and clock are the caller's.
package render

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stategraft/stategraft/agent/ini"
	"github.com/stategraft/stategraft/api/node"
)

// Pod is what is known of the pod.
type Pod struct {
	Namespace     string
	Cluster       string // the database's name for its cluster; may be empty
	DataMount     string // where the data volume is mounted
	DataDirectory string // empty where only the volume is known
	Commitlog     string
	SavedCaches   string
	CQLPort       int
	GRPCPort      int

	ManagementAPI      string // the URL, where the image has that API
	ManagementAPICerts string // directory with tls.crt and tls.key, where it wants TLS
	SnapshotPort       int    // of our own server otherwise
	Segment            string // the secret part of its path

	Yaml    string // path of the cassandra.yaml for Medusa
	KeyFile string // path of the storage credentials; empty where there are none
	GRPCTLS string // directory of the gRPC service's pair; empty where gRPC is in the clear
}

// Result is an effective medusa.ini, or why there is none.
type Result struct {
	Text string // empty if there are Problems
	// Problems keep Medusa from working at all; each names its key.
	Problems []string
	// Notes are one line each: what of the user's was not followed, and why.
	Notes []string
}

// sections are the ones that Medusa knows; any other makes it fail with a bare
// KeyError (medusa/config.py, _override_config_with_args).
var sections = []string{"storage", "cassandra", "ssh", "checks", "monitoring", "logging", "grpc", "kubernetes"}

// Render makes the effective medusa.ini. What the user wrote wins but for the
// keys that cannot be right otherwise in an injected pod.
func Render(user string, pod Pod) Result {
	file, err := ini.Parse(user)
	if err != nil {
		return Result{Problems: []string{"medusa.ini cannot be read: " + err.Error()}}
	}
	r := Result{}
	for _, name := range file.Sections() {
		if !slices.Contains(sections, name) {
			r.note("medusa.ini: section [%s] is left out: Medusa does not know it and would not start", name)
			file.Remove(name)
		}
	}
	r.Problems = Check(file)
	r.force(file, pod)
	r.grpcTLS(file, pod.GRPCTLS)
	r.complete(file, pod)
	if len(r.Problems) == 0 {
		r.Text = header + file.String()
	}
	return r
}

const header = "# Written by stategraft-agent from the ConfigMap's medusa.ini; changes here are lost.\n\n"

func (r *Result) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// Check names what a medusa.ini lacks before Medusa can store anything
// (medusa/config.py load_config, medusa/storage).
func Check(file *ini.File) []string {
	var problems []string
	problem := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if !slices.Contains(file.Sections(), "storage") {
		return []string{"medusa.ini: section [storage] is missing; it needs at least storage_provider and bucket_name"}
	}
	storage := func(key string) string { value, _ := file.Get("storage", key); return value }
	for _, key := range []string{"storage_provider", "bucket_name"} {
		if storage(key) == "" {
			problem("medusa.ini: [storage] %s is missing", key)
		}
	}
	for _, key := range []string{"bucket_name", "prefix"} {
		if strings.Contains(storage(key), "/") {
			problem("medusa.ini: [storage] %s = %s must not contain a slash", key, storage(key))
		}
	}
	provider := strings.ToLower(storage("storage_provider"))
	switch {
	case provider == "local" && storage("base_path") == "":
		problem("medusa.ini: [storage] base_path is missing; storage_provider local needs it")
	case (provider == "s3_compatible" || provider == "ibm_storage") && storage("host") == "":
		problem("medusa.ini: [storage] host is missing; storage_provider %s needs it", provider)
	case provider != "" && provider != "local" && provider != "google_storage" && provider != "azure_blobs" &&
		provider != "ibm_storage" && !strings.HasPrefix(provider, "s3"):
		problem("medusa.ini: [storage] storage_provider = %s is none that Medusa knows", storage("storage_provider"))
	}
	return problems
}

// forced is a key that cannot be right otherwise.
type forced struct{ section, key, value, why string }

// force sets these keys and notes where the user wanted them otherwise.
func (r *Result) force(file *ini.File, pod Pod) {
	url := pod.ManagementAPI
	if url == "" {
		url = fmt.Sprintf("http://127.0.0.1:%d/%s/snapshots", pod.SnapshotPort, pod.Segment)
	}
	keys := []forced{
		// Without it a failed backup ends the process instead of the call.
		{"grpc", "enabled", "1", "the sidecar serves gRPC"},
		{"grpc", "port", strconv.Itoa(pod.GRPCPort), "the container's port is declared so; see annotation stategraft.io/grpc-port"},
		{"kubernetes", "enabled", "1", "Medusa runs in a pod"},
		{"kubernetes", "use_mgmt_api", "1", "snapshots are taken by this contract only"},
		{"kubernetes", "cassandra_url", url, "this is where the pod takes snapshots"},
		{"cassandra", "config_file", pod.Yaml, "this is the cassandra.yaml that describes the pod"},
		{"cassandra", "use_sudo", "False", "there is no sudo in the image"},
		{"storage", "use_sudo_for_restore", "False", "there is no sudo in the image"},
	}
	for _, k := range keys {
		if written, ok := file.Get(k.section, k.key); ok && !same(written, k.value) {
			// The address holds the secret path, so it is not shown.
			shown := k.value
			if k.key == "cassandra_url" {
				shown = "the pod's own"
			}
			r.note("medusa.ini: [%s] %s = %s is replaced by %s: %s", k.section, k.key, written, shown, k.why)
		}
		file.Set(k.section, k.key, k.value)
	}
}

// same compares values the way Medusa reads them (utils.evaluate_boolean).
func same(a, b string) bool {
	if x, ok := boolean(a); ok {
		y, other := boolean(b)
		return other && x == y
	}
	return a == b
}

func boolean(text string) (value, ok bool) {
	switch strings.ToLower(text) {
	case "1", "true", "yes", "on":
		return true, true
	case "0", "false", "no", "off":
		return false, true
	}
	return false, false
}

// complete adds what the user left open.
func (r *Result) complete(file *ini.File, pod Pod) {
	missing := func(section, key string) bool {
		value, _ := file.Get(section, key)
		return value == ""
	}
	if missing("storage", "prefix") {
		file.Set("storage", "prefix", node.Prefix(pod.Namespace, pod.Cluster))
	} else if prefix, _ := file.Get("storage", "prefix"); node.Confusing(prefix) {
		r.note("medusa.ini: [storage] prefix = %s contains a word that Medusa looks for in the names of its index (%s); its listing will fail",
			prefix, strings.Join(node.IndexWords, ", "))
	}
	CompleteKeyFile(file, pod.KeyFile)
	if pod.ManagementAPI != "" && pod.ManagementAPICerts != "" {
		for _, k := range [...][2]string{{"tls_cert", "tls.crt"}, {"tls_key", "tls.key"}} { // in this order: another text restarts Medusa
			if missing("kubernetes", k[0]) {
				file.Set("kubernetes", k[0], pod.ManagementAPICerts+"/"+k[1])
			}
		}
	}
}

// CompleteKeyFile names the credentials where the user names none. It is also
// called where Medusa runs: the agent's own container has no storage Secret.
func CompleteKeyFile(file *ini.File, path string) {
	if value, _ := file.Get("storage", "key_file"); value == "" && path != "" {
		file.Set("storage", "key_file", path)
	}
}
