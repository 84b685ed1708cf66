package coverage

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/test/cluster"
	"github.com/stategraft/stategraft/test/controlplane/rigged"
)

// rights are all that this controller needs.
var rights = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"namespaces", "resourcequotas", "limitranges"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"mutatingwebhookconfigurations"},
		ResourceNames: []string{"stategraft"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
}

// TestRig has a real API server admit pods with the webhook there, away and not
// asked, and finds each where it belongs.
func TestRig(t *testing.T) {
	if os.Getenv(cluster.EnabledEnv) != "1" {
		t.Skipf("needs a real control plane: set %s=1, after `go run ./test/cluster/cmd/rig build`", cluster.EnabledEnv)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	rig, err := rigged.Start(ctx, rigged.Options{Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rig.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s := &story{T: t, Rig: rig, ctx: ctx}
	for _, name := range []string{"covered", "late", "never"} {
		labels := map[string]string{api.LabelInject: api.InjectEnabled}
		if name != "covered" {
			labels = nil
		}
		if err := rig.CreateNamespace(ctx, name, labels, nil); err != nil {
			t.Fatal(err)
		}
	}
	s.create("late", "plain-official-41", "early-0")
	s.create("never", "plain-official-41", "other-0")
	s.run()

	s.expect("nothing of namespaces without the label", "")
	s.create("covered", "plain-official-41", "ring-0")
	s.create("covered", "plain-official-novolume", "bare-0")
	s.create("covered", "nginx", "web-0")
	s.expect("the skipped pod", "covered data-not-on-volume 1, injected cassandra 1")

	// The label is written in a later second than the pod: timestamps have no more.
	s.await("the next second", func() bool { return time.Now().After(s.pod("late", "early-0").CreationTimestamp.Add(time.Second)) })
	s.label("late", `"`+api.InjectEnabled+`"`)
	s.expect("the older pod", "covered data-not-on-volume 1, late created-before 1, injected cassandra 1")

	if err := rig.Webhook.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	s.create("covered", "plain-official-41", "missed-0")
	s.create("covered", "plain-official-novolume", "bare-1")
	s.expect("the pods of the time without webhook",
		"covered data-not-on-volume 2, covered webhook-was-down 1, late created-before 1, injected cassandra 1")
	s.await("the event on the pod", func() bool { return len(s.events("covered", "missed-0")) > 0 })
	e := s.events("covered", "missed-0")[0]
	if e.Type != "Warning" || e.Regarding.Kind != "Pod" || e.Regarding.UID != s.pod("covered", "missed-0").UID || !strings.Contains(e.Note, "did not answer") {
		t.Errorf("event %+v", e)
	}
	// Events are written in the order in which they were made.
	for _, pod := range []string{"late/early-0", "covered/bare-0", "covered/ring-0"} {
		namespace, name, _ := strings.Cut(pod, "/")
		if found := s.events(namespace, name); len(found) > 0 {
			t.Errorf("events on %s: %+v", pod, found)
		}
	}

	s.remove("covered", "missed-0")
	s.remove("covered", "ring-0")
	s.expect("without the pods that went", "covered data-not-on-volume 2, late created-before 1")
	s.end("covered", "bare-1")
	s.expect("without the pod that ended", "covered data-not-on-volume 1, late created-before 1")
	s.label("late", "null")
	s.expect("without the namespace that is not labelled any more", "covered data-not-on-volume 1")
	if err := rig.Client.CoreV1().Namespaces().Delete(ctx, "covered", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.expect("without the namespace that went", "")
}

type story struct {
	*testing.T
	*rigged.Rig
	ctx context.Context
}

// run starts the controller with its rights and no others.
func (s *story) run() {
	s.Helper()
	const name = "coverage"
	rbac := s.Client.RbacV1()
	_, err := rbac.ClusterRoles().Create(s.ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rights}, metav1.CreateOptions{})
	if err == nil {
		_, err = rbac.ClusterRoleBindings().Create(s.ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: name}}}, metav1.CreateOptions{})
	}
	if err != nil {
		s.Fatal(err)
	}
	config := rest.CopyConfig(s.Config())
	config.Impersonate.UserName = name
	logger := logr.FromSlogHandler(slog.NewTextHandler(s.Output(), nil))
	log.SetLogger(logger) // or controller-runtime complains after half a minute
	mgr, err := manager.New(config, manager.Options{Logger: logger, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		s.Fatal(err)
	}
	if err := Add(mgr, Options{settle: time.Second}); err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	s.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Errorf("the controller: %v", err)
		}
	})
}

func (s *story) create(namespace, corpusName, name string) {
	s.Helper()
	pods, _ := corpus(s.T)
	pod := &corev1.Pod{}
	if err := json.Unmarshal(pods[corpusName], pod); err != nil {
		s.Fatal(err)
	}
	pod.Namespace, pod.Name, pod.GenerateName = namespace, name, ""
	pod.OwnerReferences = nil // or the garbage collector, which does not find the owner, removes the pod
	if _, err := s.Client.CoreV1().Pods(namespace).Create(s.ctx, pod, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *story) pod(namespace, name string) *corev1.Pod {
	s.Helper()
	pod, err := s.Client.CoreV1().Pods(namespace).Get(s.ctx, name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return pod
}

func (s *story) remove(namespace, name string) {
	s.Helper()
	if err := s.Client.CoreV1().Pods(namespace).Delete(s.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		s.Fatal(err)
	}
}

// end has the pod fail, as a kubelet that evicts it does.
func (s *story) end(namespace, name string) {
	s.Helper()
	pod := s.pod(namespace, name)
	pod.Status.Phase = corev1.PodFailed
	if _, err := s.Client.CoreV1().Pods(namespace).UpdateStatus(s.ctx, pod, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// label sets the namespace's label to a value in JSON.
func (s *story) label(namespace, value string) {
	s.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, api.LabelInject, value)
	if _, err := s.Client.CoreV1().Namespaces().Patch(s.ctx, namespace, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *story) events(namespace, name string) (found []eventsv1.Event) {
	s.Helper()
	list, err := s.Client.EventsV1().Events(namespace).List(s.ctx, metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Regarding.Name == name && e.Reason == EventReason {
			found = append(found, e)
		}
	}
	return found
}

// expect waits for the series that are not 0, as the process's metrics have them.
func (s *story) expect(what, want string) {
	s.Helper()
	got := ""
	s.await(what, func() bool { got = s.series(); return got == want }, &got, "want "+want)
}

func (s *story) series() string {
	s.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		s.Fatal(err)
	}
	var without, injected []string
	leads := false
	for _, family := range families {
		for _, m := range family.GetMetric() {
			value := m.GetGauge().GetValue()
			switch family.GetName() {
			case "stategraft_pods_without_sidecar":
				without = append(without, fmt.Sprintf("%s %s %v", m.GetLabel()[0].GetValue(), m.GetLabel()[1].GetValue(), value))
			case "stategraft_injected_pods": // of the leader, all kinds
				leads = true
				if value != 0 {
					injected = append(injected, fmt.Sprintf("injected %s %v", m.GetLabel()[0].GetValue(), value))
				}
			}
		}
	}
	if !leads {
		return "no leader"
	}
	return strings.Join(append(without, injected...), ", ")
}

// await polls until done answers true, for a minute. What it was instead is said.
func (s *story) await(what string, done func() bool, instead ...any) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			for i, v := range instead {
				if text, ok := v.(*string); ok {
					instead[i] = *text
				}
			}
			s.Fatalf("waiting for %s: %v", what, instead)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
