// Package adopt asks for the adoption of pods that run, and tells how it does: what
// kubectl stategraft adopt does. It writes annotations on pods and nothing else; the
// controller (operations/adopt) adds the containers. Whether it can is told by the same
// functions that the controller goes by.
//
//	adopt.go    what is written, and where it may be
//	look.go     how pods stand to adoption
//	sources.go  the ConfigMaps and Secrets that its containers wait for
//	parts.go    the containers that a pod was given
//	table.go    the plan, and the same for programs
//	follow.go   pods until they have their sidecars
//	events.go   what the controller says of them
package adopt

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/operations/scope"
)

// Asked is what is asked for.
type Asked struct {
	Never bool   // not to be adopted, whatever the namespace says
	Renew string // value of api.AnnotationAdoptRenew, to have new containers; empty for none
}

// RenewAt is a value for Asked.Renew that was not there before.
func RenewAt(now time.Time) string { return now.UTC().Format("2006-01-02T15:04:05.000Z") }

// Already tells whether a pod says so itself.
func (a Asked) Already(pod *corev1.Pod) bool {
	for key, value := range a.annotations() {
		if has, ok := pod.Annotations[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// annotations are what is written on the pod. Who wants new containers wants the pod
// adopted.
func (a Asked) annotations() map[string]string {
	switch {
	case a.Never:
		return map[string]string{api.AnnotationAdopt: api.AdoptNever}
	case a.Renew != "":
		return map[string]string{api.AnnotationAdopt: api.AdoptRunning, api.AnnotationAdoptRenew: a.Renew}
	}
	return map[string]string{api.AnnotationAdopt: api.AdoptRunning}
}

// Write asks on a pod. One that was created anew since it was read is left as it is. The
// template that pods are made of is never written: what comes of it is injected.
func Write(ctx context.Context, c client.Client, pod *corev1.Pod, a Asked) error {
	if a.Already(pod) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": a.annotations()}})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	to := &corev1.Pod{}
	to.Namespace, to.Name = pod.Namespace, pod.Name
	err = c.Patch(ctx, to, client.RawPatch(types.MergePatchType, patch))
	// A uid that is another's is no valid change of it
	// (k8s.io/kubernetes/pkg/controller/controller_ref_manager.go, releasing a pod).
	if apierrors.IsConflict(err) || apierrors.IsInvalid(err) && strings.Contains(err.Error(), "metadata.uid") {
		return fmt.Errorf("pod %s was created anew meanwhile, and is injected by that; ask again if it was not", pod.Name)
	}
	return ask.Explain(err, "patch", "pods", pod.Namespace, pod.Name)
}

// Namespace reads the namespace of the pods, and refuses one in which nothing is adopted.
// Who may not read it gets one with the label, and the note that this is not known.
func Namespace(ctx context.Context, c client.Reader, name string) (ns *corev1.Namespace, note string, err error) {
	ns = &corev1.Namespace{}
	err = c.Get(ctx, client.ObjectKey{Name: name}, ns)
	switch {
	case apierrors.IsForbidden(err):
		ns.Name, ns.Labels = name, map[string]string{api.LabelInject: api.InjectEnabled}
		return ns, fmt.Sprintf("You have no right to read namespace %s: whether it has the label %s=%s, without which nothing is adopted, is not known here.", name, api.LabelInject, api.InjectEnabled), nil
	case apierrors.IsNotFound(err):
		return nil, "", fmt.Errorf("there is no namespace %q", name)
	case err != nil:
		return nil, "", ask.Explain(err, "get", ask.Namespaces, "", name)
	case scope.LeftOut(name, ""):
		return nil, "", fmt.Errorf("namespace %s is one of Kubernetes' own, and left alone: nothing in it is adopted", name)
	case !scope.Asks(ns, ""):
		return nil, "", fmt.Errorf("namespace %[1]s does not have the label %[2]s=%[3]s, and nothing in it is adopted: kubectl label namespace %[1]s %[2]s=%[3]s, then ask again. "+
			"With it pods that are created from then on are injected; those that run stay as they are until they are adopted or created anew", name, api.LabelInject, api.InjectEnabled)
	}
	return ns, "", nil
}
