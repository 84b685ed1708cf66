package removal

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// A pod of the other kind of database sees nothing of a backup below the same prefix, and
// must not be asked whether anything is left.
func TestOtherKindsAreNotAsked(t *testing.T) {
	of := func(name, kind string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.LabelInjected: kind}}, Status: corev1.PodStatus{PodIP: "10.0.0.1"}}
	}
	pods := []corev1.Pod{of("cas-0", "cassandra"), of("mem-0", "anna")}
	for name, c := range map[string]struct {
		of   api.PodBackup
		want []string
	}{
		"of Anna":      {api.PodBackup{Name: "gone", Keys: 5}, []string{"mem-0"}},
		"of Cassandra": {api.PodBackup{Name: "gone", Tokens: 16}, []string{"cas-0"}},
		"of neither":   {api.PodBackup{Name: "mem-0"}, []string{"mem-0", "cas-0"}},
	} {
		got := (&Remover{}).order(&api.Backup{Status: api.BackupStatus{Pods: []api.PodBackup{c.of}}}, pods)
		if len(got) != len(c.want) || got[0].Name != c.want[0] {
			t.Errorf("%s: %d pods, %s first", name, len(got), got[0].Name)
		}
	}
}
