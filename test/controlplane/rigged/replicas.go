package rigged

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AddWebhook starts another replica of the webhook, with the certificate and the
// configuration of the first. It finds the API server at the given address, such as
// https://127.0.0.1:1234, or where the others do if that is empty. The API server
// does not call it by itself: see Direct.
func (r *Rig) AddWebhook(ctx context.Context, through string) (*Webhook, error) {
	if r.Controller == nil {
		return nil, errors.New("another webhook needs the controller's certificate")
	}
	first, number := r.Webhook, len(r.replicas)+2
	w := &Webhook{process: process{name: fmt.Sprintf("the webhook %d", number), program: first.program},
		CA: first.CA, ConfigFile: first.ConfigFile, serverName: first.serverName, certDir: first.certDir}
	w.args = w.arguments
	var err error
	if w.kubeconfig, err = r.accountAt(ctx, webhookAccount, through, fmt.Sprintf("%s-%d", webhookAccount, number)); err != nil {
		return nil, err
	}
	if err := w.startOnFreePorts(ctx, &w.port); err != nil {
		return nil, err
	}
	r.replicas = append(r.replicas, &w.process)
	return w, nil
}

// AddController starts another replica of the controllers.
func (r *Rig) AddController(ctx context.Context, more []string) (*Controller, error) {
	number := len(r.replicas) + 2
	kubeconfig, err := r.accountAt(ctx, controllerAccount, "", fmt.Sprintf("%s-%d", controllerAccount, number))
	if err != nil {
		return nil, err
	}
	c := r.controller(fmt.Sprintf("the controller %d", number), kubeconfig, more)
	if err := c.startOnFreePorts(ctx); err != nil {
		return nil, err
	}
	r.replicas = append(r.replicas, &c.process)
	return c, nil
}

// Port is where it serves.
func (w *Webhook) Port() int { return w.port }

// Direct has the API server call a port of this machine in place of the webhook's,
// such as one that shares the calls out among replicas.
func (r *Rig) Direct(ctx context.Context, port int) error {
	patch := fmt.Appendf(nil, `[{"op": "replace", "path": "/webhooks/0/clientConfig/service/port", "value": %d}]`, port)
	_, err := r.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(ctx, configurationName,
		types.JSONPatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("directing the MutatingWebhookConfiguration: %w", err)
	}
	return nil
}

// kubeconfigFile is where the kubeconfig of a process is.
func (r *Rig) kubeconfigFile(name string) string { return filepath.Join(r.dir, name+".kubeconfig") }
