package restore

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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

const (
	sweepEvery = time.Minute
	// strayFor is how long a restore container without its Restore may run. One that
	// runs again as its node was started anew finds in seconds that it is done.
	strayFor = 5 * time.Minute
	// sweepLimit is how often a pod of a name is deleted at each sweep, and sweepLater
	// how often from then on. One whose template has our restore container, copied from
	// a live pod, would come back with it for ever; one of a webhook that lags for long
	// waits for somebody to delete it.
	sweepLimit = 3
	sweepLater = 10 * time.Minute
)

// sweeper deletes pods that wait for a Restore that is not there (any more): one that
// was deleted by force, or cancelled while an admission did not know of it yet. Their
// StatefulSets make them anew without it.
type sweeper struct {
	cluster    cluster
	candidates func(ctx context.Context) ([]types.NamespacedName, error)
	tell       teller
	clock      func() time.Time
	log        logr.Logger
	known      map[stray]*sighting // of the last sweep
}

// stray is a pod's name with what its restore container is for.
type stray struct {
	types.NamespacedName
	id string
}

type sighting struct {
	uid   types.UID
	since time.Time // with this uid
	times int       // it was deleted
	last  time.Time // when
}

// run sweeps until the context ends.
func (s *sweeper) run(ctx context.Context) {
	for {
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Error(err, "looking for pods that wait for a Restore that is not there")
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(sweepEvery):
		}
	}
}

func (s *sweeper) sweep(ctx context.Context) error {
	candidates, err := s.candidates(ctx)
	if err != nil {
		return err
	}
	seen := map[stray]*sighting{}
	var failed []error
	for _, name := range candidates {
		failed = append(failed, s.look(ctx, name, seen))
	}
	s.known = seen
	return errors.Join(failed...)
}

// look goes after one pod.
func (s *sweeper) look(ctx context.Context, name types.NamespacedName, seen map[stray]*sighting) error {
	// The pod first: a Restore that is read later is no older than its pod.
	pod, err := s.cluster.pod(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("reading pod %s: %w", name, err)
	}
	id := restoreID(pod)
	if id == "" || pod.DeletionTimestamp != nil || finished(pod) || initialized(pod) {
		return nil
	}
	restore, err := s.of(ctx, pod.Namespace, id)
	if err != nil {
		return err
	}
	if done(restore, pod, id) {
		if hasGate(pod) {
			if err := s.cluster.lift(ctx, pod); err != nil && !outdated(err) {
				return err
			}
		}
		return nil
	}
	why, urgent := orphan(restore, pod, id)
	if why == "" {
		return nil
	}
	key := stray{name, id}
	at := s.known[key]
	if at == nil {
		at = &sighting{uid: pod.UID, since: s.clock()}
	} else if at.uid != pod.UID {
		at.uid, at.since = pod.UID, s.clock()
	}
	seen[key] = at
	if urgent || s.clock().Sub(at.since) >= strayFor {
		return s.release(ctx, restore, pod, at, why)
	}
	return nil
}

// initialized tells whether the pod is past its init containers, whatever is known of
// them.
func initialized(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodInitialized && c.Status == corev1.ConditionTrue
	})
}

// of finds the Restore of an id; nil where there is none.
func (s *sweeper) of(ctx context.Context, namespace, id string) (*api.Restore, error) {
	name, _, _ := strings.Cut(id, "/")
	if name == "" {
		return nil, nil
	}
	restore, err := s.cluster.restore(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading Restore %s/%s: %w", namespace, name, err)
	}
	return restore, nil
}

// orphan tells why nobody is going to take a pod further, which has a restore
// container that has not ended; empty where somebody is. Urgent is what cannot come
// right by itself.
func orphan(r *api.Restore, pod *corev1.Pod, id string) (why string, urgent bool) {
	if r == nil {
		return "there is no such Restore any more", hasGate(pod)
	}
	stage := stageOf(r)
	switch {
	case (r.Status.ID == id || r.RequestID() == id) && (stage == stageAccept || stage == stageCheck):
		return "", false // applied again, it goes on with the pod, or refuses to
	case r.Status.ID != id:
		return "the Restore of this name asks for something else now", hasGate(pod)
	case slices.Contains(r.Status.Pending, pod.Name), stage == stageCancel:
		return "", false
	}
	return "the Restore is " + string(r.Status.Phase), true
}

// done tells whether the pod is restored already, and came back with the container of
// an admission that did not know. Let start, it finds that nothing is left to do.
func done(r *api.Restore, pod *corev1.Pod, id string) bool {
	if r == nil || r.Status.ID != id {
		return false
	}
	at := r.Status.Pod(pod.Name)
	return at != nil && at.Phase == api.PodRestored
}

func (s *sweeper) release(ctx context.Context, restore *api.Restore, pod *corev1.Pod, at *sighting, why string) error {
	if at.times >= sweepLimit && s.clock().Sub(at.last) < sweepLater {
		return nil
	}
	text := fmt.Sprintf("pod %s is deleted, to start without the restore of %s: %s", pod.Name, restoreID(pod), why)
	if at.times >= sweepLimit {
		text += fmt.Sprintf(". It has come back %d times with it: is its restore container in its template, or does the webhook not see Restores any more?", at.times)
	}
	if !hasGate(pod) {
		text += ". If the restore had begun to replace data, they are incomplete: restore the pod again before it is used"
	}
	s.say(restore, pod, text)
	s.log.Info("deleting a pod that waits for a Restore that is not there", "namespace", pod.Namespace, "pod", pod.Name, "uid", pod.UID, "id", restoreID(pod), "why", why)
	at.times, at.last = at.times+1, s.clock()
	if err := s.cluster.remove(ctx, pod); err != nil && !outdated(err) {
		return err
	}
	return nil
}

func (s *sweeper) say(restore *api.Restore, pod *corev1.Pod, text string) {
	if restore == nil {
		s.tell.tell(ofPod(pod), nil, corev1.EventTypeWarning, eventOrphan, text)
		return
	}
	tellAbout(s.tell, restore, pod, corev1.EventTypeWarning, eventOrphan, text)
}

// cachedCandidates finds the pods whose restore container has not ended, in the cache
// of injected pods. It keeps little of them (heal.ByObject), but that.
func cachedCandidates(reader client.Reader) func(context.Context) ([]types.NamespacedName, error) {
	return func(ctx context.Context) (names []types.NamespacedName, err error) {
		var list corev1.PodList
		if err := reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing injected pods: %w", err)
		}
		for i := range list.Items {
			if pod := &list.Items[i]; restoreID(pod) != "" && !finished(pod) {
				names = append(names, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
			}
		}
		return names, nil
	}
}
