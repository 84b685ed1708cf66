package rigged

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/deploy"
	"github.com/stategraft/stategraft/patches"
)

// register applies the policies and the webhook's configuration as they are
// deployed, and waits until the API server acts by them, which it does some time
// after they are written.
func (r *Rig) register(ctx context.Context) error {
	const probe = "stategraft-probe"
	if err := r.CreateNamespace(ctx, probe, map[string]string{api.LabelInject: api.InjectEnabled}, nil); err != nil {
		return err
	}
	policies, err := deploy.Pick(deploy.SelfSigned, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
	if err != nil {
		return err
	}
	if _, err := r.Kubectl(ctx, bytes.NewReader(policies), "apply", "-f", "-"); err != nil {
		return fmt.Errorf("applying the policies: %w", err)
	}
	// Nobody adds the restore container yet, so the policy has to refuse.
	if err := poll(ctx, "the restore policy to be in force", func() (bool, error) {
		_, err := r.dryRun(ctx, probe)
		return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy"), unexpected(err)
	}); err != nil {
		return err
	}
	if r.Controller != nil {
		err = r.Direct(ctx, r.Webhook.port)
	} else {
		err = r.registerURL(ctx)
	}
	if err != nil {
		return err
	}
	if err := r.AwaitInjection(ctx, probe); err != nil {
		return err
	}
	if err := r.Client.CoreV1().Namespaces().Delete(ctx, probe, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("removing the probe's namespace: %w", err)
	}
	return nil
}

// configuration is the webhook's, as it is deployed.
func configuration() (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	text, err := deploy.Pick(deploy.SelfSigned, "MutatingWebhookConfiguration/"+configurationName)
	if err != nil {
		return nil, err
	}
	var config admissionregistrationv1.MutatingWebhookConfiguration
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		return nil, fmt.Errorf("reading the MutatingWebhookConfiguration: %w", err)
	}
	return &config, nil
}

const configurationName = "stategraft"

// registerURL has the API server call an address on this machine.
func (r *Rig) registerURL(ctx context.Context) error {
	config, err := configuration()
	if err != nil {
		return err
	}
	url := r.Webhook.URL()
	for i := range config.Webhooks {
		config.Webhooks[i].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: r.Webhook.CA}
	}
	return r.createConfiguration(ctx, config)
}

// registerService has the API server call the Service of the manifest, whose
// certificate the controller makes: one that stands for this machine, as there
// are no pods. Nothing listens on the port yet.
func (r *Rig) registerService(ctx context.Context) error {
	config, err := configuration()
	if err != nil {
		return err
	}
	nobody := int32(1)
	for i := range config.Webhooks {
		config.Webhooks[i].ClientConfig.Service.Port = &nobody
	}
	// The API server makes an address of the name without asking a resolver.
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: webhookAccount},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: loopback}}
	if _, err := r.Client.CoreV1().Services(homeNamespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the Service: %w", err)
	}
	return r.createConfiguration(ctx, config)
}

func (r *Rig) createConfiguration(ctx context.Context, config *admissionregistrationv1.MutatingWebhookConfiguration) error {
	if _, err := r.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, config, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the MutatingWebhookConfiguration: %w", err)
	}
	return nil
}

// AwaitInjection waits until a pod of the labelled namespace that asks for a
// restore is created with it, on a dry run.
func (r *Rig) AwaitInjection(ctx context.Context, namespace string) error {
	return poll(ctx, "the API server to call the webhook", func() (bool, error) {
		pod, err := r.dryRun(ctx, namespace)
		if err != nil {
			return false, unexpected(err)
		}
		for _, c := range pod.Spec.InitContainers {
			if c.Name == patches.ContainerRestore {
				return true, nil
			}
		}
		return false, nil
	})
}

// unexpected drops the errors that end by waiting: a refusal of the policy, and
// the ServiceAccount that a controller is about to make.
func unexpected(err error) error {
	if err == nil || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// dryRun asks what would become of a Cassandra pod that asks for a restore.
func (r *Rig) dryRun(ctx context.Context, namespace string) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "probe-0", Annotations: map[string]string{api.AnnotationRestore: "probe"}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "cassandra", Image: "cassandra:5.0",
				Ports:        []corev1.ContainerPort{{ContainerPort: 9042}, {ContainerPort: 7000}},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/cassandra"}}}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-probe-0"}}}},
		},
	}
	return r.Client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// CreateNamespace makes a namespace and waits for its ServiceAccount "default",
// without which no pod can be created in it.
func (r *Rig) CreateNamespace(ctx context.Context, name string, labels, annotations map[string]string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations}}
	if _, err := r.Client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	return poll(ctx, "the ServiceAccount default of namespace "+name, func() (bool, error) {
		_, err := r.Client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}
