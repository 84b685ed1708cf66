package check

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// certificateResource is cert-manager's Certificate.
var certificateResource = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}

// annotationInject has cert-manager's cainjector write the caBundle.
const annotationInject = "cert-manager.io/inject-ca-from"

func lookCertManager(ctx context.Context, c *Cluster) []Finding {
	there, err := c.serves(ctx, certificateResource.GroupVersion().String(), certificateResource.Resource)
	if err != nil {
		return skipped(err)
	}
	found := c.installation(ctx)
	if found.Mode() == Preflight {
		return judgeCertManagerBefore(there)
	}
	_, config := found.webhook()
	if config == nil {
		if there {
			return []Finding{finding(OK, "", "cert-manager is there")}
		}
		return []Finding{finding(OK, "", "no cert-manager")}
	}
	if config.Annotations[annotationInject] == "" {
		return []Finding{finding(OK, "", "not used: the certificates are Stategraft's own")}
	}
	if !there {
		return judgeCertificates(false, nil)
	}
	list, err := c.Dynamic.Resource(certificateResource).Namespace(found.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return skipped(unread(err, right{Verb: "list", Group: "cert-manager.io", Resource: "certificates", Namespace: found.Namespace}))
	}
	var certificates []unstructured.Unstructured
	if list != nil {
		certificates = list.Items
	}
	return judgeCertificates(true, certificates)
}

// judgeCertManagerBefore says which of the two manifests to take.
func judgeCertManagerBefore(there bool) []Finding {
	if there {
		return []Finding{finding(Info, "", "cert-manager is there: both ways of installing will do").
			With("take deploy/stategraft.yaml, or the chart as it is")}
	}
	return []Finding{finding(Info, "", "no cert-manager here (no certificates.cert-manager.io): install in the mode self-signed, or cert-manager first").
		With("take deploy/stategraft-self-signed.yaml, or the chart with certificates.mode=self-signed")}
}

// judgeCertificates judges cert-manager's Certificates in our namespace, where
// the webhook relies on them.
func judgeCertificates(there bool, certificates []unstructured.Unstructured) []Finding {
	if !there {
		return []Finding{finding(Fail, "", "the webhook's certificate comes from cert-manager, which is not there: nobody renews it").
			With("install cert-manager, or install Stategraft anew in the mode self-signed")}
	}
	if len(certificates) == 0 {
		return []Finding{finding(Fail, "", "cert-manager is to make the webhook's certificate and there is no Certificate for it").
			With(applyAgain)}
	}
	var findings []Finding
	for i := range certificates {
		u := &certificates[i]
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		ready, message := false, "cert-manager has not looked at it yet; does it run?"
		for _, entry := range conditions {
			condition, ok := entry.(map[string]any)
			if ok && condition["type"] == "Ready" {
				ready = condition["status"] == "True"
				message, _ = condition["message"].(string)
			}
		}
		if !ready {
			findings = append(findings, finding(Fail, u.GetNamespace()+"/"+u.GetName(), "the Certificate is not ready: %s", message).
				With("kubectl -n %s describe certificate %s", u.GetNamespace(), u.GetName()))
		}
	}
	return findings
}
