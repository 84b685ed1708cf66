package check

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func lookRefused(ctx context.Context, c *Cluster) []Finding {
	namespaces, err := c.labelled(ctx)
	if err != nil {
		return skipped(err)
	}
	if len(namespaces) == 0 {
		return c.noneLabelled()
	}
	var findings []Finding
	for i := range namespaces {
		findings = append(findings, c.refusedIn(ctx, namespaces[i].Name)...)
	}
	if len(findings) == 0 {
		return []Finding{finding(OK, "", "no StatefulSet of a labelled namespace lacks pods that were refused")}
	}
	return findings
}

// refusedIn asks for events only of StatefulSets that lack pods.
func (c *Cluster) refusedIn(ctx context.Context, namespace string) []Finding {
	var short []appsv1.StatefulSet
	err := pages(func(o metav1.ListOptions) ([]appsv1.StatefulSet, string, error) {
		list, err := c.Kube.AppsV1().StatefulSets(namespace).List(ctx, o)
		if err != nil {
			return nil, "", unread(err, right{Verb: "list", Group: "apps", Resource: "statefulsets", Namespace: namespace})
		}
		return list.Items, list.Continue, nil
	}, metav1.ListOptions{}, func(set *appsv1.StatefulSet) {
		if set.DeletionTimestamp == nil && set.Status.Replicas < replicas(set) {
			short = append(short, *set)
		}
	})
	if err != nil {
		return skipped(err)
	}
	var findings []Finding
	for i := range short {
		events, err := c.Kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=StatefulSet,involvedObject.name=" + short[i].Name + ",reason=FailedCreate"})
		if err != nil {
			return append(findings, skipped(unread(err, right{Verb: "list", Resource: "events", Namespace: namespace}))...)
		}
		findings = append(findings, judgeRefused(&short[i], events.Items)...)
	}
	return findings
}

func replicas(set *appsv1.StatefulSet) int32 {
	if set.Spec.Replicas == nil {
		return 1
	}
	return *set.Spec.Replicas
}

// judgeRefused says why a StatefulSet that lacks pods does not get them. One
// without such an event is only about to make them.
func judgeRefused(set *appsv1.StatefulSet, events []corev1.Event) []Finding {
	var last *corev1.Event
	for i := range events {
		if last == nil || lastSeen(&events[i]).After(lastSeen(last).Time) {
			last = &events[i]
		}
	}
	if last == nil {
		return nil
	}
	// "create Pod db-0 in StatefulSet db failed error: …" is said by the rest.
	_, why, ok := strings.Cut(last.Message, "failed error: ")
	if !ok {
		why = last.Message
	}
	f := finding(Fail, set.Namespace+"/StatefulSet/"+set.Name, "has %d of %d pods, and the next one is refused: %s", set.Status.Replicas, replicas(set), why)
	if strings.Contains(why, pendingName) {
		return []Finding{f.With("a Restore has yet to restore the pod: see that the webhook runs, and kubectl stategraft restore list -n %s", set.Namespace)}
	}
	if strings.Contains(why, policyName) || strings.Contains(why, webhookName) {
		return []Finding{f.With("the pod asks for a restore that it cannot be given now: see that the webhook runs; docs/reasons.md has the reason")}
	}
	return []Finding{f.With("if it is because of Stategraft's containers, it is admitted without them after a deadline; else change what refuses it, or the pod")}
}

// lastSeen is when an event happened last, in whichever way it was recorded.
func lastSeen(e *corev1.Event) metav1.Time {
	switch {
	case e.Series != nil:
		return metav1.NewTime(e.Series.LastObservedTime.Time)
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp
	case !e.EventTime.IsZero():
		return metav1.NewTime(e.EventTime.Time)
	}
	return e.CreationTimestamp
}
