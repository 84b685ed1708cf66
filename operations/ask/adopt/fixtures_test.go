package adopt

import (
	"errors"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/webhook"
)

// noon is when the tests take place.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func store(funcs interceptor.Funcs, objects ...client.Object) client.WithWatch {
	field := func(of func(*corev1.Event) string) client.IndexerFunc {
		return func(o client.Object) []string {
			e, _ := o.(*corev1.Event)
			return []string{of(e)}
		}
	}
	return fake.NewClientBuilder().WithScheme(ask.Scheme()).WithObjects(objects...).WithInterceptorFuncs(funcs).
		WithIndex(&corev1.Event{}, "involvedObject.kind", field(func(e *corev1.Event) string { return e.InvolvedObject.Kind })).
		WithIndex(&corev1.Event{}, "reason", field(func(e *corev1.Event) string { return e.Reason })).Build()
}

func namespace(name string, labelled bool) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if labelled {
		ns.Labels = map[string]string{api.LabelInject: api.InjectEnabled}
	}
	return ns
}

func node(name string, change func(*corev1.Node)) *corev1.Node {
	n := faultless(name)
	if change != nil {
		change(n)
	}
	return n
}

func medusaConfig(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "medusa"}, Data: map[string]string{"medusa.ini": ""}}
}

func bucketKey(namespace string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "medusa-bucket-key"}}
}

// database is a pod of Cassandra that runs, of a StatefulSet.
func database(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	owner := name[:strings.LastIndexByte(name, '-')]
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": owner},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: owner, UID: "u", Controller: new(true)}}}}
	p.Spec.NodeName = "n1"
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-" + name}}}}
	p.Spec.Containers = []corev1.Container{{Name: "cassandra", Image: "cassandra:4.1", Ports: []corev1.ContainerPort{{ContainerPort: 9042}},
		VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/cassandra"}}}}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	for _, change := range changes {
		change(p)
	}
	return p
}

func on(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

func injected(p *corev1.Pod) {
	p.Labels[api.LabelInjected] = "cassandra"
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: patches.ContainerMedusa, Image: "medusa"})
}

func labelled(p *corev1.Pod) { p.Labels[api.LabelInjected] = "cassandra" }

// with gives a pod a container of adoption with its status; nil for none yet.
func with(name string, state *corev1.ContainerState, env ...corev1.EnvVar) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		number := name[strings.LastIndexByte(name, '-')+1:]
		if _, err := strconv.Atoi(number); err != nil {
			panic(name + " has no number")
		}
		c := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: "x",
			Env: append([]corev1.EnvVar{{Name: patches.EnvAdopted, Value: number}, {Name: patches.EnvAdoptedAt, Value: noon.Add(-time.Minute).Format(time.RFC3339)}}, env...)}}
		p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, c)
		if state != nil {
			p.Status.EphemeralContainerStatuses = append(p.Status.EphemeralContainerStatuses, corev1.ContainerStatus{Name: name, State: *state})
		}
	}
}

func runs() *corev1.ContainerState {
	return &corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(-time.Minute))}}
}

func done() *corev1.ContainerState { return endedWith(0, "Completed") }

func endedWith(status int32, reason string) *corev1.ContainerState {
	return &corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: status, Reason: reason, FinishedAt: metav1.NewTime(noon.Add(-time.Second))}}
}

func waits(reason, message string) *corev1.ContainerState {
	return &corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func renewed(value string) corev1.EnvVar {
	return corev1.EnvVar{Name: patches.EnvAdoptedRenew, Value: value}
}

func event(pod *corev1.Pod, reason, message string, ago time.Duration) *corev1.Event {
	return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name + "." + reason + "." + ago.String()},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Reason:         reason, Message: message, EventTime: metav1.NewMicroTime(noon.Add(-ago))}
}

func forbidden(resource string) error {
	return apierrors.NewForbidden(corev1.Resource(resource), "", errors.New(`User "u" cannot do that`))
}

func looker(c client.Reader) *Looker {
	return NewLooker(c, webhook.DefaultConfig(), namespace("prod", true), func() time.Time { return noon })
}
