package check

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// components is what runs of Stategraft.
type components struct {
	install *Installation
	pods    []corev1.Pod // of Stategraft itself; empty where unknown
	// endpoints counts the ready addresses behind the webhook's Service; -1
	// where it has none or they could not be read.
	endpoints int
}

func lookComponents(ctx context.Context, c *Cluster) []Finding {
	found := c.installation(ctx)
	if found.DeploymentsErr != nil {
		return skipped(found.DeploymentsErr)
	}
	see := components{install: found, endpoints: -1}
	var findings []Finding
	if len(found.Deployments) > 0 {
		pods, err := c.Kube.CoreV1().Pods(found.Namespace).List(ctx, metav1.ListOptions{LabelSelector: ownSelector})
		if err != nil { // they only say more about what the Deployments show
			findings = append(findings, skipped(unread(err, right{Verb: "list", Resource: "pods", Namespace: found.Namespace}))...)
		} else {
			see.pods = pods.Items
		}
	}
	if hook, _ := found.webhook(); hook != nil && hook.ClientConfig.Service != nil {
		service := hook.ClientConfig.Service
		slices, err := c.Kube.DiscoveryV1().EndpointSlices(service.Namespace).List(ctx,
			metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service.Name})
		if err != nil {
			findings = append(findings, skipped(unread(err, right{Verb: "list", Group: "discovery.k8s.io", Resource: "endpointslices", Namespace: service.Namespace}))...)
		} else {
			see.endpoints = readyEndpoints(slices.Items)
		}
	}
	return append(judgeComponents(see), findings...)
}

func readyEndpoints(slices []discoveryv1.EndpointSlice) int {
	ready := 0
	for _, slice := range slices {
		for _, endpoint := range slice.Endpoints {
			if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
				ready += len(endpoint.Addresses)
			}
		}
	}
	return ready
}

func judgeComponents(see components) []Finding {
	var findings []Finding
	hook, _ := see.install.webhook()
	behindURL := hook != nil && hook.ClientConfig.Service == nil
	webhook, controller := see.install.part(partWebhook), see.install.part(partController)
	switch {
	case webhook != nil:
		findings = append(findings, judgeDeployment(webhook, see.pods, "pods of labelled namespaces start without backup"))
	case behindURL:
		findings = append(findings, finding(Info, "", "the webhook is called at %s, outside of the cluster", *hook.ClientConfig.URL))
	case hook == nil && see.install.ConfigurationsErr != nil:
		return []Finding{finding(Skip, "", "no Deployment of Stategraft is in sight; whether it is installed cannot be told without the webhook configuration").
			With("ask someone who may read it")}
	default:
		findings = append(findings, finding(Fail, see.install.Namespace, "there is no Deployment of the webhook: pods of labelled namespaces start without backup").
			With("install Stategraft, or take its webhook configuration away"))
	}
	switch {
	case controller != nil:
		findings = append(findings, judgeDeployment(controller, see.pods, "nothing is healed, and no certificate of Stategraft's own is renewed"))
	case !behindURL:
		findings = append(findings, finding(Warn, see.install.Namespace, "there is no Deployment of the controller: nothing is healed, and no certificate of Stategraft's own is renewed").
			With("install the whole of Stategraft"))
	}
	if see.endpoints == 0 && hook != nil && hook.ClientConfig.Service != nil {
		service := hook.ClientConfig.Service
		findings = append(findings, finding(Fail, service.Namespace+"/"+service.Name, "the webhook's Service has no ready endpoint: nobody answers the API server").
			With("kubectl -n %s get pods,endpointslices", service.Namespace))
	}
	return findings
}

// judgeDeployment judges one Deployment; lost says what it means that none of
// its pods is ready.
func judgeDeployment(d *appsv1.Deployment, pods []corev1.Pod, lost string) Finding {
	name := d.Namespace + "/" + d.Name
	wanted, ready := int32(1), d.Status.ReadyReplicas
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	remedy := fmt.Sprintf("kubectl -n %s describe deployment %s; kubectl -n %s logs deployment/%s", d.Namespace, d.Name, d.Namespace, d.Name)
	switch {
	case wanted == 0:
		return finding(Fail, name, "is scaled to 0: %s", lost).With("kubectl -n %s scale deployment %s --replicas=2", d.Namespace, d.Name)
	case ready == 0:
		return finding(Fail, name, "none of %d replicas is ready%s: %s", wanted, stuck(d, pods), lost).With("%s", remedy)
	case ready < wanted:
		return finding(Warn, name, "%d of %d replicas are ready%s", ready, wanted, stuck(d, pods)).With("%s", remedy)
	}
	return finding(OK, name, "%d of %d replicas ready", ready, wanted)
}

// stuck says why pods of the Deployment are not ready, where they tell.
func stuck(d *appsv1.Deployment, pods []corev1.Pod) string {
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return ""
	}
	var why []string
	for i := range pods {
		pod := &pods[i]
		if !selector.Matches(labelSet(pod.Labels)) || podReady(pod) {
			continue
		}
		if condition := podCondition(pod, corev1.PodScheduled); condition != nil && condition.Status == corev1.ConditionFalse {
			why = append(why, pod.Name+": "+condition.Message)
		}
		for _, status := range pod.Status.ContainerStatuses {
			if w := status.State.Waiting; w != nil {
				why = append(why, strings.TrimSpace(pod.Name+": "+w.Reason+" "+w.Message))
			}
		}
	}
	if len(why) == 0 {
		return ""
	}
	return " (" + why[0] + ")"
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func podReady(pod *corev1.Pod) bool {
	condition := podCondition(pod, corev1.PodReady)
	return condition != nil && condition.Status == corev1.ConditionTrue
}
