package webhook

import (
	"fmt"
	"strings"
	"testing"
	"time"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func TestMisspelt(t *testing.T) {
	for _, c := range []struct {
		what       string
		pod, ns    map[string]string
		labels     map[string]string
		nsLabels   map[string]string
		want, deny string
	}{
		{what: "typo", pod: map[string]string{"stategraft.io/restor": "b"}, want: "annotation stategraft.io/restor of the pod is not known; did you mean stategraft.io/restore?"},
		{what: "plural", pod: map[string]string{"stategraft.io/medusa-configs": "b"}, want: "did you mean stategraft.io/medusa-config?"},
		{what: "case", pod: map[string]string{"stategraft.io/Host-Network": "true"}, want: "did you mean stategraft.io/host-network?"},
		{what: "namespace", ns: map[string]string{"stategraft.io/spred": "host"}, want: "annotation stategraft.io/spred of the namespace is not known; did you mean stategraft.io/spread?"},
		{what: "label typo", labels: map[string]string{"stategraft.io/workloads": "anna"}, want: "label stategraft.io/workloads of the pod is not known; did you mean stategraft.io/workload?"},
		{what: "namespace label", nsLabels: map[string]string{"stategraft.io/injected": "x", "stategraft.io/injection": "x"}, want: "label stategraft.io/injection of the namespace"},
		{what: "label as annotation", pod: map[string]string{"stategraft.io/inject": "disabled"}, want: "stategraft.io/inject of the pod is read as a label, not as an annotation"},
		{what: "annotation as label", labels: map[string]string{"stategraft.io/restore": "b"}, want: "stategraft.io/restore of the pod is read as an annotation, not as a label"},
		{what: "others are none of ours", pod: map[string]string{"stategraft.example/restor": "b", "stategraft.io.evil/restor": "b", "restore": "b"}, deny: "restor"},
		{what: "our label of a live pod", labels: map[string]string{"stategraft.io/injected": "cassandra"}, want: "label stategraft.io/injected of the pod is Stategraft's to write"},
		{what: "of a pod of our controller", labels: map[string]string{"stategraft.io/lookup": "0011223344"}, deny: "lookup"},
		{what: "of another pod of our controller", labels: map[string]string{"stategraft.io/verify": "0011223344"}, deny: "verify"},
		{what: "backups", pod: map[string]string{"stategraft.io/backup-scheduel": "@daily"}, want: "did you mean stategraft.io/backup-schedule?"},
		{what: "rpo", ns: map[string]string{"stategraft.io/rto": "1h"}, want: "annotation stategraft.io/rto of the namespace is not known; did you mean stategraft.io/rpo?"},
		{what: "retain alone", ns: map[string]string{"stategraft.io/retain": "7"}, want: "annotation stategraft.io/retain says nothing without stategraft.io/backup-schedule"},
		{what: "retain of the pod, schedule of the namespace", pod: map[string]string{"stategraft.io/retain": "7"}, ns: map[string]string{"stategraft.io/backup-schedule": "@daily"}, deny: "says nothing"},
		{what: "our address of a live pod", pod: map[string]string{"stategraft.io/public-address": "203.0.113.7"}, want: "annotation stategraft.io/public-address of the pod is Stategraft's to write"},
		{what: "our note of a live pod", pod: map[string]string{"stategraft.io/config-started": "x y"}, deny: "config-started"},
		{what: "config-change", pod: map[string]string{"stategraft.io/on-config-chance": "restart"}, want: "did you mean stategraft.io/on-config-change?"},
		{what: "decryption", ns: map[string]string{"stategraft.io/decription-secret": "age"}, want: "did you mean stategraft.io/decryption-secret?"},
		{what: "on-config-change alone", pod: map[string]string{"stategraft.io/on-config-change": "restart"}, want: "annotation stategraft.io/on-config-change says nothing without stategraft.io/config-map"},
		{what: "on-config-change of the namespace", ns: map[string]string{"stategraft.io/on-config-change": "restart"}, deny: "says nothing"},
		{what: "adopt", ns: map[string]string{"stategraft.io/adpot": "running"}, want: "annotation stategraft.io/adpot of the namespace is not known; did you mean stategraft.io/adopt?"},
		{what: "adopt-renew", pod: map[string]string{"stategraft.io/adoptrenew": "now"}, want: "did you mean stategraft.io/adopt-renew?"},
		{what: "adopt-renew of the namespace", ns: map[string]string{"stategraft.io/adopt-renew": "now"}, want: "annotation stategraft.io/adopt-renew says nothing on a namespace"},
		{what: "adopt-renew of the pod", pod: map[string]string{"stategraft.io/adopt-renew": "now"}, deny: "says nothing"},
		{what: "adopt as a label", labels: map[string]string{"stategraft.io/adopt": "running"}, want: "stategraft.io/adopt of the pod is read as an annotation, not as a label"},
		{what: "our own mark", pod: map[string]string{"stategraft.io/injected": "cassandra"}, deny: "injected"},
	} {
		raw := withMetadata(t, annotated(t, cassandraPod, c.pod), "labels", c.labels)
		ns := labelled()
		ns.Annotations = c.ns
		for key, value := range c.nsLabels {
			ns.Labels[key] = value
		}
		out := Decide(Input{Pod: raw, Namespace: ns, Config: DefaultConfig()})
		text := strings.Join(out.Warnings, "\n")
		if c.want != "" && !strings.Contains(text, c.want) || c.deny != "" && strings.Contains(text, c.deny) {
			t.Errorf("%s: warnings %q", c.what, out.Warnings)
		}
		if out.Verdict != "inject" {
			t.Errorf("%s: a misspelt key has the pod %s (%s)", c.what, out.Verdict, out.Reason)
		}
	}
}

// Nothing but the pod's size, which the API server limits to some megabytes
// before it calls us, limits its keys: they are validated later. The API server
// waits for seconds, and all of its requests wait with us. So keys with our prefix may
// cost little more than those of others, which are only read.
func TestMisspeltIsQuick(t *testing.T) {
	keys := func(prefix string) (long, many map[string]string) {
		long = map[string]string{prefix + strings.Repeat("x", 1<<20): ""}
		many = map[string]string{}
		for i := range 20000 {
			many[fmt.Sprintf("%srestore-some-backup-or-other-%d", prefix, i)] = ""
		}
		return long, many
	}
	best := func(annotations map[string]string) (least time.Duration, out Outcome) {
		raw := annotated(t, cassandraPod, annotations)
		least = time.Hour // of several, for the machine may be busy with something else
		for range 5 {
			start := time.Now()
			out = decideOn(raw)
			least = min(least, time.Since(start))
		}
		return least, out
	}
	long, many := keys("stategraft.io/")
	foreignLong, foreignMany := keys("example.com.io/")
	for name, c := range map[string]struct{ ours, foreign map[string]string }{"long key": {long, foreignLong}, "many keys": {many, foreignMany}} {
		took, out := best(c.ours)
		floor, _ := best(c.foreign)
		if took > 25*floor {
			t.Errorf("%s: %s, %.1f times as long as with keys of others", name, took, float64(took)/float64(floor))
		}
		t.Logf("%s: %.1f times as long as with keys of others", name, float64(took)/float64(floor))
		checkWarnings(t, answer(out).Warnings)
	}
}

// The known keys are what the contract says, and none is another's typo.
func TestKnownKeys(t *testing.T) {
	for _, key := range api.Annotations {
		if got := suggestion(key, api.Annotations); got != "; did you mean "+key+"?" {
			t.Errorf("%s: %q", key, got)
		}
	}
}
