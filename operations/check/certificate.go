package check

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Secrets with certificates, and what is in them.
const (
	secretServing = "stategraft-webhook-tls"
	keyCert       = "tls.crt"
	keyCA         = "ca.crt"
)

// soon is how little time may be left of a certificate, as a rule two weeks.
const soon = 14 * 24 * time.Hour

// dueIn tells how much time is left of a certificate, and whether that is too
// little: less than a fifth of its life, or less than two weeks. Renewal is due
// when a third is left, so a short life does not make it too little before.
func dueIn(cert *x509.Certificate, now time.Time) (left time.Duration, late bool) {
	life := cert.NotAfter.Sub(cert.NotBefore)
	left = cert.NotAfter.Sub(now)
	return left, left < min(max(life/5, soon), life/3)
}

// parsePEM reads all certificates of a text, in order.
func parsePEM(text []byte) ([]*x509.Certificate, error) {
	var found []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		found = append(found, cert)
	}
	if len(found) == 0 {
		return nil, errors.New("there is no certificate in it")
	}
	return found, nil
}

// serving is what the webhook shows the API server, as far as it can be seen.
type serving struct {
	where string // the Secret or the address; the subject of what is found
	name  string // what the API server verifies
	chain []*x509.Certificate
	by    string // who writes it
	err   error  // why nothing was read
	bad   error  // why what was read is no certificate
}

func lookCertificate(ctx context.Context, c *Cluster) []Finding {
	found := c.installation(ctx)
	if found.ConfigurationsErr != nil {
		return skipped(found.ConfigurationsErr)
	}
	hook, config := found.webhook()
	if hook == nil {
		return []Finding{finding(Info, "", "nothing to look at: the webhook is not registered")}
	}
	now := c.Now()
	by := writer(config, hook)
	bundle, findings := judgeBundle(config.Name, by, hook.ClientConfig, now)
	if bundle == nil && len(findings) > 0 {
		return findings
	}
	var shown serving
	if hook.ClientConfig.Service != nil {
		shown = c.servedBySecret(ctx, found.Namespace, hook.ClientConfig.Service)
	} else {
		shown = servedAt(ctx, *hook.ClientConfig.URL)
	}
	shown.by = by
	return append(findings, judgeServing(shown, bundle, now)...)
}

// writer is who writes the certificate and its CA: in the mode cert-manager the
// configuration says so to the cainjector. Empty for one behind a URL, which
// somebody registered by hand.
func writer(config *admissionregistrationv1.MutatingWebhookConfiguration, hook *admissionregistrationv1.MutatingWebhook) string {
	switch {
	case config.Annotations[annotationInject] != "":
		return "cert-manager"
	case hook.ClientConfig.Service == nil:
		return ""
	}
	return "the Stategraft controller"
}

// servedBySecret reads what the webhook's pods mount.
func (c *Cluster) servedBySecret(ctx context.Context, own string, service *admissionregistrationv1.ServiceReference) serving {
	s := serving{where: own + "/" + secretServing, name: service.Name + "." + service.Namespace + ".svc"}
	secret, err := c.Kube.CoreV1().Secrets(own).Get(ctx, secretServing, metav1.GetOptions{})
	if err != nil {
		s.err = unread(err, right{Verb: "get", Resource: "secrets", Name: secretServing, Namespace: own})
		return s
	}
	s.chain, s.bad = parsePEM(secret.Data[keyCert])
	return s
}

// servedAt asks the webhook itself. It may be that only the API server reaches it.
func servedAt(ctx context.Context, address string) serving {
	s := serving{where: address}
	parsed, err := url.Parse(address)
	if err != nil {
		s.err = fmt.Errorf("reading the webhook's URL: %w", err)
		return s
	}
	s.name = parsed.Hostname()
	port := parsed.Port()
	if port == "" {
		port = "443"
	}
	// Nothing is sent: the certificate is looked at, against the bundle, below.
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}, Config: &tls.Config{
		InsecureSkipVerify: true, ServerName: s.name, MinVersion: tls.VersionTLS12}}
	connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(s.name, port))
	if err != nil {
		s.err = fmt.Errorf("the webhook at %s does not answer from here: %w", address, err)
		return s
	}
	defer func() { _ = connection.Close() }()
	s.chain = connection.(*tls.Conn).ConnectionState().PeerCertificates
	return s
}

// judgeBundle reads the caBundle. It is nil, without a finding, where the API
// server trusts the authorities of its own machine.
func judgeBundle(config, by string, client admissionregistrationv1.WebhookClientConfig, now time.Time) ([]*x509.Certificate, []Finding) {
	if len(client.CABundle) == 0 {
		if client.Service == nil {
			return nil, nil
		}
		return nil, []Finding{finding(Fail, config, "has no caBundle: the API server trusts no webhook").
			With("%s", seeWriter(injector(by)))}
	}
	bundle, err := parsePEM(client.CABundle)
	if err != nil {
		return nil, []Finding{finding(Fail, config, "the caBundle cannot be read: %v", err).With("%s", seeWriter(injector(by)))}
	}
	last := bundle[0]
	for _, ca := range bundle {
		if ca.NotAfter.After(last.NotAfter) {
			last = ca
		}
	}
	if now.After(last.NotAfter) {
		return nil, []Finding{finding(Fail, config, "the CA of the webhook's certificate expired on %s: every pod starts without backup", day(last.NotAfter)).
			With("%s", seeWriter(by))}
	}
	if left, late := dueIn(last, now); late {
		return bundle, []Finding{finding(Warn, config, "the CA of the webhook's certificate expires in %s, on %s", days(left), day(last.NotAfter)).
			With("%s", seeWriter(by))}
	}
	return bundle, nil
}

// injector is who writes the caBundle: of cert-manager it is one part.
func injector(by string) string {
	if by == "cert-manager" {
		return "cert-manager's cainjector"
	}
	return by
}

func seeWriter(by string) string {
	if by == "" {
		return "whoever registered the webhook by its URL has to renew both"
	}
	return by + " writes it: see that it runs"
}

// judgeServing judges the certificate as the API server does, for its name and
// against the bundle.
func judgeServing(s serving, bundle []*x509.Certificate, now time.Time) []Finding {
	run := seeWriter(s.by)
	switch {
	case apierrors.IsNotFound(s.err):
		return []Finding{finding(Fail, s.where, "the Secret with the webhook's certificate is missing: the webhook cannot start").With("%s", run)}
	case s.err != nil:
		return skipped(s.err)
	case s.bad != nil:
		return []Finding{finding(Fail, s.where, "the Secret has no certificate of the webhook, which cannot start: %v", s.bad).With("%s", run)}
	}
	leaf := s.chain[0]
	left, late := dueIn(leaf, now)
	if left <= 0 {
		return []Finding{finding(Fail, s.where, "the webhook's certificate expired on %s: every pod starts without backup", day(leaf.NotAfter)).With("%s", run)}
	}
	options := x509.VerifyOptions{DNSName: s.name, CurrentTime: now, Intermediates: x509.NewCertPool(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if bundle != nil {
		options.Roots = x509.NewCertPool()
		for _, ca := range bundle {
			options.Roots.AddCert(ca)
		}
	}
	for _, cert := range s.chain[1:] {
		options.Intermediates.AddCert(cert)
	}
	if _, err := leaf.Verify(options); err != nil {
		return []Finding{finding(Fail, s.where, "the API server does not accept the webhook's certificate for %s: %v", s.name, err).
			With("the caBundle of the webhook configuration and the certificate have to be of one CA; %s", run)}
	}
	if late {
		return []Finding{finding(Warn, s.where, "the webhook's certificate expires in %s, on %s, and should have been renewed", days(left), day(leaf.NotAfter)).With("%s", run)}
	}
	return []Finding{finding(OK, s.where, "valid for %s until %s", s.name, day(leaf.NotAfter))}
}

func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// days writes a duration in the largest unit that says enough.
func days(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", d/time.Hour)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d minutes", d/time.Minute)
	}
	return fmt.Sprintf("%d seconds", d/time.Second)
}
