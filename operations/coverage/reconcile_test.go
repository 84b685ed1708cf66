package coverage

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/webhook"
)

// world is what a reconciler sees of a cluster: metadata through its cache, and whole
// pods from the API server.
type world struct {
	*reconciler
	objects map[string]*metav1.PartialObjectMetadata // by kind and name
	pods    map[string]*corev1.Pod
	reads   int
	err     error // of the API server
	unknown bool  // the informers of quotas are not synced
}

func (c *world) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	kind := into.GetObjectKind().GroupVersionKind().Kind
	object, ok := c.objects[kind+" "+key.Name]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, key.Name)
	}
	object.DeepCopyInto(into.(*metav1.PartialObjectMetadata))
	return nil
}

func (c *world) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	for key, object := range c.objects {
		if strings.HasPrefix(key, "Pod ") {
			list := into.(*metav1.PartialObjectMetadataList)
			list.Items = append(list.Items, *object)
		}
	}
	return nil
}

func (c *world) Namespace(name string) webhook.Namespace {
	ns := labelled()
	ns.Name, ns.Unknown = name, c.unknown
	return ns
}

func (c *world) read(_ context.Context, _, name string) (*corev1.Pod, error) {
	c.reads++
	if c.err != nil {
		return nil, c.err
	}
	pod, ok := c.pods[name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
	}
	return pod, nil
}

// add puts a pod of the corpus into it.
func (c *world) add(t *testing.T, raw []byte, uid string, age time.Duration) {
	t.Helper()
	pod := &corev1.Pod{}
	if err := json.Unmarshal(raw, pod); err != nil {
		t.Fatal(err)
	}
	pod.Name, pod.UID = "ring-0", types.UID(uid)
	pod.CreationTimestamp.Time = time.Now().Add(-age)
	c.pods[pod.Name] = pod
	stripped, err := stripPod(&metav1.PartialObjectMetadata{ObjectMeta: *pod.ObjectMeta.DeepCopy()})
	if err != nil {
		t.Fatal(err)
	}
	c.objects["Pod ring-0"] = stripped.(*metav1.PartialObjectMetadata)
}

func (c *world) object(kind, name string, age time.Duration) *metav1.PartialObjectMetadata {
	o := metadata(kind)
	o.Name, o.CreationTimestamp.Time = name, time.Now().Add(-age)
	c.objects[kind+" "+name] = o
	return o
}

// newWorld has a labelled namespace and the webhook, a day old.
func newWorld() *world {
	c := &world{objects: map[string]*metav1.PartialObjectMetadata{}, pods: map[string]*corev1.Pod{}}
	c.object("Namespace", "cassandra", 24*time.Hour)
	c.object("MutatingWebhookConfiguration", "stategraft", 24*time.Hour)
	defaults := webhook.DefaultConfig()
	c.reconciler = &reconciler{
		Options: Options{Config: func() *webhook.Config { return defaults }, NativeSidecars: func() bool { return true },
			WebhookConfiguration: "stategraft", settle: settleAfter},
		reader: c, namespaces: c, get: c.read, events: events.NewFakeRecorder(10), state: newState(), started: time.Now().Add(-time.Hour),
	}
	return c
}

var ring0 = types.NamespacedName{Namespace: "cassandra", Name: "ring-0"}

// reconcile answers what is kept of the pod afterwards, and after how long it is
// looked at again.
func (c *world) reconcile(t *testing.T) (reason string, again time.Duration) {
	t.Helper()
	result, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: ring0})
	if err != nil {
		t.Fatal(err)
	}
	return c.state.records[ring0].reason, result.RequeueAfter
}

func (c *world) told() (notes []string) {
	for {
		select {
		case note := <-c.events.(*events.FakeRecorder).Events:
			notes = append(notes, note)
		default:
			return notes
		}
	}
}

func TestReconcile(t *testing.T) {
	pods, _ := corpus(t)
	plain, novolume := pods["plain-official-41"], pods["plain-official-novolume"]
	for _, c := range []struct {
		what   string
		change func(*world)
		want   string
		again  time.Duration // at most; 0 for not again
		event  bool
	}{
		{"young", func(c *world) { c.add(t, plain, "1", time.Second) }, "", settleAfter, false},
		{"of tomorrow", func(c *world) { c.add(t, plain, "1", -24*time.Hour) }, "", settleAfter, false},
		{"missed", func(c *world) { c.add(t, plain, "1", time.Hour) }, ReasonWebhookWasDown, 0, true},
		{"older than the label", func(c *world) {
			c.add(t, plain, "1", time.Hour)
			c.object("Namespace", "cassandra", time.Minute)
		}, ReasonCreatedBefore, 0, false},
		{"older than the webhook", func(c *world) {
			c.add(t, plain, "1", time.Hour)
			c.object("MutatingWebhookConfiguration", "stategraft", time.Minute)
		}, ReasonCreatedBefore, 0, false},
		{"skipped", func(c *world) { c.add(t, novolume, "1", time.Hour) }, "data-not-on-volume", 0, false},
		{"no database", func(c *world) { c.add(t, pods["nginx"], "1", time.Hour) }, "", 0, false},
		{"not labelled", func(c *world) { c.add(t, plain, "1", time.Hour); delete(c.objects, "Namespace cassandra") }, "", 0, false},
		{"our own namespace", func(c *world) { c.add(t, plain, "1", time.Hour); c.Options.Namespace = "cassandra" }, "", 0, false},
		{"on its way out", func(c *world) {
			c.add(t, plain, "1", time.Hour)
			c.objects["Pod ring-0"].DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}, "", 0, false},
		{"gone", func(c *world) { c.add(t, plain, "1", time.Hour); delete(c.pods, "ring-0") }, "", 0, false},
		{"another by now", func(c *world) { c.add(t, plain, "1", time.Hour); c.objects["Pod ring-0"].UID = "0" }, "", 0, false},
		{"quotas not known yet", func(c *world) { c.add(t, plain, "1", time.Hour); c.unknown = true }, "", absentAgain, false},
		{"webhook not there yet", func(c *world) {
			c.add(t, plain, "1", time.Hour)
			delete(c.objects, "MutatingWebhookConfiguration stategraft")
			c.started = time.Now()
		}, "", absentAgain, false},
		{"webhook not there", func(c *world) {
			c.add(t, plain, "1", time.Hour)
			delete(c.objects, "MutatingWebhookConfiguration stategraft")
		}, ReasonWebhookWasDown, 0, true},
	} {
		cl := newWorld()
		c.change(cl)
		got, again := cl.reconcile(t)
		if notes := cl.told(); got != c.want || again > c.again || (again > 0) != (c.again > 0) || (len(notes) == 1) != c.event {
			t.Errorf("%s: %q, again after %v, events %q; want %q, %v", c.what, got, again, notes, c.want, c.again)
		}
		if _, kept := cl.state.records[ring0]; kept && cl.pods["ring-0"] == nil {
			t.Errorf("%s: it is kept", c.what)
		}
	}
}

// TestReconcileOnce follows one pod: what came out first stays until the pod asks
// for something else, is replaced or goes.
func TestReconcileOnce(t *testing.T) {
	pods, _ := corpus(t)
	c := newWorld()
	step := func(what, want string, reads, notes int) {
		t.Helper()
		c.reads = 0
		got, _ := c.reconcile(t)
		if told := c.told(); got != want || c.reads != reads || len(told) != notes {
			t.Errorf("%s: %q after %d reads, events %q; want %q, %d, %d", what, got, c.reads, told, want, reads, notes)
		}
	}
	c.add(t, pods["plain-official-41"], "1", time.Hour)
	step("missed", ReasonWebhookWasDown, 1, 1)
	step("again", ReasonWebhookWasDown, 0, 0)
	c.object("Namespace", "cassandra", time.Minute)
	step("namespace labelled anew", ReasonWebhookWasDown, 0, 0)

	change := func(value string) {
		for _, o := range []metav1.Object{c.objects["Pod ring-0"], c.pods["ring-0"]} {
			o.SetAnnotations(map[string]string{api.AnnotationGRPCPort: value, "other": "ignored"})
		}
	}
	change("x")
	step("annotated", "bad-annotation", 1, 0)
	change("50099")
	step("corrected", ReasonCreatedBefore, 1, 0)
	c.add(t, pods["plain-official-41"], "2", 30*time.Second)
	step("replaced", ReasonWebhookWasDown, 1, 1)
	c.add(t, pods["plain-official-41"], "2b", 20*time.Second)
	step("replaced and missed again", ReasonWebhookWasDown, 1, 1)
	c.add(t, pods["nginx"], "3", time.Hour)
	step("no database", "", 1, 0)
	step("no database, again", "", 0, 0)
	delete(c.objects, "Pod ring-0")
	step("gone", "", 0, 0)
	if len(c.state.records) > 0 {
		t.Errorf("%v is kept", c.state.records)
	}

	c.add(t, pods["plain-official-41"], "4", time.Hour)
	c.err = errors.New("out of order")
	if _, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: ring0}); err == nil || !strings.Contains(err.Error(), "cassandra/ring-0") {
		t.Errorf("an API server out of order: %v", err)
	}
	c.err = nil
	// It goes while it is read: the cache has told of that already.
	c.get = func(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
		pod, err := c.read(ctx, namespace, name)
		delete(c.objects, "Pod ring-0")
		return pod, err
	}
	step("gone while it was read", "", 1, 0)
	if len(c.state.records) > 0 {
		t.Errorf("%v is kept", c.state.records)
	}
}

// TestRequests asks for the pods that an event is about.
func TestRequests(t *testing.T) {
	pods, _ := corpus(t)
	c := newWorld()
	c.add(t, pods["plain-official-41"], "1", time.Hour)
	pod := func(namespace, name string) *metav1.PartialObjectMetadata {
		p := metadata("Pod")
		p.Namespace, p.Name = namespace, name
		return p
	}
	c.state.put(types.NamespacedName{Namespace: "other", Name: "known-0"}, record{})
	c.state.put(types.NamespacedName{Namespace: "cassandra", Name: "gone-0"}, record{})
	c.object("Namespace", "kube-public", time.Hour)
	for _, tc := range []struct {
		got  []reconcile.Request
		want string
	}{
		{c.ofPod(t.Context(), pod("kube-public", "x")), ""},
		{c.ofNamespace(t.Context(), c.objects["Namespace kube-public"]), ""},
		{c.ofPod(t.Context(), pod("cassandra", "ring-0")), "cassandra/ring-0"},
		{c.ofPod(t.Context(), pod("other", "x")), ""},
		{c.ofPod(t.Context(), pod("other", "known-0")), "other/known-0"},
		{c.ofNamespace(t.Context(), c.objects["Namespace cassandra"]), "cassandra/gone-0 cassandra/ring-0"},
	} {
		var names []string
		for _, r := range tc.got {
			names = append(names, r.String())
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != tc.want {
			t.Errorf("asked for %q, want %q", got, tc.want)
		}
	}
}
