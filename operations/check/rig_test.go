package check_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/check"
	"github.com/stategraft/stategraft/test/cluster"
	"github.com/stategraft/stategraft/test/controlplane/rigged"
)

// rig is a control plane with the webhook, and the built command line.
type rig struct {
	*testing.T
	*rigged.Rig
	ctx    context.Context
	viewer string // kubeconfig of somebody who may only view
}

// run runs check -o json, and answers its report, its status and what it wrote
// to standard error.
func (r rig) run(kubeconfig string, args ...string) (check.Report, int, string) {
	r.Helper()
	if kubeconfig == "" {
		kubeconfig = r.Kubeconfig()
	}
	command := exec.CommandContext(r.ctx, r.Program("kubectl-stategraft"), append([]string{"check", "-o", "json", "--kubeconfig", kubeconfig}, args...)...)
	var out, notes bytes.Buffer
	command.Stdout, command.Stderr = &out, &notes
	var exit *exec.ExitError
	if err := command.Run(); err != nil && !errors.As(err, &exit) {
		r.Fatal(err)
	}
	var report check.Report
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &report); err != nil {
			r.Fatalf("%v in\n%s", err, &out)
		}
	}
	return report, command.ProcessState.ExitCode(), notes.String()
}

// want expects a finding of the item in the report.
func (r rig) want(report check.Report, item string, status check.Status, subject, part string) {
	r.Helper()
	if !has(report, item, status, subject, part) {
		r.Errorf("no finding %s of %s on %q with %q in %s", status, item, subject, part, described(report))
	}
}

func has(report check.Report, item string, status check.Status, subject, part string) bool {
	return slices.ContainsFunc(report.Findings, func(f check.Finding) bool {
		return f.Item == item && f.Status == status && f.Subject == subject && strings.Contains(f.Message, part)
	})
}

func described(report check.Report) string {
	var b bytes.Buffer
	_ = report.Text(&b, false)
	return b.String()
}

// eventually runs check until the finding is there.
func (r rig) eventually(item string, status check.Status, subject, part string) (check.Report, int) {
	r.Helper()
	var report check.Report
	var exit int
	r.await(part, func() bool {
		report, exit, _ = r.run("")
		return has(report, item, status, subject, part)
	}, func() string { return described(report) })
	return report, exit
}

func (r rig) await(what string, done func() bool, last func() string) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.ctx, time.Minute)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			r.Fatalf("waiting for %s; the last:\n%s", what, last())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (r rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// TestOnControlPlane breaks one thing after the other in front of a real API
// server. The webhook is registered by URL, so that its certificate is asked for
// at its address.
func TestOnControlPlane(t *testing.T) {
	if os.Getenv(cluster.EnabledEnv) != "1" {
		t.Skipf("needs a real control plane: set %s=1, after `go run ./test/cluster/cmd/rig build`", cluster.EnabledEnv)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	started, err := rigged.Start(ctx, rigged.Options{Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := started.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	r := rig{T: t, Rig: started, ctx: ctx}
	r.viewer = r.makeViewer()
	step := func(name string, f func(rig)) {
		if !t.Failed() {
			t.Run(name, func(t *testing.T) { f(rig{t, started, ctx, r.viewer}) })
		}
	}
	r.must(r.CreateNamespace(ctx, "db", map[string]string{api.LabelInject: api.InjectEnabled}, map[string]string{api.AnnotationGRPCTLS: "off"}))
	r.database("db")
	step("healthy", healthy)
	step("a ConfigMap is missing", missing)
	step("pods from before", before)
	step("no rights", noRights)
	step("webhook stopped", stopped)
	step("wrong CA", wrongCA)
	step("a match condition", condition)
	step("a restore that nobody saw", unseen)
	step("a Restore that is stuck", stuck)
	step("no Restores", noCRD)
	step("no namespace", noNamespace)
	step("no cluster", noCluster)
	step("not installed", notInstalled)
}

// database makes a StatefulSet of one Cassandra, with all that its sidecars want,
// and waits for its pod.
func (r rig) database(namespace string) {
	r.Helper()
	core := r.Client.CoreV1()
	_, err := core.ConfigMaps(namespace).Create(r.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "medusa"}, Data: map[string]string{"medusa.ini": "[storage]\n"}}, metav1.CreateOptions{})
	r.must(err)
	_, err = core.Secrets(namespace).Create(r.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "medusa-bucket-key"}, StringData: map[string]string{"credentials": "x"}}, metav1.CreateOptions{})
	r.must(err)
	labels := map[string]string{"app": "ring"}
	_, err = core.Services(namespace).Create(r.ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "ring"},
		Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Selector: labels}}, metav1.CreateOptions{})
	r.must(err)
	pod := cassandra("")
	pod.Labels = labels
	_, err = r.Client.AppsV1().StatefulSets(namespace).Create(r.ctx, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "ring"},
		Spec: appsv1.StatefulSetSpec{ServiceName: "ring", Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}}}, metav1.CreateOptions{})
	r.must(err)
	r.await("the StatefulSet's pod", func() bool {
		_, err := core.Pods(namespace).Get(r.ctx, "ring-0", metav1.GetOptions{})
		return err == nil
	}, func() string { return "" })
}

func cassandra(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "cassandra", Image: "cassandra:5.0",
			Ports:        []corev1.ContainerPort{{ContainerPort: 9042}, {ContainerPort: 7000}},
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/cassandra"}}}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}}}
}

// makeViewer makes a ServiceAccount with the role view, and a kubeconfig for it.
func (r rig) makeViewer() string {
	r.Helper()
	const name = "viewer"
	_, err := r.Client.CoreV1().ServiceAccounts("default").Create(r.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	r.must(err)
	_, err = r.Client.RbacV1().ClusterRoleBindings().Create(r.ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name}}}, metav1.CreateOptions{})
	r.must(err)
	token, err := r.Client.CoreV1().ServiceAccounts("default").CreateToken(r.ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	r.must(err)
	config := r.Config()
	return r.kubeconfig(&clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}, &clientcmdapi.AuthInfo{Token: token.Status.Token})
}

func (r rig) kubeconfig(at *clientcmdapi.Cluster, as *clientcmdapi.AuthInfo) string {
	r.Helper()
	const name = "check"
	config := clientcmdapi.NewConfig()
	config.Clusters[name], config.AuthInfos[name] = at, as
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	path := filepath.Join(r.TempDir(), "kubeconfig")
	r.must(clientcmd.WriteToFile(*config, path))
	return path
}
