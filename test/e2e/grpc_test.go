package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/patches"
)

// strangersRefused has clients that are not of ours ask Medusa, between two
// questions of one that is.
func strangersRefused(ctx context.Context, c *Cassandra) error {
	elsewhere, err := newAuthority()
	if err != nil {
		return err
	}
	other, err := elsewhere.issue("stategraft-controller", x509.ExtKeyUsageClientAuth)
	if err != nil {
		return err
	}
	other.CA = c.client.CA
	for _, ask := range []struct {
		what string
		who  Identity
		want string
	}{
		{"a client of ours", c.client, "OK"},
		{"a client in the clear", Identity{}, "UNAVAILABLE"},
		{"a client without a certificate", Identity{CA: c.client.CA}, "UNAVAILABLE"},
		{"a sidecar, with its own pair", c.server, "UNAVAILABLE"},
		{"a client of another authority", other, "UNAVAILABLE"},
		{"a client of ours, again", c.client, "OK"},
	} {
		answer, err := c.Ask(ctx, ask.who)
		if err != nil {
			return fmt.Errorf("%s: %w", ask.what, err)
		}
		if answer.Code != ask.want {
			return fmt.Errorf("%s is told %s (%s), want %s", ask.what, answer.Code, answer.Details, ask.want)
		}
	}
	return nil
}

// secretLimit is how long a change of a Secret takes to a mounted volume, and
// Medusa to follow it: the kubelet looks once a minute.
const secretLimit = 3 * time.Minute

// Without its Secret gRPC is not served at all, and the pod is Ready all the same;
// it is served when the Secret comes, and with another pair when that changes.
func TestGRPCSecretComesLate(t *testing.T) {
	t.Parallel()
	e, ctx := scenario(t, 15*time.Minute)
	step := stepper(t)
	c, err := e.Cassandra(ctx, "late", Setup{NoGRPC: true})
	step("ready", err)
	_, err = c.AwaitLog(ctx, patches.ContainerMedusa, readyLimit, "waiting for Secret stategraft-grpc")
	step("degraded", err)
	state, err := e.Exec(ctx, c.Namespace, pod(0), patches.ContainerMedusa, "", patches.AgentShared, "status")
	step("state", err)
	if !strings.Contains(state, "degraded") || !strings.Contains(state, "stategraft-grpc") {
		t.Errorf("the state does not say what is missing: %s", state)
	}
	for what, who := range map[string]Identity{"in the clear": {}, "with a certificate": c.client} {
		if answer, err := c.Ask(ctx, who); err != nil || answer.Code != "UNAVAILABLE" {
			t.Fatalf("asked %s: %+v, %v", what, answer, err)
		}
	}
	began := time.Now()
	step("Secret made", c.Identify(ctx))
	_, err = c.AwaitLog(ctx, patches.ContainerMedusa, secretLimit, "started Medusa")
	came := time.Since(began)
	step("served", err)
	backup, err := c.Backup(ctx, 0, "e2e-000001")
	if err == nil && backup.Status != "SUCCESS" {
		err = errors.New(backup.Status)
	}
	step("backed up", err)
	step("strangers refused", strangersRefused(ctx, c))

	began = time.Now()
	step("Secret changed", c.Identify(ctx))
	_, err = c.AwaitLog(ctx, patches.ContainerMedusa, secretLimit, "restarting Medusa")
	changed := time.Since(began)
	step("restarted", err)
	backup, err = c.Backup(ctx, 0, "e2e-000002")
	if err == nil && backup.Status != "SUCCESS" {
		err = errors.New(backup.Status)
	}
	step("backed up", err)
	now, err := e.Pod(ctx, c.Namespace, pod(0))
	step("pod read", err)
	for _, s := range now.Status.ContainerStatuses {
		if s.RestartCount != 0 || !s.Ready {
			t.Errorf("container %s: Ready %t, restarted %d times", s.Name, s.Ready, s.RestartCount)
		}
	}
	if !ready(now) {
		t.Errorf("the pod is not Ready: %+v", now.Status.Conditions)
	}
	figure(t, "served %s after its Secret came, restarted %s after it changed, no container restarted", seconds(came), seconds(changed))
}

// What the strangers are made of is good but for the one thing that is wrong with
// each: Go's TLS, asked as Medusa asks, tells them apart.
func TestIdentities(t *testing.T) {
	ours, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	issue := func(a *authority, use x509.ExtKeyUsage, names ...string) tls.Certificate {
		t.Helper()
		who, err := a.issue("someone", use, names...)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair([]byte(who.Cert), []byte(who.Key))
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	pool := x509.NewCertPool()
	pool.AddCert(ours.cert)
	server := issue(ours, x509.ExtKeyUsageServerAuth, "medusa.ns.stategraft.io")
	for _, c := range []struct {
		what, name string
		client     []tls.Certificate
		good       bool
	}{
		{"a client of ours", "medusa.ns.stategraft.io", []tls.Certificate{issue(ours, x509.ExtKeyUsageClientAuth)}, true},
		{"a client of ours at another namespace's", "medusa.other.stategraft.io", []tls.Certificate{issue(ours, x509.ExtKeyUsageClientAuth)}, false},
		{"no certificate", "medusa.ns.stategraft.io", nil, false},
		{"a server of ours", "medusa.ns.stategraft.io", []tls.Certificate{server}, false},
		{"a client of theirs", "medusa.ns.stategraft.io", []tls.Certificate{issue(theirs, x509.ExtKeyUsageClientAuth)}, false},
	} {
		near, far := net.Pipe()
		asked := make(chan error, 1)
		go func() {
			defer near.Close()
			asked <- tls.Server(near, &tls.Config{Certificates: []tls.Certificate{server}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}).HandshakeContext(t.Context())
		}()
		err := tls.Client(far, &tls.Config{Certificates: c.client, RootCAs: pool, ServerName: c.name}).HandshakeContext(t.Context())
		far.Close()
		if served := errors.Join(err, <-asked) == nil; served != c.good {
			t.Errorf("%s: served %v", c.what, served)
		}
	}
}
