package restore

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// TestKinLookIntoTheStorage: where the pods to restore are silent, those beside them
// are asked before a pod is made.
func TestKinLookIntoTheStorage(t *testing.T) {
	nodes, l := &sidecars{reports: roomy("cas-1"), backup: factBackup("nightly", "cas-0", "cas-1")}, &lookups{}
	v, _ := prechecked(t, nodes, l, func(r *api.Restore) {
		r.Spec.Pods.Names, r.Status.Pods = []string{"cas-0"}, r.Status.Pods[:1]
	})
	if v.problem != nil || l.made > 0 || len(nodes.asked) == 0 || !strings.Contains(nodes.asked[0], "list cas-1") {
		t.Errorf("%+v; %d pods made, asked %v", v.problem, l.made, nodes.asked)
	}
}

// TestLikeIsNotHealed: the sidecar of a pod that was made harmless is an idle container
// of another image.
func TestLikeIsNotHealed(t *testing.T) {
	degraded := func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: api.ConditionDegraded, Status: corev1.ConditionTrue})
	}
	a, b, c := factPod("cas-0", degraded), factPod("cas-1"), factPod("cas-2", degraded)
	if got := like(&Facts{Pods: []*corev1.Pod{a, b}, Kin: []*corev1.Pod{a, b, c}}); got != b {
		t.Errorf("it is like %s", got.Name)
	}
	if got := like(&Facts{Pods: []*corev1.Pod{a}, Kin: []*corev1.Pod{a, b, c}}); got != b {
		t.Errorf("it is like %s, and cas-1 is beside it", got.Name)
	}
	if got := like(&Facts{Pods: []*corev1.Pod{c}, Kin: []*corev1.Pod{a, c}}); got != c {
		t.Errorf("where all are, it is like %s", got.Name)
	}
}

// TestLatestStaysTheSame: where some pods have the request behind them, the others get
// the backup that these got, though there is a newer one by now.
func TestLatestStaysTheSame(t *testing.T) {
	latest := fresh(func(r *api.Restore) { r.Spec.Backup, r.Spec.Pods.Names = api.BackupLatest, []string{"cas-0", "cas-1"} })
	reports := roomy("cas-0", "cas-1")
	reports["cas-0"] = node.Report{Node: "cas-0", Size: 100 << 30, Free: 50 << 30, Done: []node.Done{{ID: latest.RequestID(), Backup: "nightly"}}}
	nodes := &twoBackups{sidecars{reports: reports, backup: factBackup("nightly", "cas-0", "cas-1")}, factBackup("newer", "cas-0", "cas-1")}
	restore := latest.DeepCopy()
	restore.Status = accept(restore, &verdict{names: restore.Spec.Pods.Names}, today).status
	c, _ := liveOn(t, interceptor.Funcs{}, labelledNamespace(), restore, factPod("cas-0"), factPod("cas-1"))
	v, err := reconcilerOn(c, nodes, nil).precheck(t.Context(), restore)
	if err != nil || v.problem != nil {
		t.Fatal(err, v.problem)
	}
	if v.backup != "nightly" {
		t.Errorf("the other pod gets %s", v.backup)
	}
}

// twoBackups are sidecars that know of a newer backup.
type twoBackups struct {
	sidecars
	newer *node.Backup
}

func (s *twoBackups) Backups(context.Context, *corev1.Pod, string) (node.Backups, error) {
	s.newer.Finished = s.backup.Finished.Add(time.Hour)
	return node.Backups{Backups: []node.Summary{s.backup.Summary, s.newer.Summary}}, nil
}

func (s *twoBackups) Backup(_ context.Context, _ *corev1.Pod, _, name string) (node.Backup, error) {
	if name == s.newer.Name {
		return *s.newer, nil
	}
	return *s.backup, nil
}

// TestNotJoinedIsNotDone: a pod of another cluster's data that was restored and has not
// joined needs its tokens still, though its volume remembers the request.
func TestNotJoinedIsNotDone(t *testing.T) {
	asked := fresh(func(r *api.Restore) {
		r.Spec.Mode, r.Spec.Pods.Names = api.Remote, []string{"cas-0", "cas-1"}
		r.Spec.Source = &api.RestoreSource{Prefix: new("p"), Nodes: map[string]string{"cas-0": "cas-0", "cas-1": "cas-1"}}
	})
	for _, c := range []struct {
		ready   bool
		pending string
	}{{true, ""}, {false, "cas-0 cas-1"}} {
		restore := asked.DeepCopy()
		restore.Status = accept(restore, &verdict{names: restore.Spec.Pods.Names}, today).status
		reports := roomy("cas-0", "cas-1")
		for name, report := range reports {
			report.Done = []node.Done{{ID: restore.Status.ID, Backup: "nightly"}}
			reports[name] = report
		}
		pods := []*corev1.Pod{factPod("cas-0"), factPod("cas-1")}
		if !c.ready {
			unready(pods[0])
			unready(pods[1])
		}
		l, _ := liveOn(t, interceptor.Funcs{}, labelledNamespace(), restore, pods[0], pods[1])
		v, err := reconcilerOn(l, &sidecars{reports: reports, backup: factBackup("nightly", "cas-0", "cas-1")}, nil).precheck(t.Context(), restore)
		if err != nil || v.problem != nil {
			t.Fatal(err, v.problem)
		}
		s := check(restore, v, today)
		if got := strings.Join(s.status.Pending, " "); got != c.pending || !c.ready && len(s.status.Pods[0].Tokens) != 1 {
			t.Errorf("ready %v: pending are %q, pods %+v", c.ready, got, s.status.Pods)
		}
	}
}
