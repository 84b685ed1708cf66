package check

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

// unrestored finds pods that ask for a restore in namespaces where the webhook does
// not see them, and run without it. The policy refuses such pods at their creation;
// these were made before there was one, or got the annotation since. Annotations
// cannot be selected by, so that the heads of all pods are read, and the few that
// ask are read in full.
func (c *Cluster) unrestored(ctx context.Context) []Finding {
	all, err := c.namespaces(ctx)
	if err != nil {
		return skipped(err)
	}
	unlabelled := map[string]string{} // the label's value, by namespace
	for i := range all {
		if value := all[i].Labels[api.LabelInject]; value != api.InjectEnabled {
			unlabelled[all[i].Name] = value
		}
	}
	var asking []metav1.ObjectMeta
	err = c.podMetadata(ctx, metav1.ListOptions{}, func(pod *metav1.PartialObjectMetadata) {
		_, asks := pod.Annotations[api.AnnotationRestore]
		if _, unseen := unlabelled[pod.Namespace]; asks && unseen && pod.DeletionTimestamp == nil {
			asking = append(asking, metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name})
		}
	})
	if err != nil {
		return skipped(err)
	}
	var findings []Finding
	for _, at := range asking {
		pod, err := c.Kube.CoreV1().Pods(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err): // gone since
		case err != nil:
			return append(findings, skipped(unread(err, right{Verb: "get", Resource: "pods", Namespace: at.Namespace}))...)
		default:
			findings = append(findings, judgeUnrestored(pod, unlabelled[at.Namespace])...)
		}
	}
	return findings
}

// judgeUnrestored judges a pod that asks for a restore in a namespace whose label
// has another value than the one that is read, or none.
func judgeUnrestored(pod *corev1.Pod, value string) []Finding {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == patches.ContainerRestore {
			return nil
		}
	}
	label := "is not labelled"
	if value != "" {
		label += " (" + api.LabelInject + " is " + value + ")"
	}
	return []Finding{finding(Fail, pod.Namespace+"/"+pod.Name, "asks for a restore and its namespace %s: it runs without, and was made before the annotation or before the policy", label).
		With("kubectl label --overwrite namespace %s %s=%s, then restore into an empty volume: delete the pod and its claim; or take the annotation %s off",
			pod.Namespace, api.LabelInject, api.InjectEnabled, api.AnnotationRestore)}
}
