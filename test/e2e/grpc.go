package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/certs"
	"github.com/stategraft/stategraft/operations/certificates"
	"github.com/stategraft/stategraft/patches"
)

// Identity is what a gRPC client is given, in PEM. Without a CA it speaks in the
// clear, without a certificate it has none to show.
type Identity struct {
	CA   string `json:"ca,omitempty"`
	Cert string `json:"cert,omitempty"`
	Key  string `json:"key,omitempty"`
}

// authority signs the pairs of the sidecars and of their clients, as the
// controllers' does.
type authority struct {
	pem  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the authority's key: %w", err)
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "stategraft"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := signed(template, template, key, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the authority: %w", err)
	}
	return &authority{encode("CERTIFICATE", der), cert, key}, nil
}

// findAuthority answers the controllers' authority, or makes one where there are
// none.
func (e *Env) findAuthority(ctx context.Context) (*authority, error) {
	if e.Controller == nil {
		return newAuthority()
	}
	secret, err := e.Client.CoreV1().Secrets(home).Get(ctx, certificates.SecretAuthority, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the authority: %w", err)
	}
	pair, err := tls.X509KeyPair(secret.Data[certs.KeyCert], secret.Data[certs.KeyKey])
	if err != nil {
		return nil, fmt.Errorf("reading the authority: %w", err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the authority's key is a %T", pair.PrivateKey)
	}
	return &authority{string(secret.Data[certs.KeyCert]), pair.Leaf, key}, nil
}

// issue makes a pair that is good for one use, to serve under names or to be a
// client.
func (a *authority) issue(common string, use x509.ExtKeyUsage, names ...string) (Identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Identity{}, fmt.Errorf("making a key: %w", err)
	}
	der, err := signed(&x509.Certificate{Subject: pkix.Name{CommonName: common}, DNSNames: names,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{use}}, a.cert, key, a.key)
	if err != nil {
		return Identity{}, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Identity{}, fmt.Errorf("encoding a key: %w", err)
	}
	return Identity{CA: a.pem, Cert: encode("CERTIFICATE", der), Key: encode("PRIVATE KEY", keyDER)}, nil
}

// signed signs a certificate for a day.
func signed(template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("making a serial number: %w", err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = serial, time.Now().Add(-time.Minute), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		return nil, fmt.Errorf("signing %s: %w", template.Subject, err)
	}
	return der, nil
}

func encode(kind string, content []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}))
}

// Identify gives the namespace's sidecars a new pair to serve with.
func (c *Cassandra) Identify(ctx context.Context) (err error) {
	if c.server, err = c.e.authority.issue("stategraft-grpc", x509.ExtKeyUsageServerAuth, api.GRPCServerName(c.Namespace)); err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: api.SecretGRPC}, Type: corev1.SecretTypeTLS,
		StringData: map[string]string{"ca.crt": c.server.CA, "tls.crt": c.server.Cert, "tls.key": c.server.Key}}
	secrets := c.e.Client.CoreV1().Secrets(c.Namespace)
	if _, err = secrets.Create(ctx, secret, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("making Secret %s: %w", api.SecretGRPC, err)
	}
	return nil
}

// call runs the gRPC client in the container of Medusa. Who it is goes in front of
// the script, where no command line shows it.
func (c *Cassandra) call(ctx context.Context, who Identity, ordinal int, args ...string) (string, error) {
	text, err := json.Marshal(who)
	if err != nil {
		return "", fmt.Errorf("encoding the client's identity: %w", err)
	}
	head := fmt.Sprintf("IDENTITY, SERVER = %q, %q\n", base64.StdEncoding.EncodeToString(text), api.GRPCServerName(c.Namespace))
	return c.e.Script(ctx, c.Namespace, c.Pod(ordinal), patches.ContainerMedusa, medusaPython, "backup.py", head, args...)
}

// Answer is how a call ended: a status code of gRPC, and what is said with it.
type Answer struct {
	Code    string `json:"code"`
	Details string `json:"details"`
}

// Ask lists the backups as a client, once.
func (c *Cassandra) Ask(ctx context.Context, who Identity) (answer Answer, err error) {
	out, err := c.call(ctx, who, 0, "ask")
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		return answer, fmt.Errorf("reading what backup.py printed: %w: %s", err, out)
	}
	return answer, nil
}
