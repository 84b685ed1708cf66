package check

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// databasePod is injected, and well.
func databasePod(t *testing.T) *corev1.Pod {
	t.Helper()
	return read[corev1.Pod](t, `
metadata: {name: db-0, namespace: ns, labels: {app: db, stategraft.io/injected: cassandra}}
spec:
  hostname: db-0
  subdomain: db
  initContainers: [{name: prepare, image: busybox}]
  containers:
  - {name: cassandra, image: "cassandra:5.0"}
  - {name: stategraft-agent, image: "agent:1", resources: {requests: {cpu: 10m, memory: 32Mi}}}
  - {name: stategraft-snapshot, image: "cassandra:5.0", resources: {requests: {cpu: 10m, memory: 64Mi}}}
  - {name: stategraft-medusa, image: "medusa:1", resources: {requests: {cpu: 100m, memory: 128Mi}}}
  volumes:
  - {name: stategraft-medusa-config, configMap: {name: medusa, optional: true}}
  - {name: stategraft-storage, secret: {secretName: medusa-bucket-key, optional: true}}
  - {name: theirs, secret: {secretName: theirs}}
status:
  phase: Running
  containerStatuses:
  - {name: cassandra, image: "", imageID: "", ready: true, restartCount: 0, state: {running: {}}}
  - {name: stategraft-agent, image: "", imageID: "", ready: true, restartCount: 0, state: {running: {}}}
  - {name: stategraft-snapshot, image: "", imageID: "", ready: true, restartCount: 0, state: {running: {}}}
  - {name: stategraft-medusa, image: "", imageID: "", ready: true, restartCount: 0, state: {running: {}}}
`)
}

func TestContainers(t *testing.T) {
	status := func(pod *corev1.Pod, name string) *corev1.ContainerStatus {
		for i := range pod.Status.ContainerStatuses {
			if pod.Status.ContainerStatuses[i].Name == name {
				return &pod.Status.ContainerStatuses[i]
			}
		}
		t.Fatalf("no status of %s", name)
		return nil
	}
	waiting := func(name, reason string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			status(pod, name).State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "because"}}
		}
	}
	ended := func(restarts int32, ago time.Duration, reason string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			s := status(pod, "stategraft-medusa")
			s.RestartCount = restarts
			s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: reason, ExitCode: 137, FinishedAt: metav1.NewTime(noon.Add(-ago))}
		}
	}
	pending := func(message string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message}}}
		}
	}
	image := func(name, image string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			for i := range pod.Spec.Containers {
				if pod.Spec.Containers[i].Name == name {
					pod.Spec.Containers[i].Image = image
				}
			}
		}
	}
	for _, c := range []struct {
		what   string
		change func(*corev1.Pod)
		want   []string
	}{
		{"well", func(*corev1.Pod) {}, nil},
		{"not pulled", waiting("stategraft-medusa", "ImagePullBackOff"), []string{"fail ns/db-0: container stategraft-medusa: ImagePullBackOff: because"}},
		{"not made", waiting("stategraft-agent", "CreateContainerConfigError"), []string{"fail ns/db-0: container stategraft-agent: CreateContainerConfigError"}},
		{"starting", waiting("stategraft-agent", "ContainerCreating"), nil},
		{"after the init containers", waiting("stategraft-agent", "PodInitializing"), nil},
		{"the database's own", waiting("cassandra", "CrashLoopBackOff"), nil},
		{"crashing", func(pod *corev1.Pod) {
			ended(1, time.Minute, "Error")(pod)
			waiting("stategraft-medusa", "CrashLoopBackOff")(pod)
		}, []string{"fail ns/db-0: ends again and again: Error (status 137)"}},
		{"between two crashes", ended(5, time.Minute, "Error"), []string{"warn ns/db-0: started 5 times, the last time it ended 60 seconds ago: Error"}},
		{"killed", ended(3, 10*time.Minute, "OOMKilled"), []string{"warn ns/db-0: OOMKilled"}},
		{"a crash of old", ended(5, time.Hour, "Error"), nil},
		{"one crash", ended(1, time.Minute, "Error"), nil},
		{"healed", image("stategraft-medusa", "cassandra:5.0"), []string{"fail ns/db-0: stategraft-medusa idles in image cassandra:5.0"}},
		{"healed agent, in another's image", image("stategraft-agent", "busybox"), []string{"fail ns/db-0: stategraft-agent idles"}},
		{"healed snapshot server", image("stategraft-snapshot", "agent:1"), []string{"fail ns/db-0: stategraft-snapshot idles"}},
		{"two", func(pod *corev1.Pod) {
			image("stategraft-medusa", "cassandra:5.0")(pod)
			waiting("stategraft-agent", "ErrImagePull")(pod)
		}, []string{"fail ns/db-0: stategraft-agent: ErrImagePull", "fail ns/db-0: stategraft-medusa idles"}},
		{"degraded in another way", func(pod *corev1.Pod) {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "stategraft.io/Degraded", Status: corev1.ConditionTrue, Reason: "NotHealed", Message: "no shell"})
		}, []string{"fail ns/db-0: is degraded (NotHealed): no shell"}},
		{"recovered", func(pod *corev1.Pod) {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "stategraft.io/Degraded", Status: corev1.ConditionFalse, Reason: "Recovered"})
		}, nil},
		{"no room", pending("0/3 nodes are available: 3 Insufficient memory."), []string{"warn ns/db-0: 120m CPU and 224Mi memory: 0/3 nodes"}},
		{"no node for another reason", pending("0/3 nodes are available: 3 had untolerated taint."), nil},
	} {
		pod := databasePod(t)
		c.change(pod)
		expect(t, c.what, judgeContainers(pod, noon), c.want...)
	}
}

func TestReferences(t *testing.T) {
	pod := databasePod(t)
	found := references(pod)
	ini, storage := reference{"ns", "ConfigMap", "medusa"}, reference{"ns", "Secret", "medusa-bucket-key"}
	if len(found) != 2 || found[ini].keys[0] != "medusa.ini" || found[storage].keys[0] != "credentials" {
		t.Fatalf("found %+v", found)
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "stategraft-cql", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "medusa-bucket-key"}}})
	if keys := strings.Join(references(pod)[storage].keys, " "); keys != "credentials username password" {
		t.Errorf("one Secret for two: %s", keys)
	}
	for kind, want := range map[string]int{"anna": 2, "cloudburst": 1, "cassandra": 2} { // Cloudburst keeps nothing
		other := databasePod(t)
		other.Labels["stategraft.io/injected"] = kind
		if got := references(other); len(got) != want {
			t.Errorf("%s: %+v", kind, got)
		}
	}
	u := found[ini]
	u.pods = []string{"db-0", "db-1"}
	expect(t, "missing", judgeReference(ini, u, false, nil), "fail ns/medusa: the ConfigMap is missing: the sidecar does not know where backups go (db-0, db-1)")
	expect(t, "there", judgeReference(ini, u, true, []string{"medusa.ini", "more"}))
	expect(t, "no key", judgeReference(ini, u, true, []string{"medusa.conf"}), "fail ns/medusa: nothing under medusa.ini")
	u.keys = []string{"username", "password", "password"}
	expect(t, "two keys", judgeReference(storage, u, true, nil), "fail ns/medusa-bucket-key: nothing under username, password")
	u.keys = nil
	expect(t, "no key is needed", judgeReference(ini, u, true, nil))
}

func TestSecurity(t *testing.T) {
	restrictedContainer := `{name: %, securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}}`
	owning := `{name: %, securityContext: {allowPrivilegeEscalation: false, runAsUser: 0, runAsNonRoot: false, capabilities: {drop: [ALL], add: [CHOWN]}, seccompProfile: {type: RuntimeDefault}}}`
	hostPort := `{name: %, ports: [{containerPort: 50051, hostPort: 50051}], securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}}`
	plain := `{name: %}`
	for _, c := range []struct {
		what, theirs, ours, level string
		want                      []string
	}{
		{"both restricted", restrictedContainer, restrictedContainer, "restricted", nil},
		{"ours as root", restrictedContainer, owning, "restricted", []string{"fail ns/p: stategraft-agent: capability CHOWN"}},
		{"ours as root, at baseline", restrictedContainer, owning, "baseline", nil},
		{"theirs are no better", plain, owning, "restricted", nil},
		{"a host port", plain, hostPort, "baseline", []string{"fail ns/p: stategraft-agent: hostPort 50051"}},
		{"a host port of both", hostPort, hostPort, "baseline", nil},
		{"no level", restrictedContainer, owning, "", nil},
		{"privileged", restrictedContainer, hostPort, "privileged", nil},
	} {
		pod := read[corev1.Pod](t, "metadata: {name: p, namespace: ns}\nspec: {containers: ["+
			strings.ReplaceAll(c.theirs, "%", "db")+", "+strings.ReplaceAll(c.ours, "%", "stategraft-agent")+"]}")
		expect(t, c.what, judgeSecurity(pod, c.level), c.want...)
	}
}

// What the pod says for all its containers counts for each.
func TestSecurityOfThePod(t *testing.T) {
	pod := read[corev1.Pod](t, `
metadata: {name: p, namespace: ns}
spec:
  securityContext: {runAsNonRoot: true, runAsUser: 999, seccompProfile: {type: RuntimeDefault}}
  containers: [{name: db, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]`)
	if what := breaks(pod, &pod.Spec.Containers[0], levelRestricted); what != "" {
		t.Errorf("breaks %s", what)
	}
	for _, c := range []struct {
		change func()
		want   string
	}{
		{func() { pod.Spec.SecurityContext.SeccompProfile = nil }, "no seccompProfile"},
		{func() { pod.Spec.Containers[0].SecurityContext.Capabilities.Drop = nil }, "capabilities not dropped"},
		{func() { pod.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil }, "allowPrivilegeEscalation"},
		{func() { *pod.Spec.SecurityContext.RunAsUser = 0 }, "runAsUser 0"},
		{func() { pod.Spec.SecurityContext.RunAsNonRoot = nil }, "runAsNonRoot"},
		{func() { pod.Spec.Containers[0].SecurityContext.Privileged = new(true) }, "privileged"},
	} {
		c.change() // each on top of those before
		if what := breaks(pod, &pod.Spec.Containers[0], levelRestricted); what != c.want {
			t.Errorf("breaks %q, want %q", what, c.want)
		}
	}
}
