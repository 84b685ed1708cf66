package check_test

import (
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/certs"
	"github.com/stategraft/stategraft/operations/check"
)

// What TestOnControlPlane breaks, one after the other.

func healthy(r rig) {
	report, status, notes := r.run("")
	if status != 0 || report.Result != check.Fine || report.Mode != check.Doctor || notes != "" {
		r.Fatalf("status %d, %q:\n%s", status, notes, described(report))
	}
	for _, item := range report.Items {
		if item.Status.Worse(check.Info) && item.ID != "schedules" { // nobody has made one
			r.Errorf("%s is %s", item.ID, item.Status)
		}
	}
	r.want(report, "admission", check.OK, "db", "with its sidecars")
	r.want(report, "certificate", check.OK, r.Webhook.URL(), "valid for 127.0.0.1")
	r.want(report, "components", check.Info, "", "outside of the cluster")
	r.want(report, "restore-crd", check.OK, "restores.stategraft.io", "is served")
	r.want(report, "restore-policy", check.OK, "restore-pending.stategraft.io", "bound, and denies")
	r.want(report, "backup-crds", check.OK, "backupschedules.stategraft.io", "is served")
	r.want(report, "schedules", check.Warn, "db", "1 injected pod, and no BackupSchedule")
	r.want(report, "backups", check.OK, "", "no Backup")
	r.want(report, "restores", check.OK, "", "no Restore")
	r.want(report, "sidecars", check.OK, "", "1 injected pod")
	r.want(report, "ptr-records", check.OK, "", "1 injected Cassandra workload")
	pods, err := r.Client.CoreV1().Pods("db").List(r.ctx, metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 {
		r.Errorf("the dry runs left something: %d pods, %v", len(pods.Items), err)
	}
}

func missing(r rig) {
	r.must(r.Client.CoreV1().ConfigMaps("db").Delete(r.ctx, "medusa", metav1.DeleteOptions{}))
	r.must(r.Client.CoreV1().Services("db").Delete(r.ctx, "ring", metav1.DeleteOptions{}))
	_, err := r.Client.CoreV1().Secrets("db").Patch(r.ctx, "medusa-bucket-key", types.MergePatchType, []byte(`{"data":{"credentials":null,"other":"eA=="}}`), metav1.PatchOptions{})
	r.must(err)
	report, status, _ := r.run("")
	if status != 1 || report.Result != check.Broken {
		r.Errorf("status %d, %s", status, report.Result)
	}
	r.want(report, "references", check.Fail, "db/medusa", "is missing: the sidecar does not know where backups go (ring-0)")
	r.want(report, "references", check.Fail, "db/medusa-bucket-key", "nothing under credentials")
	r.want(report, "ptr-records", check.Fail, "db/StatefulSet/ring", "is missing")
	if _, status, _ = r.run("", "--only", "admission,restore-policy"); status != 0 {
		r.Errorf("status %d of items that have nothing to do with it", status)
	}
	r.must(r.Client.CoreV1().Namespaces().Delete(r.ctx, "db", metav1.DeleteOptions{}))
}

func before(r rig) {
	r.must(r.CreateNamespace(r.ctx, "old", map[string]string{api.LabelInject: "true"}, nil))
	created, err := r.Client.CoreV1().Pods("old").Create(r.ctx, cassandra("lone-0"), metav1.CreateOptions{})
	r.must(err)
	report, _, _ := r.run("", "-n", "old")
	r.want(report, "namespaces", check.Warn, "old", `is "true", which nobody reads`)
	r.want(report, "namespaces", check.Warn, "old", "is not labelled")
	// Kubernetes keeps full seconds, and a pod of the label's own counts as younger.
	time.Sleep(time.Until(created.CreationTimestamp.Add(time.Second)))
	_, err = r.Client.CoreV1().Namespaces().Patch(r.ctx, "old", types.MergePatchType, []byte(`{"metadata":{"labels":{"stategraft.io/inject":"enabled"}}}`), metav1.PatchOptions{})
	r.must(err)
	var status int // 0, for it is a warning; the API server and the webhook take a moment to know of the label
	r.await("a warning of the pod", func() bool {
		report, status, _ = r.run("", "-n", "old")
		return status == 0 && has(report, "sidecars", check.Warn, "old/lone-0", "created-before")
	}, func() string { return described(report) })
}

// noRights asks as somebody who may view what is in namespaces, and no Secrets.
func noRights(r rig) {
	report, status, notes := r.run(r.viewer, "-n", "old")
	if status != 2 || report.Result != check.Incomplete || !strings.Contains(notes, "not everything") || strings.Count(notes, "\n") != 1 {
		r.Errorf("status %d, %q:\n%s", status, notes, described(report))
	}
	if report.Installed != "unknown" {
		r.Errorf("installed: %s", report.Installed)
	}
	r.want(report, "rights", check.Info, "", "list mutatingwebhookconfigurations.admissionregistration.k8s.io")
	r.want(report, "nodes", check.Skip, "", "no right to list nodes")
	r.want(report, "webhook-configuration", check.Skip, "", "no right to list mutatingwebhookconfigurations")
	r.want(report, "certificate", check.Skip, "", "no right to")
	r.want(report, "admission", check.Skip, "old", "no right to create pods in namespace old")
	r.want(report, "restore-policy", check.Skip, "", "no right to list validatingadmissionpolicybindings")
	r.want(report, "sidecars", check.Warn, "old/lone-0", "why cannot be told")
	report, _, _ = r.run(r.viewer)
	r.want(report, "sidecars", check.Warn, "old/lone-0", "why cannot be told")
}

func stopped(r rig) {
	r.must(r.Webhook.Stop(r.ctx))
	_, err := r.Client.CoreV1().Pods("old").Create(r.ctx, cassandra("late-0"), metav1.CreateOptions{})
	r.must(err)
	report, status, _ := r.run("")
	if status != 1 {
		r.Errorf("status %d", status)
	}
	r.want(report, "admission", check.Fail, "old", "comes back without sidecars")
	r.want(report, "restore-policy", check.OK, "old", "a pod that asks for a restore is refused")
	r.want(report, "certificate", check.Skip, "", "does not answer from here")
	r.want(report, "sidecars", check.Fail, "old/late-0", "webhook-was-down")
	r.want(report, "sidecars", check.Warn, "old/lone-0", "created-before")
	r.must(r.Webhook.Start(r.ctx))
	r.eventually("admission", check.OK, "old", "with its sidecars")
}

func wrongCA(r rig) {
	other, err := certs.SelfSigned([]string{"127.0.0.1"}, time.Hour)
	r.must(err)
	configs := r.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	trust := func(ca []byte) {
		config, err := configs.Get(r.ctx, "stategraft", metav1.GetOptions{})
		r.must(err)
		config.Webhooks[0].ClientConfig.CABundle = ca
		_, err = configs.Update(r.ctx, config, metav1.UpdateOptions{})
		r.must(err)
	}
	trust(other.CA)
	report, status := r.eventually("admission", check.Fail, "old", "comes back without sidecars")
	if status != 1 {
		r.Errorf("status %d", status)
	}
	r.want(report, "certificate", check.Fail, r.Webhook.URL(), "does not accept the webhook's certificate for 127.0.0.1")
	trust(r.Webhook.CA)
	report, _ = r.eventually("admission", check.OK, "old", "with its sidecars")
	r.want(report, "certificate", check.OK, r.Webhook.URL(), "valid for")
}

// condition adds what kubectl edit may: the webhook answers, and is not called.
func condition(r rig) {
	configs := r.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	set := func(change func([]admissionregistrationv1.MatchCondition) []admissionregistrationv1.MatchCondition) {
		config, err := configs.Get(r.ctx, "stategraft", metav1.GetOptions{})
		r.must(err)
		config.Webhooks[0].MatchConditions = change(config.Webhooks[0].MatchConditions)
		_, err = configs.Update(r.ctx, config, metav1.UpdateOptions{})
		r.must(err)
	}
	set(func(list []admissionregistrationv1.MatchCondition) []admissionregistrationv1.MatchCondition {
		return append(list, admissionregistrationv1.MatchCondition{Name: "never", Expression: "false"})
	})
	report, _ := r.eventually("admission", check.Fail, "old", "was not called or did not answer")
	r.want(report, "webhook-configuration", check.Fail, "stategraft", "never (false)")
	set(func(list []admissionregistrationv1.MatchCondition) []admissionregistrationv1.MatchCondition {
		return list[:len(list)-1]
	})
	report, _ = r.eventually("admission", check.OK, "old", "with its sidecars")
	r.want(report, "webhook-configuration", check.OK, "", "")
}

// unseen has a pod that runs ask for a restore where nobody looks at it. Created
// so, the policy would refuse it.
func unseen(r rig) {
	r.must(r.CreateNamespace(r.ctx, "plain", nil, nil))
	pods := r.Client.CoreV1().Pods("plain")
	_, err := pods.Create(r.ctx, cassandra("asks-0"), metav1.CreateOptions{})
	r.must(err)
	_, err = pods.Patch(r.ctx, "asks-0", types.MergePatchType, []byte(`{"metadata":{"annotations":{"stategraft.io/restore":"nightly"}}}`), metav1.PatchOptions{})
	r.must(err)
	for _, args := range [][]string{nil, {"-n", "plain"}} {
		report, status, _ := r.run("", args...)
		if status != 1 {
			r.Errorf("%v: status %d", args, status)
		}
		r.want(report, "restore-policy", check.Fail, "plain/asks-0", "its namespace is not labelled")
	}
	r.must(pods.Delete(r.ctx, "asks-0", metav1.DeleteOptions{}))
}

func noNamespace(r rig) {
	for name, part := range map[string]string{"nosuch": `there is no namespace "nosuch"`, "Bad_Name!": "is not the name of a namespace"} {
		report, status, notes := r.run("", "-n", name)
		if status != 2 || report.Kind != "" || strings.Count(notes, "\n") != 1 || !strings.Contains(notes, part) {
			r.Errorf("%s: status %d, %q", name, status, notes)
		}
	}
}

func noCluster(r rig) {
	kubeconfig := r.kubeconfig(&clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}, &clientcmdapi.AuthInfo{})
	report, status, notes := r.run(kubeconfig)
	if status != 2 || report.Kind != "" || strings.Count(notes, "\n") != 1 ||
		!strings.Contains(notes, "no cluster answers at https://127.0.0.1:1 (context check of "+kubeconfig) {
		r.Errorf("status %d, %q", status, notes)
	}
}

// notInstalled takes away what the webhook was registered by.
func notInstalled(r rig) {
	r.must(r.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(r.ctx, "stategraft", metav1.DeleteOptions{}))
	report, status, _ := r.run("")
	if status != 1 || report.Mode != check.Preflight || report.Installed != "no" {
		r.Errorf("status %d:\n%s", status, described(report))
	}
	r.want(report, "namespaces", check.Fail, "old", "Stategraft is not installed")
	if report, status, _ = r.run("", "-n", "plain"); status != 0 || report.Result != check.Fine {
		r.Errorf("status %d:\n%s", status, described(report))
	}
	if report, status, _ = r.run("", "-n", "plain", "--only", "sidecars"); status != 2 {
		r.Errorf("status %d:\n%s", status, described(report))
	}
	report, _, _ = r.run("")
	r.want(report, "cert-manager", check.Info, "", "self-signed")
	r.want(report, "admission", check.Info, "", "not installed yet")
	report, status, _ = r.run(r.viewer)
	if status != 2 {
		r.Errorf("status %d for somebody who cannot tell:\n%s", status, described(report))
	}
}
