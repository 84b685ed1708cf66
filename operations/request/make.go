package request

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// make makes a Restore for each value whose pods have settled.
func (r *reconciler) make(ctx context.Context, waiting []*corev1.Pod, known group) (reconcile.Result, error) {
	byValue := map[string][]*corev1.Pod{}
	var values []string
	for _, pod := range waiting {
		value := known[pod.UID].value
		if byValue[value] == nil {
			values = append(values, value)
		}
		byValue[value] = append(byValue[value], pod)
	}
	slices.Sort(values)
	var result reconcile.Result
	for _, value := range values {
		var last time.Time
		for _, pod := range byValue[value] {
			if at := known[pod.UID].at; at.After(last) {
				last = at
			}
		}
		after := last.Add(r.settle).Sub(r.now())
		if after <= 0 {
			var err error
			if after, err = r.settled(ctx, byValue[value], known); err != nil {
				return result, err
			}
		}
		if after > 0 && (result.RequeueAfter == 0 || after < result.RequeueAfter) {
			result.RequeueAfter = after
		}
	}
	return result, nil
}

// settled makes the Restore that pods ask for, unless there is one, and answers
// them. again is when to try again; 0 for not.
func (r *reconciler) settled(ctx context.Context, pods []*corev1.Pod, known group) (again time.Duration, err error) {
	var asking []*corev1.Pod
	for _, pod := range pods {
		live, err := r.read(ctx, pod, known[pod.UID].ask)
		if err != nil {
			return 0, err
		}
		if live != nil {
			asking = append(asking, live)
		}
	}
	if len(asking) == 0 {
		return 0, nil
	}
	value := known[pods[0].UID].value
	all, err := r.restores(ctx, asking[0].Namespace)
	if err != nil {
		return 0, err
	}
	var rest []*corev1.Pod
	for _, pod := range asking {
		if found := made(all, pod, value); found != nil {
			if err := r.tell(ctx, pod, value, found); err != nil {
				return 0, err
			}
			continue
		}
		rest = append(rest, pod)
	}
	if len(rest) == 0 {
		return 0, nil
	}
	return r.create(ctx, rest, known)
}

// create makes the Restore. A name that is taken is another request's, as what was
// made for these pods was looked for.
func (r *reconciler) create(ctx context.Context, pods []*corev1.Pod, known group) (time.Duration, error) {
	value := known[pods[0].UID].value
	for attempt := range 100 {
		restore := compose(pods, value, attempt)
		err := r.write.client.Create(ctx, restore)
		switch {
		case apierrors.IsAlreadyExists(err):
			continue
		case err != nil && (absent(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)):
			r.log.Error(err, "restore not made", "namespace", restore.Namespace, "name", restore.Name)
			return absentAgain, r.fail(pods, known, err)
		case err != nil:
			return 0, fmt.Errorf("making restore %s/%s: %w", restore.Namespace, restore.Name, err)
		}
		r.log.Info("restore made", "namespace", restore.Namespace, "name", restore.Name, "backup", value, "pods", restore.Spec.Pods.Names)
		for _, pod := range pods {
			if err := r.tell(ctx, pod, value, restore); err != nil {
				return 0, err
			}
		}
		return 0, nil
	}
	return 0, fmt.Errorf("making a restore of %s in namespace %s: all names are taken", pods[0].Name, pods[0].Namespace)
}

// fail says, once for each pod, that the API server does not take the Restore. It is
// tried again: a quota or a right can be given, the kind installed.
func (r *reconciler) fail(pods []*corev1.Pod, known group, err error) error {
	for _, pod := range pods {
		s := known[pod.UID]
		if s.at.IsZero() {
			continue
		}
		r.write.say(pod, corev1.EventTypeWarning, EventRefused, "annotation %s: the Restore cannot be made, and is tried again: %v", api.AnnotationRestore, err)
		s.at = time.Time{} // said; and settled for good
		known[pod.UID] = s
	}
	return nil
}

// tell answers a pod that there is a Restore.
func (r *reconciler) tell(ctx context.Context, pod *corev1.Pod, value string, restore *api.Restore) error {
	text := answer(value, "restore "+restore.Name)
	if err := r.answer(ctx, pod, &text); err != nil {
		return err
	}
	r.write.say(pod, corev1.EventTypeNormal, EventMade, "restore %s restores backup %s: kubectl stategraft restore show %[1]s -n %[3]s", restore.Name, value, restore.Namespace)
	return nil
}
