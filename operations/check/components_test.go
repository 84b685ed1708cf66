package check

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func deployment(part string, wanted, ready int32) appsv1.Deployment {
	labels := map[string]string{labelPart: part}
	return appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "sg", Name: part, Labels: labels},
		Spec:   appsv1.DeploymentSpec{Replicas: &wanted, Selector: &metav1.LabelSelector{MatchLabels: labels}},
		Status: appsv1.DeploymentStatus{ReadyReplicas: ready}}
}

func TestComponents(t *testing.T) {
	behindService := []admissionregistrationv1.MutatingWebhookConfiguration{registered(t)}
	url := "https://10.0.0.1/mutate"
	behindURL := []admissionregistrationv1.MutatingWebhookConfiguration{registered(t)}
	behindURL[0].Webhooks[0].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &url}
	pulling := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "webhook-1", Labels: map[string]string{labelPart: partWebhook}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}}}
	unscheduled := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "webhook-2", Labels: map[string]string{labelPart: partWebhook}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes"}}}}
	for _, c := range []struct {
		what        string
		configs     []admissionregistrationv1.MutatingWebhookConfiguration
		deployments []appsv1.Deployment
		pods        []corev1.Pod
		endpoints   int
		want        []string
	}{
		{"well", behindService, []appsv1.Deployment{deployment(partWebhook, 2, 2), deployment(partController, 2, 2)}, nil, 2,
			[]string{"ok sg/webhook: 2 of 2", "ok sg/controller: 2 of 2"}},
		{"one is not ready", behindService, []appsv1.Deployment{deployment(partWebhook, 2, 1), deployment(partController, 1, 1)}, []corev1.Pod{pulling}, 1,
			[]string{"warn sg/webhook: 1 of 2 replicas are ready (webhook-1: ImagePullBackOff no such image)", "ok sg/controller: 1 of 1"}},
		{"none is", behindService, []appsv1.Deployment{deployment(partWebhook, 2, 0), deployment(partController, 2, 0)}, []corev1.Pod{unscheduled}, 0,
			[]string{"fail sg/webhook: none of 2 replicas is ready (webhook-2: 0/3 nodes)", "fail sg/controller: nothing is healed", "fail stategraft/stategraft-webhook: no ready endpoint"}},
		{"scaled to nothing", behindService, []appsv1.Deployment{deployment(partWebhook, 0, 0), deployment(partController, 1, 1)}, nil, 0,
			[]string{"fail sg/webhook: scaled to 0", "ok sg/controller: ", "fail stategraft/stategraft-webhook: no ready endpoint"}},
		{"no controller", behindService, []appsv1.Deployment{deployment(partWebhook, 1, 1)}, nil, 1,
			[]string{"ok sg/webhook: ", "warn sg: no Deployment of the controller"}},
		{"gone", behindService, nil, nil, 0,
			[]string{"fail sg: no Deployment of the webhook", "warn sg: no Deployment of the controller", "fail stategraft/stategraft-webhook: no ready endpoint"}},
		{"outside", behindURL, nil, nil, -1, []string{"info : called at https://10.0.0.1/mutate"}},
		{"endpoints unknown", behindService, []appsv1.Deployment{deployment(partWebhook, 1, 1), deployment(partController, 1, 1)}, nil, -1,
			[]string{"ok sg/webhook: ", "ok sg/controller: "}},
	} {
		got := judgeComponents(components{install: &Installation{Namespace: "sg", Configurations: c.configs, Deployments: c.deployments}, pods: c.pods, endpoints: c.endpoints})
		expect(t, c.what, got, c.want...)
	}
}

func TestReadyEndpoints(t *testing.T) {
	yes, no := true, false
	one := func(ready *bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ready}}
	}
	got := readyEndpoints([]discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{one(&yes), one(&no)}}, {Endpoints: []discoveryv1.Endpoint{one(nil)}}})
	if got != 2 { // nil counts as ready (discovery/v1)
		t.Errorf("%d ready endpoints", got)
	}
}

func TestCertManager(t *testing.T) {
	expect(t, "before, there", judgeCertManagerBefore(true), "info : both ways")
	expect(t, "before, not there", judgeCertManagerBefore(false), "info : self-signed")
	certificate := func(status, message string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "sg", "name": "c"},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Issuing", "status": "True"}, map[string]any{"type": "Ready", "status": status, "message": message}}}}}
	}
	expect(t, "gone", judgeCertificates(false, nil), "fail : nobody renews it")
	expect(t, "no Certificate", judgeCertificates(true, nil), "fail : no Certificate for it")
	expect(t, "ready", judgeCertificates(true, []unstructured.Unstructured{certificate("True", "")}))
	expect(t, "not ready", judgeCertificates(true, []unstructured.Unstructured{certificate("True", ""), certificate("False", "no issuer")}), "fail sg/c: not ready: no issuer")
	expect(t, "not looked at", judgeCertificates(true, []unstructured.Unstructured{{Object: map[string]any{"metadata": map[string]any{"namespace": "sg", "name": "c"}}}}), "fail sg/c: does it run?")
}

func TestConfiguration(t *testing.T) {
	const head = "apiVersion: config.stategraft.io/v1alpha1\nkind: WebhookConfiguration\n"
	got := judgeConfiguration("sg/c", "config.yaml", map[string]string{"config.yaml": head + "nativeSidecars: never\n"})
	expect(t, "good", got.findings)
	if got.config.NativeSidecars != "never" {
		t.Errorf("native sidecars are %q", got.config.NativeSidecars)
	}
	for _, c := range []struct {
		what string
		data map[string]string
		want string
	}{
		{"broken", map[string]string{"config.yaml": head + "x: y\n"}, "fail sg/c: last good one"},
		{"another key", map[string]string{"config.yml": head}, "fail sg/c: has no key config.yaml"},
		{"empty", map[string]string{"config.yaml": ""}, "fail sg/c: config.yaml is empty"},
		{"space", map[string]string{"config.yaml": "\n"}, "fail sg/c: config.yaml is empty"},
	} {
		expect(t, c.what, judgeConfiguration("sg/c", "config.yaml", c.data).findings, c.want)
	}

	container := corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "certs", MountPath: "/certs"}, {Name: "config", MountPath: "/etc/stategraft"}}}
	var d appsv1.Deployment
	d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}}}}}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"webhook", "--config=/etc/stategraft/file.yaml"}, "m/file.yaml"},
		{[]string{"webhook", "--config", "/etc/stategraft/file.yaml"}, "m/file.yaml"},
		{[]string{"webhook", "--config"}, ""},
		{[]string{"webhook", "--config=/certs/file.yaml"}, ""},
		{nil, ""},
	} {
		container.Args = c.args
		d.Spec.Template.Spec.Containers = []corev1.Container{container}
		name, key, ok := configFile(&d)
		if got := name + "/" + key; ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%v: %s, %v", c.args, got, ok)
		}
	}
}

func TestVersions(t *testing.T) {
	images := map[string]string{partWebhook: "ghcr.io/stategraft/stategraft:v0.2.0", partController: "reg:5000/stategraft@sha256:" + hex64}
	expect(t, "two", judgeVersions("v0.1.0", images, map[string]int{"a:1": 3, "a:2": 1}),
		"info : command line v0.1.0, controller sha256:0123", "info : a:1 in 3 pods; a:2 in 1 pod")
	expect(t, "one", judgeVersions("v0.1.0", map[string]string{partWebhook: "stategraft"}, map[string]int{"a:1": 3}), "info : command line v0.1.0, webhook latest")
	expect(t, "no cluster", judgeVersions("v0.1.0", nil, nil), "info : command line v0.1.0")
}

const hex64 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
