package heal

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/test/cluster"
	"github.com/stategraft/stategraft/webhook"
)

// The tests on a control plane have a deadline of seconds, and stand in for kubelets
// and for the processes of the webhook and the controller, each with its own rights.
const (
	rigAfter = 2 * time.Second
	home     = "stategraft"
)

// rig is what they share; nil where they are to skip.
var rig *testRig

type testRig struct {
	*cluster.ControlPlane
	client  client.WithWatch // the administrator's
	kubelet *kubelet
	cancel  context.CancelFunc
	ended   context.CancelFunc // ends the controller
	running []chan error
	server  *httptest.Server
	log     logBuffer
}

// logBuffer keeps what the processes log, for a test that fails.
type logBuffer struct {
	mu    sync.Mutex
	lines []string
}

func (b *logBuffer) add(prefix, args string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, time.Now().Format(time.TimeOnly)+" "+prefix+" "+args)
}

func (b *logBuffer) tail(n int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines[max(0, len(b.lines)-n):], "\n")
}

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) (status int) {
	if os.Getenv(cluster.EnabledEnv) != "1" {
		return m.Run()
	}
	r, err := startRig(context.Background())
	if r != nil {
		defer func() {
			if err := r.stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				status = 1
			}
		}()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	rig = r
	return m.Run()
}

func startRig(ctx context.Context) (*testRig, error) {
	cp, err := cluster.Start(ctx, cluster.Options{Log: os.Stderr})
	if err != nil {
		return nil, err
	}
	r := &testRig{ControlPlane: cp}
	log.SetLogger(funcr.New(r.log.add, funcr.Options{}))
	ctx, r.cancel = context.WithCancel(ctx)
	admin := cp.Config()
	admin.WarningHandler = rest.NoWarnings{}
	if r.client, err = client.NewWithWatch(admin, client.Options{}); err != nil {
		return r, err
	}
	if err := r.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: home}}); err != nil {
		return r, err
	}
	rights, err := os.Open("testdata/rights.yaml")
	if err != nil {
		return r, err
	}
	defer rights.Close()
	if _, err := cp.Kubectl(ctx, rights, "apply", "-f", "-"); err != nil {
		return r, err
	}
	for _, name := range []string{"heal", "webhook"} {
		if err := r.bind(ctx, name); err != nil {
			return r, err
		}
	}
	if err := r.startWebhook(ctx); err != nil {
		return r, err
	}
	r.kubelet = &kubelet{client: r.client}
	for name, size := range map[string][2]string{"large": {"64", "256Gi"}, "small": {"1", "4Gi"}} {
		if err := r.kubelet.addNode(ctx, name, size[0], size[1]); err != nil {
			return r, err
		}
	}
	r.background(func() error {
		r.kubelet.run(ctx, func(format string, args ...any) { r.log.add("kubelet", fmt.Sprintf(format, args...)) })
		return nil
	})
	return r, r.startController(ctx)
}

// bind gives a ServiceAccount the roles of its name.
func (r *testRig) bind(ctx context.Context, name string) error {
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: home, Name: name}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	if err := r.client.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects, RoleRef: ref}); err != nil {
		return err
	}
	ref.Kind = "Role"
	return r.client.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name}, Subjects: subjects, RoleRef: ref})
}

// as is a configuration with the rights of a ServiceAccount.
func (r *testRig) as(name string) *rest.Config {
	c := r.Config()
	c.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + home + ":" + name}
	return c
}

func (r *testRig) background(f func() error) {
	done := make(chan error, 1)
	r.running = append(r.running, done)
	go func() { done <- f() }()
}

func (r *testRig) stop() error {
	r.cancel()
	if r.ended != nil {
		r.ended()
	}
	var first error
	for _, done := range r.running {
		if err := <-done; err != nil && first == nil {
			first = err
		}
	}
	if r.server != nil {
		r.server.Close()
	}
	if err := r.ControlPlane.Stop(context.Background()); first == nil {
		first = err
	}
	return first
}

// startController makes the controller's process, in place of one that runs.
func (r *testRig) startController(ctx context.Context) error {
	if r.ended != nil {
		r.ended()
		if err := <-r.running[len(r.running)-1]; err != nil {
			return err
		}
		r.running = r.running[:len(r.running)-1]
	}
	mgr, err := manager.New(r.as("heal"), manager.Options{Logger: log.Log, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, Cache: cache.Options{ByObject: ByObject()}})
	if err != nil {
		return err
	}
	if err := Add(mgr, Options{Namespace: home, After: rigAfter}); err != nil {
		return err
	}
	ctx, r.ended = context.WithCancel(ctx)
	r.background(func() error { return mgr.Start(ctx) })
	return nil
}

// startWebhook makes the webhook's process and has the API server call it.
func (r *testRig) startWebhook(ctx context.Context) error {
	mgr, err := manager.New(r.as("webhook"), manager.Options{Logger: log.Log, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: webhook.HeldBackCache(home)}}})
	if err != nil {
		return err
	}
	namespaces, err := webhook.WatchNamespaces(ctx, mgr.GetCache())
	if err != nil {
		return err
	}
	held, err := webhook.WatchHeldBack(ctx, mgr.GetCache(), home, log.Log)
	if err != nil {
		return err
	}
	r.background(func() error { return mgr.Start(ctx) })
	if !mgr.GetCache().WaitForCacheSync(ctx) {
		return context.Cause(ctx)
	}
	configuration := webhook.DefaultConfig()
	r.server = httptest.NewTLSServer(webhook.New(&webhook.Handler{Namespaces: namespaces, Config: func() *webhook.Config { return configuration },
		Log: log.Log, NativeSidecars: func() bool { return true }, HeldBack: held.Find}))
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw})
	return r.client.Create(ctx, &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "stategraft"}, Webhooks: []admissionv1.MutatingWebhook{{
		Name: "pods.stategraft.io", ClientConfig: admissionv1.WebhookClientConfig{URL: new(r.server.URL + webhook.Path), CABundle: ca},
		Rules: []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}}},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{api.LabelInject: api.InjectEnabled}},
		SideEffects:       new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"}, FailurePolicy: new(admissionv1.Fail),
	}}})
}

// scenario gives a labelled namespace of the test's own, in which pods are injected,
// or skips the test.
func scenario(t *testing.T, annotations map[string]string) (context.Context, string) {
	t.Helper()
	if rig == nil {
		t.Skipf("needs a real control plane: set %s=1, after `go run ./test/cluster/cmd/rig build`", cluster.EnabledEnv)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "heal-", Labels: map[string]string{api.LabelInject: api.InjectEnabled}, Annotations: annotations}}
	if err := rig.client.Create(ctx, ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = rig.client.Delete(context.Background(), ns) // not waited for
		if t.Failed() {
			t.Logf("the last lines of the log:\n%s", rig.log.tail(40))
		}
	})
	await(ctx, t, "the ServiceAccount, and the API server to call the webhook", func() (bool, error) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "probe"}, Spec: databaseSpec("1")}
		err := rig.client.Create(ctx, pod, client.DryRunAll)
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil && pod.Labels[api.LabelInjected] != "", err
	})
	return ctx, ns.Name
}

// await polls until done, and names what it waits for.
func await(ctx context.Context, t *testing.T, what string, done func() (bool, error)) {
	t.Helper()
	for {
		ok, err := done()
		if err != nil && ctx.Err() == nil {
			t.Fatalf("waiting for %s: %v", what, err)
		}
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
