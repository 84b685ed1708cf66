package deploy

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/certs"
)

// StandIn does what cert-manager does with the objects of the chart: it fills
// the Secrets of the Certificates, and, as cainjector, the bundle of the webhook
// configuration. It looks at nothing else of them.
type StandIn struct {
	e  *Env
	ca certs.CA

	mu   sync.Mutex
	pair certs.Issued
}

var certificates = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}

// CertManager installs cert-manager's kinds and starts the stand-in, which works
// until the context ends.
func (e *Env) CertManager(ctx context.Context) (*StandIn, error) {
	if _, err := e.Kubectl(ctx, nil, "apply", "-f", filepath.Join(e.Root, "deploy", "testdata", "crds")); err != nil {
		return nil, err
	}
	if _, err := e.Kubectl(ctx, nil, "wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"); err != nil {
		return nil, err
	}
	ca, err := certs.NewCA(24*time.Hour, time.Now())
	if err != nil {
		return nil, err
	}
	s := &StandIn{e: e, ca: ca}
	if err := s.issue(); err != nil {
		return nil, err
	}
	go func() {
		for ctx.Err() == nil {
			if err := s.fill(ctx); err != nil && ctx.Err() == nil {
				fmt.Fprintln(e.log, "stand-in:", err)
			}
			time.Sleep(time.Second)
		}
	}()
	return s, nil
}

func (s *StandIn) issue() error {
	pair, err := certs.Issue(s.ca, certs.Template{CommonName: "stategraft-webhook", Usage: x509.ExtKeyUsageServerAuth, Validity: time.Hour,
		Names: []string{"stategraft-webhook." + Home + ".svc", "stategraft-webhook." + Home + ".svc.cluster.local"}}, time.Now())
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pair = pair
	return nil
}

// Renew gives the webhook another certificate of the same authority, as
// cert-manager does when two thirds of its life are over.
func (s *StandIn) Renew(context.Context) error { return s.issue() }

// fill brings Secrets and bundle up to date.
func (s *StandIn) fill(ctx context.Context) error {
	s.mu.Lock()
	pair := s.pair
	s.mu.Unlock()
	authority, err := certs.State{Current: s.ca}.AuthorityData()
	if err != nil {
		return err
	}
	caCert, caKey := authority["tls.crt"], authority["tls.key"]
	asked, err := s.e.Dynamic.Resource(certificates).Namespace(Home).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var left []error
	for _, c := range asked.Items {
		data := map[string][]byte{"tls.crt": pair.CertPEM, "tls.key": pair.KeyPEM, "ca.crt": caCert}
		if c.GetName() == "stategraft-ca" {
			data = map[string][]byte{"tls.crt": caCert, "tls.key": caKey, "ca.crt": caCert}
		}
		left = append(left, s.secret(ctx, c.GetName(), c.Object, data))
	}
	return errors.Join(append(left, s.inject(ctx, caCert))...)
}

func (s *StandIn) secret(ctx context.Context, certificate string, object map[string]any, data map[string][]byte) error {
	spec, _ := object["spec"].(map[string]any)
	name, _ := spec["secretName"].(string)
	secrets := s.e.Client.CoreV1().Secrets(Home)
	now, err := secrets.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeTLS, Data: data}, metav1.CreateOptions{})
		return err
	}
	if err != nil || bytes.Equal(now.Data["tls.crt"], data["tls.crt"]) {
		return err
	}
	now.Data = data
	if _, err = secrets.Update(ctx, now, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("filling the Secret of Certificate %s: %w", certificate, err)
	}
	return nil
}

// inject is what cainjector does for cert-manager.io/inject-ca-from.
func (s *StandIn) inject(ctx context.Context, bundle []byte) error {
	api := s.e.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	found, err := api.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, config := range found.Items {
		if config.Annotations["cert-manager.io/inject-ca-from"] == "" {
			continue
		}
		for i, hook := range config.Webhooks {
			if bytes.Equal(hook.ClientConfig.CABundle, bundle) {
				continue
			}
			patch := fmt.Sprintf(`[{"op":"add","path":"/webhooks/%d/clientConfig/caBundle","value":%q}]`, i, base64.StdEncoding.EncodeToString(bundle))
			if _, err := api.Patch(ctx, config.Name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				return fmt.Errorf("injecting the bundle: %w", err)
			}
		}
	}
	return nil
}
