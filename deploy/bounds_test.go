package deploy_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/deploy"
	"github.com/stategraft/stategraft/test/cluster"
)

// answer is what becomes of a request.
type answer string

const (
	granted  answer = "granted"
	byPolicy answer = "refused by the policy"
	byRole   answer = "refused by the role"
)

// asked is a request, and what is to become of it.
type asked struct {
	request func(context.Context) error
	want    answer
}

// TestRightsOnServer asks the API server what the two accounts may do.
func TestRightsOnServer(t *testing.T) {
	cp := applied(t, deploy.SelfSigned)
	// Labelled with our Secret, labelled without it, no longer labelled, never.
	const db, db2, other, bare = "bounds-db", "bounds-db2", "bounds-other", "bounds-bare"
	for _, ns := range []string{db, db2, other, bare} {
		namespace(t, cp, ns, nil)
	}
	admin := client(t, cp, "")
	for _, ns := range []string{db, other} {
		create(t, admin, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Namespace: ns}})
		create(t, admin, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "stategraft-grpc", Namespace: ns}, Type: corev1.SecretTypeTLS,
			Data: map[string][]byte{"tls.crt": {1}, "tls.key": {1}}})
		createPod(t, admin, ns, "plain", nil)
		createPod(t, admin, ns, "injected", map[string]string{"stategraft.io/injected": "cassandra"})
	}
	// Now, as the pods above are not to wait for a webhook that is not there.
	kubectl(t, cp, "", "label", "namespace", db, db2, "kube-public", "stategraft.io/inject=enabled")
	kubectl(t, cp, "", "label", "namespace", db2, "stategraft.io/restoring=true")
	t.Cleanup(func() { unlabel(t, cp, "kube-public") })

	hook, controller := client(t, cp, "stategraft-webhook"), client(t, cp, "stategraft-controller")
	awaitTrue(t, "the policy to be in force", func() bool {
		err := applySecret(controller, bare, "stategraft-grpc", corev1.SecretTypeTLS)(t.Context())
		refused, _ := forbidden(err)
		return refused
	})
	for name, c := range ofNamespaces(hook, controller, admin, db, db2, bare) {
		expect(t, name, c.request, c.want)
	}
	for name, c := range map[string]asked{
		"grpc Secret":                      {applySecret(controller, db, "stategraft-grpc", corev1.SecretTypeTLS), granted},
		"renew it":                         {renew(controller, db, "stategraft-grpc"), granted},
		"renew it after the label is off":  {renew(controller, other, "stategraft-grpc"), granted},
		"grpc Secret, not labelled":        {applySecret(controller, bare, "stategraft-grpc", corev1.SecretTypeTLS), byPolicy},
		"grpc Secret, system":              {applySecret(controller, "kube-system", "stategraft-grpc", corev1.SecretTypeTLS), byPolicy},
		"grpc Secret, system, labelled":    {applySecret(controller, "kube-public", "stategraft-grpc", corev1.SecretTypeTLS), byPolicy},
		"a Secret of another name":         {applySecret(controller, db, "stategraft-grpc-2", corev1.SecretTypeTLS), byRole},
		"a Secret without a name":          {postSecret(controller, db, "stategraft-grpc"), byRole},
		"a token by the name of ours":      {applySecret(controller, db2, "stategraft-grpc", corev1.SecretTypeServiceAccountToken), byPolicy},
		"a token of our own":               {applySecret(controller, home, "stategraft-grpc", corev1.SecretTypeServiceAccountToken), byPolicy},
		"the sidecars' name in our home":   {applySecret(controller, home, "stategraft-grpc", corev1.SecretTypeTLS), byPolicy},
		"our CA":                           {renew(controller, home, "stategraft-ca"), granted},
		"our CA, applied":                  {applySecret(controller, home, "stategraft-ca", corev1.SecretTypeOpaque), granted},
		"our pair":                         {renew(controller, home, "stategraft-webhook-tls"), granted},
		"a Secret of ours of another name": {applySecret(controller, home, "more", corev1.SecretTypeOpaque), byRole},
		"read the grpc Secret":             {getSecret(controller, db, "stategraft-grpc"), granted},
		"read another Secret":              {getSecret(controller, db, "theirs"), byRole},
		"list Secrets":                     {listSecrets(controller, ""), byRole},
		"list Secrets by our name":         {listSecrets(controller, "metadata.name=stategraft-grpc"), granted},
		"list Secrets by their name":       {listSecrets(controller, "metadata.name=theirs"), byRole},
		"write their Secret":               {renew(controller, db, "theirs"), byRole},
		"heal":                             {patchImage(controller, db, "injected", "stategraft-agent"), granted},
		"another's image":                  {patchImage(controller, db, "injected", "database"), byPolicy},
		"heal after the label is off":      {patchImage(controller, other, "injected", "stategraft-agent"), granted},
		"a pod elsewhere":                  {patchImage(controller, other, "plain", "stategraft-agent"), byPolicy},
		"a pod elsewhere made ours":        {patchPod(controller, other, "plain", `{"metadata":{"labels":{"stategraft.io/injected":"anna"}}}`), byPolicy},
		"a condition":                      {patchStatus(controller, db, "injected"), granted},
		"a condition elsewhere":            {patchStatus(controller, other, "plain"), byPolicy},
		"an annotation":                    {patchPod(controller, db, "plain", `{"metadata":{"annotations":{"a":"b"}}}`), granted},
		"delete":                           {deletePod(controller, db, "plain"), granted},
		"delete elsewhere":                 {deletePod(controller, other, "plain"), byPolicy},
		"delete elsewhere what is ours":    {deletePod(controller, other, "injected"), granted},
		"a Restore":                        {makeRestoreAs(cp, "stategraft-controller", db), granted},
		"a Restore anywhere":               {makeRestoreAs(cp, "stategraft-controller", bare), granted},
		"webhook: a Restore":               {makeRestoreAs(cp, "stategraft-webhook", db), byRole},
		"webhook: list Restores":           {listRestoresAs(cp, "stategraft-webhook"), granted},
		"remove a Restore":                 {removeRestoreAs(cp, "stategraft-controller", db), byRole},
		"look into the bucket":             {postPod(controller, db, lookup()), granted},
		"list disruption budgets":          {listBudgets(controller), granted},
		"webhook: create a pod":            {postPod(hook, db, lookup()), byRole},
		"own configuration":                {patchConfiguration(controller, "stategraft"), granted},
		"another's configuration":          {patchConfiguration(controller, "others"), byRole},
		"webhook: own Secret":              {getSecret(hook, home, "stategraft-webhook-tls"), byRole},
		"webhook: list Secrets":            {listSecrets(hook, ""), byRole},
		"webhook: what is held back":       {getConfigMap(hook, "stategraft-held-back"), granted},
		"webhook: another ConfigMap":       {getConfigMap(hook, "stategraft-config"), byRole},
		"webhook: delete a pod":            {deletePod(hook, db, "plain"), byRole},
		"administrator: any Secret":        {postSecret(admin, other, "any"), granted},
		"administrator: any pod":           {deletePod(admin, other, "plain"), granted},
		"administrator: any image":         {patchImage(admin, other, "plain", "database"), granted},
	} {
		expect(t, name, c.request, c.want)
	}
}

// expect makes a request, which is to be answered so.
func expect(t *testing.T, name string, request func(context.Context) error, want answer) {
	t.Helper()
	err := request(t.Context())
	got := granted
	switch policy, role := forbidden(err); {
	case policy:
		got = byPolicy
	case role:
		got = byRole
	case err != nil:
		t.Errorf("%s: %v", name, err)
		return
	}
	if got != want {
		t.Errorf("%s: %s, want %s (%v)", name, got, want, err)
	}
}

var dryRun = []string{metav1.DryRunAll}

func create(t *testing.T, c kubernetes.Interface, s *corev1.Secret) {
	t.Helper()
	if _, err := c.CoreV1().Secrets(s.Namespace).Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// createPod makes a pod with a database and a sidecar of ours.
func createPod(t *testing.T, c kubernetes.Interface, ns, name string, labels map[string]string) *corev1.Pod {
	t.Helper()
	pod, err := c.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "database", Image: "cassandra:5.0", SecurityContext: &corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0:c1,c2"}}},
			{Name: "stategraft-agent", Image: "example.com/agent:1"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// applySecret creates a Secret by server-side apply.
func applySecret(c kubernetes.Interface, ns, name string, kind corev1.SecretType) func(context.Context) error {
	return func(ctx context.Context) error {
		s := corev1apply.Secret(name, ns).WithType(kind)
		switch kind {
		case corev1.SecretTypeServiceAccountToken:
			s.WithAnnotations(map[string]string{corev1.ServiceAccountNameKey: "default"})
		case corev1.SecretTypeTLS:
			s.WithData(map[string][]byte{"tls.crt": {1}, "tls.key": {1}})
		}
		_, err := c.CoreV1().Secrets(ns).Apply(ctx, s, metav1.ApplyOptions{FieldManager: "test", Force: true, DryRun: dryRun})
		return err
	}
}

func postSecret(c kubernetes.Interface, ns, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.CoreV1().Secrets(ns).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{DryRun: dryRun})
		return err
	}
}

func renew(c kubernetes.Interface, ns, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.CoreV1().Secrets(ns).Patch(ctx, name, types.MergePatchType, []byte(`{"data":{"tls.crt":"AAAA"}}`), metav1.PatchOptions{DryRun: dryRun})
		return err
	}
}

func getSecret(c kubernetes.Interface, ns, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.CoreV1().Secrets(ns).Get(ctx, name, metav1.GetOptions{})
		return err
	}
}

func listSecrets(c kubernetes.Interface, fields string) func(context.Context) error {
	return func(ctx context.Context) error {
		if _, err := c.CoreV1().Secrets("").List(ctx, metav1.ListOptions{FieldSelector: fields}); err != nil {
			return err
		}
		w, err := c.CoreV1().Secrets("").Watch(ctx, metav1.ListOptions{FieldSelector: fields})
		if err == nil {
			w.Stop()
		}
		return err
	}
}

func getConfigMap(c kubernetes.Interface, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.CoreV1().ConfigMaps(home).Get(ctx, name, metav1.GetOptions{})
		return err
	}
}

func patchPod(c kubernetes.Interface, ns, name, patch string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.CoreV1().Pods(ns).Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dryRun})
		return err
	}
}

func patchStatus(c kubernetes.Interface, ns, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.CoreV1().Pods(ns).Patch(ctx, name, types.StrategicMergePatchType,
			[]byte(`{"status":{"conditions":[{"type":"stategraft.io/degraded","status":"True"}]}}`), metav1.PatchOptions{DryRun: dryRun}, "status")
		return err
	}
}

func patchImage(c kubernetes.Interface, ns, name, container string) func(context.Context) error {
	return patchPod(c, ns, name, `{"spec":{"containers":[{"name":"`+container+`","image":"example.com/other:1"}]}}`)
}

func deletePod(c kubernetes.Interface, ns, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		return c.CoreV1().Pods(ns).Delete(ctx, name, metav1.DeleteOptions{DryRun: dryRun})
	}
}

func patchConfiguration(c kubernetes.Interface, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(ctx, name, types.JSONPatchType,
			[]byte(`[{"op":"add","path":"/metadata/annotations","value":{"a":"b"}}]`), metav1.PatchOptions{DryRun: dryRun})
		return err
	}
}

func restoresAs(cp *cluster.ControlPlane, account, ns string) (dynamic.ResourceInterface, error) {
	config := cp.Config()
	config.Impersonate.UserName = "system:serviceaccount:" + home + ":" + account
	config.Impersonate.Groups = []string{"system:serviceaccounts", "system:authenticated"}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return dyn.Resource(api.GroupVersion.WithResource("restores")).Namespace(ns), nil
}

func makeRestoreAs(cp *cluster.ControlPlane, account, ns string) func(context.Context) error {
	return func(ctx context.Context) error {
		in, err := restoresAs(cp, account, ns)
		if err != nil {
			return err
		}
		r := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"backup": "b1", "pods": map[string]any{"names": []any{"db-0"}}}}}
		r.SetGroupVersionKind(api.GroupVersion.WithKind("Restore"))
		r.SetName("r")
		_, err = in.Create(ctx, r, metav1.CreateOptions{DryRun: dryRun})
		return err
	}
}

func removeRestoreAs(cp *cluster.ControlPlane, account, ns string) func(context.Context) error {
	return func(ctx context.Context) error {
		in, err := restoresAs(cp, account, ns)
		if err != nil {
			return err
		}
		return in.Delete(ctx, "r", metav1.DeleteOptions{DryRun: dryRun})
	}
}

func listRestoresAs(cp *cluster.ControlPlane, account string) func(context.Context) error {
	return func(ctx context.Context) error {
		in, err := restoresAs(cp, account, "")
		if err != nil {
			return err
		}
		_, err = in.List(ctx, metav1.ListOptions{})
		return err
	}
}

func listBudgets(c kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.PolicyV1().PodDisruptionBudgets("").List(ctx, metav1.ListOptions{})
		return err
	}
}

func postPod(c kubernetes.Interface, ns string, pod *corev1.Pod) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.CoreV1().Pods(ns).Create(ctx, pod, metav1.CreateOptions{DryRun: dryRun})
		return err
	}
}
