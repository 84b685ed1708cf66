package check

import (
	"context"
	"crypto/x509"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func lookGRPC(ctx context.Context, c *Cluster) []Finding {
	s, err := c.sweep(ctx)
	if err != nil {
		return skipped(err)
	}
	var findings []Finding
	for _, namespace := range slices.Sorted(maps.Keys(s.mutual)) {
		secret, err := c.Kube.CoreV1().Secrets(namespace).Get(ctx, api.SecretGRPC, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			findings = append(findings, judgeGRPC(namespace, nil, c.Now())...)
		case err != nil:
			findings = append(findings, skipped(unread(err, right{Verb: "get", Resource: "secrets", Namespace: namespace}))...)
		default:
			findings = append(findings, judgeGRPC(namespace, secret, c.Now())...)
		}
	}
	if len(s.mutual) == 0 {
		return s.say(findings, "no pod takes one")
	}
	return s.say(findings, "%s", counted(len(s.mutual), "namespace", "with a valid certificate"))
}

// judgeGRPC judges the Secret that the sidecars of a namespace identify
// themselves with; nil where it is missing.
func judgeGRPC(namespace string, secret *corev1.Secret, now time.Time) []Finding {
	const lost = "the sidecars do not serve, and nothing is backed up"
	const fix = "the Stategraft controller makes it: see that it runs (kubectl -n " + DefaultNamespace + " logs deployment/stategraft-controller)"
	subject := namespace + "/" + api.SecretGRPC
	if secret == nil {
		return []Finding{finding(Fail, subject, "the Secret with the certificate of the sidecars' gRPC is missing: %s", lost).With(fix)}
	}
	chain, err := parsePEM(secret.Data[keyCert])
	if err != nil {
		return []Finding{finding(Fail, subject, "%s cannot be read: %v; %s", keyCert, err, lost).With(fix)}
	}
	leaf := chain[0]
	left, late := dueIn(leaf, now)
	if left <= 0 {
		return []Finding{finding(Fail, subject, "the certificate of the sidecars' gRPC expired on %s: nobody can ask them for a backup", day(leaf.NotAfter)).With(fix)}
	}
	authorities, err := parsePEM(secret.Data[keyCA])
	if err != nil {
		return []Finding{finding(Fail, subject, "%s cannot be read: %v; %s", keyCA, err, lost).With(fix)}
	}
	roots := x509.NewCertPool()
	for _, ca := range authorities {
		roots.AddCert(ca)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: api.GRPCServerName(namespace), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
		return []Finding{finding(Fail, subject, "clients do not accept the certificate of the sidecars' gRPC: %v", err).With(fix)}
	}
	if late {
		return []Finding{finding(Warn, subject, "the certificate of the sidecars' gRPC expires in %s, on %s, and should have been renewed", days(left), day(leaf.NotAfter)).With(fix)}
	}
	return nil
}
