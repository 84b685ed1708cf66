package deploy_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// valueSets are what the chart is rendered with, and the mode of certificates
// that comes of it.
var valueSets = map[string]struct {
	args []string
	mode string
}{
	"defaults":       {nil, certManager},
	"self-signed":    {[]string{"--set", "certificates.mode=self-signed"}, selfSigned},
	"everything":     {[]string{"--values", "testdata/everything.yaml"}, selfSigned},
	"one replica":    {[]string{"--set", "webhook.replicas=1,controller.replicas=1"}, certManager},
	"digest":         {[]string{"--set", "image.digest=sha256:" + strings.Repeat("a", 64)}, certManager},
	"no policies":    {[]string{"--set", "networkPolicy.enabled=false"}, certManager},
	"no metrics":     {[]string{"--set-json", "networkPolicy.metricsFrom=[]"}, certManager},
	"egress":         {[]string{"--set", "networkPolicy.egress.enabled=true"}, certManager},
	"monitoring":     {monitoringOn, certManager},
	"part of others": {[]string{"--set", "global.something=else"}, certManager},
	"namespace":      {[]string{"--set", "namespace.create=true"}, certManager},
	"no crds":        {[]string{"--set", "crds.install=false"}, certManager},
}

var monitoringOn = []string{"--set", "monitoring.serviceMonitor.enabled=true,monitoring.podMonitor.enabled=true," +
	"monitoring.prometheusRule.enabled=true,monitoring.dashboard.enabled=true"}

// rendered renders the chart, as documents.
func rendered(t *testing.T, args ...string) []document {
	t.Helper()
	text, err := helm(t).Template(t.Context(), "chart", args...)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, "rendered", []byte(text))
}

func TestValueSets(t *testing.T) {
	for name, set := range valueSets {
		t.Run(name, func(t *testing.T) {
			docs := rendered(t, set.args...)
			checkAll(t, docs, set.mode)
			for _, d := range docs {
				// Labels and annotations of all are set by one helper.
				if o := d.object.(metav1.Object); name == "everything" &&
					(o.GetLabels()["team"] != "storage" || o.GetAnnotations()["example.com/owner"] != "storage") {
					t.Errorf("%s: labels %v, annotations %v", o.GetName(), o.GetLabels(), o.GetAnnotations())
				}
			}
		})
	}
}

// In another namespace nothing is left of the one that is usual.
func TestAnotherNamespace(t *testing.T) {
	for _, mode := range []string{certManager, selfSigned} {
		t.Run(mode, func(t *testing.T) {
			docs := rendered(t, "--namespace", "elsewhere", "--set", "certificates.mode="+mode)
			checkAll(t, docs, mode)
			for _, d := range docs {
				if o := d.object.(metav1.Object); o.GetNamespace() != "" && o.GetNamespace() != "elsewhere" {
					t.Errorf("%s is in namespace %s", o.GetName(), o.GetNamespace())
				}
				if strings.Contains(string(d.text), "-n stategraft ") || strings.Contains(string(d.text), "stategraft.svc") {
					t.Errorf("%s names the usual namespace:\n%s", d.file, d.text)
				}
			}
		})
	}
}

// What each value does, where the checks of all do not look.
func TestValuesHaveEffect(t *testing.T) {
	docs := rendered(t, "--values", "testdata/everything.yaml")
	hook, controller := deployments(t, docs)[0], deployments(t, docs)[1]
	if *hook.Spec.Replicas != 5 || *controller.Spec.Replicas != 1 {
		t.Errorf("%d and %d replicas", *hook.Spec.Replicas, *controller.Spec.Replicas)
	}
	for _, d := range []*appsv1.Deployment{hook, controller} {
		pod := d.Spec.Template
		c := pod.Spec.Containers[0]
		if want := "registry.example.com:5000/team/stategraft@sha256:" + strings.Repeat("0123456789abcdef", 4); c.Image != want || c.ImagePullPolicy != corev1.PullAlways {
			t.Errorf("%s: image %s, %s", d.Name, c.Image, c.ImagePullPolicy)
		}
		if pod.Spec.PriorityClassName != "system-cluster-critical" || pod.Spec.ImagePullSecrets[0].Name != "registry" {
			t.Errorf("%s: class %s, pulls with %v", d.Name, pod.Spec.PriorityClassName, pod.Spec.ImagePullSecrets)
		}
		if pod.Labels["app.example.com/part"] != c.Name || len(pod.Spec.Tolerations) != 1 || pod.Spec.Affinity == nil || !slices.Contains(c.Args, "--verbose") {
			t.Errorf("%s: labels %v, tolerations %v, affinity %v, args %v", d.Name, pod.Labels, pod.Spec.Tolerations, pod.Spec.Affinity, c.Args)
		}
		for _, e := range c.Env {
			if want := map[string]string{"webhook": "921MiB", "controller": "180MiB"}[c.Name]; e.Name == "GOMEMLIMIT" && e.Value != want {
				t.Errorf("%s: GOMEMLIMIT %s, want %s", d.Name, e.Value, want)
			}
		}
	}
	// A pod's own label goes before the common one.
	if hook.Spec.Template.Labels["team"] != "webhooks" || controller.Spec.Template.Labels["team"] != "storage" {
		t.Errorf("labels %v and %v", hook.Spec.Template.Labels, controller.Spec.Template.Labels)
	}
	if s := hook.Spec.Template.Spec.NodeSelector; s["role"] != "infra" {
		t.Errorf("node selector %v", s)
	}
	for _, want := range []string{"--certificates=self-signed", "--ca-validity=240h", "--certificate-validity=24h", "--heal-after=1m30s", "--adopt=false"} {
		if args := controller.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, want) {
			t.Errorf("no %s in %v", want, args)
		}
	}
	adopts := rendered(t, "--set", "adopt.perNode=3,adopt.inAll=4,adopt.perDay=6")
	for _, want := range []string{"--adopt=true", "--adopt-per-node=3", "--adopt-in-all=4", "--adopt-per-day=6"} {
		if args := deployments(t, adopts)[1].Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, want) {
			t.Errorf("no %s in %v", want, args)
		}
	}
	if text := object[*corev1.ConfigMap](t, docs, "stategraft-config").Data["config.yaml"]; !strings.Contains(text, `host-network: "true"`) {
		t.Errorf("the configuration is\n%s", text)
	}
	egress := object[*networkingv1.NetworkPolicy](t, docs, "stategraft-controller").Spec.Egress
	if len(egress) != 3 || egress[0].Ports[0].Port.IntVal != 16443 || len(egress[2].To) != 2 || !selects(t, egress[2].To[0].PodSelector, map[string]string{api.LabelInjected: "cassandra"}) ||
		!selects(t, egress[2].To[1].PodSelector, map[string]string{"stategraft.io/lookup": "r1"}) {
		t.Errorf("egress %v", egress)
	}
}

// GitOps tools render again and again, and would roll the pods each time that
// something else comes out.
func TestRenderingIsRepeatable(t *testing.T) {
	h := helm(t)
	for name, set := range valueSets {
		first, err := h.Template(t.Context(), "chart", set.args...)
		if err != nil {
			t.Fatal(err)
		}
		second, err := h.Template(t.Context(), "chart", set.args...)
		if err != nil {
			t.Fatal(err)
		}
		if first != second {
			t.Errorf("%s: two renderings differ", name)
		}
	}
}
