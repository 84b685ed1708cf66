package verify

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func podOf(b *api.Backup, v *node.Verified) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: podName(b), CreationTimestamp: *at(0),
		OwnerReferences: []metav1.OwnerReference{{Kind: "Backup", Name: b.Name, UID: b.UID, Controller: new(true)}}}}
	if v != nil {
		pod.Status = corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{ended(containerVerify, 0, v.Encode(), 0)}}
	}
	return pod
}

func TestCourse(t *testing.T) {
	differs, damaged, bare, uncounted := sound, sound, sound, sound
	differs.Differences = []node.Difference{{Table: "shop.orders", Want: 1000, Have: 999}}
	damaged.Problems, damaged.Differences = []string{"nb-1-big of shop.orders: Data.db is not what was written"}, differs.Differences
	bare.Recorded, bare.Compared, bare.Notes = false, 0, []string{"the backup has no counts to compare with"}
	uncounted.Method = node.CountedByStatistics
	spec := &api.BackupVerify{}
	odd := sound
	odd.MoreDifferences, odd.Compared = 7, 9 // no agent writes that
	somebody := podOf(running1(), nil)
	somebody.OwnerReferences = nil
	for name, c := range map[string]struct {
		spec   *api.BackupVerify
		pod    *corev1.Pod
		after  time.Duration
		kind   kind
		result api.VerificationResult
		reason string
		says   string
	}{
		"makes the pod":   {spec, nil, time.Minute, create, "", "", ""},
		"waits":           {spec, podOf(running1(), nil), time.Minute, wait, "", "", "do not run yet"},
		"passed":          {spec, podOf(running1(), &sound), time.Minute, write, api.VerificationPassed, ReasonPassed, "4 SSTables of 1 nodes are whole; all rows were read, and 3 tables have what they had"},
		"of others":       {spec, podOf(running1(), &bare), time.Minute, write, api.VerificationPassed, ReasonPassedUncompared, "compared with nothing; the backup has no counts to compare with"},
		"by statistics":   {spec, podOf(running1(), &uncounted), time.Minute, write, api.VerificationPassed, ReasonPassed, "own statistics"},
		"differs":         {spec, podOf(running1(), &differs), time.Minute, write, api.VerificationFailed, ReasonDiffers, "shop.orders has 999, and had 1000"},
		"damaged":         {spec, podOf(running1(), &damaged), time.Minute, write, api.VerificationFailed, ReasonDamaged, "not what was written"},
		"odd":             {spec, podOf(running1(), &odd), time.Minute, write, api.VerificationFailed, ReasonDiffers, "7 tables"},
		"late, but there": {spec, podOf(running1(), &sound), 9 * time.Hour, write, api.VerificationPassed, ReasonPassed, ""},
		"too late":        {spec, nil, 6 * time.Hour, write, api.VerificationUnknown, ReasonTimedOut, "6h0m0s"},
		"by its own time": {&api.BackupVerify{Timeout: &metav1.Duration{Duration: time.Hour}}, nil, time.Hour, write, api.VerificationUnknown, ReasonTimedOut, "1h0m0s"},
		"not wanted":      {nil, podOf(running1(), nil), time.Minute, write, api.VerificationUnknown, ReasonNotWanted, "schedule"},
		"anna":            {spec, nil, time.Minute, write, api.VerificationUnknown, ReasonNotSupported, "of Anna"},
		"somebody else's": {spec, somebody, time.Minute, write, api.VerificationUnknown, ReasonNotStarted, "somebody else's"},
	} {
		b := running1()
		if name == "anna" {
			b.Status.Pods[0].Keys = 1
		}
		got := course(b, c.spec, c.pod, t0.Add(c.after))
		if got.kind != c.kind {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		if c.kind == create && got.limit != 6*time.Hour-c.after {
			t.Errorf("%s: for %v", name, got.limit)
		}
		if c.kind != write {
			if !strings.Contains(got.message, c.says) {
				t.Errorf("%s: %q", name, got.message)
			}
			continue
		}
		v := got.status.Verified
		condition := meta.FindStatusCondition(got.status.Conditions, api.ConditionVerified)
		if v.Result != c.result || v.Finished == nil || condition == nil || condition.Reason != c.reason || condition.Message != v.Message || !strings.Contains(v.Message, c.says) {
			t.Errorf("%s: %+v, %+v", name, v, condition)
		}
		if want := map[api.VerificationResult]metav1.ConditionStatus{api.VerificationPassed: "True", api.VerificationFailed: "False", api.VerificationUnknown: "Unknown"}[c.result]; condition.Status != want {
			t.Errorf("%s: condition is %s", name, condition.Status)
		}
		if b.Status.Verified.Result != api.VerificationRunning || len(b.Status.Conditions) > 0 {
			t.Errorf("%s: what was read is changed", name)
		}
	}
}

func running1() *api.Backup {
	b := backupOf("cassandra-0", "cassandra-1", "cassandra-2")
	b.Status.Verified = begin("cassandra-0", t0)
	return b
}

// TestNodes goes through all nodes, adding up; and ends at the first that is not sound.
func TestNodes(t *testing.T) {
	all := &api.BackupVerify{Nodes: new(int32(0))}
	b := running1()
	b.Status.Verified.Nodes = []string{"cassandra-2"} // the circle begins there
	for i, want := range []string{"cassandra-0", "cassandra-1", ""} {
		got := course(b, all, podOf(b, &sound), t0.Add(time.Minute))
		b.Status = *got.status
		if v := b.Status.Verified; want != "" && (v.Result != api.VerificationRunning || current(v) != want) || want == "" && v.Result != api.VerificationPassed || v.Rows != int64(5*(i+1)) || v.SSTables != int64(4*(i+1)) || v.Tables != 3 {
			t.Fatalf("after %d: %+v", i, v)
		}
	}
	if n := len(b.Status.Verified.Nodes); n != 3 {
		t.Errorf("%d nodes", n)
	}
	many := sound
	for i := range 30 {
		many.Differences = append(many.Differences, node.Difference{Table: fmt.Sprintf("k.t%d", i), Want: 1})
	}
	b = running1()
	v := course(b, all, podOf(b, &many), t0.Add(time.Minute)).status.Verified
	if v.Result != api.VerificationFailed || len(v.Differences) != mostDifferences || v.Differences[0].Node != "cassandra-0" || len(v.Nodes) != 1 || !strings.Contains(v.Message, "30 tables") {
		t.Errorf("%+v", v)
	}
}
