package adopt

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// What the containers wait for is said once, whatever pods and keys of it there are; of a
// Secret the content is not read. What cannot be read is not spoken of.
func TestSources(t *testing.T) {
	annotated := func(p *corev1.Pod) {
		p.Annotations = map[string]string{api.AnnotationStorageSecret: "keys", api.AnnotationCQLSecret: "cql"}
	}
	pods := []corev1.Pod{*database("c-0", annotated), *database("c-1", annotated), *database("c-2", annotated, bySubPath),
		*database("d-0", injected, func(p *corev1.Pod) { p.Annotations = map[string]string{api.AnnotationMedusaConfig: "none"} })}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "cql"}}
	empty := medusaConfig("prod")
	empty.Data = map[string]string{"medusa.conf": ""}
	const noKeys = "Secret keys of namespace prod is not there: the containers wait for it"
	const byDefault = ": the containers wait for it, unless the configuration of the webhook names another"
	for what, c := range map[string]struct {
		fails   error
		objects []client.Object
		want    []string
	}{
		"all is there": {nil, []client.Object{medusaConfig("prod"), secret, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "keys"}}}, nil},
		"a Secret":     {nil, []client.Object{medusaConfig("prod"), secret}, []string{noKeys}},
		"in another":   {nil, []client.Object{medusaConfig("test"), secret}, []string{"ConfigMap medusa of namespace prod is not there" + byDefault, noKeys}},
		"a key":        {nil, []client.Object{empty, secret}, []string{"ConfigMap medusa of namespace prod has no key medusa.ini" + byDefault, noKeys}},
		"no right":     {forbidden("secrets"), nil, nil},
		"no answer":    {errors.New("connection refused"), nil, nil},
	} {
		l := looker(store(interceptor.Funcs{Get: func(ctx context.Context, to client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			switch o.(type) {
			case *corev1.Secret:
				t.Errorf("%s: the content of Secret %s is read", what, key.Name)
			case *corev1.ConfigMap, *metav1.PartialObjectMetadata:
				if c.fails != nil {
					return c.fails
				}
			}
			return to.Get(ctx, key, o, opts...)
		}}, append(c.objects, node("n1", nil))...))
		l.Look(t.Context(), pods, "")
		l.Look(t.Context(), pods, "")
		got := l.Notes()
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", what, got)
		}
	}
}

func bySubPath(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts[0].SubPath = "cassandra" }

// Who is waited for is told only where it is a ConfigMap or a Secret.
func TestDoesWait(t *testing.T) {
	for message, want := range map[string]string{
		`secret "keys" not found`:                             `waits (CreateContainerConfigError: secret "keys" not found); create it, it goes on by itself`,
		`couldn't find key medusa.ini in ConfigMap ns/medusa`: `waits (CreateContainerConfigError: couldn't find key medusa.ini in ConfigMap ns/medusa); create it, it goes on by itself`,
		`container has runAsNonRoot`:                          `waits (CreateContainerConfigError: container has runAsNonRoot)`,
	} {
		pod := database("c-0", with("stategraft-medusa-1", waits("CreateContainerConfigError", message)))
		if got := looker(nil).Look(t.Context(), []corev1.Pod{*pod}, "")[0].Line(); got != "adopting: stategraft-medusa-1 "+want {
			t.Error(got)
		}
	}
}
