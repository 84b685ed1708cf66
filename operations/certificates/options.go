package certificates

import (
	"fmt"
	"time"

	"github.com/stategraft/stategraft/certs"
)

// Mode is where the authority comes from.
type Mode string

// The modes.
const (
	SelfSigned  Mode = "self-signed"  // an authority of our own
	CertManager Mode = "cert-manager" // Secrets that cert-manager fills
)

// The Secrets, in the namespace of Stategraft but for the last one.
const (
	// SecretAuthority holds the authority; only the controllers read it.
	SecretAuthority = "stategraft-ca"
	// SecretServing holds the webhook's serving pair, which its pods mount.
	SecretServing = "stategraft-webhook-tls"
	// SecretGRPC holds, in each labelled namespace, the pair of the sidecars'
	// gRPC services there, which the pods mount.
	SecretGRPC = "stategraft-grpc"
)

// Options say what to keep. Durations that are zero have defaults.
type Options struct {
	Mode Mode
	// Namespace is that of Stategraft.
	Namespace string
	// WebhookService and WebhookConfiguration name the webhook's Service and the
	// MutatingWebhookConfiguration that calls it. Both are used in self-signed mode
	// only.
	WebhookService, WebhookConfiguration string
	// CAValidity (self-signed mode only) and Validity are the lives of the
	// authority and of the pairs. Both are renewed when two thirds are over.
	CAValidity, Validity time.Duration
	// Source is who signs, where another controller needs it too; nil for one of
	// its own.
	Source *Source
}

// Defaults of the names and durations.
const (
	DefaultWebhookService       = "stategraft-webhook"
	DefaultWebhookConfiguration = "stategraft"
	DefaultCAValidity           = 43800 * time.Hour // five years
	DefaultValidity             = 2160 * time.Hour  // ninety days
)

// Check tells what is wrong with the options, before anything is started with
// them; nil where nothing is.
func (o Options) Check() error {
	_, err := o.withDefaults()
	return err
}

func (o Options) withDefaults() (Options, error) {
	if o.WebhookService == "" {
		o.WebhookService = DefaultWebhookService
	}
	if o.WebhookConfiguration == "" {
		o.WebhookConfiguration = DefaultWebhookConfiguration
	}
	if o.CAValidity == 0 {
		o.CAValidity = DefaultCAValidity
	}
	if o.Validity == 0 {
		o.Validity = DefaultValidity
	}
	if o.Mode != SelfSigned && o.Mode != CertManager {
		return o, fmt.Errorf("the source of certificates is %q; it has to be %s or %s", o.Mode, SelfSigned, CertManager)
	}
	if o.Namespace == "" {
		return o, fmt.Errorf("the namespace of Stategraft is not known")
	}
	return o, o.policy().Check()
}

func (o Options) policy() certs.Policy {
	return certs.Policy{CAValidity: o.CAValidity, Validity: o.Validity, Service: o.WebhookService, Namespace: o.Namespace}
}
