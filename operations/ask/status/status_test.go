package status

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/operations/rpo"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/test/golden"
	"github.com/stategraft/stategraft/webhook"
)

// noon is when the tests take place.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(d)} }

func store(funcs interceptor.Funcs, objects ...client.Object) client.Client {
	return fake.NewClientBuilder().WithScheme(ask.Scheme()).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
}

func namespace(name string, labelled bool, annotations map[string]string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations, CreationTimestamp: *at(-1000 * time.Hour)}}
	if labelled {
		ns.Labels = map[string]string{api.LabelInject: api.InjectEnabled}
	}
	return ns
}

func pod(ns, name string, injected bool, annotations map[string]string) *corev1.Pod {
	yes := true
	owner := name[:strings.LastIndexByte(name, '-')]
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Annotations: annotations, Labels: map[string]string{"app": owner}, CreationTimestamp: *at(-500 * time.Hour),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: owner, UID: "u", Controller: &yes}}},
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			Containers: []corev1.Container{{Name: "cassandra", Image: "cassandra:4.1", Ports: []corev1.ContainerPort{{ContainerPort: 9042}},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/cassandra"}}}}}}
	if injected {
		p.Labels[api.LabelInjected] = "cassandra"
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "stategraft-agent"})
	}
	return p
}

// adoptedPod gives a pod containers of adoption, which run; through tells whether the
// controllers know it.
func adoptedPod(p *corev1.Pod, through bool) *corev1.Pod {
	if through {
		p.Labels[api.LabelInjected] = "cassandra"
	}
	for i, name := range []string{"stategraft-agent-1", "stategraft-medusa-2"} {
		c := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Env: []corev1.EnvVar{{Name: patches.EnvAdopted, Value: strconv.Itoa(i + 1)}}}}
		p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, c)
		p.Status.EphemeralContainerStatuses = append(p.Status.EphemeralContainerStatuses, corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	}
	return p
}

func backed(ns, name string, ago time.Duration, pods ...string) *api.Backup {
	b := &api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, CreationTimestamp: *at(-ago)},
		Status: api.BackupStatus{Phase: api.BackupComplete, Name: name, Started: at(-ago), Finished: at(-ago + time.Hour)}}
	for _, pod := range pods {
		b.Status.Pods = append(b.Status.Pods, api.PodBackup{Name: pod, Phase: api.PodBackupComplete, Objects: 5, Bytes: 3 << 29, Started: at(-ago), Finished: at(-ago + time.Hour)})
	}
	return b
}

// cluster has pods in each state.
func cluster() []client.Object {
	verified := backed("prod", "nightly-20261130-030000", 9*time.Hour, "c-0", "c-1")
	verified.Labels = map[string]string{api.LabelSchedule: "nightly"}
	verified.Status.Verified = &api.Verification{Result: api.VerificationPassed, Nodes: []string{"c-0"}, Started: at(-4 * time.Hour), Finished: at(-3 * time.Hour)}
	web := pod("prod", "web-0", false, nil)
	web.Spec = corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx"}}}
	asked := map[string]string{api.AnnotationAdopt: api.AdoptRunning}
	ended := adoptedPod(pod("test", "t-4", false, nil), true)
	ended.Status.EphemeralContainerStatuses[1].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}}
	done := pod("prod", "done-0", false, nil)
	done.Status.Phase = corev1.PodSucceeded
	return []client.Object{
		namespace("prod", true, map[string]string{api.AnnotationRPO: "26h"}), namespace("test", true, map[string]string{api.AnnotationRPO: "soon\x1b"}), namespace("plain", false, nil),
		pod("prod", "c-0", true, nil), pod("prod", "c-1", true, nil), pod("prod", "c-10", true, nil), pod("prod", "c-2", false, nil),
		pod("prod", "old-0", true, map[string]string{api.AnnotationRPO: "60m"}), web, done,
		pod("test", "t-0", true, nil), adoptedPod(pod("test", "t-1", false, nil), true), adoptedPod(pod("test", "t-2", false, asked), false),
		adoptedPod(pod("test", "t-3", false, map[string]string{api.AnnotationAdopt: api.AdoptNever}), false), ended, pod("plain", "p-0", false, nil),
		verified, backed("prod", "old-1", 30*time.Hour, "old-0"),
		&api.BackupSchedule{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "nightly", CreationTimestamp: *at(-400 * time.Hour)},
			Spec: api.BackupScheduleSpec{Schedule: "0 3 * * *", Template: api.BackupTemplate{Spec: api.BackupSpec{Pods: &api.BackupPods{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "c"}}}}}},
			Status: api.BackupScheduleStatus{Next: at(15 * time.Hour)}},
	}
}

// TestStatus compares what is shown of a cluster with golden files.
func TestStatus(t *testing.T) {
	c := store(interceptor.Funcs{}, cluster()...)
	var out bytes.Buffer
	for _, ns := range []string{"", "prod", "plain"} {
		found, err := Read(t.Context(), c, ns, webhook.DefaultConfig(), noon)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("== namespace " + ns + "\n" + strings.Join(found.Notes, "\n") + "\n")
		if err := Write(&out, found.Rows, ns != "", noon); err != nil {
			t.Fatal(err)
		}
		out.WriteString(strings.Join(slices.Concat(Summary(found.Rows), found.Adoptions, found.Problems), "\n") + "\n")
		if ns == "" {
			text, err := json.MarshalIndent(found.Document(), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "testdata/status.json", text)
			if found.Document().Behind != len(found.Behind()) || len(found.Behind()) == 0 {
				t.Errorf("%d behind", len(found.Behind()))
			}
		}
	}
	golden.Compare(t, "testdata/status.txt", out.Bytes())
}

// What keeps pods from being backed up beside their age is a problem of its own: that is
// said, and --check goes by it.
func TestProblems(t *testing.T) {
	schedule := func(name string, change func(*api.BackupSchedule)) *api.BackupSchedule {
		s := &api.BackupSchedule{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, CreationTimestamp: *at(-time.Hour)}, Spec: api.BackupScheduleSpec{Schedule: "0 3 * * *"}}
		s.Spec.Template.Spec.Pods = &api.BackupPods{Workload: &api.BackupWorkload{Name: "c"}}
		if change != nil {
			change(s)
		}
		return s
	}
	none := int32(0)
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "c"}, Spec: appsv1.StatefulSetSpec{Replicas: &none}}
	set.Spec.Template.Labels = map[string]string{"app": "c"}
	prod, plain := namespace("prod", true, nil), namespace("prod", false, nil)
	for _, c := range []struct {
		what    string
		objects []client.Object
		want    string // "" where all is well
		note    string
	}{
		{"well", []client.Object{prod, pod("prod", "c-0", true, nil), schedule("s", nil)}, "", ""},
		{"refused", []client.Object{prod, pod("prod", "c-0", true, nil), schedule("s", func(s *api.BackupSchedule) {
			s.Status.Conditions = []metav1.Condition{{Type: api.ConditionAccepted, Status: metav1.ConditionFalse, Reason: "InvalidSchedule", Message: "no day\x1b is the 31st of June"}}
		})}, "BackupSchedule prod/s is refused, and makes no backup (InvalidSchedule): no day? is the 31st of June", ""},
		{"scaled to 0", []client.Object{prod, set, schedule("s", nil)}, "BackupSchedule prod/s has no pods: statefulset c is scaled to 0, and nothing is backed up until it is scaled up", ""},
		{"scaled to 0, by labels", []client.Object{prod, set, schedule("s", func(s *api.BackupSchedule) {
			s.Spec.Template.Spec.Pods = &api.BackupPods{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "c"}}}
		})}, "statefulset c is scaled to 0", ""},
		{"no such workload", []client.Object{prod, schedule("s", nil)}, "there is no statefulset c", ""},
		{"none of its pods", []client.Object{prod, schedule("s", func(s *api.BackupSchedule) { s.Spec.Template.Spec.Pods = &api.BackupPods{Names: []string{"x"}} })}, "none of those that it is for is there", ""},
		{"suspended without pods", []client.Object{prod, set, schedule("s", func(s *api.BackupSchedule) { s.Spec.Suspend = true })}, "", "BackupSchedule prod/s has no pods, and is suspended."},
		{"without a sidecar", []client.Object{prod, pod("prod", "c-0", false, nil)}, "-", ""},
		{"not labelled", []client.Object{plain, pod("prod", "c-0", false, nil), pod("prod", "c-1", true, nil)}, "Namespace prod is not labelled, and new pods of it get no sidecar, though it has 2 pods of a database", ""},
		{"not labelled, with a schedule", []client.Object{plain, schedule("s", nil)}, "BackupSchedule prod/s makes no backup: its namespace is not labelled", "Namespace prod is not labelled"},
		{"not labelled, without databases", []client.Object{plain}, "", "Namespace prod is not labelled, and new pods of it get no sidecar: kubectl label"},
	} {
		found, err := Read(t.Context(), store(interceptor.Funcs{}, c.objects...), "prod", webhook.DefaultConfig(), noon)
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Join(found.Problems, "|")
		if found.Troubled() != (c.want != "") || c.want != "-" && !strings.Contains(said, c.want) || c.want == "-" && said != "" || !strings.Contains(strings.Join(found.Notes, "|"), c.note) || c.note == "" && len(found.Notes) > 0 {
			t.Errorf("%s: %v, %q, %q", c.what, found.Troubled(), said, found.Notes)
		}
	}
}

// Of many that are behind the first are named.
func TestSummary(t *testing.T) {
	rows := make([]rpo.Row, 14)
	for i := range rows {
		rows[i] = rpo.Row{Namespace: "n", Pod: "p", Behind: i < 12, Why: "why", Sidecar: rpo.SidecarMissing}
	}
	lines := Summary(rows)
	if len(lines) != 13 || lines[0] != "12 of 14 pods behind:" || lines[11] != "  and 2 more (-o wide)" || !strings.HasPrefix(lines[12], "2 other pods without a sidecar: kubectl stategraft check") {
		t.Errorf("%q", lines)
	}
	if lines := Summary([]rpo.Row{{Sidecar: rpo.SidecarMissing}}); len(lines) != 1 || !strings.HasPrefix(lines[0], "1 pod without a sidecar: ") {
		t.Errorf("%q", lines)
	}
	if lines := Summary(rows[:0]); len(lines) != 0 {
		t.Errorf("%q", lines)
	}
}

// Who may not read the namespace sees the pods all the same; every other right is needed.
func TestRights(t *testing.T) {
	for resource, want := range map[string]string{
		"namespaces": "", "pods": "you have no right to list pods in namespace prod", "backups": "you have no right to list backups.stategraft.io in namespace prod",
		"schedules": "you have no right to list backupschedules.stategraft.io in namespace prod",
	} {
		no := apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New(`User "u" cannot do that`))
		c := store(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if _, ns := o.(*corev1.Namespace); ns && resource == "namespaces" {
					return no
				}
				return c.Get(ctx, key, o, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				_, pods := list.(*corev1.PodList)
				_, backups := list.(*api.BackupList)
				_, schedules := list.(*api.BackupScheduleList)
				if pods && resource == "pods" || backups && resource == "backups" || schedules && resource == "schedules" {
					return no
				}
				return c.List(ctx, list, opts...)
			},
		}, cluster()...)
		found, err := Read(t.Context(), c, "prod", webhook.DefaultConfig(), noon)
		switch {
		case want == "" && (err != nil || len(found.Rows) == 0 || len(found.Notes) != 1 || !strings.Contains(found.Notes[0], "no right to read namespace prod")):
			t.Errorf("%s: %v, %+v", resource, err, found)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%s: %v", resource, err)
		}
	}
}
