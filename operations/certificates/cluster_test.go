package certificates

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const home = "stategraft"

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var selfSigned = func() Options {
	o, err := Options{Mode: SelfSigned, Namespace: home, CAValidity: 300 * time.Hour, Validity: 60 * time.Hour}.withDefaults()
	if err != nil {
		panic(err)
	}
	return o
}()

// pretended is a cluster that holds objects and nothing else, with a clock.
type pretended struct {
	client.Client
	now    time.Time
	writes []string // verb and kind/name of each write
	fail   func(verb, object string) error
	events recorder
}

func pretend(t *testing.T, objects ...client.Object) *pretended {
	t.Helper()
	p := &pretended{now: noon}
	write := func(verb, object string) error {
		p.writes = append(p.writes, verb+" "+object)
		if p.fail != nil {
			return p.fail(verb, object)
		}
		return nil
	}
	p.Client = fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := write("update", o.GetNamespace()+"/"+o.GetName()); err != nil {
				return err
			}
			return c.Update(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := write("patch", o.GetNamespace()+"/"+o.GetName()); err != nil {
				return err
			}
			return c.Patch(ctx, o, patch, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			named := o.(interface{ GetName() *string })
			if err := write("apply", *named.GetName()); err != nil {
				return err
			}
			return c.Apply(ctx, o, opts...)
		},
	}).Build()
	return p
}

func (p *pretended) rotation() *rotation {
	return &rotation{options: selfSigned, reader: p.Client, writer: p.Client, log: logr.Discard(), now: func() time.Time { return p.now }}
}

func (p *pretended) namespaces(o Options) *namespaces {
	now := func() time.Time { return p.now }
	return &namespaces{namespaces: p.Client, secrets: p.Client, writer: p.Client, source: newSource(p.Client, o, now), own: o.Namespace, validity: o.Validity, events: &p.events, now: now}
}

// settle reconciles until nothing is written, and answers when to come back.
func settle(t *testing.T, p *pretended, r reconcile.Reconciler, name string) time.Duration {
	t.Helper()
	for range 10 {
		before := len(p.writes)
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
		if err != nil {
			t.Fatal(err)
		}
		if len(p.writes) == before {
			return result.RequeueAfter
		}
	}
	t.Fatalf("it goes on writing: %q", p.writes)
	return 0
}

func (p *pretended) secret(t *testing.T, namespace, name string) *corev1.Secret {
	t.Helper()
	secret, err := readSecret(t.Context(), p.Client, client.ObjectKey{Namespace: namespace, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	if secret == nil {
		t.Fatalf("there is no secret %s/%s", namespace, name)
	}
	return secret
}

func (p *pretended) configuration(t *testing.T) *admissionregistrationv1.MutatingWebhookConfiguration {
	t.Helper()
	var c admissionregistrationv1.MutatingWebhookConfiguration
	if err := p.Get(t.Context(), client.ObjectKey{Name: DefaultWebhookConfiguration}, &c); err != nil {
		t.Fatal(err)
	}
	return &c
}

// webhookConfiguration has an entry of ours, one of another, and one by URL.
func webhookConfiguration() *admissionregistrationv1.MutatingWebhookConfiguration {
	entry := func(name string, c admissionregistrationv1.WebhookClientConfig) admissionregistrationv1.MutatingWebhook {
		none, ignore, seconds := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Ignore, int32(7)
		return admissionregistrationv1.MutatingWebhook{Name: name, ClientConfig: c, SideEffects: &none, FailurePolicy: &ignore, TimeoutSeconds: &seconds, AdmissionReviewVersions: []string{"v1"}}
	}
	service := func(namespace, name string) admissionregistrationv1.WebhookClientConfig {
		path := "/mutate-v1-pod"
		return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: name, Path: &path}}
	}
	url := "https://example.org"
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: DefaultWebhookConfiguration, Annotations: map[string]string{"kept": "yes"}},
		Webhooks: []admissionregistrationv1.MutatingWebhook{
			entry("another.example.org", service("elsewhere", DefaultWebhookService)),
			entry("pods.stategraft.io", service(home, DefaultWebhookService)),
			entry("url.example.org", admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: []byte("theirs")}),
			entry("more.stategraft.io", service(home, DefaultWebhookService)),
		},
	}
}

// recorder keeps the reasons of events.
type recorder struct {
	mu      sync.Mutex
	reasons []string
}

// Eventf implements events.EventRecorder.
func (r *recorder) Eventf(_, _ runtime.Object, _, reason, _, _ string, _ ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reasons = append(r.reasons, reason)
}
