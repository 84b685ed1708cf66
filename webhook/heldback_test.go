package webhook

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

var heldSince = time.Date(2026, 11, 30, 2, 0, 0, 0, time.UTC)

// heldEntry is StatefulSet cassandra/db, held back for an hour.
func heldEntry(cause api.Cause, containers ...api.HeldContainer) api.HeldBack {
	return api.HeldBack{Namespace: "cassandra", Kind: "StatefulSet", Name: "db", Cause: cause, Containers: containers,
		Since: heldSince, Until: heldSince.Add(time.Hour)}
}

// holding makes a HeldBack with entries, at a time after heldSince.
func holding(at time.Duration, entries ...api.HeldBack) *HeldBack {
	h := &HeldBack{now: func() time.Time { return heldSince.Add(at) }}
	data := map[string]string{}
	for _, entry := range entries {
		data[entry.Key()] = entry.Encode()
	}
	h.read(data)
	return h
}

// ownedPod is the pod of a StatefulSet.
func ownedPod(t *testing.T, annotations map[string]string) []byte {
	t.Helper()
	raw := cassandraPod
	if annotations != nil {
		raw = annotated(t, raw, annotations)
	}
	return []byte(strings.Replace(string(raw), `"name":"db-0"`,
		`"name":"db-0","ownerReferences":[{"apiVersion":"apps/v1","kind":"StatefulSet","name":"db","uid":"u","controller":true}]`, 1))
}

func TestHeldBack(t *testing.T) {
	failed := api.HeldContainer{Name: patches.ContainerMedusa, Image: patches.DefaultMedusaImage}
	other := api.HeldContainer{Name: patches.ContainerMedusa, Image: "other"}
	short := api.HeldContainer{Name: patches.ContainerMedusa, Image: patches.DefaultMedusaImage, Memory: "1024Mi"}
	image := heldEntry(api.CauseImagePull, failed)
	another := image
	another.Name = "db2"
	pod := image
	pod.Kind, pod.Name = "Pod", "db-0"
	const ignore = api.AnnotationHeldBack
	for _, c := range []struct {
		name        string
		entry       api.HeldBack
		at          time.Duration
		annotations map[string]string
		namespace   map[string]string
		bare        bool
		want        workload.Reason // empty: injected
		says        string
	}{
		{name: "image", entry: image, want: workload.ReasonHeldBack, says: patches.DefaultMedusaImage},
		{name: "over", entry: image, at: time.Hour},
		{name: "almost over", entry: image, at: time.Hour - 1, want: workload.ReasonHeldBack, says: "2026-11-30T03:00:00Z"},
		{name: "another workload", entry: another},
		{name: "a pod of an owner is not held by its own name", entry: pod},
		{name: "a pod without owner", entry: pod, bare: true, want: workload.ReasonHeldBack, says: "pod db-0"},
		{name: "another image failed", entry: heldEntry(api.CauseImagePull, other)},
		{name: "one of two images failed", entry: heldEntry(api.CauseImagePull, other, failed), want: workload.ReasonHeldBack},
		{name: "another image now", entry: image, annotations: map[string]string{api.AnnotationMedusaImage: "mended:2"}},
		{name: "crash", entry: heldEntry(api.CauseCrashLoop, failed), want: workload.ReasonHeldBack, says: "again and again"},
		{name: "crash of another image", entry: heldEntry(api.CauseCrashLoop, other)},
		{name: "memory", entry: heldEntry(api.CauseOutOfMemory, short), want: workload.ReasonHeldBack, says: api.AnnotationSidecarResources},
		{name: "more memory now", entry: heldEntry(api.CauseOutOfMemory, short),
			annotations: map[string]string{api.AnnotationSidecarResources: `{"limits":{"memory":"2Gi"}}`}},
		{name: "the same memory, written otherwise", entry: heldEntry(api.CauseOutOfMemory, short),
			annotations: map[string]string{api.AnnotationSidecarResources: `{"limits":{"memory":"1048576Ki"}}`}, want: workload.ReasonHeldBack},
		{name: "no room", entry: heldEntry(api.CauseUnschedulable), want: workload.ReasonHeldBack, says: "no node"},
		{name: "refused", entry: heldEntry(api.CauseRefused), want: workload.ReasonHeldBack, says: "refused"},
		{name: "ignored by the pod", entry: image, annotations: map[string]string{ignore: api.HeldBackIgnore}},
		{name: "ignored by the namespace", entry: image, namespace: map[string]string{ignore: api.HeldBackIgnore}},
		{name: "to be restored", entry: image, annotations: map[string]string{api.AnnotationRestore: "nightly"}},
		{name: "its configuration comes from us", entry: image, annotations: map[string]string{api.AnnotationConfigMap: "cassandra"}},
		{name: "its network comes from us", entry: image, annotations: map[string]string{api.AnnotationHostNetwork: "true"}},
		{name: "to be restored, by the namespace", entry: image, namespace: map[string]string{api.AnnotationRestore: "nightly"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := Input{Pod: ownedPod(t, c.annotations), Namespace: labelled(), Config: DefaultConfig(), HeldBack: holding(c.at, c.entry).Find}
			in.Namespace.Name, in.Namespace.Annotations = "cassandra", c.namespace
			if c.bare {
				in.Pod = cassandraPod
			}
			out := Decide(in)
			if out.Reason != c.want || (out.Verdict == workload.Inject) != (c.want == "") || (out.Patch == nil) != (c.want != "") {
				t.Errorf("%s (%s) %s, want reason %q", out.Verdict, out.Reason, out.Message, c.want)
			}
			if c.want == "" {
				return
			}
			if !strings.Contains(out.Message, c.says) || !strings.Contains(out.Message, api.AnnotationHeldBack+": ignore") ||
				!strings.Contains(out.Message, "since 2026-11-30T02:00:00Z") {
				t.Errorf("message %q", out.Message)
			}
			if told := answer(out).Warnings; len(told) == 0 || !strings.Contains(told[0], "held-back") {
				t.Errorf("warnings %q", told)
			}
		})
	}
}

// A pod that would not be injected anyway keeps its own reason.
func TestHeldBackSaysNothingElsewhere(t *testing.T) {
	find := holding(0, heldEntry(api.CauseRefused)).Find
	out := Decide(Input{Pod: ownedPod(t, map[string]string{api.AnnotationGRPCPort: "x"}), Namespace: named(labelled(), "cassandra"),
		Config: DefaultConfig(), HeldBack: find})
	if out.Reason != workload.ReasonBadAnnotation {
		t.Errorf("%s, want %s", out.Reason, workload.ReasonBadAnnotation)
	}
	in := Input{Pod: ownedPod(t, nil), Namespace: named(labelled(), "cassandra"), Config: DefaultConfig()}
	injected, err := patched(in.Pod, Decide(in))
	if err != nil {
		t.Fatal(err)
	}
	in.Pod, in.HeldBack = injected, find
	if out := Decide(in); out.Reason != workload.ReasonAlreadyInjected {
		t.Errorf("an injected pod: %s (%s)", out.Reason, out.Message)
	}
}

func named(ns Namespace, name string) Namespace {
	ns.Name = name
	return ns
}

func TestHeldBackReading(t *testing.T) {
	var logged []string
	h := &HeldBack{now: func() time.Time { return heldSince }, log: funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})}
	if _, held := h.Find("cassandra", "StatefulSet", "db"); held {
		t.Error("held before anything is known")
	}
	entry := heldEntry(api.CauseRefused)
	h.read(map[string]string{entry.Key(): entry.Encode(), "broken": "{"})
	if _, held := h.Find("cassandra", "StatefulSet", "db"); !held {
		t.Error("a broken neighbour frees the workload")
	}
	if len(logged) != 1 || !strings.Contains(logged[0], `"key"="broken"`) {
		t.Errorf("logged %q", logged)
	}
	entry.Ended = heldSince
	h.read(map[string]string{entry.Key(): entry.Encode()})
	if _, held := h.Find("cassandra", "StatefulSet", "db"); held {
		t.Error("still held after it ended before its time")
	}
	h.read(nil)
	if _, held := h.Find("cassandra", "StatefulSet", "db"); held || h.current.Load() != nil {
		t.Error("still held after the ConfigMap went")
	}
}

func TestHeldBackIsFree(t *testing.T) {
	h := &HeldBack{now: time.Now}
	if n := allocations(func() { h.Find("cassandra", "StatefulSet", "db") }); n != 0 {
		t.Errorf("%v allocations while nothing is held back", n)
	}
}

// allocations are those of one call. What others of the process allocate counts too: the
// least of several is ours.
func allocations(call func()) float64 {
	least := testing.AllocsPerRun(100, call)
	for range 4 {
		least = min(least, testing.AllocsPerRun(100, call))
	}
	return least
}

// The cache gives away nothing but the one object, and events of others are not
// taken for it.
func TestWatchHeldBack(t *testing.T) {
	by := HeldBackCache("stategraft")
	if len(by.Namespaces) != 1 || by.Namespaces["stategraft"].FieldSelector.String() != "metadata.name="+api.HeldBackConfigMap {
		t.Errorf("cache %+v", by)
	}
	informers := &fakeCache{informer: &fakeInformer{}}
	h, err := WatchHeldBack(t.Context(), informers, "stategraft", funcr.New(func(_, _ string) {}, funcr.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	h.now = func() time.Time { return heldSince }
	entry := heldEntry(api.CauseRefused)
	config := func(namespace, name string, data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
	}
	full := map[string]string{entry.Key(): entry.Encode()}
	ours := config("stategraft", api.HeldBackConfigMap, full)
	for i, c := range []struct {
		event func(toolscache.ResourceEventHandler)
		held  bool
	}{
		{func(e toolscache.ResourceEventHandler) { e.OnAdd(config("other", api.HeldBackConfigMap, full), true) }, false},
		{func(e toolscache.ResourceEventHandler) { e.OnAdd(config("stategraft", "other", full), true) }, false},
		{func(e toolscache.ResourceEventHandler) { e.OnAdd(ours, true) }, true},
		{func(e toolscache.ResourceEventHandler) { e.OnDelete(config("other", api.HeldBackConfigMap, nil)) }, true},
		{func(e toolscache.ResourceEventHandler) {
			e.OnUpdate(ours, config("stategraft", api.HeldBackConfigMap, nil))
		}, false},
		{func(e toolscache.ResourceEventHandler) { e.OnUpdate(ours, ours) }, true},
		{func(e toolscache.ResourceEventHandler) { e.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: ours}) }, false},
	} {
		c.event(informers.informer.handler)
		if _, held := h.Find("cassandra", "StatefulSet", "db"); held != c.held {
			t.Errorf("step %d: held is %v", i, held)
		}
	}
	if !slices.Contains(informers.asked, "ConfigMap") {
		t.Errorf("informers for %q", informers.asked)
	}
}

// fakeCache has one informer.
type fakeCache struct {
	cache.Cache
	informer *fakeInformer
	asked    []string
}

func (f *fakeCache) GetInformer(_ context.Context, object client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err == nil {
		f.asked = append(f.asked, kinds[0].Kind)
	}
	return f.informer, err
}

type fakeInformer struct {
	cache.Informer
	handler toolscache.ResourceEventHandler
}

func (f *fakeInformer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	f.handler = handler
	return nil, nil
}
