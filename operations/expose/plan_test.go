package expose

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// pod makes a pod of StatefulSet kvs as the API server has it.
func pod(name string, ports ...int32) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, UID: types.UID("u-" + name),
		Labels: map[string]string{api.LabelInjected: "anna", labelPodName: name}, Annotations: map[string]string{api.AnnotationExpose: "LoadBalancer"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "kvs", UID: "s", Controller: new(true)}}}}
	p.Spec.InitContainers = []corev1.Container{{Name: patches.ContainerAgent, Env: []corev1.EnvVar{{Name: "STATEGRAFT_KIND", Value: "anna"}, {Name: "STATEGRAFT_ROLE", Value: "memory"}}}}
	c := corev1.Container{Name: "memory-container"}
	for _, port := range ports {
		c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: port})
	}
	p.Spec.Containers = []corev1.Container{c}
	return p
}

func role(p *corev1.Pod, kind, role string) *corev1.Pod {
	p.Spec.InitContainers[0].Env[0].Value, p.Spec.InitContainers[0].Env[1].Value = kind, role
	return p
}

func plainly(p *corev1.Pod) *corev1.Pod {
	delete(p.Annotations, api.AnnotationExpose)
	return p
}

func service(t *testing.T, of string, unused time.Duration) *corev1.Service {
	t.Helper()
	s, why := serviceOf(pod(of))
	if why != nil {
		t.Fatal(why.text)
	}
	s.UID, s.ResourceVersion = types.UID("svc-"+of), "1"
	if unused > 0 {
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, annotationUnused, now.Add(-unused).Format(time.RFC3339))
	}
	return s
}

func set(replicas, first int32) map[string]*appsv1.StatefulSet {
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "kvs", UID: "s"}}
	s.Spec.Replicas, s.Spec.Ordinals = &replicas, &appsv1.StatefulSetOrdinals{Start: first}
	return map[string]*appsv1.StatefulSet{"kvs": s}
}

// text is a plan in short.
func (p plan) text() string {
	var all []string
	for _, e := range p.expose {
		all = append(all, fmt.Sprintf("expose %s %v", e.pod.Name, e.service != nil))
	}
	for what, list := range map[string][]*corev1.Service{"mark": p.unused, "unmark": p.used} {
		for _, s := range list {
			all = append(all, what+" "+s.Labels[api.LabelExposed])
		}
	}
	for _, r := range p.remove {
		all = append(all, "remove "+r.service.Labels[api.LabelExposed])
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func TestDecide(t *testing.T) {
	terminating := pod("kvs-0")
	terminating.DeletionTimestamp = &metav1.Time{Time: now}
	for _, c := range []struct {
		what  string
		facts facts
		want  string
		again time.Duration
	}{
		{"a new pod", facts{asks: true, pods: []*corev1.Pod{pod("kvs-0")}}, "expose kvs-0 false", 0},
		{"the namespace asks", facts{asks: true, annotations: map[string]string{api.AnnotationExpose: "LoadBalancer"}, pods: []*corev1.Pod{plainly(pod("kvs-0"))}}, "expose kvs-0 false", 0},
		{"nobody asks", facts{asks: true, pods: []*corev1.Pod{plainly(pod("kvs-0"))}}, "", 0},
		{"nonsense", facts{asks: true, annotations: map[string]string{api.AnnotationExpose: "NodePort"}, pods: []*corev1.Pod{plainly(pod("kvs-0"))}}, "", 0},
		{"no namespace of ours", facts{pods: []*corev1.Pod{pod("kvs-0")}}, "", 0},
		{"no namespace of ours any more", facts{pods: []*corev1.Pod{pod("kvs-0")}, services: []*corev1.Service{service(t, "kvs-0", 0)}}, "expose kvs-0 true", 0},
		{"it goes", facts{asks: true, pods: []*corev1.Pod{terminating}, services: []*corev1.Service{service(t, "kvs-0", 0)}, sets: set(1, 0)}, "", 0},
		{"it is being re-created", facts{asks: true, services: []*corev1.Service{service(t, "kvs-0", 0)}, sets: set(1, 0)}, "", 0},
		{"scaled away", facts{asks: true, services: []*corev1.Service{service(t, "kvs-1", 0)}, sets: set(1, 0)}, "mark kvs-1", 10 * time.Minute},
		{"scaled away for a while", facts{asks: true, services: []*corev1.Service{service(t, "kvs-1", 4*time.Minute)}, sets: set(1, 0)}, "", 6 * time.Minute},
		{"scaled away for good", facts{asks: true, services: []*corev1.Service{service(t, "kvs-1", 10*time.Minute)}, sets: set(1, 0)}, "remove kvs-1", 0},
		{"scaled up again", facts{asks: true, services: []*corev1.Service{service(t, "kvs-1", 4*time.Minute)}, sets: set(2, 0)}, "unmark kvs-1", 0},
		{"first ordinal", facts{asks: true, services: []*corev1.Service{service(t, "kvs-1", 0), service(t, "kvs-3", 0)}, sets: set(2, 2)}, "mark kvs-1", 10 * time.Minute},
		{"no StatefulSet", facts{asks: true, services: []*corev1.Service{service(t, "kvs-0", 0)}}, "mark kvs-0", 10 * time.Minute},
		{"the annotation is taken off", facts{asks: true, pods: []*corev1.Pod{plainly(pod("kvs-0"))}, services: []*corev1.Service{service(t, "kvs-0", 0)}, sets: set(1, 0)}, "remove kvs-0", 0},
		{"a mark that cannot be read", facts{asks: true, services: []*corev1.Service{func() *corev1.Service {
			s := service(t, "kvs-1", 0)
			s.Annotations = map[string]string{annotationUnused: "yesterday"}
			return s
		}()}, sets: set(1, 0)}, "mark kvs-1", 10 * time.Minute},
	} {
		c.facts.now, c.facts.linger = now, 10*time.Minute
		p := decide(c.facts)
		if p.text() != c.want || p.again != c.again {
			t.Errorf("%s: %q again %s, want %q, %s", c.what, p.text(), p.again, c.want, c.again)
		}
	}
}

func TestServiceOf(t *testing.T) {
	own := func(p *corev1.Pod, edit func(*corev1.Pod)) *corev1.Pod { edit(p); return p }
	for _, c := range []struct {
		what  string
		pod   *corev1.Pod
		ports []int32
		why   string
	}{
		{"memory, declared", pod("kvs-0", 6000, 6201, 6200, 6250, 9000), []int32{6200, 6201}, ""},
		{"memory, not declared", pod("kvs-0"), []int32{6200, 6201, 6202, 6203}, ""},
		{"disk", role(pod("kvs-0", 6200), "anna", "ebs"), []int32{6200}, ""},
		{"routing", role(pod("kvs-0"), "anna", "routing"), []int32{6450, 6451, 6452, 6453}, ""},
		{"scheduler", role(pod("kvs-0", 5000, 5001, 5007), "cloudburst", "scheduler"), []int32{5000, 5001}, ""},
		{"monitoring", role(pod("kvs-0", 6600), "anna", "monitoring"), nil, ""},
		{"executor", role(pod("kvs-0", 4000), "cloudburst", "executor"), nil, ""},
		{"Cassandra", role(pod("kvs-0", 7000, 9142), "cassandra", ""), []int32{9042, 9142}, ""},
		{"UDP", own(pod("kvs-0", 6205), func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].Protocol = corev1.ProtocolUDP }), []int32{6200, 6201, 6202, 6203}, ""},
		{"a DaemonSet's", own(pod("kvs-0"), func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "DaemonSet" }), nil, "StatefulSet"},
		{"no label", own(pod("kvs-0"), func(p *corev1.Pod) { delete(p.Labels, labelPodName) }), nil, labelPodName},
		{"a long name", pod(strings.Repeat("a", 64)), nil, "longer than"},
	} {
		s, why := serviceOf(c.pod)
		var got []int32
		if s != nil {
			for _, p := range s.Spec.Ports {
				got = append(got, p.Port)
			}
		}
		if !slices.Equal(got, c.ports) || (why == nil) != (c.why == "") || why != nil && !strings.Contains(why.text, c.why) {
			t.Errorf("%s: ports %v, %+v", c.what, got, why)
		}
	}
}

func TestNameOf(t *testing.T) {
	long := nameOf(strings.Repeat("a", 60))
	for of, want := range map[string]string{"kvs-0": "expose-kvs-0", "0": "expose-0"} {
		if got := nameOf(of); got != want {
			t.Errorf("%s: %s, want %s", of, got, want)
		}
	}
	if len(long) > 63 || long == nameOf(strings.Repeat("a", 61)) || !strings.HasPrefix(nameOf("a.b"), "expose-a-b-") || nameOf("a.b") == nameOf("a-b") {
		t.Errorf("%s, %s", long, nameOf("a.b"))
	}
}

func TestAddressOf(t *testing.T) {
	for _, c := range []struct {
		in   []corev1.LoadBalancerIngress
		want string
		v6   bool
	}{
		{nil, "", false},
		{[]corev1.LoadBalancerIngress{{IP: "203.0.113.7"}}, "203.0.113.7", false},
		{[]corev1.LoadBalancerIngress{{Hostname: "a.elb.example"}}, "a.elb.example", false},
		{[]corev1.LoadBalancerIngress{{IP: "2001:db8::1"}, {IP: "203.0.113.7"}}, "203.0.113.7", false},
		{[]corev1.LoadBalancerIngress{{IP: "2001:db8::1"}, {Hostname: "x"}}, "x", false},
		{[]corev1.LoadBalancerIngress{{IP: "2001:db8::1"}}, "2001:db8::1", true},
		{[]corev1.LoadBalancerIngress{{IP: "nonsense"}}, "", false},
	} {
		s := &corev1.Service{}
		s.Status.LoadBalancer.Ingress = c.in
		if got, v6 := addressOf(s); got != c.want || v6 != c.v6 {
			t.Errorf("%+v: %s %v", c.in, got, v6)
		}
	}
}
