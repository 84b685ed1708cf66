package check

import (
	"context"
	"crypto/x509"
	"fmt"
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
	found := c.installation(ctx)
	fix := controllerLogs(found)
	for _, namespace := range slices.Sorted(maps.Keys(s.mutual)) {
		secret, err := c.Kube.CoreV1().Secrets(namespace).Get(ctx, api.SecretGRPC, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			findings = append(findings, judgeGRPC(namespace, nil, fix, c.Now())...)
		case err != nil:
			findings = append(findings, skipped(unread(err, right{Verb: "get", Resource: "secrets", Namespace: namespace}))...)
		default:
			findings = append(findings, judgeGRPC(namespace, secret, fix, c.Now())...)
		}
	}
	if len(s.mutual) == 0 {
		return s.say(findings, "no pod takes one")
	}
	return s.say(findings, "%s", counted(len(s.mutual), "namespace", "with a valid certificate"))
}

// Every Secret that the controller makes in a user's namespace has this label,
// and one without it is left alone (operations/certificates/secrets.go).
const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "stategraft"
)

// controllerLogs says where to look, if a Secret of the controller's is not as it
// should be.
func controllerLogs(found *Installation) string {
	name := "stategraft-controller"
	if d := found.part(partController); d != nil {
		name = d.Name
	}
	return fmt.Sprintf("the Stategraft controller makes it: see that it runs (kubectl -n %s logs deployment/%s)", found.Namespace, name)
}

// judgeGRPC judges the Secret that the sidecars of a namespace identify
// themselves with; nil where it is missing. The fix is for one of the controller's.
func judgeGRPC(namespace string, secret *corev1.Secret, fix string, now time.Time) []Finding {
	const lost = "the sidecars do not serve, and nothing is backed up"
	subject := namespace + "/" + api.SecretGRPC
	if secret == nil {
		return []Finding{finding(Fail, subject, "the Secret with the certificate of the sidecars' gRPC is missing: %s", lost).With("%s", fix)}
	}
	if secret.Labels[labelManagedBy] != managedBy {
		return []Finding{finding(Fail, subject, "the Secret is not Stategraft's (no label %s=%s), and the controller leaves it alone: %s", labelManagedBy, managedBy, lost).
			With("remove or rename it; the controller then makes its own")}
	}
	chain, err := parsePEM(secret.Data[keyCert])
	if err != nil {
		return []Finding{finding(Fail, subject, "%s cannot be read: %v; %s", keyCert, err, lost).With("%s", fix)}
	}
	leaf := chain[0]
	left, late := dueIn(leaf, now)
	if left <= 0 {
		return []Finding{finding(Fail, subject, "the certificate of the sidecars' gRPC expired on %s: nobody can ask them for a backup", day(leaf.NotAfter)).With("%s", fix)}
	}
	authorities, err := parsePEM(secret.Data[keyCA])
	if err != nil {
		return []Finding{finding(Fail, subject, "%s cannot be read: %v; %s", keyCA, err, lost).With("%s", fix)}
	}
	roots := x509.NewCertPool()
	for _, ca := range authorities {
		roots.AddCert(ca)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: api.GRPCServerName(namespace), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
		return []Finding{finding(Fail, subject, "clients do not accept the certificate of the sidecars' gRPC: %v", err).With("%s", fix)}
	}
	if late {
		return []Finding{finding(Warn, subject, "the certificate of the sidecars' gRPC expires in %s, on %s, and should have been renewed", days(left), day(leaf.NotAfter)).With("%s", fix)}
	}
	return nil
}
