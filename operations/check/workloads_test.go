package check

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/coverage"
	"github.com/stategraft/stategraft/workload"
)

func TestRing(t *testing.T) {
	at := ring{"ns", "StatefulSet/db", "db"}
	m := member{hostname: "db-0", labels: map[string]string{"app": "db", "pod": "db-0"}, pods: []string{"db-0", "db-1"}}
	service := func(change func(*corev1.ServiceSpec)) corev1.Service {
		s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "db"},
			Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Selector: map[string]string{"app": "db"}}}
		change(&s.Spec)
		return s
	}
	other := corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: service(func(*corev1.ServiceSpec) {}).Spec}
	for _, c := range []struct {
		what     string
		ring     ring
		member   member
		services []corev1.Service
		want     []string
	}{
		{"good", at, m, []corev1.Service{service(func(*corev1.ServiceSpec) {})}, nil},
		{"another selects them too", at, m, []corev1.Service{other, service(func(*corev1.ServiceSpec) {})}, nil},
		{"no subdomain", ring{"ns", "StatefulSet/db", ""}, m, []corev1.Service{other}, []string{"fail ns/StatefulSet/db: no subdomain"}},
		{"no hostname", at, member{labels: m.labels}, []corev1.Service{service(func(*corev1.ServiceSpec) {})}, []string{"fail ns/StatefulSet/db: no hostname"}},
		{"missing", at, m, []corev1.Service{other}, []string{"fail ns/StatefulSet/db: Service db, which the pods name as their subdomain, is missing"}},
		{"selects others", at, m, []corev1.Service{service(func(s *corev1.ServiceSpec) { s.Selector["app"] = "web" })}, []string{"fail ns/StatefulSet/db: does not select"}},
		{"selects nothing", at, m, []corev1.Service{service(func(s *corev1.ServiceSpec) { s.Selector = nil })}, []string{"fail ns/StatefulSet/db: does not select"}},
		{"an alias", at, m, []corev1.Service{service(func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeExternalName })}, []string{"fail ns/StatefulSet/db: ExternalName"}},
		{"with an address", at, m, []corev1.Service{service(func(s *corev1.ServiceSpec) { s.ClusterIP = "10.0.0.1" })}, []string{"warn ns/StatefulSet/db: not headless"}},
		{"ready pods only", at, m, []corev1.Service{service(func(s *corev1.ServiceSpec) { s.PublishNotReadyAddresses = false })}, []string{"warn ns/StatefulSet/db: while one node is down"}},
	} {
		expect(t, c.what, judgeRing(c.ring, c.member, c.services), c.want...)
	}
}

func TestNeedsPTR(t *testing.T) {
	pod := databasePod(t)
	if !needsPTR(pod) {
		t.Error("a pod with Medusa does")
	}
	pod.Spec.Containers[3].Env = []corev1.EnvVar{{Name: "MEDUSA_RESOLVE_IP_ADDRESSES", Value: "False"}}
	if needsPTR(pod) {
		t.Error("one whose Medusa uses addresses does not")
	}
	pod.Spec.Containers = pod.Spec.Containers[:3]
	if needsPTR(pod) {
		t.Error("one without Medusa does not")
	}
}

func TestCoverage(t *testing.T) {
	for _, c := range []struct {
		reason  string
		unknown bool
		want    string
	}{
		{coverage.ReasonCreatedBefore, false, "warn ns/p: has no sidecar (created-before): message"},
		{coverage.ReasonWebhookWasDown, false, "fail ns/p: has no sidecar (webhook-was-down): message"},
		{coverage.ReasonWebhookWasDown, true, "warn ns/p: why cannot be told"},
		{string(workload.ReasonHeldBack), true, "fail ns/p: has no sidecar (held-back): message"},
		{string(workload.ReasonDataNotOnVolume), false, "warn ns/p: has no sidecar (data-not-on-volume): message"},
		{string(workload.ReasonBadAnnotation), false, "fail ns/p: has no sidecar (bad-annotation): message"},
		{string(workload.ReasonInternalError), false, "fail ns/p: has no sidecar (internal-error): message"},
	} {
		got := judgeCoverage("ns/p", coverage.Judgement{Without: true, Reason: c.reason, Message: "message"}, c.unknown)
		expect(t, c.reason, got, c.want)
	}
	for message, key := range map[string]string{
		"annotation stategraft.io/grpc-port: no number": "correct stategraft.io/grpc-port of",
		"stategraft.io/a, stategraft.io/b-c":            "correct stategraft.io/a, stategraft.io/b-c of",
		"something":                                     "correct the annotation of",
	} {
		got := judgeCoverage("ns/p", coverage.Judgement{Without: true, Reason: string(workload.ReasonBadAnnotation), Message: message}, false)
		if !strings.HasPrefix(got[0].Remedy, key) {
			t.Errorf("%s: %q", message, got[0].Remedy)
		}
	}
	expect(t, "covered", judgeCoverage("ns/p", coverage.Judgement{}, false))
	for _, unknown := range []bool{false, true} {
		got := judgeCoverage("ns/p", coverage.Judgement{Without: true, Reason: coverage.ReasonCreatedBefore, Message: "message", Remedy: "create Secret s"}, unknown)
		if got[0].Remedy != "create Secret s" {
			t.Errorf("its adoption has begun: remedy %q", got[0].Remedy)
		}
	}
}

// What a pod asks the controller for in vain is a failure, told of each alike.
func TestUnfollowed(t *testing.T) {
	pod := databasePod(t)
	expect(t, "none", judgeFollowed(pod))
	pod.Annotations = map[string]string{api.AnnotationBackupSchedule: "0 3 * *", api.AnnotationRPO: "soon"}
	got := judgeFollowed(pod)
	expect(t, "two", got, `fail ns/db-0: annotation stategraft.io/backup-schedule of the pod is "0 3 * *": it takes a cron`, "fail ns/db-0: stategraft.io/rpo")
	if !strings.Contains(got[0].Remedy, "template") {
		t.Errorf("remedy %q", got[0].Remedy)
	}
}

// A pod that asks for its adoption in other words is told of where databases without sidecar
// are, and not as one that is not backed up in time.
func TestAsking(t *testing.T) {
	pod := databasePod(t)
	for value, want := range map[string][]string{"runing": {`fail ns/db-0: annotation stategraft.io/adopt of the pod is "runing": it takes running or never`}, "running": nil, "never": nil} {
		pod.Annotations = map[string]string{api.AnnotationAdopt: value}
		got := judgeAsking(pod)
		expect(t, value, got, want...)
		if len(got) > 0 && got[0].Remedy != "kubectl -n ns annotate --overwrite pod db-0 stategraft.io/adopt=running (or never)" {
			t.Errorf("remedy %q", got[0].Remedy)
		}
		expect(t, "its schedule", judgeFollowed(pod))
		c, _ := stand()
		s := swept()
		s.add(c, &corev1.Namespace{}, pod)
		expect(t, "what it is not backed up by", s.unfollowed)
	}
	pod.Annotations = nil
	expect(t, "none", judgeAsking(pod))
}

func TestHeldBack(t *testing.T) {
	entry := func(namespace string, until time.Time) (string, string) {
		h := api.HeldBack{Namespace: namespace, Kind: "StatefulSet", Name: "db", Cause: api.CauseImagePull, Since: noon.Add(-time.Hour), Until: until, Message: "no such image"}
		return h.Key(), h.Encode()
	}
	entries := map[string]string{"broken": "{"}
	for namespace, until := range map[string]time.Time{"a": noon.Add(time.Hour), "b": noon.Add(2 * time.Hour), "over": noon.Add(-time.Minute)} {
		key, text := entry(namespace, until)
		entries[key] = text
	}
	expect(t, "none", judgeHeldBack(nil, "", noon), "ok : no workload")
	expect(t, "all", judgeHeldBack(entries, "", noon),
		"fail a/StatefulSet/db: until 2026-03-01 13:00 UTC (image-pull, since 2026-03-01 11:00 UTC): no such image", "fail b/StatefulSet/db: ", "warn broken: cannot be read")
	expect(t, "one namespace", judgeHeldBack(entries, "b", noon), "fail b/StatefulSet/db: ", "warn broken: ")
	held := activeAt(entries, noon)
	if _, ok := held.find("a", "StatefulSet", "db"); !ok {
		t.Error("one that is held back is not found")
	}
	if _, ok := held.find("over", "StatefulSet", "db"); ok {
		t.Error("one whose time is over is found")
	}
}

func TestRefused(t *testing.T) {
	three := int32(3)
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db"}, Spec: appsv1.StatefulSetSpec{Replicas: &three}, Status: appsv1.StatefulSetStatus{Replicas: 1}}
	event := func(ago time.Duration, message string) corev1.Event {
		return corev1.Event{LastTimestamp: metav1.NewTime(noon.Add(-ago)), Message: "create Pod db-1 in StatefulSet db failed error: " + message}
	}
	newer := event(time.Hour, "") // counted up by series
	newer.Series, newer.Message = &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(noon)}, "in other words"
	expect(t, "about to", judgeRefused(set, nil))
	expect(t, "the last one", judgeRefused(set, []corev1.Event{event(time.Minute, "exceeded quota"), event(time.Hour, "older")}),
		"fail ns/StatefulSet/db: has 1 of 3 pods, and the next one is refused: exceeded quota")
	expect(t, "a series", judgeRefused(set, []corev1.Event{event(time.Minute, "exceeded quota"), newer}), "fail ns/StatefulSet/db: refused: in other words")
	got := judgeRefused(set, []corev1.Event{event(0, "ValidatingAdmissionPolicy 'restore.stategraft.io' denied")})
	expect(t, "a restore", got, "fail ns/StatefulSet/db: restore.stategraft.io")
	if got[0].Remedy == judgeRefused(set, []corev1.Event{event(0, "exceeded quota")})[0].Remedy {
		t.Error("a restore has the remedy of a quota")
	}
}
