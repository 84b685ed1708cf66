package deploy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
)

// The webhook is called only if several objects agree on its address, and
// nothing else would notice for a while if they did not: the failure policy is
// Ignore.
func webhookIsReachable(t *testing.T, docs []document, _ string) {
	hook := object[*admissionregistrationv1.MutatingWebhookConfiguration](t, docs, "stategraft")
	svc := object[*corev1.Service](t, docs, "stategraft-webhook")
	ref := hook.Webhooks[0].ClientConfig.Service
	if ref.Name != svc.Name || ref.Namespace != svc.Namespace || *ref.Port != svc.Spec.Ports[0].Port || *ref.Path != "/mutate-v1-pod" {
		t.Errorf("the configuration calls %v, the Service is %s/%s:%d", ref, svc.Namespace, svc.Name, svc.Spec.Ports[0].Port)
	}
	pod := deployments(t, docs)[0].Spec.Template
	c := pod.Spec.Containers[0]
	target := svc.Spec.Ports[0].TargetPort.IntVal
	if !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == target }) ||
		!slices.Contains(c.Args, fmt.Sprintf("--port=%d", target)) {
		t.Errorf("the Service goes to port %d, the container is told %v", target, c.Args)
	}
	mounts := map[string]string{}
	for _, m := range c.VolumeMounts {
		if m.SubPath != "" {
			t.Errorf("%s is mounted by subPath, and would never be updated", m.MountPath)
		}
		mounts[m.Name] = m.MountPath
	}
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.Secret != nil:
			if v.Secret.SecretName != "stategraft-webhook-tls" || !slices.Contains(c.Args, "--cert-dir="+mounts[v.Name]) {
				t.Errorf("Secret %s is mounted at %s", v.Secret.SecretName, mounts[v.Name])
			}
			// Of a Secret that is there and empty, only named items are waited for.
			if len(v.Secret.Items) != 2 || v.Secret.Optional != nil {
				t.Errorf("the pod starts without its certificate: %v", v.Secret)
			}
		case v.ConfigMap != nil:
			if v.ConfigMap.Name != "stategraft-config" || !slices.Contains(c.Args, "--config="+mounts[v.Name]+"/config.yaml") {
				t.Errorf("ConfigMap %s is mounted at %s", v.ConfigMap.Name, mounts[v.Name])
			}
		}
	}
	if len(mounts) != 2 {
		t.Errorf("mounts %v", mounts)
	}
}

// replicasAreGuarded is about what keeps one replica there.
func replicasAreGuarded(t *testing.T, docs []document, _ string) {
	for _, d := range deployments(t, docs) {
		component := strings.TrimPrefix(d.Name, "stategraft-")
		pod := d.Spec.Template
		if !selects(t, d.Spec.Selector, pod.Labels) || len(d.Spec.Selector.MatchLabels) != 2 {
			t.Errorf("%s selects by %v", d.Name, d.Spec.Selector)
		}
		pdb := object[*policyv1.PodDisruptionBudget](t, docs, d.Name)
		if !selects(t, pdb.Spec.Selector, pod.Labels) || pdb.Spec.MaxUnavailable.IntVal != 1 {
			t.Errorf("the PodDisruptionBudget %s selects others, or lets nothing go: %v", pdb.Name, pdb.Spec)
		}
		metrics := object[*corev1.Service](t, docs, d.Name+"-metrics")
		port := metrics.Spec.Ports[0]
		for k, v := range metrics.Spec.Selector {
			if pod.Labels[k] != v {
				t.Errorf("the Service %s selects by %v", metrics.Name, metrics.Spec.Selector)
			}
		}
		if metrics.Labels["app.kubernetes.io/component"] != component || port.Name != "metrics" || port.TargetPort.StrVal != "metrics" {
			t.Errorf("the Service %s: labels %v, port %v", metrics.Name, metrics.Labels, port)
		}
		if len(pod.Spec.TopologySpreadConstraints) != 2 {
			t.Errorf("%s is spread by %v", d.Name, pod.Spec.TopologySpreadConstraints)
		}
		for _, s := range pod.Spec.TopologySpreadConstraints {
			if !selects(t, s.LabelSelector, pod.Labels) || s.WhenUnsatisfiable != corev1.ScheduleAnyway {
				t.Errorf("%s: spread %v", d.Name, s)
			}
		}
		var priority []string
		for _, doc := range docs {
			if c, ok := doc.object.(*schedulingv1.PriorityClass); ok {
				priority = append(priority, c.Name)
			}
		}
		if (pod.Spec.PriorityClassName == "stategraft") != slices.Equal(priority, []string{"stategraft"}) {
			t.Errorf("%s is of class %s, and there is %v", d.Name, pod.Spec.PriorityClassName, priority)
		}
		drains(t, pod.Spec)
	}
}

// drains wants the kubelet to wait longer than the process goes on answering.
func drains(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	for _, arg := range pod.Containers[0].Args {
		text, found := strings.CutPrefix(arg, "--drain=")
		if !found {
			continue
		}
		drain, err := time.ParseDuration(text)
		if err != nil {
			t.Error(err)
		}
		if grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; grace < drain+10*time.Second {
			t.Errorf("killed after %s, drains for %s", grace, drain)
		}
		return
	}
	if pod.Containers[0].Name == "webhook" {
		t.Error("does not drain")
	}
}

func networkIsBound(t *testing.T, docs []document, _ string) {
	var policies int
	for _, d := range docs {
		policy, ok := d.object.(*networkingv1.NetworkPolicy)
		if !ok {
			continue
		}
		policies++
		if !slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
			t.Errorf("%s: types %v", policy.Name, policy.Spec.PolicyTypes)
		}
		for _, rule := range policy.Spec.Ingress {
			if len(rule.Ports) != 1 {
				t.Errorf("%s: ports %v", policy.Name, rule.Ports)
				continue
			}
			// From anywhere only to the webhook itself.
			if port := rule.Ports[0].Port.IntVal; len(rule.From) == 0 && (port != 9443 || policy.Name != "stategraft-webhook") {
				t.Errorf("%s: anybody reaches port %d", policy.Name, port)
			}
		}
		for _, deployment := range deployments(t, docs) {
			if selects(t, &policy.Spec.PodSelector, deployment.Spec.Template.Labels) != (deployment.Name == policy.Name) {
				t.Errorf("%s selects %s, or does not", policy.Name, deployment.Name)
			}
		}
	}
	if policies != 0 && policies != 2 {
		t.Errorf("%d network policies", policies)
	}
}
