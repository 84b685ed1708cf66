package sidecar

import (
	"crypto/x509"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/certs"
	"github.com/stategraft/stategraft/operations/sidecar/sidecartest"
)

// TestOnlyTheNamespacesOwn: neither another namespace's sidecar nor a stranger's is
// taken for the pod's, nor does a pod with TLS get a plain question.
func TestOnlyTheNamespacesOwn(t *testing.T) {
	t.Parallel()
	a, other := authority(t), authority(t)
	c := New(a)
	for name, p := range map[string]sidecartest.Pair{
		"another namespace's": pair(t, a.Value, "other"),
		"another authority's": pair(t, other.Value, "ring"),
	} {
		if r, err := c.Report(t.Context(), start(t, "127.0.0.13", p, named("wrong")).Pod("ring", "c-0")); !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: got %+v, %v", name, r, err)
		}
	}
	plain := start(t, "127.0.0.13", sidecartest.Pair{}, named("wrong"))
	pod := plain.Pod("ring", "c-0")
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{MountPath: "/etc/stategraft/grpc-tls"}}
	if r, err := c.Report(t.Context(), pod); !errors.Is(err, ErrUnreachable) {
		t.Errorf("in the clear: got %+v, %v", r, err)
	}
	if _, err := New(nil).Report(t.Context(), start(t, "127.0.0.13", pair(t, a.Value, "ring"), named("x")).Pod("ring", "c-0")); !errors.Is(err, certs.ErrNoAuthority) || !errors.Is(err, ErrUnreachable) {
		t.Errorf("without an authority: got %v", err)
	}
}

// TestRotation replaces authority and pairs as a renewal does, under connections that
// stay; and at once, as after a theft.
func TestRotation(t *testing.T) {
	t.Parallel()
	a, next := authority(t), authority(t)
	first, c := a.Value, New(a)
	s := start(t, "127.0.0.14", pair(t, first, "ring"), named("c-0"))
	pod := s.Pod("ring", "c-0")
	works := func(when string) {
		t.Helper()
		if _, err := c.Report(t.Context(), pod); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	works("at first")
	both := certs.Authority{Signer: next.Value.Signer, Trusted: []*x509.Certificate{next.Value.Signer.Certificate, first.Signer.Certificate}}
	// The controller signs with the new one as soon as it trusts both; the Secret is
	// there a little later, for both are published before.
	if err := s.Replace(pair(t, certs.Authority{Signer: first.Signer, Trusted: both.Trusted}, "ring")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1200 * time.Millisecond)
	a.Value = both
	works("signed by the new one, the server's by the former")
	if err := s.Replace(pair(t, next.Value, "ring")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1200 * time.Millisecond)
	works("both by the new one")
	a.Value = next.Value
	works("the former is forgotten")

	// All at once: refused until the pod has its new pair, and then asked again.
	last := authority(t)
	a.Value = last.Value
	if _, err := c.Report(t.Context(), pod); !errors.Is(err, ErrUnreachable) {
		t.Errorf("another authority: got %v", err)
	}
	if err := s.Replace(pair(t, last.Value, "ring")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1200 * time.Millisecond)
	works("after a new authority")
}

// TestRefusedThenAskedAgain: a certificate that the server no longer admits is made
// anew within the question, on a connection from before and on a new one.
func TestRefusedThenAskedAgain(t *testing.T) {
	for name, connected := range map[string]bool{"connected": true, "not connected": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refusedThenAskedAgain(t, connected)
		})
	}
}

func refusedThenAskedAgain(t *testing.T, connected bool) {
	a, next := authority(t), authority(t)
	trusted := []*x509.Certificate{a.Value.Signer.Certificate, next.Value.Signer.Certificate}
	a.Value.Trusted = trusted
	c := New(a)
	s := start(t, "127.0.0.15", pair(t, a.Value, "ring"), named("c-0"))
	pod := s.Pod("ring", "c-0")
	if _, err := c.Report(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	// The server forgets the authority of the client's certificate, and the client does
	// not see that its own is another now, as by a cache that lags behind.
	a.Value = certs.Authority{Signer: next.Value.Signer, Trusted: trusted}
	k := c.transports.byNamespace["ring"]
	k.authority, k.made = digest(a.Value), time.Now().Add(-time.Hour)
	if !connected {
		k.client.CloseIdleConnections()
	}
	if err := s.Replace(pair(t, next.Value, "ring")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1200 * time.Millisecond)
	if _, err := c.Report(t.Context(), pod); err != nil {
		t.Errorf("got %v", err)
	}
	if c.transports.byNamespace["ring"] == k {
		t.Error("the certificate is the same")
	}
	// A second refusal right after does not make another.
	k = c.transports.byNamespace["ring"]
	stranger := authority(t)
	if err := s.Replace(pair(t, stranger.Value, "ring")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1200 * time.Millisecond)
	k.made = time.Now() // right after, however long it took
	if _, err := c.Report(t.Context(), pod); !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v", err)
	}
	if c.transports.byNamespace["ring"] != k {
		t.Error("each refusal makes a certificate")
	}
}

// TestKept: one certificate and one connection serve many questions, until it is time
// for others.
func TestKept(t *testing.T) {
	t.Parallel()
	a := authority(t)
	c := New(a)
	pod := start(t, "127.0.0.16", pair(t, a.Value, "ring"), named("c-0")).Pod("ring", "c-0")
	ask := func() *kept {
		t.Helper()
		if _, err := c.Report(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		return c.transports.byNamespace["ring"]
	}
	first := ask()
	if ask() != first {
		t.Error("each question makes a certificate")
	}
	if until := time.Until(first.due); until < 12*time.Hour || until > 17*time.Hour {
		t.Errorf("renewed in %v", until)
	}
	c.transports.byNamespace["gone"] = &kept{client: client(nil), due: time.Now().Add(-forgotten - time.Hour)}
	first.due = time.Now().Add(-time.Minute)
	if ask() == first {
		t.Error("an old certificate stays")
	}
	if _, ok := c.transports.byNamespace["gone"]; ok {
		t.Error("a namespace that is gone stays")
	}
}
