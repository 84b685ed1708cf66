package certificates

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stategraft/stategraft/certs"
)

// rotation keeps our own authority, the webhook's serving pair and the caBundle
// of the webhook configuration. It reads from the API server and not from
// informers, as it acts on what it reads; it is called a few times in a day.
type rotation struct {
	options Options
	reader  client.Reader
	writer  client.Client
	log     logr.Logger
	now     func() time.Time
}

// soon is when to try again after somebody else was quicker.
const soon = time.Second

// writeLimit is how long the writes of a step may take. It is less than a process
// that was asked to end waits for its controllers.
const writeLimit = 10 * time.Second

// Reconcile takes the next step. The request does not matter.
func (r *rotation) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	seen, err := r.read(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	state, problems := certs.Parse(dataOf(seen.authority), dataOf(seen.serving))
	for _, problem := range problems {
		r.log.Error(problem, "something about the certificates is damaged; it is made anew")
	}
	now := r.now()
	next, changes, at, err := certs.Next(state, now, r.options.policy(), seen.observed)
	if err != nil {
		return reconcile.Result{}, err
	}
	// Asked to end, we finish the step, which the next one would have to.
	writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeLimit)
	defer cancel()
	err = r.write(writing, seen, next)
	if passing(err) {
		r.log.V(1).Info("not written this time", "reason", err.Error())
		return reconcile.Result{RequeueAfter: soon}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	for _, c := range changes {
		r.log.Info("certificates: "+c.What, "certificate", c.Certificate, "because", c.Why)
		if c.Rotation {
			rotations.WithLabelValues(c.Certificate).Inc()
		}
	}
	return reconcile.Result{RequeueAfter: at.Sub(now)}, nil
}

// seen is what the API server has; nil for what is not there.
type seen struct {
	authority, serving *corev1.Secret
	configuration      *admissionregistrationv1.MutatingWebhookConfiguration
	observed           certs.Observed
}

func (r *rotation) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: r.options.Namespace, Name: name}
}

func (r *rotation) read(ctx context.Context) (seen, error) {
	var s seen
	var err error
	if s.authority, err = readSecret(ctx, r.reader, r.key(SecretAuthority)); err != nil {
		return s, err
	}
	if s.serving, err = readSecret(ctx, r.reader, r.key(SecretServing)); err != nil {
		return s, err
	}
	var configuration admissionregistrationv1.MutatingWebhookConfiguration
	err = r.reader.Get(ctx, client.ObjectKey{Name: r.options.WebhookConfiguration}, &configuration)
	if apierrors.IsNotFound(err) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("reading the MutatingWebhookConfiguration %s: %w", r.options.WebhookConfiguration, err)
	}
	s.configuration = &configuration
	for _, i := range r.options.entries(&configuration) {
		s.observed.Bundles = append(s.observed.Bundles, configuration.Webhooks[i].ClientConfig.CABundle)
	}
	return s, nil
}

// write writes what differs, in the order that lets a crash between any two
// writes do no harm: the authority before anybody is told of it, and who is
// trusted before what they have to trust.
func (r *rotation) write(ctx context.Context, seen seen, next certs.State) error {
	data, err := next.AuthorityData()
	if err != nil {
		return err
	}
	if _, err := writeSecret(ctx, r.writer, r.key(SecretAuthority), seen.authority, installed, data); err != nil {
		return err
	}
	_, unpublished := publish(ctx, r.writer, r.options, seen.configuration, next.CABundle())
	if unpublished != nil && !next.TrustedBy(seen.observed) {
		return unpublished
	}
	_, err = writeSecret(ctx, r.writer, r.key(SecretServing), seen.serving, installed, next.ServingData())
	return errors.Join(unpublished, err)
}

func dataOf(secret *corev1.Secret) map[string][]byte {
	if secret == nil {
		return nil
	}
	return secret.Data
}
