package certificates

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/certs"
	"github.com/stategraft/stategraft/operations/scope"
)

// ServerName is what the certificates of a namespace's gRPC services are for. No
// such name exists in any DNS: pods are called by their addresses.
func ServerName(namespace string) string { return "medusa." + namespace + "." + api.Group }

// namespaces keeps the Secret stategraft-grpc of each labelled namespace. One
// that loses its label keeps its Secret, which is renewed as long as it is there:
// the pods that run have it mounted. Namespaces that are left out (package scope)
// have no such pods, and nothing is written there.
type namespaces struct {
	namespaces client.Reader // metadata of namespaces, from an informer
	secrets    client.Reader // Secrets stategraft-grpc, from an informer
	writer     client.Client
	source     certs.Source
	own        string // the namespace of Stategraft
	validity   time.Duration
	events     events.EventRecorder
	now        func() time.Time
}

// Reconcile looks at one namespace.
func (n *namespaces) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	log := logf.FromContext(ctx)
	namespace := namespaceMetadata()
	err := n.namespaces.Get(ctx, client.ObjectKey{Name: request.Name}, namespace)
	if apierrors.IsNotFound(err) || err == nil && namespace.DeletionTimestamp != nil {
		grpcExpiries.forget(request.Name)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading namespace %s: %w", request.Name, err)
	}
	if scope.LeftOut(request.Name, n.own) {
		grpcExpiries.forget(request.Name)
		return reconcile.Result{}, nil
	}
	key := client.ObjectKey{Namespace: request.Name, Name: SecretGRPC}
	secret, err := readSecret(ctx, n.secrets, key)
	if err != nil {
		return reconcile.Result{}, err
	}
	if secret != nil && !ours(secret) {
		grpcExpiries.forget(request.Name)
		log.Info("there is a Secret of this name that is not ours; it is left alone, and the sidecars of this namespace do not serve gRPC", "secret", key)
		n.events.Eventf(secret, nil, corev1.EventTypeWarning, "StategraftSecretInTheWay", "Certificates",
			"Stategraft keeps the certificates of its sidecars in a Secret of this name and leaves this one alone: it lacks the label %s=%s; remove or rename it", labelManagedBy, managedBy)
		return reconcile.Result{}, nil
	}
	if secret == nil && !scope.Asks(namespace, n.own) {
		grpcExpiries.forget(request.Name)
		return reconcile.Result{}, nil
	}
	return n.keep(ctx, key, secret)
}

// keep makes the Secret hold a pair that serves.
func (n *namespaces) keep(ctx context.Context, key client.ObjectKey, secret *corev1.Secret) (reconcile.Result, error) {
	log := logf.FromContext(ctx)
	authority, err := n.source.Authority(ctx)
	if err != nil {
		// Said once by whoever watches the authority, not for each namespace; and
		// its coming brings us back.
		log.V(1).Info("no certificate yet", "reason", err.Error())
		return reconcile.Result{}, nil
	}
	now := n.now()
	pair, why, err := n.pair(key.Namespace, dataOf(secret), authority, now)
	if err != nil {
		return reconcile.Result{}, err
	}
	data := map[string][]byte{certs.KeyCert: pair.CertPEM, certs.KeyKey: pair.KeyPEM, certs.KeyCA: authority.Bundle()}
	wrote, err := writeSecret(ctx, n.writer, key, secret, inUse, data)
	switch {
	case terminating(err):
		return reconcile.Result{}, nil
	case passing(err):
		return reconcile.Result{RequeueAfter: soon}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	if wrote && why != nil {
		rotations.WithLabelValues(certificateGRPC).Inc()
		log.Info("certificate of the sidecars made", "secret", key, "because", why.Error())
	} else if wrote {
		log.Info("the sidecars' authorities changed", "secret", key)
	}
	grpcExpiries.note(key.Namespace, pair.Certificate.NotAfter)
	return reconcile.Result{RequeueAfter: n.comeBack(pair, authority, key.Namespace, now)}, nil
}

func (n *namespaces) template(namespace string) certs.Template {
	return certs.Template{CommonName: "stategraft-grpc", Names: []string{ServerName(namespace)}, Usage: x509.ExtKeyUsageServerAuth, Validity: n.validity}
}

// pair answers the pair that is there, or a new one with the reason for it.
func (n *namespaces) pair(namespace string, data map[string][]byte, authority certs.Authority, now time.Time) (pair certs.Issued, why, err error) {
	t := n.template(namespace)
	pair, why = certs.ParseIssued(data[certs.KeyCert], data[certs.KeyKey])
	if why == nil {
		why = pair.Serves(t, []*x509.Certificate{authority.Signer.Certificate}, now)
	}
	if why == nil {
		if due, lasts := pair.Renewable(t, authority.Signer, now); !lasts || now.Before(due) {
			return pair, nil, nil
		}
		why = fmt.Errorf("two thirds of its life are over")
	}
	if pair, err = certs.Issue(authority.Signer, t, now); err != nil {
		return pair, nil, err
	}
	// An authority that another keeps may be bound to other names.
	if err := pair.Serves(t, authority.Trusted, now); err != nil {
		return pair, nil, fmt.Errorf("the authority in secret %s cannot issue certificates for %s: %w", SecretAuthority, ServerName(namespace), err)
	}
	return pair, why, nil
}

// comeBack is how long until the time alone changes something.
func (n *namespaces) comeBack(pair certs.Issued, authority certs.Authority, namespace string, now time.Time) time.Duration {
	at := now.Add(12 * time.Hour)
	if due, lasts := pair.Renewable(n.template(namespace), authority.Signer, now); lasts && due.Before(at) {
		at = due
	}
	if !authority.Until.IsZero() && authority.Until.Before(at) {
		at = authority.Until
	}
	return max(at.Sub(now), soon)
}

func namespaceMetadata() *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return object
}
