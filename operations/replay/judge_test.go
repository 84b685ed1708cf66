package replay

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

func restored(env ...corev1.EnvVar) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "ns", "anna-memory-0", "u"
	pod.Labels = map[string]string{api.LabelInjected: "anna"}
	pod.Spec.NodeName = "node"
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: api.ConditionReplayed}}
	pod.Spec.InitContainers = []corev1.Container{{Name: patches.ContainerSetup}, {Name: patches.ContainerRestore, Env: env}}
	return pod
}

func of(id string) corev1.EnvVar { return corev1.EnvVar{Name: api.EnvRestoreID, Value: id} }

func backup(name string) corev1.EnvVar {
	return corev1.EnvVar{Name: patches.EnvBackup, Value: name}
}

func restore(change func(*api.RestoreStatus)) *api.Restore {
	r := &api.Restore{}
	r.Namespace, r.Name = "ns", "r"
	r.Status = api.RestoreStatus{ID: "r/1", Phase: api.RestoreRestoring, Pods: []api.PodRestore{{Name: "anna-memory-0", Phase: api.PodReplaying}}}
	if change != nil {
		change(&r.Status)
	}
	return r
}

func tells(r *node.Replay) answer { return answer{report: node.Report{Replay: r}} }

func TestJudge(t *testing.T) {
	done := func(id string) answer {
		return tells(&node.Replay{ID: id, Backup: "b", Phase: node.ReplayDone, Keys: 7, Total: 7})
	}
	for name, c := range map[string]struct {
		pod     *corev1.Pod
		restore *api.Restore
		answer  answer
		ready   bool
		reason  string
		says    string
	}{
		"template, done":             {restored(backup("b")), nil, done("b"), true, ReasonReplayed, "7 keys of backup b"},
		"template, of another node":  {restored(backup("b"), corev1.EnvVar{Name: patches.EnvRestoreSource, Value: "x"}), nil, done("b@x"), true, ReasonReplayed, ""},
		"template, nothing yet":      {restored(backup("b")), nil, tells(nil), false, ReasonRestoring, ""},
		"template, another backup's": {restored(backup("c")), nil, done("b"), false, ReasonRestoring, ""},
		"template, waits":            {restored(backup("b")), nil, tells(&node.Replay{ID: "b", Phase: node.ReplayWaiting, Message: "for anna-memory-1"}), false, ReasonRestoring, "for anna-memory-1"},
		"template, half":             {restored(backup("b")), nil, tells(&node.Replay{ID: "b", Backup: "b", Phase: node.ReplayReplaying, Keys: 3, Total: 7}), false, ReasonReplaying, "3 of 7"},
		"template, refused":          {restored(backup("b")), nil, tells(&node.Replay{ID: "b", Phase: node.ReplayFailed, Message: "key k is a SET"}), false, ReasonFailed, "key k is a SET. The pod stays without clients until"},
		"no answer":                  {restored(backup("b")), nil, answer{err: errors.New("refused")}, false, ReasonNotTelling, "refused"},
		"undo":                       {restored(of("r/1"), corev1.EnvVar{Name: patches.EnvRestoreAction, Value: "undo"}), restore(nil), answer{}, true, ReasonNothing, ""},
		"no restore container":       {func() *corev1.Pod { p := restored(); p.Spec.InitContainers = nil; return p }(), nil, answer{}, true, ReasonNothing, ""},

		"Restore, own keys only":   {restored(of("r/1"), backup("b")), restore(nil), done("r/1"), false, ReasonOthers, ""},
		"Restore, others write":    {restored(of("r/1"), backup("b")), restore(func(s *api.RestoreStatus) { s.Pods[0].Phase, s.Message = api.PodReplayed, "x writes" }), done("r/1"), false, ReasonOthers, "x writes"},
		"Restore, all":             {restored(of("r/1"), backup("b")), restore(func(s *api.RestoreStatus) { s.Pods[0].Phase = api.PodRestored }), answer{err: errors.New("x")}, true, ReasonReplayed, "all nodes"},
		"Restore, an older round":  {restored(of("r/1"), backup("b")), restore(func(s *api.RestoreStatus) { s.Round = 2 }), done("r/1+1"), false, ReasonRestoring, ""},
		"Restore, cancelled":       {restored(of("r/1"), backup("b")), restore(func(s *api.RestoreStatus) { s.Pods[0].Phase = api.PodCancelled }), done("r/1"), true, ReasonGivenUp, "cancelled"},
		"Restore, gone":            {restored(of("r/1"), backup("b")), nil, tells(nil), true, ReasonGivenUp, "no Restore r"},
		"Restore, another of name": {restored(of("r/1"), backup("b")), restore(func(s *api.RestoreStatus) { s.ID = "r/2" }), tells(nil), true, ReasonGivenUp, ""},
	} {
		v := judge(c.pod, c.restore, c.answer)
		if v.ready != c.ready || v.reason != c.reason || !strings.Contains(v.message, c.says) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
