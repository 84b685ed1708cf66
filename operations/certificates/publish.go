package certificates

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// entries are the indices of the webhooks that call our Service. Others in the
// same configuration are another's.
func (o Options) entries(configuration *admissionregistrationv1.MutatingWebhookConfiguration) []int {
	var found []int
	for i, w := range configuration.Webhooks {
		if s := w.ClientConfig.Service; s != nil && s.Name == o.WebhookService && s.Namespace == o.Namespace {
			found = append(found, i)
		}
	}
	return found
}

// caBundlePatch is a strategic merge patch that sets the caBundle of entries,
// which are merged by name (patchMergeKey in k8s.io/api/admissionregistration/v1).
// It carries nothing else, so nothing of what others write is lost.
type caBundlePatch struct {
	Webhooks []caBundleEntry `json:"webhooks"`
}

type caBundleEntry struct {
	Name         string `json:"name"`
	ClientConfig struct {
		CABundle []byte `json:"caBundle"`
	} `json:"clientConfig"`
}

// publish makes our entries carry the bundle. It tells whether it wrote. A
// configuration that is not there (nil) is no error: it comes with an event.
func publish(ctx context.Context, writer client.Client, o Options, configuration *admissionregistrationv1.MutatingWebhookConfiguration, bundle []byte) (bool, error) {
	if configuration == nil {
		return false, nil
	}
	var change caBundlePatch
	for _, i := range o.entries(configuration) {
		if bytes.Equal(configuration.Webhooks[i].ClientConfig.CABundle, bundle) {
			continue
		}
		entry := caBundleEntry{Name: configuration.Webhooks[i].Name}
		entry.ClientConfig.CABundle = bundle
		change.Webhooks = append(change.Webhooks, entry)
	}
	if len(change.Webhooks) == 0 {
		return false, nil
	}
	text, err := json.Marshal(change)
	if err != nil {
		return false, fmt.Errorf("writing the caBundle: %w", err)
	}
	target := &admissionregistrationv1.MutatingWebhookConfiguration{}
	target.Name = configuration.Name
	if err := writer.Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, text), fieldOwner); err != nil {
		return false, fmt.Errorf("writing the caBundle of the MutatingWebhookConfiguration %s: %w", configuration.Name, err)
	}
	return true, nil
}
