package webhook

import (
	"fmt"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// order is what a Restore has to do with a pod of the name; zero for nothing. A pod
// that has no name yet is one whose name nobody could have asked for.
func (in *Input) order(pod string) api.Order {
	if in.Order == nil || pod == "" {
		return api.Order{}
	}
	order, ok := in.Order(in.Namespace.Name, pod)
	if !ok {
		return api.Order{}
	}
	return order
}

// refuseOrder turns a decision into a refusal: the pod is not to start before what a
// Restore asks for is done, and that cannot be.
func (o *Outcome) refuseOrder(order *api.Order, namespace string) {
	o.Verdict, o.Patch = workload.Refuse, nil
	o.Message = fmt.Sprintf("Restore %s cannot be carried out on this pod: %s; to have it start with what is on its volume: %s",
		workload.Short(order.Restore), o.Message, cancelling(order, namespace))
}

// bothAsk says that the pod is asked to be restored twice over.
func bothAsk(pod *workload.Pod, order *api.Order, namespace string) string {
	return fmt.Sprintf("the pod is to be restored by Restore %s, and by annotation %s: %s in its template as well; take the annotation out of the template, or end the Restore: %s",
		workload.Short(order.Restore), api.AnnotationRestore, workload.Short(pod.Metadata.Annotations[api.AnnotationRestore]), cancelling(order, namespace))
}

// cancelling is the command that ends a Restore.
func cancelling(order *api.Order, namespace string) string {
	command := "kubectl stategraft restore cancel " + order.Restore
	if namespace != "" { // of a file it is not known
		command += " -n " + namespace
	}
	return command
}
