package coverage

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/workload"
)

// TestJudgeQuota finds the same reason before the pod is counted, as admission
// does, and after, with less room than the pod itself needs.
func TestJudgeQuota(t *testing.T) {
	pods, _ := corpus(t)
	raw := live(t, pods["plain-official-41"], func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("4Gi")},
			Limits:   corev1.ResourceList{"memory": resource.MustParse("4Gi")}}
	})
	outcomes := map[string]int{}
	for _, name := range []corev1.ResourceName{"cpu", "requests.memory", "limits.memory"} {
		own := resource.MustParse("4Gi")
		if name == "cpu" {
			own = resource.MustParse("1")
		}
		// From no room for anything to room for all.
		for tenths := range int64(30) {
			hard := resource.NewMilliQuantity(own.MilliValue()*tenths/10+own.MilliValue(), own.Format)
			quota := func(used resource.Quantity) []corev1.ResourceQuota {
				q := corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{name: *hard}},
					Status: corev1.ResourceQuotaStatus{Used: corev1.ResourceList{name: used}}}
				q.Name = "small"
				return []corev1.ResourceQuota{q}
			}
			used := resource.NewMilliQuantity(own.MilliValue(), own.Format) // by another pod
			admission := input(raw)
			admission.Namespace.Quotas = quota(*used)
			want := string(webhook.Decide(admission).Reason)
			if want == "" {
				want = ReasonWebhookWasDown
			}
			outcomes[want]++
			both := used.DeepCopy()
			both.Add(own)
			in := input(raw)
			in.Namespace.Quotas = quota(both)
			if got := Judge(in, since); got.Reason != want {
				t.Errorf("%s, %s of %s used: %+v, want %s", name, used, hard, got, want)
			}
			if left := in.Namespace.Quotas[0].Status.Used[name]; left.Cmp(both) != 0 {
				t.Fatalf("the quota that was passed has changed to %s", &left)
			}
		}
	}
	if outcomes["quota-exceeded"] < 5 || outcomes[ReasonWebhookWasDown] < 5 {
		t.Errorf("outcomes %v", outcomes)
	}
}

// A status that was written before the pod was counted has no less than nothing.
func TestVacatedStatus(t *testing.T) {
	pods, _ := corpus(t)
	pod, err := workload.Parse(live(t, pods["plain-official-41"], func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
	}))
	if err != nil {
		t.Fatal(err)
	}
	quota := corev1.ResourceQuota{Status: corev1.ResourceQuotaStatus{Used: corev1.ResourceList{
		"cpu": resource.MustParse("300m"), "pods": resource.MustParse("4"), "requests.storage": resource.MustParse("5Gi")}}}
	used := vacated([]corev1.ResourceQuota{quota}, pod)[0].Status.Used
	for name, want := range map[corev1.ResourceName]string{"cpu": "0", "pods": "4", "requests.storage": "5Gi"} {
		if got := used[name]; got.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("%s: %s, want %s", name, &got, want)
		}
	}
}

// TestDemand sums as the scheduler and the quota do.
func TestDemand(t *testing.T) {
	const c = `{"resources":{"requests":{"cpu":%q},"limits":{"cpu":%q}}}`
	one := func(cpu string) string { return fmt.Sprintf(c, cpu, cpu) }
	sidecar := func(cpu string) string { return `{"restartPolicy":"Always",` + one(cpu)[1:] }
	for _, tc := range []struct{ what, spec, want string }{
		{"nothing", `{}`, "0"},
		{"two containers", `{"containers":[` + one("1") + `,` + one("500m") + `]}`, "1500m"},
		{"small init container", `{"initContainers":[` + one("1") + `],"containers":[` + one("2") + `]}`, "2"},
		{"large init container", `{"initContainers":[` + one("3") + `],"containers":[` + one("2") + `]}`, "3"},
		{"sidecar", `{"initContainers":[` + sidecar("1") + `],"containers":[` + one("2") + `]}`, "3"},
		{"init container after a sidecar", `{"initContainers":[` + sidecar("1") + `,` + one("4") + `],"containers":[` + one("2") + `]}`, "5"},
		{"init container before a sidecar", `{"initContainers":[` + one("4") + `,` + sidecar("1") + `],"containers":[` + one("2") + `]}`, "4"},
		{"pod as a whole", `{"resources":{"requests":{"cpu":"7"},"limits":{"cpu":"7"}},"containers":[` + one("2") + `]}`, "7"},
		{"no quantity", `{"containers":[` + one("much") + `]}`, "0"},
	} {
		pod, err := workload.Parse([]byte(`{"spec":` + tc.spec + `}`))
		if err != nil {
			t.Fatal(err)
		}
		requests, limits := demand(pod)
		for _, got := range []resource.Quantity{requests["cpu"], limits["cpu"]} {
			if got.Cmp(resource.MustParse(tc.want)) != 0 {
				t.Errorf("%s: %s, want %s", tc.what, &got, tc.want)
			}
		}
	}
}
