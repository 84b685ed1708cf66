package cycle

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/patches"
)

func TestOnDiskAlone(t *testing.T) {
	for text, want := range map[string]bool{
		"replication: {memory: 1, ebs: 1, minimum: 2, local: 1}":                 false,
		"replication: {memory: 0, ebs: 1, minimum: 1, local: 1}":                 true,
		"replication:\n  memory: 0\n  ebs: 2\n":                                  true,
		"replication: {memory: 1, ebs: 0}\npolicy: {tiering: true}\nebs: /ebs":   true,
		"replication: {memory: 1, ebs: 0}\npolicy: {tiering: false}\nebs: /ebs ": false,
		"replication: {memory: 1":                                                true,
		"threads: {memory: 1}":                                                   false,
	} {
		if got := onDiskAlone(&corev1.ConfigMap{Data: map[string]string{annaConfig: text}}); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
	if onDiskAlone(&corev1.ConfigMap{Data: map[string]string{"medusa.ini": "["}}) {
		t.Error("one that is not Anna's")
	}
}

// A node of the disk tier that starts anew shows none of its keys, though it has their files:
// where memory has no copy it must hand them over before.
func TestKeysOnDiskAlone(t *testing.T) {
	const none, alone, both = "threads: {memory: 1}", "replication: {memory: 0, ebs: 1, minimum: 1, local: 1}", "replication: {memory: 1, ebs: 1, minimum: 2, local: 1}"
	edit := func(w *world, hook bool) {
		for _, name := range []string{"kvs-0", "kvs-1", "kvs-2"} {
			p := &corev1.Pod{}
			w.must(w.c.Get(context.Background(), client.ObjectKey{Namespace: "prod", Name: name}, p))
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, kvs.AnnotationRole, "ebs")
			p.Spec.Containers = []corev1.Container{{Name: "kvs", Image: "anna"}, {Name: patches.ContainerAgent, Image: "agent"}}
			if hook {
				p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: patches.PathDepart}}}
			}
			w.must(w.c.Update(context.Background(), p))
		}
	}
	for name, c := range map[string]struct {
		before, text string
		hook         bool
		goes         bool
	}{
		"nobody else has the keys":         {none, alone, false, false},
		"but they are handed over":         {none, alone, true, true},
		"memory has a copy, without hooks": {none, both, false, true},
		"memory is to have one from now":   {alone, both, false, false},
		"and they are handed over":         {alone, both, true, true},
	} {
		w := newWorld(t, asks)
		w.change(c.before)
		edit(w, c.hook)
		w.settled()
		w.change(c.text)
		w.settled()
		w.settled()
		told := w.told()
		if (len(w.evicted) > 0) != c.goes || strings.Contains(told, "no preStop hook") != !c.goes {
			t.Errorf("%s: evicted %q, told %s", name, w.evicted, told)
		}
	}
	for _, diskAlone := range []bool{false, true} {
		g := workloadOf("O")
		g.members[0].pod.Annotations = map[string]string{kvs.AnnotationRole: "ebs"}
		g.members[0].diskAlone = diskAlone
		s := situation{calm: DefaultSettle, settle: DefaultSettle, restart: func(*corev1.Pod) bool { return true }}
		if out := g.next(s); (out.evict == nil) != diskAlone || diskAlone && out.wait != waitLast {
			t.Errorf("the only one, with keys of its own %v: %+v", diskAlone, out)
		}
	}
}
