package deploy_test

import (
	"bytes"
	"context"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/stategraft/stategraft/test/cluster"
)

// TestReleaseWithController is a release whose controller runs, with the rights
// that it is given: it and Helm get on with each other, in what they both write
// and in what they remove.
func TestReleaseWithController(t *testing.T) {
	cp, h := rig(t)
	program := buildProgram(t)
	awaitGone(t, cp)
	cleanRelease(t, cp, h)
	c := client(t, cp, "")
	const db = "controller-db"
	namespace(t, cp, db, map[string]string{"stategraft.io/inject": "enabled"})
	run := func(args ...string) {
		t.Helper()
		if out, err := h.Run(t.Context(), append(args, "--namespace", home)...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	run("install", "stategraft", "chart", "--create-namespace", "--set", "certificates.mode=self-signed")
	stop, log := startController(t, cp, program)
	filled := func() (data []string) {
		for ns, names := range map[string][]string{home: {"stategraft-ca", "stategraft-webhook-tls"}, db: {"stategraft-grpc"}} {
			for _, name := range names {
				s, err := c.CoreV1().Secrets(ns).Get(t.Context(), name, metav1.GetOptions{})
				if err != nil || len(s.Data["tls.crt"]) == 0 || len(s.Data["ca.crt"]) == 0 {
					return nil
				}
				data = append(data, name+string(s.Data["tls.crt"]))
			}
		}
		hook, err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "stategraft", metav1.GetOptions{})
		if err != nil || len(hook.Webhooks[0].ClientConfig.CABundle) == 0 {
			return nil
		}
		data = append(data, string(hook.Webhooks[0].ClientConfig.CABundle))
		slices.Sort(data)
		return data
	}
	defer func() {
		if t.Failed() {
			t.Logf("the controller's log:\n%s", log())
		}
	}()
	awaitTrue(t, "the certificates", func() bool { return filled() != nil })
	before := filled()
	run("upgrade", "stategraft", "chart", "--reset-then-reuse-values", "--set", "webhook.replicas=3,commonLabels.team=storage")
	if after := filled(); !slices.Equal(before, after) {
		t.Errorf("after an upgrade the certificates are others:\n%v\nwere\n%v", after, before)
	}

	// It still runs, as it does in a cluster until its pod has ended.
	run("uninstall", "stategraft")
	// What it has found in the storage stays in the namespace of the database.
	stay := slices.Sorted(slices.Values(append([]string{"configmaps/stategraft-catalogue"}, staysBehind...)))
	left := func() []string { return slices.Sorted(maps.Keys(objects(t, cp))) }
	defer func() {
		if t.Failed() {
			t.Logf("left: %v", left())
		}
	}()
	awaitTrue(t, "all that was installed to be gone", func() bool { return slices.Equal(left(), stay) })
	stop()
	if left := left(); !slices.Equal(left, stay) {
		t.Errorf("the controller made something again: %v", left)
	}
}

func buildProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "stategraft")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "../cmd/stategraft").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// startController runs the controller with its ServiceAccount and answers how to
// end it, and its log once it has ended.
func startController(t *testing.T, cp *cluster.ControlPlane, program string) (stop func(), log func() string) {
	t.Helper()
	const account = "stategraft-controller"
	token, err := client(t, cp, "").CoreV1().ServiceAccounts(home).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: cp.Config().Host, CertificateAuthorityData: cp.Config().CAData}
	config.AuthInfos["c"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "c"}
	config.CurrentContext = "c"
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, program, "controller", "--certificates", "self-signed", "--namespace", home, "--kubeconfig", kubeconfig,
		"--metrics-bind-address", "0", "--health-probe-bind-address", "0")
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Minute // and then SIGKILL
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // without its lease it ends badly
		close(ended)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return stop, func() string {
		stop()
		return output.String()
	}
}
