package certificates_test

import (
	"bytes"
	"crypto/tls"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/certs"
	"github.com/stategraft/stategraft/deploy"
	"github.com/stategraft/stategraft/operations/certificates"
)

// TestSelfSigned installs with certificates of our own, with the rights of the
// manifest, and looks at the rotation under load and at the namespaces' Secrets.
func TestSelfSigned(t *testing.T) {
	r := startRig(t)
	r.install(t, deploy.SelfSigned)
	address := freeAddress(t)
	r.register(t, deploy.SelfSigned, address)
	args := []string{"controller", "--certificates", "self-signed", "--ca-validity", "63s", "--certificate-validity", "27s"}
	controller := r.start(t, "stategraft-controller", args...)
	r.secret(t, home, certificates.SecretServing)
	webhook := r.webhook(t, address)
	r.namespace(t, "ring", labelled)
	await(t, "the first injected pod", func() bool {
		pod, err := r.client.CoreV1().Pods("ring").Create(t.Context(), cassandra("first"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && injected(pod)
	})

	again := func() { // of the whole test, as the parts that follow need it too
		controller.stop(t)
		controller = r.start(t, "stategraft-controller", args...)
	}
	t.Run("rotation", func(t *testing.T) {
		load := r.run(t, "ring", address)
		began := time.Now()
		signers := r.follow(t, again)
		load.judge(t, int(time.Since(began)/interval)/4)
		t.Logf("%d authorities signed in %s", signers, time.Since(began).Round(time.Second))
	})
	t.Run("metrics", func(t *testing.T) {
		for _, one := range []struct {
			p    *process
			name string
			than float64
		}{
			{controller, "stategraft_leader", 0},
			{controller, `stategraft_certificate_expiry_timestamp_seconds{certificate="ca"}`, float64(time.Now().Unix())},
			{controller, `stategraft_certificate_expiry_timestamp_seconds{certificate="webhook"}`, float64(time.Now().Unix())},
			{controller, `stategraft_certificate_expiry_timestamp_seconds{certificate="grpc"}`, float64(time.Now().Unix())},
			{controller, `stategraft_certificate_rotations_total{certificate="webhook"}`, 0},
			{webhook, `stategraft_certificate_expiry_timestamp_seconds{certificate="serving"}`, float64(time.Now().Unix())},
		} {
			text := one.p.metric(t, one.name)
			if value, err := strconv.ParseFloat(text, 64); err != nil || value <= one.than {
				t.Errorf("%s is %q, want more than %v", one.name, text, one.than)
			}
		}
		if text := webhook.metric(t, "stategraft_leader"); text != "" {
			t.Errorf("the webhook's process tells who leads: %s", text)
		}
	})
	t.Run("bundle emptied", func(t *testing.T) {
		empty := []byte(`[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]`)
		if _, err := r.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(t.Context(), certificates.DefaultWebhookConfiguration,
			types.JSONPatchType, empty, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		await(t, "the bundle to be back", func() bool { bundle, err := r.caBundle(t.Context()); return err == nil && len(bundle) > 0 })
	})
	t.Run("namespaces", func(t *testing.T) { r.namespaces(t) })
	if errors := controller.lines(`"level":"ERROR"`); len(errors) > 0 {
		t.Errorf("errors in the controller's log:\n%s", strings.Join(errors, ""))
	}
}

// follow watches until two other authorities have signed and the bundle has lost
// the former ones. In between it has the controller stopped and started.
func (r *rig) follow(t *testing.T, restart func()) int {
	t.Helper()
	bundles, signers := 0, map[string]bool{}
	restarted := false
	until := time.Now().Add(6 * time.Minute)
	for time.Now().Before(until) {
		secret := r.secret(t, home, certificates.SecretAuthority)
		signers[string(secret.Data[certs.KeyCert])] = true
		if bundle, err := r.caBundle(t.Context()); err != nil {
			t.Fatal(err)
		} else if n := bytes.Count(bundle, []byte("BEGIN")); n > 1 {
			bundles = n
		} else if len(signers) > 2 && bundles > 1 {
			return len(signers)
		}
		if len(signers) == 2 && !restarted {
			restart()
			restarted = true
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Fatalf("only %d authorities signed, the largest bundle had %d", len(signers), bundles)
	return 0
}

// namespaces looks at the Secrets of the sidecars' gRPC.
func (r *rig) namespaces(t *testing.T) {
	ctx := t.Context()
	secret := r.secret(t, "ring", certificates.SecretGRPC)
	if _, err := tls.X509KeyPair(secret.Data[certs.KeyCert], secret.Data[certs.KeyKey]); err != nil {
		t.Error(err)
	}
	if secret.Type != corev1.SecretTypeTLS || len(secret.Data[certs.KeyCA]) == 0 {
		t.Errorf("type %s, data %d", secret.Type, len(secret.Data))
	}

	// Labelled later; deleted; emptied.
	r.namespace(t, "later", nil)
	label := []byte(`{"metadata":{"labels":{"stategraft.io/inject":"enabled"}}}`)
	if _, err := r.client.CoreV1().Namespaces().Patch(ctx, "later", types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.secret(t, "later", certificates.SecretGRPC)
	if err := r.client.CoreV1().Secrets("later").Delete(ctx, certificates.SecretGRPC, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.secret(t, "later", certificates.SecretGRPC)
	if _, err := r.client.CoreV1().Secrets("later").Patch(ctx, certificates.SecretGRPC, types.MergePatchType, []byte(`{"data":{"tls.crt":"","tls.key":""}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	r.secret(t, "later", certificates.SecretGRPC)

	// Another's Secret of that name.
	r.namespace(t, "taken", nil)
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: certificates.SecretGRPC}, Data: map[string][]byte{"theirs": []byte("kept")}}
	if _, err := r.client.CoreV1().Secrets("taken").Create(ctx, foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.CoreV1().Namespaces().Patch(ctx, "taken", types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "an event about the other's Secret", func() bool {
		events, err := r.client.EventsV1().Events("taken").List(ctx, metav1.ListOptions{FieldSelector: "reason=StategraftSecretInTheWay"})
		return err == nil && len(events.Items) > 0
	})
	if kept, err := r.client.CoreV1().Secrets("taken").Get(ctx, certificates.SecretGRPC, metav1.GetOptions{}); err != nil || len(kept.Data) != 1 {
		t.Errorf("another's Secret was changed: %v, %v", kept, err)
	}

	// A namespace that is removed.
	if err := r.client.CoreV1().Namespaces().Delete(ctx, "later", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the namespace to go", func() bool {
		_, err := r.client.CoreV1().Namespaces().Get(ctx, "later", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}
