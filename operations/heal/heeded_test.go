package heal

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/workload"
)

// mirrored are the images of our containers as another webhook rewrites them.
func mirrored(_ testing.TB, pod *corev1.Pod) {
	for _, p := range parts(pod) {
		if p.own {
			p.Image = "mirror.example/" + p.Image
		}
	}
}

// injects tells whether the webhook, with the entry held back, injects a pod of the
// corpus that has the owners.
func injects(t *testing.T, name string, owners []metav1.OwnerReference, config *webhook.Config, entry api.HeldBack, now time.Time) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "test", "corpus", "pods", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := yaml.Unmarshal(text, &pod); err != nil {
		t.Fatal(err)
	}
	pod.OwnerReferences = owners
	raw, err := json.Marshal(&pod)
	if err != nil {
		t.Fatal(err)
	}
	return webhook.Decide(webhook.Input{Pod: raw, Config: config, NativeSidecars: true,
		Namespace: webhook.Namespace{Name: pod.Namespace, Labels: map[string]string{api.LabelInject: api.InjectEnabled}},
		HeldBack: func(namespace, kind, name string) (api.HeldBack, bool) {
			return entry, entry.Key() == api.HeldBackKey(namespace, kind, name) && entry.Active(now)
		}}).Verdict == workload.Inject
}

// Where the webhook does not heed that a workload is held back, a pod is not deleted
// again and again, not for a week.
func TestReconcileUnheeded(t *testing.T) {
	stuck := []change{unscheduled(0, corev1.PodReasonUnschedulable, "0/1 nodes are available: 1 Insufficient cpu.")}
	for _, c := range []struct {
		name     string
		pod      string
		changes  []change
		defaults string // of the webhook's configuration
		deleted  int
		injected bool // in the end
	}{
		{"an image is missing", anna, []change{blocked(setup, "ErrImagePull")}, "", 1, false},
		{"another webhook rewrites images", anna, []change{mirrored, blocked(setup, "ErrImagePull")}, "", 2, false},
		{"no room", cassandra, stuck, "", 1, false},
		{"no room, all are on the node's network", cassandra, stuck, `host-network: "true"`, 1, true},
		{"no room, all are injected all the same", cassandra, stuck, `held-back: ignore`, 1, true},
		{"an image is missing, all are injected all the same", anna, []change{blocked(setup, "ErrImagePull")}, `held-back: ignore`, 2, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := webhook.DefaultConfig()
			if c.defaults != "" {
				var err error
				if config, err = webhook.ParseConfig([]byte("apiVersion: " + webhook.ConfigVersion + "\nkind: " + webhook.ConfigKind + "\nannotations:\n  " + c.defaults + "\n")); err != nil {
					t.Fatal(err)
				}
			}
			pod := admitted(t, c.pod, nil)
			pod.ResourceVersion = ""
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", Controller: new(true)}}
			apply(t, pod, c.changes...)
			status := pod.Status
			w := worldOf(t, pod, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pod.Namespace}}, node("a", "1", "8Gi"))
			w.survey.reader = fieldless{w.client}
			deleted, injected := 0, true
			for now := 10 * time.Minute; now < 23*time.Hour && injected; now += 10 * time.Minute {
				w.step(t, pod, now)
				if w.pod(t, pod) != nil {
					continue
				}
				if deleted++; deleted > c.deleted {
					t.Fatalf("deleted %d times: %s", deleted, w.told())
				}
				entry, _ := w.held(t, pod)
				if injected = injects(t, c.pod, pod.OwnerReferences, config, entry, w.now); injected { // as its owner creates it
					pod.ResourceVersion, pod.CreationTimestamp, pod.Status = "", at(now+10*time.Second), corev1.PodStatus{}
					if err := w.client.Create(t.Context(), pod); err != nil {
						t.Fatal(err)
					}
					pod.Status = status
					if err := w.client.Status().Update(t.Context(), pod); err != nil {
						t.Fatal(err)
					}
				}
			}
			if deleted != c.deleted || injected != c.injected {
				t.Errorf("deleted %d times, injected in the end is %v; %s", deleted, injected, w.told())
			}
		})
	}
}

// A pod that is injected all the same, as it asks for, does not show that the webhook
// does not heed what is held back.
func TestReconcileIgnoring(t *testing.T) {
	pod, ns := failing(t, waiting(medusa, "ErrImagePull"), marked(api.DegradedImagePull, time.Minute))
	pod.CreationTimestamp = at(time.Minute)
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, api.AnnotationHeldBack, api.HeldBackIgnore)
	w := worldOf(t, pod, ns)
	owner, _ := ownerOf(pod)
	entry := api.HeldBack{Namespace: pod.Namespace, Kind: owner.Kind, Name: owner.Name, Cause: api.CauseImagePull,
		Containers: []api.HeldContainer{{Name: medusa, Image: containerOf(t, pod, medusa).Image}}}
	if _, err := w.store.hold(t.Context(), entry, start); err != nil {
		t.Fatal(err)
	}
	w.step(t, pod, 10*time.Minute)
	if held, _ := w.held(t, pod); len(held.Containers) != 1 || !held.Until.Equal(start.Add(firstHold)) || w.told() != "StategraftHealed" {
		t.Errorf("held back is %+v", held)
	}
}

// Where another image is refused, that is said once, and the pod left as it is.
func TestReconcileRefused(t *testing.T) {
	resource := schema.GroupResource{Resource: "pods"}
	for name, err := range map[string]error{
		"a right is missing":      apierrors.NewForbidden(resource, "x", errors.New("denied")),
		"a policy":                apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", field.ErrorList{field.Forbidden(field.NewPath("spec"), "denied")}),
		"another webhook refuses": apierrors.NewBadRequest(`admission webhook "x" denied the request`),
	} {
		t.Run(name, func(t *testing.T) {
			pod, ns := failing(t, waiting(medusa, "ErrImagePull"), marked(api.DegradedImagePull, 0))
			w := worldOf(t, pod, ns)
			w.fail = err
			for now := 5 * time.Minute; now < 24*time.Hour; now += 10 * time.Minute {
				if result := w.step(t, pod, now); result.RequeueAfter != 0 {
					t.Fatalf("to be looked at again after %s", result.RequeueAfter)
				}
			}
			if told := w.told(); told != "StategraftHeldBack StategraftNotHealed" {
				t.Errorf("told %q", told)
			}
			now := w.pod(t, pod)
			if c := degraded(now); c == nil || c.Reason != api.DegradedRefused || containerOf(t, now, medusa).Image != containerOf(t, pod, medusa).Image {
				t.Errorf("degraded is %+v", c)
			}
		})
	}
}
