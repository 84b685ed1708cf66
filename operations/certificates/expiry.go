package certificates

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stategraft/stategraft/certs"
)

// expiryOf tells the metrics when the certificate of a Secret expires, whoever
// wrote it, and the log where it cannot be used.
type expiryOf struct {
	reader      client.Reader
	key         client.ObjectKey
	certificate string // value of the label
	log         logr.Logger
	said        string // the last problem, said once
}

// Reconcile looks at the Secret. The request does not matter.
func (e *expiryOf) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	secret, err := readSecret(ctx, e.reader, e.key)
	if err != nil {
		return reconcile.Result{}, err
	}
	pair, err := certs.ParseIssued(dataOf(secret)[certs.KeyCert], dataOf(secret)[certs.KeyKey])
	if err != nil {
		expiry.DeleteLabelValues(e.certificate)
		if problem := fmt.Sprintf("secret %s: %v", e.key, err); problem != e.said {
			e.said = problem
			e.log.Info("no certificate: "+problem, "certificate", e.certificate)
		}
		return reconcile.Result{}, nil
	}
	e.said = ""
	expires(e.certificate, pair.Certificate.NotAfter)
	return reconcile.Result{}, nil
}
