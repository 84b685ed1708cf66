package annotated

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/rpo"
	"github.com/stategraft/stategraft/operations/scope"
)

// read reads the namespace and its BackupSchedules. It asks for nothing where it does not
// carry the label.
func (l *look) read(ctx context.Context) (asks bool, err error) {
	namespace, err := namespaceOf(ctx, l.cached, l.namespace)
	if err != nil || namespace == nil || namespace.DeletionTimestamp != nil || !scope.Asks(namespace, l.own) {
		return false, err
	}
	l.annotations = namespace.Annotations
	var list api.BackupScheduleList
	if err := l.objects.List(ctx, &list, client.InNamespace(l.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing BackupSchedules: %w", err)
	}
	l.schedules = list.Items
	return true, nil
}

// pods are the injected pods. They are shared with the cache.
func (l *look) pods(ctx context.Context) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := l.cached.List(ctx, &list, client.InNamespace(l.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the injected pods of namespace %s: %w", l.namespace, err)
	}
	return list.Items, nil
}

// concerned tells whether anything is asked for, or was.
func (l *look) concerned(pods []corev1.Pod) bool {
	asks := func(annotations map[string]string) bool {
		_, ok := annotations[api.AnnotationBackupSchedule]
		many, said := annotations[api.AnnotationRetain]
		return ok || said && faultOf(api.AnnotationRetain, many, "", false) != nil
	}
	if asks(l.annotations) || len(l.passing) > 0 {
		return true
	}
	asked := func(pod corev1.Pod) bool { return asks(pod.Annotations) }
	return slices.ContainsFunc(pods, asked) || slices.ContainsFunc(l.schedules, func(s api.BackupSchedule) bool { return isAnnotated(&s) })
}

// clusters puts workloads together. Those of which it is not known where they belong, and
// that may be of one cluster, are unknown for now.
func (l *look) clusters(ctx context.Context, all []workload) (known []cluster, unknown []workload, err error) {
	prefixes, stores := map[rpo.Owner]string{}, 0
	for _, w := range all {
		if w.stores() && !fleeting(w.owner) {
			stores++
		}
	}
	if l.nodes == nil || stores < 2 {
		return clustersOf(all, nil), nil, nil
	}
	var here []workload
	for _, w := range all {
		if !w.stores() || fleeting(w.owner) {
			here = append(here, w)
			continue
		}
		prefix, ok, err := l.prefix(ctx, w)
		if err != nil {
			return nil, nil, err
		}
		if !ok {
			unknown = append(unknown, w)
			continue
		}
		prefixes[w.owner], here = prefix, append(here, w)
	}
	return clustersOf(here, prefixes), unknown, nil
}

// askLimit is how long a sidecar has to say which cluster it is of.
const askLimit = 5 * time.Second

// prefix asks one pod of a workload after another where it stores. It is asked again when
// the pod that has said so is there no more; until another does, it holds.
func (l *look) prefix(ctx context.Context, w workload) (prefix string, ok bool, err error) {
	before, seen, holds := l.memory.prefix(w)
	if holds {
		return before, true, nil
	}
	why := "no pod is running"
	for i, slim := range w.pods {
		if i == 2 {
			break // two that do not answer are enough for now
		}
		if slim.Status.Phase != corev1.PodRunning || slim.DeletionTimestamp != nil {
			continue
		}
		pod := &corev1.Pod{}
		if err := l.live.Get(ctx, client.ObjectKeyFromObject(slim), pod); err != nil {
			if client.IgnoreNotFound(err) == nil {
				continue
			}
			return "", false, fmt.Errorf("reading pod %s/%s: %w", slim.Namespace, slim.Name, err)
		}
		asking, cancel := context.WithTimeout(ctx, askLimit)
		report, err := l.nodes.Report(asking, pod)
		cancel()
		if err == nil {
			l.memory.know(w.owner, known{pod.UID, report.Prefix})
			return report.Prefix, true, nil
		}
		why = fmt.Sprintf("pod %s: %v", pod.Name, err)
	}
	silent := l.memory.unknown(w.owner, l.now())
	l.soon(unknownAgain + silent/8)
	if seen {
		return before, true, nil
	}
	l.waiting = l.waiting || silent < unknownFor
	if silent >= unknownFor {
		if _, asked := wishOf(cluster{w}, l.annotations); asked {
			l.tellOnce(cluster{w}, eventUnknown, "no BackupSchedule is made of the annotation yet: there are several workloads, and it cannot be told whether this one is a cluster of its own; "+why)
		}
	}
	return "", false, nil
}

// everyPod reads the metadata of all pods, whose labels the cache does not have; once a
// look.
func (l *look) everyPod(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	if l.every != nil {
		return l.every, nil
	}
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := l.live.List(ctx, &list, client.InNamespace(l.namespace)); err != nil {
		return nil, fmt.Errorf("listing the pods of namespace %s: %w", l.namespace, err)
	}
	l.every = list.Items
	return l.every, nil
}

// hasSet tells whether there is a StatefulSet whose template does not opt out. Of those
// in the cache the template is not known; the API server is asked only where no injected
// pod of it is there.
func (l *look) hasSet(ctx context.Context, name string) (bool, error) {
	set := &appsv1.StatefulSet{}
	for _, from := range []client.Reader{l.cached, l.live} {
		if err := from.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: name}, set); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading StatefulSet %s/%s: %w", l.namespace, name, err)
		} else if err != nil {
			return false, nil
		}
	}
	return set.Spec.Template.Labels[api.LabelInject] != api.InjectDisabled, nil
}

// memory is what is not asked, and not said, twice. The next process asks again.
type memory struct {
	mu       sync.Mutex
	prefixes map[rpo.Owner]known
	silent   map[rpo.Owner]time.Time    // since when nobody answers
	gone     map[types.UID]time.Time    // since when the pods of a BackupSchedule are
	told     map[string]string          // by workload
	bad      map[string]map[string]bool // bad values that were told, by workload or BackupSchedule
	passing  map[string][]passing       // and those that are to be, by namespace
}

// known is where a workload stores, as one of its pods said.
type known struct {
	by     types.UID
	prefix string
}

func newMemory() *memory {
	return &memory{prefixes: map[rpo.Owner]known{}, silent: map[rpo.Owner]time.Time{}, gone: map[types.UID]time.Time{}, told: map[string]string{},
		bad: map[string]map[string]bool{}, passing: map[string][]passing{}}
}

// prefix is where a workload stores, whether that was ever said, and whether by a pod that
// is still there.
func (m *memory) prefix(w workload) (prefix string, seen, holds bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, seen := m.prefixes[w.owner]
	return k.prefix, seen, seen && slices.ContainsFunc(w.pods, func(pod *corev1.Pod) bool { return pod.UID == k.by })
}

func (m *memory) know(owner rpo.Owner, k known) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.prefixes[owner] = k
	delete(m.silent, owner)
}

// unknown is for how long nobody has answered.
func (m *memory) unknown(owner rpo.Owner, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.silent[owner]; !ok {
		m.silent[owner] = now
	}
	return now.Sub(m.silent[owner])
}

func (m *memory) present(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.gone, uid)
}

// absent is for how long the pods of a BackupSchedule are known to be gone.
func (m *memory) absent(uid types.UID, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.gone[uid]; !ok {
		m.gone[uid] = now
	}
	return now.Sub(m.gone[uid])
}

// toldLimit bounds what is remembered: beyond it something may be said twice.
const toldLimit = 4096

// news tells whether something else was said of a workload the last time.
func (m *memory) news(of, text string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.told[of] == text {
		return false
	}
	if len(m.told) >= toldLimit {
		clear(m.told)
		clear(m.prefixes)
		clear(m.silent)
	}
	m.told[of] = text
	if text == "" {
		delete(m.told, of)
	}
	return true
}
