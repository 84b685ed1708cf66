package backup

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

// What follows is the cluster as the controller sees it.

func (s *sim) backup(context.Context, types.NamespacedName) (*api.Backup, error) {
	if s.lagging == nil {
		return nil, notFound("b")
	}
	return s.lagging.DeepCopy(), nil
}

func (s *sim) current(context.Context, types.NamespacedName) (*api.Backup, error) {
	if err := s.read(); err != nil {
		return nil, err
	}
	if s.object == nil {
		return nil, notFound("b")
	}
	return s.object.DeepCopy(), nil
}

func (s *sim) namespace(context.Context, string) (labelled, terminating bool, err error) {
	return true, s.ending, nil
}

func (s *sim) going(context.Context, string) (bool, error) { return s.ending, s.read() }

func (s *sim) writeKeep(_ context.Context, b *api.Backup) error {
	return s.effect("keep", func() error {
		if err := s.fresh(b); err != nil {
			return err
		}
		s.object.Spec.DeletionPolicy, s.object.ResourceVersion = api.DeletionKeep, s.bump()
		b.Spec, b.ResourceVersion = *s.object.Spec.DeepCopy(), s.object.ResourceVersion
		return nil
	})
}

func (s *sim) glimpse(_ context.Context, at types.NamespacedName) (glimpse, error) {
	n := s.node(at.Name)
	if n.hidden {
		return glimpse{}, nil
	}
	return n.heard, nil
}

// glimpsed is a pod as the informer will have it.
func (s *sim) glimpsed(n *simNode) glimpse {
	if n.uid == "" {
		return glimpse{}
	}
	return glimpse{there: true, uid: n.uid, version: s.podVersion(n)}
}

func (s *sim) podVersion(n *simNode) string {
	return fmt.Sprint(n.uid, " ", n.runs, " ", !s.now.Before(n.up))
}

func (s *sim) pod(_ context.Context, at types.NamespacedName) (*corev1.Pod, error) {
	if n := s.node(at.Name); n != nil && n.uid != "" {
		return s.simPod(n), s.read()
	}
	return nil, s.read()
}

func (s *sim) pods(context.Context, string, labels.Selector) (list []*corev1.Pod, err error) {
	for _, n := range s.nodes {
		if n.uid != "" {
			list = append(list, s.simPod(n))
		}
	}
	return list, s.read()
}

func (s *sim) set(context.Context, types.NamespacedName) (*appsv1.StatefulSet, error) {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cas", UID: "set"}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(len(s.nodes)))}}, s.read()
}

// simPod is an injected pod of Cassandra's as it is now: one whose containers do not run
// yet has no address.
func (s *sim) simPod(n *simNode) *corev1.Pod {
	pod := inject(bare(n.name))
	pod.UID, pod.ResourceVersion = n.uid, s.podVersion(n)
	pod.Status.PodIP = ""
	if !s.now.Before(n.up) {
		pod.Status.PodIP = fmt.Sprint("10.0.0.", n.runs)
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: patches.ContainerMedusa, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	}
	return pod
}

func bare(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "cas", UID: "set", Controller: new(true)}}},
		Status: corev1.PodStatus{PodIP: "127.0.0.1"}}
}

func inject(pod *corev1.Pod) *corev1.Pod {
	pod.Labels = map[string]string{api.LabelInjected: "cassandra", "app": "cas"}
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: patches.ContainerMedusa, Ports: []corev1.ContainerPort{{Name: node.PortName, ContainerPort: 1}}})
	return pod
}

func (s *sim) writeStatus(_ context.Context, b *api.Backup) error {
	s.requests++
	return s.effect(fmt.Sprintf("status %s %s", b.Status.Phase, b.Status.Message), func() error {
		if err := s.fresh(b); err != nil {
			return err
		}
		s.judge(&s.object.Status, &b.Status)
		s.object.Status = *b.Status.DeepCopy()
		s.object.ResourceVersion = s.bump()
		b.ResourceVersion = s.object.ResourceVersion
		return nil
	})
}

func (s *sim) fresh(b *api.Backup) error {
	switch {
	case s.object == nil:
		return notFound("b")
	case s.object.ResourceVersion != b.ResourceVersion:
		return apierrors.NewConflict(schema.GroupResource{Resource: "backups"}, b.Name, errors.New("it has changed"))
	}
	return nil
}

// judge holds against the controller what it must not write: the rules of the
// CustomResourceDefinition, what is not true, and what comes too late.
func (s *sim) judge(was, is *api.BackupStatus) {
	if was.Phase.Final() && is.Phase != was.Phase && is.Phase != api.BackupDeleting {
		s.wrong("it was %s, and becomes %s", was.Phase, is.Phase)
	}
	if was.Name != "" && (is.Name != was.Name || is.Prefix != was.Prefix) {
		s.wrong("its name changes")
	}
	if len(is.Pods) > 0 && is.Name == "" {
		s.wrong("pods without a name")
	}
	complete := 0
	for i := range is.Pods {
		at := &is.Pods[i]
		if at.Phase != api.PodBackupComplete || s.deleted {
			continue
		}
		complete++
		if n := s.node(at.Name); n.part == nil || !n.part.done || n.part.objects == 0 || int64(n.part.objects) != at.Objects {
			s.wrong("%s is complete with %d objects, and the storage has %+v", at.Name, at.Objects, n.part)
		}
	}
	if s.deleted {
		return
	}
	all := complete == len(is.Pods)
	switch {
	case is.Phase == api.BackupComplete && (!all || complete == 0),
		is.Phase == api.BackupPartial && (all || complete == 0),
		is.Phase == api.BackupFailed && complete > 0,
		is.Phase == api.BackupCancelled && all && complete > 0:
		s.wrong("it is %s with %d of %d complete", is.Phase, complete, len(is.Pods))
	}
	if is.Phase.Final() && is.Phase != was.Phase {
		if late := s.now.Sub(deadline(s.object, is)); late > time30 {
			s.wrong("it is over %v after its timeout", late)
		}
		for i := range is.Pods {
			if !is.Pods[i].Phase.Final() {
				s.wrong("it is %s, and %s is %s", is.Phase, is.Pods[i].Name, is.Pods[i].Phase)
			}
		}
	}
}

func (s *sim) writeFinalizer(_ context.Context, b *api.Backup, on bool) error {
	s.requests++
	return s.effect(fmt.Sprint("finalizer ", on), func() error {
		if err := s.fresh(b); err != nil {
			return err
		}
		s.object.Finalizers = nil
		if on {
			s.object.Finalizers = []string{api.FinalizerBackup}
		} else {
			s.judgeEnd()
		}
		s.object.ResourceVersion = s.bump()
		b.ObjectMeta = *s.object.ObjectMeta.DeepCopy()
		if !on && s.object.DeletionTimestamp != nil {
			s.object = nil
		}
		return nil
	})
}

// judgeEnd holds against the controller that an object goes before its data.
func (s *sim) judgeEnd() {
	if s.object.DeletionTimestamp == nil {
		s.wrong("the finalizer goes, and nobody deletes it")
	}
	if s.object.Keeps() || s.ending {
		return
	}
	for _, n := range s.nodes {
		if n.part != nil {
			s.wrong("the object goes, and the data of %s are there", n.name)
		}
	}
}
