package request

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// followEvery is how often a Restore is looked at while a pod that asked for it is
// still there. Most pods are gone, to be restored, within seconds.
const followEvery = 5 * time.Second

// follow tells the pods that asked for a Restore when it comes to nothing: whoever
// annotates a pod looks at the pod. again is when to look again; 0 for not. Restores
// are read, not watched, so that a missing CRD keeps nothing from running.
func (r *reconciler) follow(ctx context.Context, pods []*corev1.Pod) (again time.Duration, err error) {
	known := map[string]*api.Restore{} // nil for one that is not there
	for _, pod := range pods {
		name, value, ok := followed(pod)
		if !ok {
			continue
		}
		restore, ok := known[name]
		if !ok {
			restore = &api.Restore{}
			switch err := r.live.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: name}, restore); {
			case absent(err):
				restore = nil
			case err != nil:
				return 0, fmt.Errorf("reading restore %s/%s: %w", pod.Namespace, name, err)
			}
			known[name] = restore
		}
		switch {
		case restore == nil:
		case !restore.Status.Phase.Final():
			again = followEvery
		case restore.Status.Phase == api.RestoreFailed || restore.Status.Phase == api.RestoreCancelled:
			if err := r.failed(ctx, pod, value, restore); err != nil {
				return 0, err
			}
		}
	}
	return again, nil
}

// followed tells which Restore a pod waits for: the answer is its name, and nothing
// yet of what came of it.
func followed(pod *corev1.Pod) (name, value string, ok bool) {
	value, ok = pod.Annotations[api.AnnotationRestore]
	if !ok {
		return "", "", false
	}
	name, ok = strings.CutPrefix(pod.Annotations[api.AnnotationRestoreAnswer], answer(value, "restore "))
	return name, value, ok && name != "" && !strings.ContainsAny(name, " :")
}

// failed answers that the Restore came to nothing, once.
func (r *reconciler) failed(ctx context.Context, pod *corev1.Pod, value string, restore *api.Restore) error {
	live := &corev1.Pod{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(pod), live); err != nil {
		return client.IgnoreNotFound(err)
	}
	if name, of, ok := followed(live); !ok || name != restore.Name || of != value || live.UID != pod.UID || live.DeletionTimestamp != nil {
		return nil
	}
	what := strings.ToLower(string(restore.Status.Phase))
	text := answer(value, fmt.Sprintf("restore %s: %s: %s", restore.Name, what, restore.Status.Message))
	if err := r.answer(ctx, live, &text); err != nil {
		return err
	}
	r.write.say(live, corev1.EventTypeWarning, EventFailed, "restore %s: %s: %s; take annotation %s off and put it on to ask again", restore.Name, what, restore.Status.Message, api.AnnotationRestore)
	return nil
}
