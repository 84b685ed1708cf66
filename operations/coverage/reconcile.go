package coverage

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stategraft/stategraft/operations/scope"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/workload"
)

// EventReason is the reason of the event on a pod that was created while the
// webhook did not answer.
const EventReason = "WithoutSidecar"

// A webhook configuration may be created a little after this controller, by the
// same installation. For so long its absence is waited out.
const (
	absentFor   = 2 * time.Minute
	absentAgain = 5 * time.Second
)

// reconciler judges each pod without the label once, and again when its labels or
// annotations of ours change. What came out first stays: it is the nearest to
// what admission saw.
type reconciler struct {
	Options
	reader     client.Reader // of the cache
	namespaces webhook.Namespaces
	get        func(ctx context.Context, namespace, name string) (*corev1.Pod, error) // from the API server
	events     events.EventRecorder
	state      *state
	started    time.Time
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	pod, since, wait, err := r.look(ctx, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	if pod == nil {
		r.state.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	asked := fingerprint(pod)
	if r.state.known(request.NamespacedName, pod.UID, asked) {
		return reconcile.Result{}, nil
	}
	namespace := r.namespaces.Namespace(pod.Namespace)
	if namespace.Unknown { // quotas and limit ranges have their own informers, which are not waited for
		wait = max(wait, absentAgain)
	}
	if wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	live, raw, err := r.read(ctx, pod)
	if err != nil || raw == nil {
		return reconcile.Result{}, err
	}
	judged := Judge(webhook.Input{
		Pod: raw, Namespace: namespace, Config: r.Config(),
		NativeSidecars: r.NativeSidecars(), HeldBack: r.HeldBack,
	}, since)
	if r.state.put(request.NamespacedName, record{pod.UID, asked, judged.Reason, uncovered(live, judged)}) && judged.Without {
		r.tell(ctx, pod, judged)
	}
	// What went while it was judged was not known yet, and nobody asks for it again.
	if still, _, _, err := r.look(ctx, request.NamespacedName); err == nil && still == nil {
		r.state.forget(request.NamespacedName)
	}
	return reconcile.Result{}, nil
}

// look finds the pod in the cache, and since when its like are injected. There is
// no pod if it has gone, is about to, or nobody asks for its injection. wait is
// how long it is too early to judge it.
func (r *reconciler) look(ctx context.Context, key types.NamespacedName) (pod *metav1.PartialObjectMetadata, since Since, wait time.Duration, err error) {
	namespace, err := r.labelled(ctx, key.Namespace)
	if err != nil || namespace == nil {
		return nil, since, 0, err
	}
	pod = metadata("Pod")
	if err := r.reader.Get(ctx, key, pod); err != nil {
		return nil, since, 0, client.IgnoreNotFound(err)
	}
	if pod.DeletionTimestamp != nil {
		return nil, since, 0, nil
	}
	since.Label = LabelledSince(namespace)
	// The API server's clock may be ahead of ours.
	wait = min(r.settle-time.Since(pod.CreationTimestamp.Time), r.settle)
	configuration := metadata("MutatingWebhookConfiguration")
	switch err := r.reader.Get(ctx, client.ObjectKey{Name: r.WebhookConfiguration}, configuration); {
	case err == nil:
		since.Webhook = configuration.CreationTimestamp.Time
	case !apierrors.IsNotFound(err):
		return nil, since, 0, err
	case time.Since(r.started) < absentFor:
		wait = max(wait, absentAgain)
	}
	return pod, since, wait, nil
}

// labelled finds a namespace whose pods are to be injected in the cache, which
// has those with the label; nil for another.
func (r *reconciler) labelled(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	if scope.LeftOut(name, r.Options.Namespace) {
		return nil, nil
	}
	namespace := metadata("Namespace")
	if err := r.reader.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return namespace, nil
}

// read gets the whole pod from the API server; nothing if it has gone or is
// another one by now, which the cache will tell of.
func (r *reconciler) read(ctx context.Context, pod *metav1.PartialObjectMetadata) (live *corev1.Pod, raw []byte, err error) {
	live, err = r.get(ctx, pod.Namespace, pod.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil, nil
	case err != nil:
		return nil, nil, fmt.Errorf("reading pod %s/%s: %w", pod.Namespace, pod.Name, err)
	case live.UID != pod.UID:
		return nil, nil, nil
	}
	if raw, err = json.Marshal(live); err != nil {
		return nil, nil, fmt.Errorf("encoding pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return live, raw, nil
}

// tell logs what came out and, where the webhook did not answer, writes an event
// on the pod: of a pod that was skipped its owner has one from admission, and one
// that was created before is no surprise.
func (r *reconciler) tell(ctx context.Context, pod *metav1.PartialObjectMetadata, judged Judgement) {
	log.FromContext(ctx).Info("pod without sidecar", "reason", judged.Reason, "kind", judged.Kind, "message", judged.Message)
	if judged.Reason != ReasonWebhookWasDown {
		return
	}
	on := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	// A note may have 1 kB (k8s.io/api/events/v1).
	r.events.Eventf(on, nil, corev1.EventTypeWarning, EventReason, "Coverage", "%s", workload.Clip(judged.Message, 900))
}

// ofPod asks for a pod of a labelled namespace, and for one that is known.
func (r *reconciler) ofPod(ctx context.Context, pod *metav1.PartialObjectMetadata) []reconcile.Request {
	key := client.ObjectKeyFromObject(pod)
	if namespace, err := r.labelled(ctx, pod.Namespace); err == nil && namespace != nil || r.state.knows(key) {
		return []reconcile.Request{{NamespacedName: key}}
	}
	return nil
}

// ofNamespace asks for all pods of a namespace, those that have gone included. A
// pod that this list does not have yet finds the namespace in the cache itself.
func (r *reconciler) ofNamespace(ctx context.Context, namespace *metav1.PartialObjectMetadata) []reconcile.Request {
	var requests []reconcile.Request
	for _, key := range r.state.in(namespace.Name) {
		requests = append(requests, reconcile.Request{NamespacedName: key})
	}
	if scope.LeftOut(namespace.Name, r.Options.Namespace) {
		return requests
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := r.reader.List(ctx, list, client.InNamespace(namespace.Name), client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "listing the pods of a namespace", "namespace", namespace.Name)
	}
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// changed drops the updates of a pod that say nothing new to us: most are of its
// status.
var changed = predicate.TypedFuncs[*metav1.PartialObjectMetadata]{
	UpdateFunc: func(e event.TypedUpdateEvent[*metav1.PartialObjectMetadata]) bool {
		before, after := e.ObjectOld, e.ObjectNew
		return before.UID != after.UID || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
			fingerprint(before) != fingerprint(after)
	},
}

// comesOrGoes lets through a namespace that is labelled, or is not any more.
var comesOrGoes = predicate.TypedFuncs[*metav1.PartialObjectMetadata]{
	UpdateFunc: func(event.TypedUpdateEvent[*metav1.PartialObjectMetadata]) bool { return false },
}
