package catalogue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// group are the pods of one owner, those that are Ready first.
type group struct {
	owner types.UID
	pods  []corev1.Pod // as the informer has them: names only
}

// groups are the running pods of a namespace that may see into the storage.
func (c *Catalogue) groups(ctx context.Context, namespace string) ([]group, error) {
	var list corev1.PodList
	if err := c.world.Load().slim.List(ctx, &list, client.InNamespace(namespace), client.HasLabels{api.LabelInjected}); err != nil {
		return nil, fmt.Errorf("reading the pods of namespace %s: %w", namespace, err)
	}
	by := map[types.UID]*group{}
	for i := range list.Items {
		pod := &list.Items[i]
		if !speaks(pod) {
			continue
		}
		owner := ownerOf(pod)
		if by[owner] == nil {
			by[owner] = &group{owner: owner}
		}
		by[owner].pods = append(by[owner].pods, *pod)
	}
	groups := make([]group, 0, len(by))
	for _, g := range by {
		slices.SortFunc(g.pods, func(a, b corev1.Pod) int {
			return cmp.Or(cmp.Compare(unready(&a), unready(&b)), strings.Compare(a.Name, b.Name))
		})
		groups = append(groups, *g)
	}
	slices.SortFunc(groups, func(a, b group) int { return strings.Compare(a.pods[0].Name, b.pods[0].Name) })
	return groups, nil
}

// podNames are those of all injected pods of a namespace, which are those of their nodes
// unless medusa.ini calls them otherwise. Not all of them may run yet.
func (c *Catalogue) podNames(ctx context.Context, namespace string) ([]string, error) {
	var list corev1.PodList
	if err := c.world.Load().slim.List(ctx, &list, client.InNamespace(namespace), client.HasLabels{api.LabelInjected}); err != nil {
		return nil, fmt.Errorf("reading the pods of namespace %s: %w", namespace, err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}

// speaks tells whether a pod may be asked what the storage holds.
func speaks(pod *corev1.Pod) bool {
	return (pod.Labels[api.LabelInjected] == string(workload.KindCassandra) || kvs.HoldsData(pod)) && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning
}

func ownerOf(pod *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return owner.UID
	}
	return pod.UID
}

func unready(pod *corev1.Pod) int {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return 0
		}
	}
	return 1
}

// whole is the pod as the API server has it, which is read once as long as it answers.
func (c *Catalogue) whole(ctx context.Context, slim *corev1.Pod) (*corev1.Pod, error) {
	c.mutex.Lock()
	pod := c.full[slim.UID]
	c.mutex.Unlock()
	if pod != nil {
		return pod, nil
	}
	pod = &corev1.Pod{}
	if err := c.world.Load().live.Get(ctx, client.ObjectKeyFromObject(slim), pod); err != nil {
		return nil, fmt.Errorf("reading pod %s/%s: %w", slim.Namespace, slim.Name, err)
	}
	pod = lean(pod)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.full[slim.UID] = pod
	return pod, nil
}

// lean takes out of a pod what nobody here reads and may be large. It is another one then.
func lean(pod *corev1.Pod) *corev1.Pod {
	pod = adopted.View(pod)
	pod.ManagedFields, pod.Annotations = nil, nil
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			list[i] = corev1.Container{Name: list[i].Name, Ports: list[i].Ports, VolumeMounts: list[i].VolumeMounts}
		}
	}
	pod.Spec.Volumes, pod.Spec.Affinity = nil, nil
	pod.Spec.EphemeralContainers = adopted.Stubs(pod, patches.Roles...)
	return pod
}

// forget has a pod read anew the next time.
func (c *Catalogue) forget(uid types.UID) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.full, uid)
}

// forgetOthers forgets the pods of a namespace that are no more.
func (c *Catalogue) forgetOthers(namespace string, groups []group) {
	there := map[types.UID]bool{}
	for _, g := range groups {
		for i := range g.pods {
			there[g.pods[i].UID] = true
		}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for uid, pod := range c.full {
		if pod.Namespace == namespace && !there[uid] {
			delete(c.full, uid)
		}
	}
}
