package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindNamespace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "namespace")
	if err := os.WriteFile(file, []byte("mounted\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ flag, environment, path, want string }{
		{"given", "environment", file, "given"},
		{"", "environment", file, "environment"},
		{"", "", file, "mounted"},
		{"", "", file + "-not-there", ""},
	} {
		got, err := findNamespace(test.flag, test.environment, test.path)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%+v: got %q, %v", test, got, err)
		}
	}
}

// TestFlags are errors that are found before anything starts.
func TestFlags(t *testing.T) {
	config := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(config, []byte(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"a","cluster":{"server":"http://127.0.0.1:1"}}],`+
		`"contexts":[{"name":"a","context":{"cluster":"a"}}],"current-context":"a"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args string
		want string
	}{
		{"webhook --drain=-1s", "--drain"},
		{"webhook more", "unknown command"},
		{"webhook --config=/not/there", "/not/there"},
		{"controller more", "unknown command"},
		{"controller --certificates=vault", `"vault"; it has to be self-signed or cert-manager`},
		{"controller --ca-validity=1h --certificate-validity=2h", "longer than the authority"},
		{"controller --certificate-validity=0s --ca-validity=-1h", "longer than zero"},
	} {
		command := rootCommand()
		command.SetArgs(append(strings.Fields(test.args), "--kubeconfig="+config, "--namespace=stategraft",
			"--metrics-bind-address=0", "--health-probe-bind-address=0"))
		command.SetOut(io.Discard)
		command.SetErr(io.Discard)
		if err := command.Execute(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %q", test.args, err, test.want)
		}
	}
}
