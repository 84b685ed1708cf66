package adopt

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// TestWrite looks at what is written: annotations on the pod that is meant, and nothing on
// what it was made of.
func TestWrite(t *testing.T) {
	for what, c := range map[string]struct {
		asked Asked
		has   map[string]string
		want  map[string]string
	}{
		"running":     {Asked{}, nil, map[string]string{api.AnnotationAdopt: "running"}},
		"others stay": {Asked{}, map[string]string{"x": "y", api.AnnotationAdopt: "never"}, map[string]string{"x": "y", api.AnnotationAdopt: "running"}},
		"never":       {Asked{Never: true}, map[string]string{api.AnnotationAdopt: "running"}, map[string]string{api.AnnotationAdopt: "never"}},
		"renew":       {Asked{Renew: RenewAt(noon)}, nil, map[string]string{api.AnnotationAdopt: "running", api.AnnotationAdoptRenew: "2026-11-30T12:00:00.000Z"}},
		"already":     {Asked{}, map[string]string{api.AnnotationAdopt: "running"}, map[string]string{api.AnnotationAdopt: "running"}},
	} {
		pod := database("c-0", func(p *corev1.Pod) { p.Annotations = c.has })
		patches := 0
		cluster := store(interceptor.Funcs{Patch: func(ctx context.Context, to client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			patches++
			return to.Patch(ctx, o, patch, opts...)
		}}, pod.DeepCopy())
		if err := Write(t.Context(), cluster, pod, c.asked); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		now := &corev1.Pod{}
		if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(pod), now); err != nil {
			t.Fatal(err)
		}
		now.ResourceVersion = ""
		pod.Annotations = c.want
		if !equality.Semantic.DeepEqual(now, pod) || patches > 1 || (patches == 0) != (what == "already") {
			t.Errorf("%s: %d patches, %+v", what, patches, now.ObjectMeta)
		}
	}
	for want, err := range map[string]error{
		"you have no right to patch pods in namespace prod": forbidden("pods"),
		"pod c-0 was created anew meanwhile":                apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "c-0", field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), "u", "field is immutable")}),
		"pod c-0 was created anew meanwhile, and":           apierrors.NewConflict(corev1.Resource("pods"), "c-0", errors.New("uid")),
		"patch pod c-0 in namespace prod: ":                 apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "c-0", field.ErrorList{field.Invalid(field.NewPath("spec"), "u", "is odd")}),
		"there is no pod c-0 in namespace prod":             apierrors.NewNotFound(corev1.Resource("pods"), "c-0"),
	} {
		cluster := store(interceptor.Funcs{Patch: func(_ context.Context, _ client.WithWatch, o client.Object, patch client.Patch, _ ...client.PatchOption) error {
			if text, _ := patch.Data(o); !strings.Contains(string(text), `"uid":"uid-c-0"`) {
				t.Errorf("the patch is of any pod of the name: %s", text)
			}
			return err
		}})
		if got := Write(t.Context(), cluster, database("c-0"), Asked{}); got == nil || !strings.HasPrefix(got.Error(), want) {
			t.Errorf("%v, want %q", got, want)
		}
	}
}

// Where nothing is adopted that is said, with what to do.
func TestNamespace(t *testing.T) {
	cluster := store(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		switch key.Name {
		case "hidden":
			return forbidden("namespaces")
		case "broken":
			return errors.New("connection refused")
		}
		return c.Get(ctx, key, o, opts...)
	}}, namespace("prod", true), namespace("plain", false), namespace("kube-system", true))
	for name, c := range map[string]struct{ note, err string }{
		"prod":        {},
		"plain":       {err: "kubectl label namespace plain stategraft.io/inject=enabled, then ask again. With it pods that are created from then on are injected"},
		"kube-system": {err: "one of Kubernetes' own"},
		"gone":        {err: `there is no namespace "gone"`},
		"broken":      {err: "get namespace broken: connection refused"},
		"hidden":      {note: "You have no right to read namespace hidden"},
	} {
		ns, note, err := Namespace(t.Context(), cluster, name)
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) || c.err == "" && (err != nil || ns.Labels[api.LabelInject] != api.InjectEnabled) || !strings.HasPrefix(note, c.note) || c.note == "" && note != "" {
			t.Errorf("%s: %q, %v", name, note, err)
		}
	}
}
