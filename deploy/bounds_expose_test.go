package deploy_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/deploy"
)

// TestExposeRightsOnServer asks the API server what the two accounts may do about
// Services and evictions.
func TestExposeRightsOnServer(t *testing.T) {
	cp := applied(t, deploy.SelfSigned)
	const db, bare = "expose-db", "expose-bare"
	admin, controller, hook := as(t, cp, ""), as(t, cp, "stategraft-controller"), as(t, cp, "stategraft-webhook")
	for _, ns := range []string{db, bare} {
		namespace(t, cp, ns, nil)
		createPod(t, admin.kube, ns, "kvs-0", map[string]string{api.LabelInjected: "anna"})
		admin.makeService(t, ns, exposed("theirs", func(s *corev1.Service) { delete(s.Labels, api.LabelExposed) }))
		admin.makeService(t, ns, exposed("ours", func(*corev1.Service) {}))
	}
	kubectl(t, cp, "", "label", "namespace", db, "stategraft.io/inject=enabled")
	awaitTrue(t, "the policies to be in force", func() bool {
		for _, request := range []func(context.Context) error{controller.service(bare, exposed("x", func(*corev1.Service) {})), controller.evict(bare, "kvs-0")} {
			if policy, _ := forbidden(request(t.Context())); !policy {
				return false
			}
		}
		return true
	})
	service := func(edit func(*corev1.Service)) func(context.Context) error {
		return controller.service(db, exposed("x", edit))
	}
	for name, c := range map[string]asked{
		"a Service":                {service(func(*corev1.Service) {}), granted},
		"a Service, not labelled":  {controller.service(bare, exposed("x", func(*corev1.Service) {})), byPolicy},
		"a Service in our home":    {controller.service(home, exposed("x", func(*corev1.Service) {})), byPolicy},
		"one that is not marked":   {service(func(s *corev1.Service) { s.Labels = nil }), byPolicy},
		"one of another type":      {service(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }), byPolicy},
		"one of another pod":       {service(func(s *corev1.Service) { s.Labels[api.LabelExposed] = "kvs-1" }), byPolicy},
		"one of all pods":          {service(func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "x"} }), byPolicy},
		"one without a selector":   {service(func(s *corev1.Service) { s.Spec.Selector = nil }), byPolicy},
		"one with another address": {service(func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"203.0.113.1"} }), byPolicy},
		"one at a chosen address":  {service(func(s *corev1.Service) { s.Spec.LoadBalancerIP = "203.0.113.1" }), byPolicy},
		"move ours":                {controller.patchService(db, "ours", `{"spec":{"loadBalancerIP":"203.0.113.1"}}`), byPolicy},
		"mark ours":                {controller.patchService(db, "ours", `{"metadata":{"annotations":{"a":"b"}}}`), granted},
		"mark ours, not labelled":  {controller.patchService(bare, "ours", `{"metadata":{"annotations":{"a":"b"}}}`), granted},
		"change theirs":            {controller.patchService(db, "theirs", `{"metadata":{"labels":{"stategraft.io/exposed":"kvs-0"}}}`), byPolicy},
		"delete ours":              {controller.deleteService(db, "ours"), granted},
		"delete theirs":            {controller.deleteService(db, "theirs"), byPolicy},
		"evict":                    {controller.evict(db, "kvs-0"), granted},
		"evict, not labelled":      {controller.evict(bare, "kvs-0"), byPolicy},
		"webhook: a Service":       {hook.service(db, exposed("x", func(*corev1.Service) {})), byRole},
		"webhook: evict":           {hook.evict(db, "kvs-0"), byRole},
		"administrator: theirs":    {admin.deleteService(db, "theirs"), granted},
	} {
		expect(t, name, c.request, c.want)
	}
}

// exposed is a Service as operations/expose makes it.
func exposed(name string, edit func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.LabelExposed: "kvs-0"}},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
			Selector: map[string]string{"statefulset.kubernetes.io/pod-name": "kvs-0"}, Ports: []corev1.ServicePort{{Port: 6200}}}}
	edit(s)
	return s
}

// makeService creates one for good.
func (a account) makeService(t *testing.T, ns string, s *corev1.Service) {
	t.Helper()
	if _, err := a.kube.CoreV1().Services(ns).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (a account) service(ns string, s *corev1.Service) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := a.kube.CoreV1().Services(ns).Create(ctx, s, metav1.CreateOptions{DryRun: dryRun})
		return err
	}
}

func (a account) patchService(ns, name, patch string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := a.kube.CoreV1().Services(ns).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dryRun})
		return err
	}
}

func (a account) deleteService(ns, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		return a.kube.CoreV1().Services(ns).Delete(ctx, name, metav1.DeleteOptions{DryRun: dryRun})
	}
}

func (a account) evict(ns, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		return a.kube.PolicyV1().Evictions(ns).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns},
			DeleteOptions: &metav1.DeleteOptions{DryRun: dryRun}})
	}
}
