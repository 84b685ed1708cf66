package check

import (
	"context"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// How an installation is found: the webhook's name within its configuration,
// which the webhook's own code does not choose, and the labels of the chart.
const (
	webhookName = "pods.stategraft.io"
	ownSelector = "app.kubernetes.io/name=stategraft"
	labelPart   = "app.kubernetes.io/component"

	partWebhook    = "webhook"
	partController = "controller"

	// DefaultNamespace is where Stategraft is installed unless said otherwise.
	DefaultNamespace = "stategraft"
)

// Mode is what the check is for.
type Mode string

// The modes.
const (
	// Preflight is before the installation: can it be installed?
	Preflight Mode = "preflight"
	// Doctor is after it: does it work?
	Doctor Mode = "doctor"
)

// Installation is what is there of Stategraft.
type Installation struct {
	// Namespace is Stategraft's own.
	Namespace string
	// Configurations have our webhook; more than one is a fault.
	Configurations []admissionregistrationv1.MutatingWebhookConfiguration
	// Deployments are those in Namespace.
	Deployments []appsv1.Deployment

	// Why the two could not be read; nil where they could.
	ConfigurationsErr, DeploymentsErr error
}

// Mode is Doctor where something of Stategraft is there, or where nobody can
// tell: then what is missing is said item by item.
func (i *Installation) Mode() Mode {
	if len(i.Configurations) > 0 || len(i.Deployments) > 0 || i.Unknown() {
		return Doctor
	}
	return Preflight
}

// Unknown says that it cannot be told whether Stategraft is installed.
func (i *Installation) Unknown() bool {
	return len(i.Configurations) == 0 && len(i.Deployments) == 0 && (i.ConfigurationsErr != nil || i.DeploymentsErr != nil)
}

// webhook gives our webhook and the configuration that it is in.
func (i *Installation) webhook() (*admissionregistrationv1.MutatingWebhook, *admissionregistrationv1.MutatingWebhookConfiguration) {
	for at := range i.Configurations {
		if hook := ours(&i.Configurations[at]); hook != nil {
			return hook, &i.Configurations[at]
		}
	}
	return nil, nil
}

// part finds a Deployment by its component.
func (i *Installation) part(component string) *appsv1.Deployment {
	for at := range i.Deployments {
		if i.Deployments[at].Labels[labelPart] == component {
			return &i.Deployments[at]
		}
	}
	return nil
}

func ours(config *admissionregistrationv1.MutatingWebhookConfiguration) *admissionregistrationv1.MutatingWebhook {
	at := slices.IndexFunc(config.Webhooks, func(h admissionregistrationv1.MutatingWebhook) bool { return h.Name == webhookName })
	if at < 0 {
		return nil
	}
	return &config.Webhooks[at]
}

// installation looks for Stategraft. The namespace is where the webhook's
// Service is; behind a URL it is where the Deployments are, if there are any.
func (c *Cluster) installation(ctx context.Context) *Installation {
	found, _ := c.install.get(func() (*Installation, error) {
		found := &Installation{Namespace: DefaultNamespace}
		configs, err := c.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
		if found.ConfigurationsErr = unread(err, right{Verb: "list", Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}); err == nil {
			for _, config := range configs.Items {
				if ours(&config) != nil {
					found.Configurations = append(found.Configurations, config)
				}
			}
		}
		in := metav1.NamespaceAll
		if hook, _ := found.webhook(); hook != nil && hook.ClientConfig.Service != nil {
			in = hook.ClientConfig.Service.Namespace
			found.Namespace = in
		}
		deployments, err := c.Kube.AppsV1().Deployments(in).List(ctx, metav1.ListOptions{LabelSelector: ownSelector})
		if forbidden(err) && in == metav1.NamespaceAll { // who may not see all may see the usual one
			in = DefaultNamespace
			deployments, err = c.Kube.AppsV1().Deployments(in).List(ctx, metav1.ListOptions{LabelSelector: ownSelector})
		}
		if found.DeploymentsErr = unread(err, right{Verb: "list", Group: "apps", Resource: "deployments", Namespace: in}); err == nil && len(deployments.Items) > 0 {
			found.Namespace = deployments.Items[0].Namespace
			found.Deployments = slices.DeleteFunc(deployments.Items, func(d appsv1.Deployment) bool { return d.Namespace != found.Namespace })
		}
		return found, nil
	})
	return found
}
