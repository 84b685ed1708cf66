package request

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// reconciler looks after the pods of one owner at a time. What it remembers is only
// about when and whether something was said; all that counts is on the pods and in
// the Restores.
type reconciler struct {
	cached client.Reader // injected pods, a few of their names
	live   client.Reader
	write  *writer
	now    func() time.Time
	settle time.Duration
	log    logr.Logger
	groups map[types.NamespacedName]group // one worker, so no lock
}

// group is what is remembered of an owner's pods that ask.
type group map[types.UID]seen

type seen struct {
	ask
	at    time.Time // first seen
	still bool      // nothing is to be made of it, or it could not be answered
}

// absentAgain is when to look again where the kind Restore is not installed.
const absentAgain = time.Minute

// Reconcile implements reconcile.Reconciler; the request names an owner.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	pods, err := r.list(ctx, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	before, now := r.groups[request.NamespacedName], group{}
	var waiting []*corev1.Pod
	var failed []error
	for _, pod := range pods {
		a, ok := asked(pod)
		if !ok {
			failed = append(failed, r.forget(ctx, pod))
			continue
		}
		known, ok := before[pod.UID]
		if !ok || known.ask != a {
			if known, err = r.meet(ctx, pod, a); err != nil {
				failed = append(failed, err)
				continue // and met again
			}
		}
		now[pod.UID] = known
		if !known.still {
			waiting = append(waiting, pod)
		}
	}
	r.groups[request.NamespacedName] = now
	if len(now) == 0 {
		delete(r.groups, request.NamespacedName)
	}
	if err := errors.Join(failed...); err != nil {
		return reconcile.Result{}, err
	}
	result, err := r.make(ctx, waiting, now)
	if err != nil {
		return result, err
	}
	again, err := r.follow(ctx, pods)
	if again > 0 && (result.RequeueAfter == 0 || again < result.RequeueAfter) {
		result.RequeueAfter = again
	}
	return result, err
}

// list finds the pods of a group in the cache that are not being deleted.
func (r *reconciler) list(ctx context.Context, name types.NamespacedName) ([]*corev1.Pod, error) {
	var all corev1.PodList
	if err := r.cached.List(ctx, &all, client.InNamespace(name.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	var pods []*corev1.Pod
	for i := range all.Items {
		pod := &all.Items[i]
		if pod.DeletionTimestamp == nil && involved(pod) && groupOf(pod) == name {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// meet judges a request that is new, and says at once that it was seen.
func (r *reconciler) meet(ctx context.Context, pod *corev1.Pod, a ask) (seen, error) {
	s := seen{ask: a, at: r.now()}
	live, err := r.read(ctx, pod, a)
	if err != nil || live == nil {
		s.still = true // the cache will tell what it is now
		return s, err
	}
	if ownRestore(live, a) {
		s.still = true
		return s, nil
	}
	template, err := r.template(ctx, live)
	if err != nil {
		return s, err
	}
	if why := refusal(live, a, template); why != "" {
		s.still = true
		return s, r.refuse(ctx, live, a, why)
	}
	r.write.say(live, corev1.EventTypeNormal, EventAsked, "annotation %s asks for backup %s: a Restore is made in %s, for all pods of the workload that ask for the same until then",
		api.AnnotationRestore, a.value, r.settle)
	return s, nil
}

// read gets the whole pod as it is now; nil if it does not ask for that any more.
func (r *reconciler) read(ctx context.Context, pod *corev1.Pod, a ask) (*corev1.Pod, error) {
	live := &corev1.Pod{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(pod), live); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if now, ok := asked(live); !ok || now != a || live.UID != pod.UID || live.DeletionTimestamp != nil {
		return nil, nil
	}
	return live, nil
}

// template is the annotation in the template of a StatefulSet. Of other owners the
// template is not known; the webhook refuses a pod that asks for both.
func (r *reconciler) template(ctx context.Context, pod *corev1.Pod) (string, error) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "StatefulSet" || !strings.HasPrefix(owner.APIVersion, appsv1.GroupName+"/") {
		return "", nil
	}
	set := &appsv1.StatefulSet{}
	if err := r.live.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name}, set); err != nil {
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "", fmt.Errorf("reading StatefulSet %s/%s: %w", pod.Namespace, owner.Name, err)
	}
	return set.Spec.Template.Annotations[api.AnnotationRestore], nil
}

// refuse answers that there will be no Restore.
func (r *reconciler) refuse(ctx context.Context, pod *corev1.Pod, a ask, why string) error {
	r.log.Info("request refused", "namespace", pod.Namespace, "pod", pod.Name, "backup", a.value, "why", why)
	text := answer(a.value, "refused: "+why)
	if err := r.answer(ctx, pod, &text); err != nil {
		return err
	}
	r.write.say(pod, corev1.EventTypeWarning, EventRefused, "annotation %s: refused: %s", api.AnnotationRestore, why)
	return nil
}

// answer writes an answer. A pod that has gone needs none, and one that may not be
// written to has the event.
func (r *reconciler) answer(ctx context.Context, pod *corev1.Pod, text *string) error {
	err := r.write.answer(ctx, pod, text)
	if apierrors.IsForbidden(err) {
		r.log.Error(err, "pod not answered", "namespace", pod.Namespace, "pod", pod.Name)
		return nil
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// forget removes an answer whose annotation has gone, so that one may ask again.
// The Restores forget first: found by the pod's UID, an old one would be the answer.
func (r *reconciler) forget(ctx context.Context, pod *corev1.Pod) error {
	if _, asks := pod.Annotations[api.AnnotationRestore]; asks {
		return nil
	}
	all, err := r.restores(ctx, pod.Namespace)
	if err != nil {
		return err
	}
	for i := range all {
		if rest, ok := withdraw(&all[i], pod.UID); ok {
			if err := r.write.withdraw(ctx, &all[i], rest); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	return r.answer(ctx, pod, nil)
}

func (r *reconciler) restores(ctx context.Context, namespace string) ([]api.Restore, error) {
	var all api.RestoreList
	if err := r.live.List(ctx, &all, client.InNamespace(namespace)); err != nil && !absent(err) {
		return nil, fmt.Errorf("listing restores: %w", err)
	}
	return all.Items, nil
}

// absent tells whether the kind Restore is not installed.
func absent(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }
