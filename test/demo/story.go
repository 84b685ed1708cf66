package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/test/controlplane/rigged"
)

const (
	cassandraFile = "cassandra/cassandra.yaml"
	annaFile      = "anna/anna.yaml"
	restoreFile   = "cassandra/restore.yaml"
	label         = "stategraft.io/inject=enabled"
	restoring     = "stategraft.io/restore"
)

// story is the demonstration, a method a chapter.
type story struct {
	*printer
	rig       *rigged.Rig
	workloads []*workload
	restored  *workload
}

// kubectl shows a command and runs it.
func (s *story) kubectl(ctx context.Context, args ...string) (string, error) {
	s.command(args...)
	shown := slices.Clone(args)
	for i, arg := range shown { // the file's name is shown as seen from the repository
		if strings.HasPrefix(arg, "deploy/") {
			shown[i] = s.rig.Root + "/" + arg
		}
	}
	return s.rig.Kubectl(ctx, nil, shown...)
}

func (s *story) labelNamespaces(ctx context.Context) error {
	s.heading("One label on a namespace is all that it takes")
	for _, name := range []string{"cassandra", "anna"} {
		s.command("create", "namespace", name)
		if err := s.rig.CreateNamespace(ctx, name, nil, nil); err != nil {
			return err
		}
		if _, err := s.kubectl(ctx, "label", "namespace", name, label); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) applyWorkloads(ctx context.Context) error {
	s.heading("Apply StatefulSets that know nothing of backups")
	cassandra, err := read(s.rig, cassandraFile, patches.ContainerAgent, patches.ContainerSnapshot, patches.ContainerMedusa)
	if err != nil {
		return err
	}
	anna, err := read(s.rig, annaFile, patches.ContainerSetup, patches.ContainerAgent)
	if err != nil {
		return err
	}
	s.workloads = append(cassandra, anna...)
	for _, file := range []string{cassandraFile, annaFile} {
		if _, err := s.kubectl(ctx, "apply", "-f", "deploy/examples/"+file); err != nil {
			return err
		}
	}
	return s.remember(ctx, s.workloads)
}

// remember keeps each StatefulSet as it is right after it was applied.
func (s *story) remember(ctx context.Context, list []*workload) error {
	if len(list) == 0 {
		return errors.New("the examples have no StatefulSet in them")
	}
	for _, w := range list {
		set, err := w.live(ctx, s.rig)
		if err != nil {
			return err
		}
		w.set = set
	}
	return nil
}

func (s *story) showPods(ctx context.Context) error {
	s.heading("What was added to each pod, as it was created")
	for i, w := range s.workloads {
		if i > 0 {
			s.say("")
		}
		if err := s.showPodsOf(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// showPodsOf prints what the first pod of a workload got, and checks that the
// others got the same, and that none lost anything.
func (s *story) showPodsOf(ctx context.Context, w *workload) error {
	pods, err := w.pods(ctx, s.rig)
	if err != nil {
		return err
	}
	var first []addition
	for i, pod := range pods {
		got := additions(&w.set.Spec.Template, pod)
		if names := containerNames(got); !slices.Equal(names, w.adds) {
			return fmt.Errorf("pod %s/%s got the containers %q, and should have got %q", pod.Namespace, pod.Name, names, w.adds)
		}
		if err := kept(&w.set.Spec.Template, pod); err != nil {
			return err
		}
		if i > 0 {
			if !slices.Equal(got, first) {
				return fmt.Errorf("pod %s/%s got something else than %s", pod.Namespace, pod.Name, pods[0].Name)
			}
			s.say("   %s/%s: the same", pod.Namespace, pod.Name)
			continue
		}
		first = got
		s.say("   %s/%s", pod.Namespace, pod.Name)
		for _, a := range got {
			s.say("     + %-15s %-23s %s", a.what, a.name, a.detail)
		}
	}
	return nil
}

func (s *story) showStatefulSets(ctx context.Context) error {
	s.heading("The StatefulSets are as they were applied")
	out, err := s.kubectl(ctx, "get", "statefulset", "--all-namespaces",
		"-o=custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name,GENERATION:.metadata.generation,CONTAINERS:.spec.template.spec.containers[*].name")
	if err != nil {
		return err
	}
	s.indent(out)
	for _, w := range s.workloads {
		live, err := w.live(ctx, s.rig)
		if err != nil {
			return err
		}
		if err := w.unchanged(live); err != nil {
			return err
		}
		s.say("   spec.template of %-19s equal to deploy/examples/%s, equal before and after", w.name(), w.file)
	}
	return nil
}

func (s *story) restore(ctx context.Context) error {
	s.heading("A restore, asked for by an annotation in the template of a second StatefulSet")
	found, err := read(s.rig, restoreFile, patches.ContainerSetup, patches.ContainerRestore,
		patches.ContainerAgent, patches.ContainerSnapshot, patches.ContainerMedusa)
	if err != nil {
		return err
	}
	if _, err := s.kubectl(ctx, "apply", "-f", "deploy/examples/"+restoreFile); err != nil {
		return err
	}
	if err := s.remember(ctx, found); err != nil {
		return err
	}
	s.restored = found[0]
	backup := s.restored.set.Spec.Template.Annotations[restoring]
	s.say("   (annotation %s: %s)\n", restoring, backup)
	if err := s.showPodsOf(ctx, s.restored); err != nil {
		return err
	}
	pods, err := s.restored.pods(ctx, s.rig)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if got := backupOf(pod); got != backup {
			return fmt.Errorf("pod %s/%s would restore %q, and should restore %q", pod.Namespace, pod.Name, got, backup)
		}
	}
	s.say("\n   %s has %s=%s: Cassandra starts once it has ended well.", patches.ContainerRestore, patches.EnvBackup, backup)
	live, err := s.restored.live(ctx, s.rig)
	if err != nil {
		return err
	}
	return s.restored.unchanged(live)
}

// backupOf is what the restore container of a pod is told to restore.
func backupOf(pod *corev1.Pod) string {
	for _, c := range pod.Spec.InitContainers {
		for _, v := range c.Env {
			if c.Name == patches.ContainerRestore && v.Name == patches.EnvBackup {
				return v.Value
			}
		}
	}
	return ""
}

func (s *story) withoutWebhook(ctx context.Context) error {
	s.heading("With the webhook stopped")
	if err := s.rig.Webhook.Stop(ctx); err != nil {
		return err
	}
	plain := s.workloads[0]
	pod, err := s.recreate(ctx, plain)
	if err != nil {
		return err
	}
	if got := additions(&plain.set.Spec.Template, pod); len(got) > 0 {
		return fmt.Errorf("pod %s/%s got something though the webhook is stopped: %v", pod.Namespace, pod.Name, got)
	}
	s.say("   → created as it is written: a database starts also without its backup\n")

	s.command("-n", s.restored.set.Namespace, "delete", "pod", s.restored.set.Name+"-0")
	if err := s.rig.Client.CoreV1().Pods(s.restored.set.Namespace).Delete(ctx, s.restored.set.Name+"-0", metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting a pod: %w", err)
	}
	refusal, err := s.refusal(ctx, s.restored.set)
	if err != nil {
		return err
	}
	s.say("   → not created, and says why: it must not start without the restore that was asked for")
	s.indent(refusal)
	return nil
}

// recreate deletes the first pod of a workload and waits for the next one.
func (s *story) recreate(ctx context.Context, w *workload) (*corev1.Pod, error) {
	name := w.set.Name + "-0"
	pods := s.rig.Client.CoreV1().Pods(w.set.Namespace)
	old, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading a pod: %w", err)
	}
	s.command("-n", w.set.Namespace, "delete", "pod", name)
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return nil, fmt.Errorf("deleting a pod: %w", err)
	}
	var pod *corev1.Pod
	err = poll(ctx, "pod "+w.set.Namespace+"/"+name+" to be created again", func() (err error) {
		if pod, err = pods.Get(ctx, name, metav1.GetOptions{}); err == nil && pod.UID == old.UID {
			err = errors.New("the old one is still there")
		}
		return err
	})
	return pod, err
}

// refusal waits for the event with which the controller says that it could not
// create a pod.
func (s *story) refusal(ctx context.Context, set *appsv1.StatefulSet) (string, error) {
	text := ""
	err := poll(ctx, "the event of the refusal", func() error {
		if _, err := s.rig.Client.CoreV1().Pods(set.Namespace).Get(ctx, set.Name+"-0", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("pod %s/%s-0 is there (%w)", set.Namespace, set.Name, err)
		}
		events, err := s.rig.Client.CoreV1().Events(set.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=FailedCreate"})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if _, cause, ok := strings.Cut(e.Message, "denied request: "); ok && strings.Contains(e.Message, "restore.stategraft.io") {
				text = "event on the StatefulSet: " + cause
				return nil
			}
		}
		return fmt.Errorf("no such event among %d", len(events.Items))
	})
	return text, err
}
