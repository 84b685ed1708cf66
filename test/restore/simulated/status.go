package simulated

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// status is what the kubelet writes of the pod. Conditions of others stay.
func (p *pod) status(now time.Time, before *corev1.PodStatus) corev1.PodStatus {
	s := *before.DeepCopy()
	ready := p.isReady(now)
	s.InitContainerStatuses, s.ContainerStatuses = nil, nil
	initialized := true
	for _, c := range p.inits {
		s.InitContainerStatuses = append(s.InitContainerStatuses, c.status(now, ready))
		initialized = initialized && c.done()
	}
	for _, c := range p.mains {
		s.ContainerStatuses = append(s.ContainerStatuses, c.status(now, ready))
	}
	s.Phase = corev1.PodPending
	if initialized && slices.ContainsFunc(p.mains, func(c *container) bool { return c.state != waiting }) {
		s.Phase = corev1.PodRunning
	}
	if !now.Before(p.began) {
		s.PodIP, s.PodIPs = p.address, []corev1.PodIP{{IP: p.address}}
		s.HostIP = hostAddress
		if s.StartTime == nil {
			s.StartTime = new(metav1.NewTime(p.began).Rfc3339Copy())
		}
	}
	condition(&s, corev1.PodInitialized, initialized, now)
	condition(&s, corev1.ContainersReady, ready, now)
	condition(&s, corev1.PodReady, ready, now)
	return s
}

func condition(s *corev1.PodStatus, kind corev1.PodConditionType, holds bool, now time.Time) {
	status := corev1.ConditionFalse
	if holds {
		status = corev1.ConditionTrue
	}
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == kind {
			if c.Status != status {
				c.Status, c.LastTransitionTime = status, metav1.NewTime(now)
			}
			return
		}
	}
	s.Conditions = append(s.Conditions, corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(now)})
}
