package event

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecretsStayOut(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var secrets Secrets
	secrets.Learn(
		write("password", "pa\"ss word\n"),
		write("credentials", "[default]\naws_access_key_id = AKIAEXAMPLE\naws_secret_access_key = s3cr3t/value\n"),
		write("key.json", `{"storage_account": "account", "key": "azurekey==", "private_key_id": "shown"}`),
		filepath.Join(dir, "missing"),
	)
	secrets.Add("cassandra")
	secrets.Add("abc")
	var out bytes.Buffer
	log := New(&out, &secrets, "test")
	log.Info(`tried pa"ss word and s3cr3t/value`, "error", "azurekey== for account cassandra abc AKIAEXAMPLE shown")
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if got, want := line["msg"], "tried *** and ***"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	if got, want := line["error"], "*** for account cassandra abc AKIAEXAMPLE shown"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
	if strings.Count(out.String(), "\n") != 1 {
		t.Errorf("not one line: %q", out.String())
	}
}

func TestTerminate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	Terminate(path, "nothing to write to")
	if _, err := os.Stat(path); err == nil {
		t.Error("the file was made, but only kubelet makes it")
	}
	if err := os.WriteFile(path, []byte("old and longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	Terminate(path, "new")
	if content, _ := os.ReadFile(path); string(content) != "new" {
		t.Errorf("content %q", content)
	}
}
