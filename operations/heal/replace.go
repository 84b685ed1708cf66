package heal

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// place replaces a Pending pod if there is room for it without us only.
func (r *podReconciler) place(ctx context.Context, pod *corev1.Pod, v verdict) (reconcile.Result, error) {
	condition := conditionOf(pod, corev1.PodScheduled)
	said, _ := parseUnschedulable(condition.Message)
	places, err := r.survey.look(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	node, fault := ourFault(pod, said, places)
	if !fault {
		return r.again(v.at), nil
	}
	coming, err := r.nodeComing(ctx, pod)
	if err != nil || coming {
		return r.again(v.at), err
	}
	return r.replace(ctx, pod, r.entry(pod, api.CauseUnschedulable, nil,
		fmt.Sprintf("node %s has room for it without Stategraft's containers, none with them", node)))
}

// nodeComing tells whether an autoscaler said lately that it makes a node for the
// pod (cluster-autoscaler's TriggeredScaleUp, Karpenter's Nominated). It gets the
// time that a node takes.
func (r *podReconciler) nodeComing(ctx context.Context, pod *corev1.Pod) (bool, error) {
	const takes = 10 * time.Minute
	for _, reason := range []string{"TriggeredScaleUp", "Nominated"} {
		said, err := eventsAbout(ctx, r.live, pod.Namespace, pod.UID, reason)
		if err != nil {
			return false, err
		}
		if r.now().Sub(said.last) < takes {
			return true, nil
		}
	}
	return false, nil
}

// replace holds a workload back and deletes a pod of it that has never run, so
// that its owner creates it without us. One that nobody would create again stays.
func (r *podReconciler) replace(ctx context.Context, pod *corev1.Pod, entry api.HeldBack) (reconcile.Result, error) {
	annotations, err := annotationsOf(ctx, r.cached, pod.Namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	if pod.Annotations[api.AnnotationHeldBack] == api.HeldBackIgnore || annotations[api.AnnotationHeldBack] == api.HeldBackIgnore {
		return reconcile.Result{}, nil // as it is wanted
	}
	owner, controlled := ownerOf(pod)
	before, held, err := r.store.find(ctx, pod.Namespace, owner.Kind, owner.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if held && unheeded(before, pod.CreationTimestamp.Time) { // the next would be injected again
		r.log.Info("a pod is not replaced: it was injected although its workload was held back", "namespace", pod.Namespace, "pod", pod.Name, "cause", entry.Cause)
		return reconcile.Result{RequeueAfter: longestPlacing}, nil
	}
	if err := r.hold(ctx, pod, entry); err != nil {
		if notHeld(err) { // the next would be injected again
			return reconcile.Result{RequeueAfter: longestPlacing}, nil
		}
		return reconcile.Result{}, err
	}
	if !controlled {
		return reconcile.Result{}, nil // the event of hold is about the pod itself
	}
	if err := r.pods.remove(ctx, pod); err != nil {
		return reconcile.Result{}, err
	}
	healed.WithLabelValues(string(entry.Cause), "").Inc()
	r.log.Info("pod replaced", "namespace", pod.Namespace, "pod", pod.Name, "cause", entry.Cause, "message", entry.Message)
	r.tell.warn(referenceTo(pod), &owner, eventReplaced, "deleted before it ever ran, to be created without Stategraft's containers: %s", entry.Message)
	return reconcile.Result{}, nil
}

// unheeded tells whether a pod that is injected was created while its workload was
// held back, whatever would be injected: the webhook does not heed the entry, as
// where its configuration says so for all pods.
func unheeded(entry api.HeldBack, created time.Time) bool {
	return len(entry.Containers) == 0 && entry.Trial == nil && created.After(entry.Since.Add(known)) && entry.Active(created)
}
