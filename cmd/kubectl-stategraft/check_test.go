package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/stategraft/stategraft/operations/check"
)

// apiServer answers as one on which nothing is installed, and nothing allowed
// but what everybody may. The kubeconfig for it is answered.
func apiServer(t *testing.T, allowed bool) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any
		switch {
		case r.URL.Path == "/version":
			answer = map[string]any{"gitVersion": "v1.37.2"}
		case r.URL.Path == "/apis/admissionregistration.k8s.io/v1":
			answer = map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "admissionregistration.k8s.io/v1",
				"resources": []any{map[string]any{"name": "validatingadmissionpolicies", "kind": "ValidatingAdmissionPolicy"}}}
		case strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"):
			answer = map[string]any{"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "status": map[string]any{"allowed": allowed}}
		case strings.HasSuffix(r.URL.Path, "/mutatingwebhookconfigurations"):
			answer = map[string]any{"kind": "MutatingWebhookConfigurationList", "apiVersion": "admissionregistration.k8s.io/v1", "items": []any{}}
		case strings.HasSuffix(r.URL.Path, "/deployments"):
			answer = map[string]any{"kind": "DeploymentList", "apiVersion": "apps/v1", "items": []any{}}
		case r.URL.Path == "/api/v1/namespaces":
			answer = map[string]any{"kind": "NamespaceList", "apiVersion": "v1", "items": []any{}}
		case r.URL.Path == "/api/v1/namespaces/db":
			answer = map[string]any{"kind": "Namespace", "apiVersion": "v1", "metadata": map[string]any{"name": "db"}}
		case strings.HasSuffix(r.URL.Path, "/pods"):
			answer = map[string]any{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "items": []any{}}
		case strings.HasSuffix(r.URL.Path, "/nodes"):
			if !allowed {
				w.WriteHeader(http.StatusForbidden)
				answer = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": http.StatusForbidden}
				break
			}
			answer = map[string]any{"kind": "NodeList", "apiVersion": "v1", "items": []any{}}
		default:
			w.WriteHeader(http.StatusNotFound)
			answer = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": http.StatusNotFound}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return writeKubeconfig(t, server.URL)
}

func writeKubeconfig(t *testing.T, server string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "c"}
	config.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCheck(t *testing.T) {
	good, weak, dead := apiServer(t, true), apiServer(t, false), writeKubeconfig(t, "http://127.0.0.1:1")
	t.Setenv("KUBECONFIG", good)
	for _, c := range []struct {
		what   string
		args   []string
		broken bool   // status 1
		err    string // a part of the error of status 2; empty for none
		out    string // a part of standard output; empty for none at all
	}{
		{"preflight", nil, false, "", "Preflight: Stategraft is not installed yet"},
		{"from the flag", []string{"--kubeconfig", good, "--context", "test"}, false, "", "(context test of " + good + ")"},
		{"some items", []string{"--only", "server-version,nodes", "-o", "json"}, false, "", `"id": "nodes"`},
		{"may not install", []string{"--kubeconfig", weak}, true, "", "FAIL  rights"},
		{"may not look", []string{"--kubeconfig", weak, "--only", "nodes"}, false, "not everything could be looked at", "no right to list nodes"},
		{"no cluster", []string{"--kubeconfig", dead}, false, "no cluster answers at http://127.0.0.1:1 (context test of " + dead + ")", ""},
		{"no kubeconfig", []string{"--kubeconfig", good + "-none"}, false, "reading the kubeconfig", ""},
		{"not before the installation", []string{"--only", "admission"}, false, "not everything could be looked at", "Stategraft is not installed, and this is about"},
		{"not of a namespace either", []string{"-n", "db", "--only", "sidecars"}, false, "not everything could be looked at", "Stategraft is not installed, and this is about"},
		{"a namespace", []string{"-n", "db"}, false, "", "db: is not labelled"},
		{"no such namespace", []string{"-n", "nosuch"}, false, `there is no namespace "nosuch"`, ""},
		{"no name of a namespace", []string{"-n", "Bad_Name!"}, false, `"Bad_Name!" is not the name of a namespace`, ""},
		{"no context", []string{"--context", "other"}, false, `context "other" does not exist`, ""},
		{"no such item", []string{"--only", "certs"}, false, `there is no item "certs"; there are server-version`, ""},
		{"no such output", []string{"-o", "yaml"}, false, "text or json", ""},
		{"no time", []string{"--timeout", "0s"}, false, "above zero", ""},
		{"stray argument", []string{"pods"}, false, "pods", ""},
	} {
		out, notes, err := run(nil, append([]string{"check"}, c.args...)...)
		switch {
		case errors.Is(err, errRefused) != c.broken, c.err == "" && !c.broken && err != nil,
			c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: error %v, want %q", c.what, err, c.err)
		}
		if !strings.Contains(out, c.out) || c.out == "" && out != "" || notes != "" {
			t.Errorf("%s: output %q, want %q; %q", c.what, out, c.out, notes)
		}
	}
}

// A kubeconfig that there is not is named, wherever its name comes from.
func TestNoKubeconfig(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	none := filepath.Join(t.TempDir(), "none")
	for what, args := range map[string][]string{"flag": {"check", "--kubeconfig", none}, "environment": {"check"}} {
		t.Setenv("KUBECONFIG", none)
		if what == "flag" {
			t.Setenv("KUBECONFIG", "")
		}
		_, _, err := run(nil, args...)
		if err == nil || !strings.Contains(err.Error(), none) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Ctrl-C in the middle leaves no report.
func TestInterrupted(t *testing.T) {
	for _, path := range []string{"/version", "/nodes"} {
		ctx, interrupt := context.WithCancel(t.Context())
		upstream := apiServer(t, true)
		config, err := clientcmd.LoadFromFile(upstream)
		if err != nil {
			t.Fatal(err)
		}
		target, err := url.Parse(config.Clusters["c"].Server)
		if err != nil {
			t.Fatal(err)
		}
		proxy := httputil.NewSingleHostReverseProxy(target)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, path) {
				interrupt()
				<-r.Context().Done()
				return
			}
			proxy.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		var out strings.Builder
		f := checkFlags{connection: connection{kubeconfig: writeKubeconfig(t, server.URL)}, output: "text", timeout: time.Minute}
		if err := f.run(ctx, &out); !errors.Is(err, errInterrupted) || out.Len() > 0 {
			t.Errorf("%s: %v, %q", path, err, &out)
		}
	}
}

// The document can be read, whatever it says.
func TestCheckJSON(t *testing.T) {
	out, _, err := run(nil, "check", "-o", "json", "--kubeconfig", apiServer(t, true))
	if err != nil {
		t.Fatal(err)
	}
	var report check.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	if report.APIVersion != check.ReportVersion || report.Result != check.Fine || len(report.Items) != len(check.Items) {
		t.Errorf("%+v", report)
	}
}

// A file, a pipe and a terminal that says so are not coloured.
func TestColours(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if colours(file) || colours(&strings.Builder{}) {
		t.Error("a file is coloured")
	}
	terminal, err := os.Open(os.DevNull) // a character device, as terminals are
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = terminal.Close() }()
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if !colours(terminal) {
		t.Error("a terminal is not coloured")
	}
	t.Setenv("NO_COLOR", "1")
	if colours(terminal) {
		t.Error("NO_COLOR is not heeded")
	}
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "dumb")
	if colours(terminal) {
		t.Error("TERM=dumb is not heeded")
	}
}
