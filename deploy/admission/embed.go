// Package admission holds the manifests by which the API server calls the
// webhook and refuses a pod whose restore is missing. They are embedded so that
// whatever applies them in a test or a demonstration applies these very files.
package admission

import _ "embed" // for the two files below

// MutatingWebhook is the MutatingWebhookConfiguration, one YAML document.
// Its clientConfig names the Service and has no caBundle: in a cluster
// cert-manager fills that in, elsewhere the caller does.
//
//go:embed mutating-webhook-configuration.yaml
var MutatingWebhook []byte

// RestorePolicy is the ValidatingAdmissionPolicy and its binding, two YAML
// documents.
//
//go:embed restore-policy.yaml
var RestorePolicy []byte
