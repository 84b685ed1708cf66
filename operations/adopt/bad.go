package adopt

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/scope"
	"github.com/stategraft/stategraft/operations/telling"
	"github.com/stategraft/stategraft/workload"
)

// bad are the values of annotation api.AnnotationAdopt that nobody can follow, each told once:
// what asks for nothing would pass unnoticed on a pod that runs.
type bad struct {
	told map[types.UID]string // the value, by what bears it
	seen map[types.UID]bool   // at this look
}

// begin begins a look, and end forgets what was not seen at it.
func (b *bad) begin() { b.seen = map[types.UID]bool{} }

func (b *bad) end() {
	maps.DeleteFunc(b.told, func(uid types.UID, _ string) bool { return !b.seen[uid] })
}

// news takes over the value of an object, and tells whether it is to be told.
func (b *bad) news(uid types.UID, value string) bool {
	if b.told == nil {
		b.told = map[types.UID]string{}
	}
	before, said := b.told[uid]
	b.told[uid], b.seen[uid] = value, true
	return !said || before != value
}

// tellBad says on a pod or a namespace that its annotation cannot be followed.
func (c *controller) tellBad(kind string, object metav1.Object) {
	value, ok := object.GetAnnotations()[api.AnnotationAdopt]
	if !ok || value == api.AdoptRunning || value == api.AdoptNever {
		return
	}
	c.warn(kind, object, value, fmt.Sprintf("annotation %s is %q, and takes %s or %s: nothing is adopted by it until it is corrected", api.AnnotationAdopt, workload.Short(value), api.AdoptRunning, api.AdoptNever))
}

// tellUnlabelled says on a namespace whose annotation asks for adoption that the label is
// missing that allows it.
func (c *controller) tellUnlabelled(namespace metav1.Object) {
	if namespace.GetAnnotations()[api.AnnotationAdopt] != api.AdoptRunning || scope.LeftOut(namespace.GetName(), c.Namespace) {
		return
	}
	c.warn("Namespace", namespace, "without the label", fmt.Sprintf("annotation %s asks for adoption, and nothing is adopted without label %[2]s=%[3]s: kubectl label namespace %[4]s %[2]s=%[3]s",
		api.AnnotationAdopt, api.LabelInject, api.InjectEnabled, namespace.GetName()))
}

// warn says on a pod or a namespace, once for each value, what is wrong with its annotation.
func (c *controller) warn(kind string, object metav1.Object, value, note string) {
	if !c.bad.news(object.GetUID(), value) {
		return
	}
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()}
	c.events.Eventf(about, nil, corev1.EventTypeWarning, eventBad, telling.Action("Adopt", note), "%s", workload.Clip(note, noteLimit))
}
