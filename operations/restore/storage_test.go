package restore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/sidecar"
)

// TestStorageDown: a sidecar that answers that it cannot get at the storage is believed
// at once, and no pod is made, which would find it no better.
func TestStorageDown(t *testing.T) {
	answer := func(status int) error {
		return fmt.Errorf("ask pod ns/cas-0: %w", &sidecar.AnswerError{Status: status, Message: "EndpointConnectionError: Could not connect to the endpoint URL"})
	}
	both := roomy("cas-0", "cas-1")
	for name, c := range map[string]struct {
		reports map[string]node.Report
		storage map[string]error
		change  func(*api.Restore)
		reason  string
		says    string
		asked   string
		made    int
	}{
		"the only one answers so":     {roomy("cas-0"), map[string]error{"cas-0": answer(http.StatusInternalServerError)}, nil, ReasonStorage, "EndpointConnectionError: Could not connect", "list cas-0 ", 0},
		"the first of two answers so": {both, map[string]error{"cas-0": answer(http.StatusInternalServerError)}, nil, ReasonStorage, "EndpointConnectionError: Could not connect", "list cas-0 ", 0},
		"it hangs":                    {both, map[string]error{"cas-0": context.DeadlineExceeded}, nil, ReasonStorage, "deadline", "list cas-0 ", 0},
		"it looks for others":         {both, map[string]error{"cas-0": answer(http.StatusServiceUnavailable)}, nil, "", "", "list cas-0 , list cas-1 , look cas-1  nightly", 0},
		"both look for others":        {both, map[string]error{"cas-0": answer(http.StatusServiceUnavailable), "cas-1": answer(http.StatusServiceUnavailable)}, nil, ReasonStorage, "Endpoint", "list cas-0 , list cas-1 ", 0},
		"it is gone since":            {roomy("cas-0"), map[string]error{"cas-0": errors.New("connection refused")}, nil, ReasonStorage, "connection refused", "list cas-0 ", 0},
		"it is in its restore":        {roomy("cas-0"), map[string]error{"cas-0": answer(http.StatusNotFound)}, nil, "", "", "list cas-0 , list looks , look looks  nightly", 1},
		"none answers":                {nil, nil, nil, "", "", "list looks , look looks  nightly", 1},
	} {
		nodes, l := &sidecars{reports: c.reports, storage: c.storage}, &lookups{}
		v, r := prechecked(t, nodes, l, c.change)
		if got := strings.Join(nodes.asked, ", "); !problemIs(v.problem, c.reason) || got != c.asked || l.made != c.made || v.looking {
			t.Errorf("%s: %+v; asked %q, %d pods made", name, v.problem, got, l.made)
		}
		if v.problem == nil {
			continue
		}
		restore, err := r.cluster.restore(t.Context(), types.NamespacedName{Namespace: "ns", Name: "r"})
		if err != nil {
			t.Fatal(err)
		}
		s := check(restore, v, today)
		if s.status.Phase != api.RestoreWaiting || s.reason(api.ConditionPrechecked) != c.reason || !strings.Contains(s.status.Message, c.says) || s.after < 5*time.Second {
			t.Errorf("%s: it is %s, %s, again in %v", name, s.status.Phase, s.status.Message, s.after)
		}
	}
}

// TestAnotherIsAskedNext: where the storage was not reached, it may be for the one pod
// that was asked.
func TestAnotherIsAskedNext(t *testing.T) {
	pods := []*corev1.Pod{factPod("cas-0"), factPod("cas-1"), factPod("cas-2")}
	for _, c := range []struct {
		failed bool
		later  time.Duration
		want   string
	}{{false, 0, "cas-0"}, {false, 30 * time.Second, "cas-0"}, {true, 0, "cas-0"}, {true, 30 * time.Second, "cas-1"}, {true, 65 * time.Second, "cas-2"}, {true, 95 * time.Second, "cas-0"}} {
		s := step{}
		if c.failed {
			s.set(api.ConditionPrechecked, false, ReasonStorage, "was down", 1, today)
		}
		got := turned(pods, &Facts{Restore: &api.Restore{Status: s.status}, Now: time.Unix(90*1000, 0).Add(c.later)})
		if got[0].Name != c.want || len(got) != len(pods) {
			t.Errorf("%+v: the first is %s of %d", c, got[0].Name, len(got))
		}
	}
	if pods[0].Name != "cas-0" {
		t.Error("the pods given are in another order now")
	}
}

// slowNodes take their time to look into the storage, until it is told who looks.
type slowNodes struct {
	sidecars
	told func() string
}

func (s *slowNodes) Backups(ctx context.Context, pod *corev1.Pod, prefix string) (node.Backups, error) {
	for end := time.Now().Add(time.Minute); s.told() == "" && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return s.sidecars.Backups(ctx, pod, prefix)
}

// TestSaysWhoLooks: while a look into the storage lasts, the status says who looks,
// and since when; and what comes after it is written.
func TestSaysWhoLooks(t *testing.T) {
	was := announceAfter
	announceAfter = time.Millisecond
	t.Cleanup(func() { announceAfter = was })
	restore := fresh(func(r *api.Restore) { r.Spec.Pods.Names = []string{"cas-0", "cas-1"} })
	restore.Status = accept(restore, &verdict{names: restore.Spec.Pods.Names}, today).status
	l, _ := liveOn(t, interceptor.Funcs{}, labelledNamespace(), restore, factPod("cas-0"), factPod("cas-1"))
	at := types.NamespacedName{Namespace: restore.Namespace, Name: restore.Name}
	seen := ""
	nodes := &slowNodes{sidecars: sidecars{reports: roomy("cas-0", "cas-1"), backup: factBackup("nightly", "cas-0", "cas-1")}}
	nodes.told = func() string {
		if is, err := l.restore(t.Context(), at); err == nil && strings.Contains(is.Status.Message, "looks for") {
			seen = is.Status.Message
		}
		return seen
	}
	r := reconcilerOn(l, nodes, nil)
	read, err := l.restore(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.check(t.Context(), read); err != nil {
		t.Fatal(err)
	}
	if want := "pod cas-0 looks for the backup in the storage, since " + today.UTC().Format(time.RFC3339); seen != want {
		t.Errorf("it says %q, not %q", seen, want)
	}
	is, err := l.restore(t.Context(), at)
	if err != nil || len(is.Status.Pending) != 2 || strings.Contains(is.Status.Message, "looks for") {
		t.Errorf("after it: %v, %+v", err, is.Status)
	}
}

// TestDryRunBesideAnother makes no pod because of those that another restores.
func TestDryRunBesideAnother(t *testing.T) {
	other := begun(func(r *api.Restore) { r.Name, r.UID, r.ResourceVersion = "other", "uid-other", "" })
	other.Status.Pods, other.Status.Pending = []api.PodRestore{{Name: "cas-0", Phase: api.PodRestoring}}, []string{"cas-0"}
	for name, c := range map[string]struct {
		dry  bool
		want int
		says string
	}{"dry": {true, 0, "waits for restore other, which is at work on cas-0; no sidecar can look"}, "not dry": {false, 1, ""}} {
		restore := fresh(func(r *api.Restore) { r.Spec.Pods.Names, r.Spec.DryRun = []string{"cas-0", "cas-1"}, c.dry })
		restore.Status = accept(restore, &verdict{names: restore.Spec.Pods.Names}, today).status
		l, _ := liveOn(t, interceptor.Funcs{}, labelledNamespace(), restore, other.DeepCopy(), factPod("cas-0", unready), factPod("cas-1", unready))
		looks := &lookups{}
		v, err := reconcilerOn(l, &sidecars{backup: factBackup("nightly", "cas-0", "cas-1")}, looks).precheck(t.Context(), restore)
		if err != nil || looks.made != c.want {
			t.Errorf("%s: %v, %d pods made", name, err, looks.made)
		}
		if c.says != "" && (v.problem == nil || !v.problem.Wait || !strings.Contains(v.problem.Message, c.says)) {
			t.Errorf("%s: %+v", name, v.problem)
		}
	}
}
