package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/test/cluster"
)

// Adopts labels the namespace and has its running pods adopted, as the README has it.
func (c *Cassandra) Adopts(ctx context.Context) error {
	for _, args := range [][]string{
		{"label", "namespace", c.Namespace, api.LabelInject + "=" + api.InjectEnabled},
		{"annotate", "namespace", c.Namespace, api.AnnotationAdopt + "=" + api.AdoptRunning},
	} {
		if _, err := c.e.Kubectl(ctx, nil, args...); err != nil {
			return err
		}
	}
	return nil
}

// up tells whether a pod is adopted: it has the label, and its newest parts run.
func up(pod *corev1.Pod) bool {
	parts := adopted.Parts(pod)
	medusa, snapshot := adopted.Newest(parts, patches.RoleMedusa), adopted.Newest(parts, patches.RoleSnapshot)
	return pod.Labels[api.LabelInjected] != "" && medusa != nil && medusa.State() == adopted.Running &&
		snapshot != nil && snapshot.State() == adopted.Running
}

// Adopted waits until a pod is, with a Medusa of a number beyond the one before.
func (c *Cassandra) Adopted(ctx context.Context, ordinal, before int, limit time.Duration) (*corev1.Pod, error) {
	return c.e.Await(ctx, c.Namespace, c.Pod(ordinal), limit, "adopted", func(pod *corev1.Pod) bool {
		return up(pod) && adopted.Newest(adopted.Parts(pod), patches.RoleMedusa).Number > before
	})
}

// part is the newest container of a role in an adopted pod.
func (c *Cassandra) part(ctx context.Context, ordinal int, role patches.Role) (adopted.Part, error) {
	pod, err := c.e.Pod(ctx, c.Namespace, c.Pod(ordinal))
	if err != nil {
		return adopted.Part{}, err
	}
	p := adopted.Newest(adopted.Parts(pod), role)
	if p == nil || p.Status == nil || p.Status.ContainerID == "" {
		return adopted.Part{}, fmt.Errorf("pod %s has no %s that has run:\n%s", pod.Name, role, described(pod))
	}
	return *p, nil
}

// killPart kills all processes of the newest container of a role, and answers its number.
func (c *Cassandra) killPart(ctx context.Context, ordinal int, role patches.Role) (int, error) {
	p, err := c.part(ctx, ordinal, role)
	if err != nil {
		return 0, err
	}
	if err := cluster.KillContainer(p.Status.ContainerID); err != nil {
		return 0, fmt.Errorf("killing %s of %s: %w", p.Container.Name, c.Pod(ordinal), err)
	}
	return p.Number, nil
}

// described says how the containers of adoption do.
func described(pod *corev1.Pod) string {
	var b strings.Builder
	for _, p := range adopted.Parts(pod) {
		fmt.Fprintf(&b, "  %s: %s", p.Container.Name, p.State())
		if p.Status != nil {
			fmt.Fprintf(&b, " %+v", p.Status.State)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Calm watches the pods of the StatefulSet, or of the whole namespace. The function that it answers ends that, and is an
// error where a pod was not Ready for a moment, went, or had a container of its own
// started again.
func (c *Cassandra) Calm(ctx context.Context, all bool) (func() error, error) {
	selector := "app=" + c.Name()
	if all {
		selector = ""
	}
	list, err := c.e.Client.CoreV1().Pods(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	watched, err := c.e.Client.CoreV1().Pods(c.Namespace).Watch(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: list.ResourceVersion})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	if len(list.Items) == 0 {
		cancel()
		return nil, fmt.Errorf("there are no pods %s in namespace %s", selector, c.Namespace)
	}
	seen := calm{before: map[types.UID]*corev1.Pod{}}
	for i := range list.Items {
		if !ready(&list.Items[i]) {
			cancel()
			return nil, fmt.Errorf("pod %s is not Ready to begin with", list.Items[i].Name)
		}
		seen.before[list.Items[i].UID] = &list.Items[i]
	}
	var done sync.WaitGroup
	done.Go(func() {
		for event := range watched.ResultChan() {
			seen.look(event)
		}
	})
	return func() error {
		now, err := c.e.Client.CoreV1().Pods(c.Namespace).List(context.WithoutCancel(ctx), metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			cancel()
			return fmt.Errorf("listing pods: %w", err)
		}
		for i := range now.Items { // a watch that ended early has not missed the end
			seen.look(watch.Event{Type: watch.Modified, Object: &now.Items[i]})
		}
		cancel()
		done.Wait()
		return errors.Join(seen.wrong...)
	}, nil
}

type calm struct {
	mu     sync.Mutex
	before map[types.UID]*corev1.Pod
	wrong  []error
}

func (s *calm) look(event watch.Event) {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.before[pod.UID]
	switch {
	case !known:
		s.wrong = append(s.wrong, fmt.Errorf("pod %s is another one than before", pod.Name))
	case event.Type == watch.Deleted || pod.DeletionTimestamp != nil:
		s.wrong = append(s.wrong, fmt.Errorf("pod %s was deleted", pod.Name))
	case !ready(pod) || !sinceOf(pod).Equal(sinceOf(was)):
		s.wrong = append(s.wrong, fmt.Errorf("pod %s changed its readiness: %+v, before %+v", pod.Name, pod.Status.Conditions, was.Status.Conditions))
	}
	if !known {
		return
	}
	for _, now := range pod.Status.ContainerStatuses {
		i := slices.IndexFunc(was.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == now.Name })
		if i < 0 || was.Status.ContainerStatuses[i].RestartCount != now.RestartCount || was.Status.ContainerStatuses[i].ContainerID != now.ContainerID {
			s.wrong = append(s.wrong, fmt.Errorf("container %s of pod %s is not the one from before: %+v", now.Name, pod.Name, now))
		}
	}
}

// sinceOf is since when a pod is Ready.
func sinceOf(pod *corev1.Pod) *metav1.Time {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			return &pod.Status.Conditions[i].LastTransitionTime
		}
	}
	return nil
}

// users reads and writes all the time. The function that it answers ends that, and tells
// how many requests were answered; it is an error where one was not.
func (c *Cassandra) users(ctx context.Context, copies int) (func() (queries, rows int, longest float64, err error), error) {
	serving := c.Serve(ctx)
	writing, err := c.Writing(ctx, "users", copies)
	if err != nil {
		_, other := serving()
		return nil, errors.Join(err, other)
	}
	return func() (int, int, float64, error) {
		written, err := writing()
		served, err2 := serving()
		failed := 0
		for _, at := range written.Acknowledged {
			if at == 0 {
				failed++
			}
		}
		if failed > 0 {
			err = errors.Join(err, fmt.Errorf("%d of %d writes failed", failed, len(written.Sent)))
		}
		return served.Queries, len(written.Sent), served.Longest, errors.Join(err, err2)
	}, nil
}

// tidy is an error where adoption has left something on a volume.
func (c *Cassandra) tidy(nodes int) error {
	for i := range nodes {
		volume, err := c.Volume(i)
		if err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(volume, patches.DirAdopted)); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is %s on the volume of %s (%v)", patches.DirAdopted, c.Pod(i), err)
		}
	}
	return nil
}
