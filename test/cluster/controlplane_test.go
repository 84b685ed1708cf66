package cluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// requireRig skips a test that starts a control plane unless it is asked for.
func requireRig(t *testing.T) {
	t.Helper()
	if os.Getenv(EnabledEnv) != "1" {
		t.Skipf("starts a real control plane: set %s=1 to run it, after `go run ./test/cluster/cmd/rig build`", EnabledEnv)
	}
}

// startForTest starts a control plane and sees to its end.
func startForTest(t *testing.T, opts Options) *ControlPlane {
	t.Helper()
	opts.Log = t.Output()
	cp, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return cp
}

const statefulSet = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: rig-test}
spec:
  replicas: 2
  podManagementPolicy: Parallel
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: main, image: example.invalid/db:1}]
`

func TestControlPlane(t *testing.T) {
	requireRig(t)
	// Two at once: what is done with one must not show in the other.
	cp := startForTest(t, Options{})
	other := startForTest(t, Options{Dir: t.TempDir(), ExtraAPIServerArgs: []string{"--v=1"}})
	var pids []int
	for _, each := range []*ControlPlane{cp, other} {
		for _, s := range each.running {
			pids = append(pids, s.process.pid)
		}
	}
	if len(pids) != 8 {
		t.Fatalf("running processes: %v", pids)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	client, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}

	if _, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{}); err != nil {
		t.Errorf("default ServiceAccount: %v", err)
	}
	if _, err := cp.Kubectl(ctx, nil, "create", "namespace", "rig-test"); err != nil {
		t.Fatal(err)
	}
	if out, err := cp.Kubectl(ctx, strings.NewReader(statefulSet), "apply", "-f", "-"); err != nil || !strings.Contains(out, "statefulset.apps/db created") {
		t.Fatalf("kubectl apply: %q, %v", out, err)
	}
	awaitPendingPods(ctx, t, client, 2)

	if out, err := other.Kubectl(ctx, nil, "get", "namespace", "rig-test"); err == nil || !strings.Contains(err.Error(), "NotFound") {
		t.Errorf("the other control plane: %q, %v", out, err)
	}
	for _, component := range []string{APIServer, Etcd, ControllerManager} {
		if err := cp.Restart(ctx, component); err != nil {
			t.Fatal(err)
		}
	}
	// Both the data and the controllers are back.
	if _, err := cp.Kubectl(ctx, nil, "-n", "rig-test", "scale", "statefulset", "db", "--replicas=3"); err != nil {
		t.Fatal(err)
	}
	awaitPendingPods(ctx, t, client, 3)

	dir := cp.state.dir
	for _, each := range []*ControlPlane{cp, other} {
		for _, s := range each.running {
			pids = append(pids, s.process.pid)
		}
		if err := each.Stop(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, pid := range pids {
		if !gone(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the temporary state folder is left: %v", err)
	}
	if _, err := os.Stat(other.LogFile(APIServer)); err != nil {
		t.Errorf("the log in a given folder: %v", err)
	}
}

func awaitPendingPods(ctx context.Context, t *testing.T, client kubernetes.Interface, want int) {
	t.Helper()
	for {
		// An error is that of a server that was started again, and is waited out.
		pods, err := client.CoreV1().Pods("rig-test").List(ctx, metav1.ListOptions{LabelSelector: "app=db"})
		if err != nil {
			pods = &corev1.PodList{}
		}
		pending := 0
		for _, pod := range pods.Items {
			if pod.Status.Phase == corev1.PodPending && pod.Spec.ServiceAccountName == "default" {
				pending++
			}
		}
		if pending == want && len(pods.Items) == want {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d of %d pods are pending, want %d (%v)", pending, len(pods.Items), want, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func TestStartTellsWhyAServerEnded(t *testing.T) {
	requireRig(t)
	dir := t.TempDir()
	_, err := Start(t.Context(), Options{Dir: dir, Log: t.Output(), ExtraAPIServerArgs: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), APIServer) || !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("got error %v", err)
	}
	if files, _ := filepath.Glob(state{dir}.pidFile("*")); len(files) > 0 {
		t.Errorf("pid files are left: %v", files)
	}
}
