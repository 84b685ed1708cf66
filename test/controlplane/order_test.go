package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

var restoreResource = api.GroupVersion.WithResource("restores")

// pendingRestore makes a Restore that has pods of the names pending.
func pendingRestore(ctx context.Context, t *testing.T, in string, mode api.RestoreMode, names ...string) *api.Restore {
	t.Helper()
	restore := &api.Restore{TypeMeta: metav1.TypeMeta{APIVersion: api.GroupVersion.String(), Kind: "Restore"},
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "back"},
		Spec:       api.RestoreSpec{Backup: "nightly", Mode: mode, Pods: api.RestorePods{Names: names}, KeepPrevious: api.KeepIfRoom}}
	if mode == api.Remote {
		restore.Spec.Source = &api.RestoreSource{Cluster: "production"}
	}
	created, err := shared.Dynamic.Resource(restoreResource).Namespace(in).Create(ctx, asMap(t, restore), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	restore.ResourceVersion = created.GetResourceVersion()
	restore.Status.ID, restore.Status.Backup, restore.Status.Pending = restore.RequestID(), "nightly", names
	for _, name := range names {
		restore.Status.Pods = append(restore.Status.Pods, api.PodRestore{Name: name, Phase: api.PodStopping, Action: api.ActionRestore,
			Node: "other-0", Tokens: []string{"-9223372036854775808", "5"}})
	}
	if _, err := shared.Dynamic.Resource(restoreResource).Namespace(in).UpdateStatus(ctx, asMap(t, restore), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return restore
}

func asMap(t *testing.T, object any) *unstructured.Unstructured {
	t.Helper()
	raw, err := json.Marshal(object)
	out := &unstructured.Unstructured{}
	if err == nil {
		err = json.Unmarshal(raw, &out.Object)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestOrders creates the injected pods of the corpus while a Restore has them pending:
// the API server and its policy take what the webhook makes of them.
func TestOrders(t *testing.T) {
	ctx, _ := start(t)
	for in, mode := range map[string]api.RestoreMode{"orders": api.InPlace, "orders-remote": api.Remote} {
		namespace(ctx, t, in, labelled(), nil)
		pods, names := map[string]*unstructured.Unstructured{}, []string{}
		for _, row := range rows(t) {
			pod := readPod(t, row.path)
			if row.decision == "inject" && row.kind == "cassandra" && pod.GetName() != "" {
				pods[row.name], names = pod, append(names, pod.GetName())
			}
		}
		slices.Sort(names)
		names = slices.Compact(names)
		if len(pods) < 10 {
			t.Fatalf("only %d pods", len(pods))
		}
		restore := pendingRestore(ctx, t, in, mode, names...)
		await(ctx, t, "the webhook to know the Restore", func() bool {
			created, _, err := create(ctx, t, in, pods["plain-official-41"], metav1.DryRunAll)
			return err == nil && len(typed(t, created).Spec.SchedulingGates) == 1
		})
		for name, pod := range pods {
			t.Run(in+"/"+name, func(t *testing.T) {
				created, told := mustCreate(ctx, t, in, pod)
				got := typed(t, created)
				restores := slices.ContainsFunc(got.Spec.InitContainers, func(c corev1.Container) bool {
					return c.Name == patches.ContainerRestore && slices.Contains(c.Env, corev1.EnvVar{Name: api.EnvRestoreID, Value: restore.Status.ID})
				})
				if !restores || len(got.Spec.SchedulingGates) != 1 || got.Spec.SchedulingGates[0].Name != api.GateRestore {
					t.Errorf("restores %v, gates %v", restores, got.Spec.SchedulingGates)
				}
				joins := strings.Contains(fmt.Sprint(got.Spec.Containers), "-Dcassandra.initial_token=-9223372036854775808,5 -Dcassandra.auto_bootstrap=false")
				if joins != (mode == api.Remote) {
					t.Errorf("joins with the tokens: %v", joins)
				}
				for _, text := range told {
					if strings.Contains(text, "not injected") {
						t.Errorf("told %q", text)
					}
				}
			})
		}
	}
}

// TestOrderWithoutWebhook stops the webhook: the API server by itself refuses the pod
// that is pending, and says who wants it restored.
func TestOrderWithoutWebhook(t *testing.T) {
	ctx, rig := start(t)
	const in = "orders-down"
	labels := labelled()
	labels[api.LabelRestoring] = api.RestoringTrue // as the controller does before it names pods
	namespace(ctx, t, in, labels, nil)
	var pod *unstructured.Unstructured
	for _, row := range rows(t) {
		if row.name == "plain-official-41" {
			pod = readPod(t, row.path)
		}
	}
	pendingRestore(ctx, t, in, api.InPlace, pod.GetName())
	if err := rig.Webhook.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // for the tests that follow
		if err := rig.Webhook.Start(context.Background()); err != nil {
			t.Error(err)
		}
	})
	await(ctx, t, "the policy to know the Restore", func() bool {
		created, _, err := create(ctx, t, in, pod)
		if err == nil {
			remove(ctx, t, created)
			return false
		}
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "Restore back") || !strings.Contains(err.Error(), "kubectl stategraft restore cancel back -n "+in) {
			t.Fatalf("refused with %v", err)
		}
		return true
	})
	other := pod.DeepCopy()
	other.SetName("another-0")
	mustCreate(ctx, t, in, other)
}
