package heal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// podReconciler does what judge says. The cached pod, of which most is stripped,
// only tells whether there is something to do at all; what is done, is done on the
// pod as the API server has it, judged once more.
type podReconciler struct {
	cached client.Reader
	live   client.Reader
	pods   *pods
	store  *store
	survey *survey
	tell   teller
	now    func() time.Time
	after  time.Duration
	log    logr.Logger
}

// Reconcile implements reconcile.Reconciler.
func (r *podReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var pod corev1.Pod
	if err := r.cached.Get(ctx, req.NamespacedName, &pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if quiet(&pod) {
		return reconcile.Result{}, r.release(ctx, &pod)
	}
	if v := judge(&pod, r.now(), r.after); v.action == actNothing {
		return r.again(v.at), nil
	}
	var live corev1.Pod
	if err := r.live.Get(ctx, req.NamespacedName, &live); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	result, err := r.act(ctx, &live, judge(&live, r.now(), r.after))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		// Somebody was quicker. What he did may not be in the cache yet.
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return result, nil
}

// again has the pod judged at a time; zero is for never.
func (r *podReconciler) again(at time.Time) reconcile.Result {
	if at.IsZero() {
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: max(at.Sub(r.now()), 10*time.Millisecond)}
}

func (r *podReconciler) act(ctx context.Context, pod *corev1.Pod, v verdict) (reconcile.Result, error) {
	switch v.action {
	case actMark:
		text := fmt.Sprintf("%s; made harmless after %s if it lasts", describe(v.troubles), r.after)
		return r.again(v.at), r.pods.setCondition(ctx, pod, corev1.ConditionTrue, v.reason, text)
	case actHeal:
		return r.again(v.at), r.heal(ctx, pod, v)
	case actNote:
		return reconcile.Result{}, r.pods.setCondition(ctx, pod, corev1.ConditionTrue, api.DegradedHealed, "no backup: an injected container idles until the pod is replaced")
	case actGiveUp:
		return reconcile.Result{}, r.giveUp(ctx, pod, v)
	case actClear:
		return reconcile.Result{}, r.pods.setCondition(ctx, pod, corev1.ConditionFalse, api.DegradedRecovered, "all injected containers run")
	case actPlace:
		return r.place(ctx, pod, v)
	case actReplace:
		entry := r.entry(pod, v.troubles[0].cause, failed(v.troubles), describe(v.troubles))
		return r.replace(ctx, pod, entry)
	case actRelease:
		return reconcile.Result{}, r.release(ctx, pod)
	}
	return r.again(v.at), nil
}

// heal holds the workload back, so that the next pod is Ready from the start, and
// makes the containers of this one harmless. The order matters where we are
// interrupted: a pod that is not healed yet is judged again.
func (r *podReconciler) heal(ctx context.Context, pod *corev1.Pod, v verdict) error {
	annotations, err := annotationsOf(ctx, r.cached, pod.Namespace)
	if err != nil {
		return err
	}
	image, err := databaseImage(pod, annotations)
	if err != nil {
		return err
	}
	var lasting []trouble
	for i := range v.cures {
		if v.cures[i].image == "" {
			v.cures[i].image = image
		}
		lasting = append(lasting, v.cures[i].trouble)
	}
	if err := r.hold(ctx, pod, r.entry(pod, lasting[0].cause, failed(lasting), describe(lasting))); err != nil && !notHeld(err) {
		return err
	}
	owner, _ := ownerOf(pod)
	err = r.pods.patchImages(ctx, pod, v.cures)
	if refusal := (*apierrors.StatusError)(nil); refusedForGood(err) && errors.As(err, &refusal) {
		r.log.Error(err, "pod not healed", "namespace", pod.Namespace, "pod", pod.Name, "troubles", describe(lasting))
		why := said("another image is refused", refusal.ErrStatus.Message)
		r.tell.warn(referenceTo(pod), &owner, eventNotHealed,
			"%s, and %s; delete the pod to have it created without Stategraft's containers", describe(lasting), why)
		return r.pods.setCondition(ctx, pod, corev1.ConditionTrue, api.DegradedRefused, describe(lasting)+"; "+why)
	}
	if err != nil {
		return err
	}
	for _, c := range v.cures {
		healed.WithLabelValues(string(c.cause), c.Name).Inc()
		r.log.Info("container healed", "namespace", pod.Namespace, "pod", pod.Name, "container", c.Name, "cause", c.cause, "image", c.Image, "idlesIn", c.image)
		r.tell.warn(referenceTo(pod), &owner, eventHealed,
			"container %s kept the pod from being Ready (%s: %s); it idles in image %s now, so this pod has no backup until it is replaced", c.Name, c.cause, c.text, c.image)
	}
	return r.pods.setCondition(ctx, pod, corev1.ConditionTrue, api.DegradedHealed, "no backup: "+describe(lasting)+"; made harmless until the pod is replaced")
}

// refusedForGood tells whether a write fails whenever it is tried: a policy, another
// webhook or the lack of a right is in the way.
func refusedForGood(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// giveUp says once that a container fails and that nothing more can be done.
func (r *podReconciler) giveUp(ctx context.Context, pod *corev1.Pod, v verdict) error {
	all := parts(pod)
	fresh := slices.DeleteFunc(slices.Clone(v.troubles), func(t trouble) bool { return idles(all, t.part) })
	if len(fresh) > 0 { // for what was healed before, it is held back already
		if err := r.hold(ctx, pod, r.entry(pod, fresh[0].cause, failed(fresh), describe(fresh))); err != nil && !notHeld(err) {
			return err
		}
	}
	if err := r.pods.setCondition(ctx, pod, corev1.ConditionTrue, api.DegradedNotHealed, describe(v.troubles)); err != nil {
		return err
	}
	owner, _ := ownerOf(pod)
	r.log.Info("pod not healed", "namespace", pod.Namespace, "pod", pod.Name, "troubles", describe(v.troubles))
	r.tell.warn(referenceTo(pod), &owner, eventNotHealed,
		"%s, and there is no image in which it would idle; delete the pod to have it created without Stategraft's containers", describe(v.troubles))
	return nil
}

// errNeedsUs says that pods of a workload are nothing without us.
var errNeedsUs = errors.New("its pods have more of Stategraft than a backup")

// notHeld tells whether a workload was not held back, and that is all.
func notHeld(err error) bool { return errors.Is(err, errFull) || errors.Is(err, errNeedsUs) }

// hold holds the pod's workload back and tells the owner if that is news. notHeld
// tells of an error whether it only says that there is nothing to be done.
func (r *podReconciler) hold(ctx context.Context, pod *corev1.Pod, entry api.HeldBack) error {
	annotations, err := annotationsOf(ctx, r.cached, pod.Namespace)
	if err != nil {
		return err
	}
	if needsUs(pod, annotations) {
		r.log.Info("a workload is not held back: "+errNeedsUs.Error(), "namespace", entry.Namespace, "kind", entry.Kind, "name", entry.Name, "cause", entry.Cause)
		return errNeedsUs
	}
	created := pod.CreationTimestamp.Time
	if pod.Annotations[api.AnnotationHeldBack] == api.HeldBackIgnore || annotations[api.AnnotationHeldBack] == api.HeldBackIgnore {
		created = time.Time{} // injected all the same, so it does not show that the entry is not heeded
	}
	news, err := r.store.hold(ctx, entry, created)
	if errors.Is(err, errFull) {
		r.log.Error(err, "a workload is not held back", "namespace", entry.Namespace, "kind", entry.Kind, "name", entry.Name, "cause", entry.Cause)
	}
	if err != nil || !news {
		return err
	}
	owner, _ := ownerOf(pod)
	about := referenceTo(pod)
	r.log.Info("workload held back", "namespace", entry.Namespace, "kind", entry.Kind, "name", entry.Name, "cause", entry.Cause, "pod", pod.Name)
	r.tell.warn(owner, &about, eventHeldBack, "%s: pods are admitted without Stategraft's containers for now (%s); annotation %s: %s on the pods or their namespace injects them all the same",
		entry.Message, string(entry.Cause), api.AnnotationHeldBack, api.HeldBackIgnore)
	return nil
}

// release ends the holding back of a workload when a pod that was created since is
// Ready with all of our containers.
func (r *podReconciler) release(ctx context.Context, pod *corev1.Pod) error {
	owner, _ := ownerOf(pod)
	entry, ok, err := r.store.find(ctx, pod.Namespace, owner.Kind, owner.Name)
	if err != nil || !ok || !entry.Active(r.now()) || !pod.CreationTimestamp.After(entry.Since) {
		return err
	}
	var live corev1.Pod
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(pod), &live); err != nil {
		return client.IgnoreNotFound(err)
	}
	if live.UID != pod.UID || judge(&live, r.now(), r.after).action != actRelease {
		return nil
	}
	was, err := r.store.release(ctx, entry)
	if err != nil || !was {
		return err
	}
	about := referenceTo(pod)
	r.log.Info("workload released", "namespace", entry.Namespace, "kind", entry.Kind, "name", entry.Name, "cause", entry.Cause, "pod", pod.Name)
	r.tell.tell(corev1.EventTypeNormal, owner, &about, eventReleased, "pod %s is Ready with Stategraft's containers: pods are injected again", pod.Name)
	return nil
}

// entry is a held back workload; since and until are set when it is entered.
func (r *podReconciler) entry(pod *corev1.Pod, cause api.Cause, containers []api.HeldContainer, message string) api.HeldBack {
	owner, _ := ownerOf(pod)
	return api.HeldBack{Namespace: pod.Namespace, Kind: owner.Kind, Name: owner.Name, Cause: cause, Containers: containers,
		Message: "pod " + pod.Name + ": " + message}
}

// describe puts troubles into words.
func describe(troubles []trouble) string {
	texts := make([]string, 0, len(troubles))
	for _, t := range troubles {
		texts = append(texts, t.Name+" "+t.text)
	}
	return strings.Join(texts, "; ")
}

// failed are the containers as they are held against later pods.
func failed(troubles []trouble) (list []api.HeldContainer) {
	for _, t := range troubles {
		c := api.HeldContainer{Name: t.Name, Image: t.Image}
		if t.cause == api.CauseOutOfMemory {
			if limit, ok := t.Resources.Limits[corev1.ResourceMemory]; ok {
				c.Memory = limit.String()
			}
		}
		list = append(list, c)
	}
	return list
}
