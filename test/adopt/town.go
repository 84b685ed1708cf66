package adopt

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/test/adopt/simulated"
)

// Town is a namespace with workloads that ran before they could be injected.
type Town struct {
	*Env
	Namespace string
	pods      int
}

// Settle makes a namespace that nobody has labelled, and has the pods of workloads run in
// it, with the ConfigMap and the Secret that their backups will need.
func (e *Env) Settle(ctx context.Context, namespace string, played simulated.Played, sets ...*appsv1.StatefulSet) (*Town, error) {
	town, err := e.Found(ctx, namespace, nil, played)
	if err != nil {
		return nil, err
	}
	if err := town.Configure(ctx); err != nil {
		return nil, err
	}
	return town, town.Run(ctx, sets...)
}

// Found makes the namespace alone.
func (e *Env) Found(ctx context.Context, namespace string, labels map[string]string, played simulated.Played) (*Town, error) {
	e.Kubelet.Play(namespace, played)
	if err := e.CreateNamespace(ctx, namespace, labels, nil); err != nil {
		return nil, err
	}
	return &Town{Env: e, Namespace: namespace}, nil
}

// Configure makes the ConfigMap and the Secret.
func (t *Town) Configure(ctx context.Context) error {
	core := t.Client.CoreV1()
	_, err := core.ConfigMaps(t.Namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "medusa"},
		Data: map[string]string{"medusa.ini": "[storage]\nstorage_provider = local\nbucket_name = b\nbase_path = /tmp\n"}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making the ConfigMap: %w", err)
	}
	return t.Credentials(ctx)
}

// Credentials makes the Secret.
func (t *Town) Credentials(ctx context.Context) error {
	_, err := t.Client.CoreV1().Secrets(t.Namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "medusa-bucket-key"},
		StringData: map[string]string{"credentials": "none"}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making the Secret: %w", err)
	}
	return nil
}

// Run has the pods of workloads run.
func (t *Town) Run(ctx context.Context, sets ...*appsv1.StatefulSet) error {
	for _, set := range sets {
		if _, err := t.Client.AppsV1().StatefulSets(t.Namespace).Create(ctx, set, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("making StatefulSet %s: %w", set.Name, err)
		}
		t.pods += int(*set.Spec.Replicas)
	}
	return await(ctx, 4*time.Minute, fmt.Sprintf("%d pods of %s to run", t.pods, t.Namespace), func(ctx context.Context) (bool, error) {
		pods, err := t.Pods(ctx)
		running := 0
		for i := range pods {
			if pods[i].Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return running == t.pods, err
	})
}

// Label allows injection in the namespace, and asks for adoption there where it is to be.
func (t *Town) Label(ctx context.Context, adopt string) error {
	metadata := fmt.Sprintf(`{"metadata": {"labels": {%q: %q}, "annotations": {%q: %q}}}`, api.LabelInject, api.InjectEnabled, api.AnnotationAdopt, adopt)
	if adopt == "" {
		metadata = fmt.Sprintf(`{"metadata": {"labels": {%q: %q}}}`, api.LabelInject, api.InjectEnabled)
	}
	_, err := t.Client.CoreV1().Namespaces().Patch(ctx, t.Namespace, types.MergePatchType, []byte(metadata), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("labelling namespace %s: %w", t.Namespace, err)
	}
	return nil
}

// Pods are those that are there.
func (t *Town) Pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := t.Client.CoreV1().Pods(t.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %s: %w", t.Namespace, err)
	}
	return list.Items, nil
}

// Pod reads one.
func (t *Town) Pod(ctx context.Context, name string) (*corev1.Pod, error) {
	pod, err := t.Client.CoreV1().Pods(t.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading pod %s/%s: %w", t.Namespace, name, err)
	}
	return pod, nil
}

// Told are the messages of the events of a pod, by reason.
func (t *Town) Told(ctx context.Context, pod string) (map[string]string, error) {
	list, err := t.Client.CoreV1().Events(t.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the events of %s: %w", t.Namespace, err)
	}
	told := map[string]string{}
	for _, event := range list.Items {
		if event.InvolvedObject.Kind == "Pod" && event.InvolvedObject.Name == pod {
			told[event.Reason] = strings.TrimSpace(told[event.Reason] + " " + event.Message)
		}
	}
	return told, nil
}

// Leave removes all that is in the namespace, so that others are not counted with it.
func (t *Town) Leave(ctx context.Context) error {
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if err := t.Client.AppsV1().StatefulSets(t.Namespace).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("removing the StatefulSets of %s: %w", t.Namespace, err)
	}
	return await(ctx, 3*time.Minute, "the pods of "+t.Namespace+" to go", func(ctx context.Context) (bool, error) {
		pods, err := t.Pods(ctx)
		return len(pods) == 0, err
	})
}
