package request

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/scope"
	"github.com/stategraft/stategraft/workload"
)

// Inbox takes the pods that ask for a restore and have no sidecar. Nothing can be
// restored there; they are told why.
type Inbox struct {
	queue workqueue.TypedRateLimitingInterface[letter]
	told  map[types.UID]string // for which value; one worker, so no lock
	live  client.Reader
	write *writer
	own   string
	log   logr.Logger
}

// letter is a request of one very pod.
type letter struct {
	types.NamespacedName
	uid   types.UID
	value string
}

// toldLimit bounds what is remembered: beyond it something may be said twice.
const toldLimit = 4096

// NewInbox makes an Inbox, which Add gets to work.
func NewInbox() *Inbox {
	return &Inbox{told: map[types.UID]string{}, queue: workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.DefaultTypedControllerRateLimiter[letter](), workqueue.TypedRateLimitingQueueConfig[letter]{Name: "restore-request-uninjected"})}
}

// Asked takes a pod without a sidecar that has the annotation. It never waits.
func (b *Inbox) Asked(pod metav1.Object) {
	if _, ok := asked(pod); ok && pod.GetDeletionTimestamp() == nil {
		b.queue.Add(letter{types.NamespacedName{Namespace: pod.GetNamespace(), Name: pod.GetName()}, pod.GetUID(), pod.GetAnnotations()[api.AnnotationRestore]})
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (b *Inbox) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (b *Inbox) Start(ctx context.Context) error {
	defer context.AfterFunc(ctx, b.queue.ShutDown)()
	for {
		item, ended := b.queue.Get()
		if ended {
			return nil
		}
		if err := b.read(ctx, item); err != nil && ctx.Err() == nil {
			b.log.Error(err, "pod not answered", "namespace", item.Namespace, "pod", item.Name)
			b.queue.AddRateLimited(item)
		} else {
			b.queue.Forget(item)
		}
		b.queue.Done(item)
	}
}

// read tells a pod why it cannot be restored: by an event, and by an answer where
// the namespace is ours to write in.
func (b *Inbox) read(ctx context.Context, item letter) error {
	if value, ok := b.told[item.uid]; ok && value == item.value {
		return nil
	}
	pod := &corev1.Pod{}
	if err := b.live.Get(ctx, item.NamespacedName, pod); err != nil {
		return client.IgnoreNotFound(err)
	}
	a, ok := asked(pod)
	if _, injected := pod.Labels[api.LabelInjected]; !ok || a.value != item.value || pod.UID != item.uid || injected || pod.DeletionTimestamp != nil {
		return nil
	}
	labelled, err := b.labelled(ctx, pod.Namespace)
	if err != nil {
		return err
	}
	why := refusal(pod, a, "")
	if !labelled {
		why = fmt.Sprintf("namespace %[1]s does not have the label %[2]s=%[3]s, so nothing of Stategraft is in its pods; kubectl label namespace %[1]s %[2]s=%[3]s, then kubectl stategraft adopt gives those of a database that run their sidecars, or re-create them once, and ask again", pod.Namespace, api.LabelInject, api.InjectEnabled)
	}
	if why == "" && adopted.Is(pod) { // it gets the label, and is then seen by the controller itself
		b.remember(item)
		b.write.say(pod, corev1.EventTypeNormal, EventAsked, "annotation %s asks for backup %s: a Restore is made once the pod is adopted, as the sidecar that it is being given has to run", api.AnnotationRestore, workload.Short(a.value))
		return nil
	}
	if why == "" {
		return nil // it has the containers without the label: no pod of ours
	}
	if labelled {
		text := answer(a.value, "refused: "+why)
		switch err := b.write.answer(ctx, pod, &text); {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
			return nil
		case err != nil && !apierrors.IsForbidden(err):
			return err
		}
	}
	b.remember(item)
	b.write.say(pod, corev1.EventTypeWarning, EventRefused, "annotation %s: refused: %s", api.AnnotationRestore, why)
	return nil
}

// remember has the pod not be told again.
func (b *Inbox) remember(item letter) {
	if len(b.told) >= toldLimit {
		clear(b.told)
	}
	b.told[item.uid] = item.value
}

func (b *Inbox) labelled(ctx context.Context, name string) (bool, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := b.live.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return scope.Asks(namespace, b.own), nil
}
