package restore

import (
	"os"
	"strings"
	"testing"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/webhook/offline"
	"github.com/stategraft/stategraft/workload"
)

// TestNamesAreTheWebhooks has names of backups and nodes judged here and by the
// webhook, as annotations of a template.
func TestNamesAreTheWebhooks(t *testing.T) {
	const file = "../../test/corpus/pods/plain-official-41.yaml"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	documents, err := offline.Read(strings.NewReader(string(text)), file)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(annotations map[string]string) bool {
		result, err := offline.Decide(documents[0], offline.Options{Namespace: offline.Labelled(), Config: webhook.DefaultConfig(), Annotations: annotations})
		if err != nil {
			t.Fatal(err)
		}
		return result.Verdict == workload.Refuse
	}
	names := []string{"nightly-1", "a", "A.b_c:d+e-f", "-a", ".a", "a..b", "a/b", "", " a", "a b", "ä", "a\n", strings.Repeat("x", 253), strings.Repeat("x", 254), "a-", "a.", "10.0.0.1", "fd00::1", "a+b"}
	for _, name := range names {
		if got, want := ValidBackup(name) != "", refused(map[string]string{api.AnnotationRestore: name}); got != want {
			t.Errorf("backup %q: refused here %v, by the webhook %v", name, got, want)
		}
		if name == "" {
			continue // the same as none there
		}
		if got, want := ValidNode(name) != "", refused(map[string]string{api.AnnotationRestore: "b", api.AnnotationRestoreSource: name}); got != want {
			t.Errorf("node %q: refused here %v, by the webhook %v", name, got, want)
		}
	}
	// On a live pod they mean something, in a template not.
	for _, name := range []string{api.BackupLatest, "2026-01-31T12:00:00Z"} {
		if ValidBackup(name) != "" || !refused(map[string]string{api.AnnotationRestore: name}) {
			t.Errorf("%s: refused here %q, by the webhook %v", name, ValidBackup(name), refused(map[string]string{api.AnnotationRestore: name}))
		}
	}
}
