package adopt

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// sources looks for the ConfigMaps and Secrets that containers cannot start without. Of a
// Secret only whether it is there: its content is nobody's here. What is not to be read is
// not spoken of, nor is api.SecretGRPC, which the controller makes.
func (l *Looker) sources(ctx context.Context, pod *corev1.Pod, containers []corev1.EphemeralContainer) {
	if l.Client == nil {
		return
	}
	for i := range containers {
		for _, env := range containers[i].Env {
			switch from := env.ValueFrom; {
			case from == nil:
			case from.ConfigMapKeyRef != nil && !may(from.ConfigMapKeyRef.Optional):
				l.configMap(ctx, pod, from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key)
			case from.SecretKeyRef != nil && !may(from.SecretKeyRef.Optional) && from.SecretKeyRef.Name != api.SecretGRPC:
				l.secret(ctx, pod, from.SecretKeyRef.Name)
			}
		}
	}
}

func may(optional *bool) bool { return optional != nil && *optional }

func (l *Looker) configMap(ctx context.Context, pod *corev1.Pod, name, key string) {
	if !l.first("ConfigMap/" + name + "/" + key) {
		return
	}
	cm := &corev1.ConfigMap{}
	switch err := l.Client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, cm); {
	case apierrors.IsNotFound(err):
		l.lacks(pod, name, fmt.Sprintf("ConfigMap %s of namespace %s is not there", name, pod.Namespace))
	case err == nil:
		_, text := cm.Data[key]
		if _, bytes := cm.BinaryData[key]; !text && !bytes {
			l.lacks(pod, name, fmt.Sprintf("ConfigMap %s of namespace %s has no key %s", name, pod.Namespace, key))
		}
	}
}

func (l *Looker) secret(ctx context.Context, pod *corev1.Pod, name string) {
	if !l.first("Secret/" + name) {
		return
	}
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if apierrors.IsNotFound(l.Client.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, secret)) {
		l.lacks(pod, name, fmt.Sprintf("Secret %s of namespace %s is not there", name, pod.Namespace))
	}
}

// first tells whether something is looked for the first time.
func (l *Looker) first(what string) bool {
	if l.lookups[what] {
		return false
	}
	if l.lookups == nil {
		l.lookups = map[string]bool{}
	}
	l.lookups[what] = true
	return true
}

// lacks notes what is not there. Where no annotation has its name that is a default, of which
// the webhook may have another.
func (l *Looker) lacks(pod *corev1.Pod, name, what string) {
	what += ": the containers wait for it"
	if !names(pod.Annotations, name) && !names(l.Namespace.Annotations, name) {
		what += ", unless the configuration of the webhook names another"
	}
	l.absent = append(l.absent, what)
}

func names(annotations map[string]string, name string) bool {
	return slices.Contains(slices.Collect(maps.Values(annotations)), name)
}
