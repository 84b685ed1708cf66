package coverage

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/workload"
)

// before and after are on either side of the creation of the tests' pods.
var (
	before = created.Add(-time.Hour)
	after  = created.Add(time.Hour)
	since  = Since{Webhook: before, Label: before}
)

// TestJudgeCorpus judges every pod of the corpus as it would be found in a
// cluster: what admission injects is missing, what it skips has the same reason
// or is nothing to tell of.
func TestJudgeCorpus(t *testing.T) {
	pods, truths := corpus(t)
	seen := map[string]bool{}
	for name, raw := range pods {
		want := truths[name]
		got := Judge(input(live(t, raw)), since)
		reason := ""
		switch {
		case want.decision == "inject":
			reason = ReasonWebhookWasDown
		case workload.Reason(want.reason).Wanted():
			reason = want.reason
		}
		seen[reason] = true
		if got.Reason != reason || got.Without != (reason != "") || (got.Message != "") != got.Without || string(got.Kind) != want.kind {
			t.Errorf("%s: %+v; want reason %q, kind %q", name, got, reason, want.kind)
		}
		if admitted := webhook.Decide(input(raw)); reason != "" && reason != ReasonWebhookWasDown && admitted.Message != got.Message {
			t.Errorf("%s: %q, and admission said %q", name, got.Message, admitted.Message)
		}
		if want.decision == "inject" {
			if got := Judge(input(live(t, injected(t, raw))), since); got.Without {
				t.Errorf("%s, injected: %+v", name, got)
			}
		}
	}
	if len(seen) < 6 {
		t.Errorf("only the reasons %v came up", seen)
	}
}

func TestJudge(t *testing.T) {
	pods, _ := corpus(t)
	plain := pods["plain-official-41"]
	edited := func(edit func(*corev1.Pod)) []byte { return live(t, plain, edit) }
	annotation := func(key, value string) []byte {
		return edited(func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} })
	}
	unlabelled := input(live(t, plain))
	unlabelled.Namespace.Labels = nil
	for _, c := range []struct {
		what    string
		in      webhook.Input
		since   Since
		reason  string
		message string // part of it
	}{
		{"younger than both", input(live(t, plain)), since, ReasonWebhookWasDown, "restart StatefulSet cassandra"},
		{"older than the webhook", input(live(t, plain)), Since{after, before}, ReasonCreatedBefore, "webhook"},
		{"older than the label", input(live(t, plain)), Since{before, after}, ReasonCreatedBefore, api.LabelInject},
		{"of the same second", input(live(t, plain)), Since{created, created}, ReasonWebhookWasDown, "did not answer"},
		{"label not known", input(live(t, plain)), Since{Webhook: before}, ReasonWebhookWasDown, "did not answer"},
		{"no webhook at all", input(live(t, plain)), Since{Label: before}, ReasonWebhookWasDown, "MutatingWebhookConfiguration"},
		{"without owner", input(edited(func(p *corev1.Pod) { p.OwnerReferences = nil })), since, ReasonWebhookWasDown, "create it anew"},
		{"skipped and older", input(annotation(api.AnnotationGRPCPort, "x")), Since{after, after}, "bad-annotation", api.AnnotationGRPCPort},
		{"opted out", input(edited(func(p *corev1.Pod) { p.Labels[api.LabelInject] = api.InjectDisabled })), since, "", ""},
		{"namespace not labelled", unlabelled, since, "", ""},
		{"restore asked on a live pod", input(annotation(api.AnnotationRestore, "nightly")), since, ReasonWebhookWasDown, ""},
		{"bad restore", input(annotation(api.AnnotationRestore, "a/b")), since, "bad-annotation", api.AnnotationRestore},
		{"restore asked of no database", input(live(t, pods["nginx"], func(p *corev1.Pod) {
			p.Annotations = map[string]string{api.AnnotationRestore: "nightly"}
		})), since, "", ""},
		{"containers of another version", input(edited(func(p *corev1.Pod) {
			p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: workload.OwnPrefix + "older", Image: "x"})
		})), since, "", ""},
		{"no pod", input([]byte(`{"spec":1}`)), since, "unreadable-pod", ""},
	} {
		got := Judge(c.in, c.since)
		if got.Reason != c.reason || got.Without != (c.reason != "") || !strings.Contains(got.Message, c.message) {
			t.Errorf("%s: %+v; want %q, %q", c.what, got, c.reason, c.message)
		}
	}
}

// A workload that is held back, or was when the pod was created.
func TestJudgeHeldBack(t *testing.T) {
	pods, _ := corpus(t)
	for _, c := range []struct {
		what         string
		since, until time.Duration // from the pod's creation
		active       bool
		reason       string
	}{
		{"held back now", -time.Minute, 1000 * time.Hour, true, "held-back"},
		{"held back at the time", -time.Minute, time.Minute, false, "held-back"},
		{"held back in the same second", 900 * time.Millisecond, time.Minute, false, "held-back"},
		{"held back before", -time.Hour, -time.Minute, false, ReasonWebhookWasDown},
		{"held back later", time.Minute, time.Hour, false, ReasonWebhookWasDown},
	} {
		in := input(live(t, pods["plain-official-41"]))
		in.HeldBack = func(namespace, kind, name string) (api.HeldBack, bool) {
			return api.HeldBack{Namespace: namespace, Kind: kind, Name: name, Cause: api.CauseUnschedulable,
				Since: created.Add(c.since), Until: created.Add(c.until)}, c.active
		}
		if got := Judge(in, since); got.Reason != c.reason {
			t.Errorf("%s: %+v, want %s", c.what, got, c.reason)
		}
	}
	in := input(live(t, pods["plain-official-41"]))
	in.HeldBack = func(string, string, string) (api.HeldBack, bool) { return api.HeldBack{}, false }
	if got := Judge(in, since); got.Reason != ReasonWebhookWasDown {
		t.Errorf("not held back: %+v", got)
	}
}
