package controlplane

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/workload"
)

// TestEvents creates pods whose owner would want to know that they have no
// backup: on a dry run nothing is written, otherwise an event on the owner.
func TestEvents(t *testing.T) {
	ctx, rig := start(t)
	const in = "events"
	namespace(ctx, t, in, labelled(), nil)
	pod := readPod(t, filepath.Join(rig.Root, "test", "corpus", "pods", "plain-official-novolume.yaml"))
	pod.SetNamespace(in)
	owned := func(name string) string {
		owner := pod.GetOwnerReferences()
		owner[0].Name, owner[0].UID = name, types.UID("00000000-0000-0000-0000-0000"+strings.Repeat("0", 8-len(name))+hex(name))
		pod.SetOwnerReferences(owner)
		text, err := pod.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if out, err := rig.Kubectl(ctx, strings.NewReader(owned("dry")), "apply", "--dry-run=server", "-f", "-"); err != nil || !strings.Contains(out, "server dry run") {
		t.Fatalf("%q, %v", out, err)
	}
	if d := rig.Webhook.Decisions(in); len(d) != 1 || d[0].Reason != string(workload.ReasonDataNotOnVolume) {
		t.Fatalf("decided %+v", d)
	}
	if _, err := rig.Kubectl(ctx, strings.NewReader(owned("wet")), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	// Events are written in the order in which they were made: once the second one
	// is there, the first one will not come any more.
	await(ctx, t, "the event on the owner", func() bool { return len(eventsOn(ctx, t, in, "wet")) > 0 })
	if found := eventsOn(ctx, t, in, "dry"); len(found) > 0 {
		t.Errorf("events of a dry run: %+v", found)
	}
	e := eventsOn(ctx, t, in, "wet")[0]
	if e.Regarding.Kind != "StatefulSet" || e.Type != "Warning" || !strings.Contains(e.Note, string(workload.ReasonDataNotOnVolume)) {
		t.Errorf("event %s on %s %s: %s", e.Type, e.Regarding.Kind, e.Regarding.Name, e.Note)
	}
}

// hex is the name in a form that fits the end of an UID.
func hex(name string) string {
	var b strings.Builder
	for _, r := range name {
		b.WriteByte("0123456789abcdef"[r%16])
	}
	return b.String()
}

func eventsOn(ctx context.Context, t *testing.T, in, owner string) []eventsv1.Event {
	t.Helper()
	list, err := shared.Client.EventsV1().Events(in).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var found []eventsv1.Event
	for _, e := range list.Items {
		if e.Regarding.Name == owner && strings.HasPrefix(e.Reason, "Stategraft") {
			found = append(found, e)
		}
	}
	return found
}

// TestEventOnStatefulSet has a real StatefulSet make the pod: the event is where
// kubectl describe shows it.
func TestEventOnStatefulSet(t *testing.T) {
	ctx, rig := start(t)
	const in = "events-statefulset"
	namespace(ctx, t, in, labelled(), nil)
	pod := typedPod(t, filepath.Join(rig.Root, "test", "corpus", "pods", "plain-official-novolume.yaml"))
	if _, err := rig.Client.AppsV1().StatefulSets(in).Create(ctx, statefulSet(pod, "ring", 1), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, "the event on the StatefulSet", func() bool { return len(eventsOn(ctx, t, in, "ring")) > 0 })
	out, err := rig.Kubectl(ctx, nil, "-n", in, "describe", "statefulset", "ring")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "StategraftSkipped") || !strings.Contains(out, string(workload.ReasonDataNotOnVolume)) {
		t.Errorf("kubectl describe does not show the event:\n%s", out)
	}
}
