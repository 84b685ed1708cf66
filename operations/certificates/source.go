package certificates

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/stategraft/stategraft/certs"
)

// Source is who signs: it reads the Secret stategraft-ca from an informer of its
// own.
type Source struct {
	certs.Source
	informer cache.Cache
}

// NewSource makes a source, whose informer starts with the manager.
func NewSource(mgr manager.Manager, o Options) (*Source, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	informer, err := watchOne(mgr, &corev1.Secret{}, o.Namespace, SecretAuthority)
	if err != nil {
		return nil, err
	}
	return &Source{newSource(informer, o, time.Now), informer}, nil
}

func newSource(reader client.Reader, o Options, now func() time.Time) certs.Source {
	secret := authoritySecret{reader, client.ObjectKey{Namespace: o.Namespace, Name: SecretAuthority}}
	if o.Mode == CertManager {
		return &issued{authoritySecret: secret, policy: o.policy(), now: now}
	}
	return &own{secret}
}

// own is the authority that the rotation keeps.
type own struct{ authoritySecret }

// Authority implements certs.Source.
func (s *own) Authority(ctx context.Context) (certs.Authority, error) {
	data, err := s.data(ctx)
	if err != nil {
		return certs.Authority{}, err
	}
	state, _ := certs.Parse(data, nil) // the rotation tells the problems, and repairs
	return state.Authority()
}

// issued is the authority that cert-manager keeps.
type issued struct {
	authoritySecret
	policy     certs.Policy
	now        func() time.Time
	succession certs.Succession
}

// Authority implements certs.Source.
func (s *issued) Authority(ctx context.Context) (certs.Authority, error) {
	data, err := s.data(ctx)
	if err != nil {
		return certs.Authority{}, err
	}
	ca, err := certs.ParseCA(data[certs.KeyCert], data[certs.KeyKey])
	if err != nil {
		return certs.Authority{}, fmt.Errorf("secret %s: %w", s.key, err)
	}
	return s.succession.Observe(ca, s.now(), s.policy), nil
}

type authoritySecret struct {
	reader client.Reader
	key    client.ObjectKey
}

func (s authoritySecret) data(ctx context.Context) (map[string][]byte, error) {
	var secret corev1.Secret
	if err := s.reader.Get(ctx, s.key, &secret); apierrors.IsNotFound(err) {
		return nil, certs.ErrNoAuthority
	} else if err != nil {
		return nil, fmt.Errorf("reading secret %s: %w", s.key, err)
	}
	return secret.Data, nil
}
