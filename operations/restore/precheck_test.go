package restore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/lookup"
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

// prechecked runs the prechecks of a Restore of cas-0 and cas-1.
func prechecked(t *testing.T, nodes *sidecars, l Lookuper, change func(*api.Restore)) (*verdict, *reconciler) {
	t.Helper()
	restore := fresh(func(r *api.Restore) { r.Spec.Pods.Names = []string{"cas-0", "cas-1"} })
	restore.Status = accept(restore, &verdict{names: restore.Spec.Pods.Names}, today).status
	if change != nil {
		change(restore)
	}
	if nodes.backup == nil {
		nodes.backup = factBackup("nightly", "cas-0", "cas-1")
	}
	c, _ := liveOn(t, interceptor.Funcs{}, labelledNamespace(), restore, factPod("cas-0", unready), factPod("cas-1", unready))
	r := reconcilerOn(c, nodes, l)
	v, err := r.precheck(t.Context(), restore)
	if err != nil {
		t.Fatal(err)
	}
	return v, r
}

func roomy(names ...string) map[string]node.Report {
	reports := map[string]node.Report{}
	for _, name := range names {
		reports[name] = node.Report{Node: name, Size: 100 << 30, Free: 50 << 30}
	}
	return reports
}

func TestPrecheck(t *testing.T) {
	id := fresh(func(r *api.Restore) { r.Spec.Pods.Names = []string{"cas-0", "cas-1"} }).RequestID()
	doneOn := func(reports map[string]node.Report, names ...string) map[string]node.Report {
		for _, name := range names {
			report := reports[name]
			report.Done = []node.Done{{ID: "other/1"}, {ID: id, Bytes: 3}}
			reports[name] = report
		}
		return reports
	}
	starting := fmt.Errorf("%w: its image is pulled", lookup.ErrStarting)
	down := errors.New("down")
	for _, c := range []struct {
		name    string
		nodes   *sidecars
		lookups *lookups
		change  func(*api.Restore)
		reason  string // of the problem
		looking bool
		asked   string
		planned string
	}{
		{"the first answers", &sidecars{reports: roomy("cas-0", "cas-1")}, &lookups{}, nil, "", false, "list cas-0 , look cas-0  nightly", "cas-0 cas-1"},
		{"the second answers", &sidecars{reports: roomy("cas-1")}, &lookups{}, nil, "", false, "list cas-1 , look cas-1  nightly", "cas-0 cas-1"},
		{"the first cannot look", &sidecars{reports: roomy("cas-0", "cas-1"), storage: map[string]error{"cas-0": down}}, &lookups{}, nil, "", false, "list cas-0 , list cas-1 , look cas-1  nightly", "cas-0 cas-1"},
		{"of another prefix", &sidecars{reports: roomy("cas-0")}, &lookups{}, func(r *api.Restore) { r.Spec.Source = &api.RestoreSource{Prefix: new("p")} }, "", false, "list cas-0 p, look cas-0 p nightly", "cas-0 cas-1"},
		{"of no prefix", &sidecars{reports: roomy("cas-0")}, &lookups{}, func(r *api.Restore) { r.Spec.Source = &api.RestoreSource{Prefix: new("")} }, "", false, "list cas-0 ., look cas-0 . nightly", "cas-0 cas-1"},
		{"none answers, nothing to look by", &sidecars{}, nil, nil, ReasonLookingUp, false, "", ""},
		{"none answers, a pod starts", &sidecars{}, &lookups{err: starting}, nil, ReasonLookingUp, true, "", ""},
		{"none answers, none can be made", &sidecars{}, &lookups{err: lookup.ErrNotLike}, nil, ReasonLookingUp, false, "", ""},
		{"none answers, a pod looks", &sidecars{}, &lookups{}, nil, "", false, "list looks , look looks  nightly", "cas-0 cas-1"},
		{"none answers, a pod cannot look", &sidecars{storage: map[string]error{"looks": down}}, &lookups{}, nil, ReasonStorage, false, "list looks ", ""},
		{"there is no such backup", &sidecars{reports: roomy("cas-0")}, &lookups{}, func(r *api.Restore) { r.Spec.Backup = "nightli" }, "NoSuchBackup", false, "list cas-0 ", ""},
		{"all done before", &sidecars{reports: doneOn(roomy("cas-0", "cas-1"), "cas-0", "cas-1")}, &lookups{}, nil, "", false, "", "cas-0 cas-1"},
		{"one done before", &sidecars{reports: doneOn(roomy("cas-0", "cas-1"), "cas-0")}, &lookups{}, nil, "", false, "list cas-0 , look cas-0  nightly", "cas-0 cas-1"},
		{"a pod is gone", &sidecars{reports: roomy("cas-0")}, &lookups{}, func(r *api.Restore) {
			r.Status.Pods = append(r.Status.Pods, api.PodRestore{Name: "cas-2"})
		}, ReasonPodNotFound, false, "", ""},
	} {
		var l Lookuper
		if c.lookups != nil {
			l = c.lookups
		}
		v, _ := prechecked(t, c.nodes, l, c.change)
		if !problemIs(v.problem, c.reason) || v.looking != c.looking || strings.Join(c.nodes.asked, ", ") != c.asked {
			t.Errorf("%s: %+v, looking %v, asked %q", c.name, v.problem, v.looking, strings.Join(c.nodes.asked, ", "))
		}
		var planned []string
		for _, at := range v.pods {
			planned = append(planned, at.Name)
		}
		if strings.Join(planned, " ") != c.planned {
			t.Errorf("%s: planned are %v", c.name, v.pods)
		}
	}
}

// TestLookupIsRemoved in every outcome, and kept while it is waited for.
func TestLookupIsRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*api.Restore)
		v      *verdict
		want   int
	}{
		"planned":    {nil, &verdict{pods: []api.PodRestore{{Name: "a"}}}, 1},
		"refused":    {nil, &verdict{problem: &Problem{Reason: "NoSuchBackup"}}, 1},
		"waits":      {nil, &verdict{problem: &Problem{Reason: "Busy", Wait: true}}, 0},
		"looks":      {nil, &verdict{looking: true, problem: &Problem{Reason: "LookingUp", Wait: true}}, 0},
		"a dry run":  {dry, &verdict{pods: []api.PodRestore{{Name: "a"}}}, 1},
		"too late":   {late, &verdict{}, 1},
		"cancelled":  {func(r *api.Restore) { r.Spec.Cancel = true }, nil, 1},
		"deleted":    {func(r *api.Restore) { r.DeletionTimestamp = new(metav1.NewTime(today)) }, nil, 1},
		"was failed": {func(r *api.Restore) { r.Status.Phase = api.RestoreFailed }, nil, 1},
	} {
		restore := accepted()
		if c.change != nil {
			c.change(restore)
		}
		l, _ := liveOn(t, interceptor.Funcs{}, labelledNamespace(), restore)
		read, err := l.restore(t.Context(), nameOf(restore))
		if err != nil {
			t.Fatal(err)
		}
		looks := &lookups{}
		r := reconcilerOn(l, &sidecars{}, looks)
		if _, err := r.do(t.Context(), read, next(read, world{verdict: c.v}, today)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if looks.removed != c.want {
			t.Errorf("%s: removed %d times", name, looks.removed)
		}
	}
}
