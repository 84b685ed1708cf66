package deploy_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/stategraft/stategraft/deploy/admission"
)

// The groups whose Go types this module does not import. Their objects are
// checked for apiVersion, kind and, where they are stored, a name.
var generic = map[string]bool{
	"cert-manager.io":         true,
	"kustomize.config.k8s.io": true,
}

var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

type document struct {
	file   string // relative to deploy/, with the number of the document
	object runtime.Object
}

// decode reads one YAML document into its Go type, refusing unknown and
// duplicate fields.
func decode(doc []byte) (runtime.Object, error) {
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(doc, &meta); err != nil {
		return nil, err
	}
	if meta.APIVersion == "" || meta.Kind == "" {
		return nil, fmt.Errorf("no apiVersion or no kind")
	}
	gv, err := schema.ParseGroupVersion(meta.APIVersion)
	if err != nil {
		return nil, err
	}
	if generic[gv.Group] {
		u := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(doc, &u.Object); err != nil {
			return nil, err
		}
		if u.GetName() == "" && meta.Kind != "Kustomization" {
			return nil, fmt.Errorf("%s has no name", meta.Kind)
		}
		return u, nil
	}
	obj, _, err := strict.Decode(doc, nil, nil)
	return obj, err
}

// split returns the documents of a file, without those that are comments only.
func split(t *testing.T, data []byte) [][]byte {
	t.Helper()
	var docs [][]byte
	r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			return docs
		}
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := yaml.Unmarshal(doc, &v); err != nil {
			t.Fatal(err)
		}
		if v != nil {
			docs = append(docs, doc)
		}
	}
}

func documents(t *testing.T) []document {
	t.Helper()
	var all []document
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		// A chart's templates are not YAML before they are rendered.
		if d.IsDir() && (d.Name() == "templates" || d.Name() == "charts") {
			return filepath.SkipDir
		}
		if ext := filepath.Ext(path); d.IsDir() || ext != ".yaml" && ext != ".yml" {
			return nil
		}
		if n := d.Name(); n == "Chart.yaml" || strings.HasPrefix(n, "values") {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, doc := range split(t, data) {
			name := fmt.Sprintf("%s#%d", filepath.ToSlash(path), i)
			obj, err := decode(doc)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			all = append(all, document{name, obj})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// find returns the one object of type T in the documents whose file begins with
// prefix.
func find[T runtime.Object](t *testing.T, docs []document, prefix string) T {
	t.Helper()
	var found []T
	for _, d := range docs {
		if o, ok := d.object.(T); ok && strings.HasPrefix(d.file, prefix) {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s: %d objects of type %T, want 1", prefix, len(found), *new(T))
	}
	return found[0]
}

func TestEveryDocumentDecodesStrictly(t *testing.T) {
	docs := documents(t)
	if len(docs) < 30 {
		t.Errorf("only %d documents: are the files where this test looks?", len(docs))
	}
	seen := map[string]string{}
	for _, d := range docs {
		o, ok := d.object.(metav1.Object)
		if !ok || o.GetName() == "" {
			continue
		}
		gvk := d.object.GetObjectKind().GroupVersionKind()
		key := fmt.Sprintf("%s %s/%s", gvk.GroupKind(), o.GetNamespace(), o.GetName())
		if other, twice := seen[key]; twice {
			t.Errorf("%s is in %s and in %s", key, other, d.file)
		}
		seen[key] = d.file
	}
}

func TestDecodeRefusesWhatIsMisspelt(t *testing.T) {
	for name, doc := range map[string]string{
		"unknown field":   "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, imag: x}]}\n",
		"duplicate field": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nmetadata: {name: q}\n",
		"unknown kind":    "apiVersion: v1\nkind: Pood\nmetadata: {name: p}\n",
		"no kind":         "apiVersion: v1\nmetadata: {name: p}\n",
		"no name":         "apiVersion: cert-manager.io/v1\nkind: Issuer\nspec: {}\n",
	} {
		if _, err := decode([]byte(doc)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestKustomizations(t *testing.T) {
	for _, d := range documents(t) {
		u, ok := d.object.(*unstructured.Unstructured)
		if !ok || u.GetKind() != "Kustomization" {
			continue
		}
		resources, _, err := unstructured.NestedStringSlice(u.Object, "resources")
		if err != nil || len(resources) == 0 {
			t.Errorf("%s: resources: %v, %v", d.file, resources, err)
		}
		for _, r := range resources {
			path := filepath.Join(filepath.Dir(d.file), r)
			info, err := os.Stat(path)
			if err == nil && info.IsDir() {
				_, err = os.Stat(filepath.Join(path, "kustomization.yaml"))
			}
			if err != nil {
				t.Errorf("%s: %v", d.file, err)
			}
		}
	}
}

// The webhook is called only if five objects agree on its address, and nothing
// else would notice for a while if they did not: the failure policy is Ignore.
func TestWebhookIsReachable(t *testing.T) {
	docs := documents(t)
	hook := find[*admissionregistrationv1.MutatingWebhookConfiguration](t, docs, "admission/")
	svc := find[*corev1.Service](t, docs, "webhook.yaml")
	deploy := find[*appsv1.Deployment](t, docs, "webhook.yaml")
	pdb := find[*policyv1.PodDisruptionBudget](t, docs, "webhook.yaml")

	ref := hook.Webhooks[0].ClientConfig.Service
	if ref.Name != svc.Name || ref.Namespace != svc.Namespace || *ref.Port != svc.Spec.Ports[0].Port {
		t.Errorf("the configuration calls %v, the Service is %s/%s:%d", ref, svc.Namespace, svc.Name, svc.Spec.Ports[0].Port)
	}
	pod := deploy.Spec.Template
	if !labels.SelectorFromSet(svc.Spec.Selector).Matches(labels.Set(pod.Labels)) {
		t.Errorf("the Service does not select the Deployment's pods")
	}
	if sel, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector); err != nil || !sel.Matches(labels.Set(pod.Labels)) {
		t.Errorf("the PodDisruptionBudget does not select the Deployment's pods (%v)", err)
	}
	c := pod.Spec.Containers[0]
	target := svc.Spec.Ports[0].TargetPort.IntVal
	if !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == target }) ||
		!slices.Contains(c.Args, fmt.Sprintf("--port=%d", target)) {
		t.Errorf("the Service goes to port %d, the container is told %v", target, c.Args)
	}

	var secret string
	for _, d := range docs {
		u, ok := d.object.(*unstructured.Unstructured)
		if !ok || u.GetKind() != "Certificate" || u.GetNamespace()+"/"+u.GetName() != hook.Annotations["cert-manager.io/inject-ca-from"] {
			continue
		}
		secret, _, _ = unstructured.NestedString(u.Object, "spec", "secretName")
		names, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "dnsNames")
		if want := svc.Name + "." + svc.Namespace + ".svc"; !slices.Contains(names, want) {
			t.Errorf("the certificate is for %v, the API server calls %s", names, want)
		}
	}
	if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Secret != nil && v.Secret.SecretName == secret
	}) {
		t.Errorf("the pod does not mount the certificate's Secret %q", secret)
	}
}

func TestWebhookNeverHoldsUpAPod(t *testing.T) {
	hook := find[*admissionregistrationv1.MutatingWebhookConfiguration](t, documents(t), "admission/")
	if len(hook.Webhooks) != 1 {
		t.Fatalf("%d webhooks, want 1", len(hook.Webhooks))
	}
	w := hook.Webhooks[0]
	if *w.FailurePolicy != admissionregistrationv1.Ignore {
		t.Errorf("failurePolicy %s", *w.FailurePolicy)
	}
	if *w.TimeoutSeconds > 5 {
		t.Errorf("timeoutSeconds %d", *w.TimeoutSeconds)
	}
	if *w.SideEffects != admissionregistrationv1.SideEffectClassNoneOnDryRun {
		t.Errorf("sideEffects %s", *w.SideEffects)
	}
	if len(w.Rules) != 1 || !slices.Equal(w.Rules[0].Operations, []admissionregistrationv1.OperationType{"CREATE"}) ||
		!slices.Equal(w.Rules[0].Resources, []string{"pods"}) {
		t.Errorf("rules %v", w.Rules)
	}
	sel, err := metav1.LabelSelectorAsSelector(w.NamespaceSelector)
	if err != nil {
		t.Fatal(err)
	}
	for ns, want := range map[string]bool{
		"db": true, "kube-system": false, "kube-public": false, "kube-node-lease": false, "stategraft": false,
	} {
		set := labels.Set{"stategraft.io/inject": "enabled", "kubernetes.io/metadata.name": ns}
		if sel.Matches(set) != want {
			t.Errorf("namespace %s selected: %v", ns, !want)
		}
		delete(set, "stategraft.io/inject")
		if sel.Matches(set) {
			t.Errorf("namespace %s selected without the label", ns)
		}
	}
	if len(w.MatchConditions) == 0 {
		t.Error("no matchConditions")
	}
	for _, c := range w.MatchConditions {
		if c.Name == "" || strings.TrimSpace(c.Expression) == "" {
			t.Errorf("matchCondition %q: %q", c.Name, c.Expression)
		}
	}
}

func TestRestorePolicyDenies(t *testing.T) {
	docs := documents(t)
	policy := find[*admissionregistrationv1.ValidatingAdmissionPolicy](t, docs, "admission/")
	binding := find[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, docs, "admission/")
	if *policy.Spec.FailurePolicy != admissionregistrationv1.Fail {
		t.Errorf("failurePolicy %s", *policy.Spec.FailurePolicy)
	}
	if binding.Spec.PolicyName != policy.Name {
		t.Errorf("the binding is for %s, the policy is %s", binding.Spec.PolicyName, policy.Name)
	}
	if !slices.Equal(binding.Spec.ValidationActions, []admissionregistrationv1.ValidationAction{"Deny"}) {
		t.Errorf("validationActions %v", binding.Spec.ValidationActions)
	}
	// An object selector could be used to get round the policy.
	if s := policy.Spec.MatchConstraints.ObjectSelector; s != nil {
		t.Errorf("objectSelector %v", s)
	}
	if len(policy.Spec.Validations) == 0 {
		t.Error("no validations")
	}
	for _, v := range policy.Spec.Validations {
		if strings.TrimSpace(v.Expression) == "" || v.MessageExpression == "" {
			t.Errorf("validation %q has no expression or no message", v.Expression)
		}
		// The API server refuses a message of several lines.
		if v.Message == "" || strings.Contains(strings.TrimSpace(v.Message), "\n") {
			t.Errorf("message %q", v.Message)
		}
	}
	for _, v := range policy.Spec.Variables {
		if v.Name == "" || strings.TrimSpace(v.Expression) == "" {
			t.Errorf("variable %q: %q", v.Name, v.Expression)
		}
	}
}

func TestRightsAreTheLeast(t *testing.T) {
	read, write := []string{"get", "list", "watch"}, []string{"create", "patch"}
	allowed := map[string][]string{
		"/namespaces": read, "/resourcequotas": read, "/limitranges": read,
		"/events": write, "events.k8s.io/events": write,
	}
	role := find[*rbacv1.ClusterRole](t, documents(t), "webhook.yaml")
	got := map[string][]string{}
	for _, r := range role.Rules {
		for _, g := range r.APIGroups {
			for _, res := range r.Resources {
				got[g+"/"+res] = append(got[g+"/"+res], r.Verbs...)
			}
		}
	}
	for what, verbs := range got {
		if !slices.Equal(verbs, allowed[what]) {
			t.Errorf("%s: %v, want %v", what, verbs, allowed[what])
		}
	}
	for what := range allowed {
		if got[what] == nil {
			t.Errorf("no rule for %s", what)
		}
	}
}

func TestEmbeddedFiles(t *testing.T) {
	for name, want := range map[string]struct {
		data  []byte
		kinds []string
	}{
		"MutatingWebhook": {admission.MutatingWebhook, []string{"MutatingWebhookConfiguration"}},
		"RestorePolicy":   {admission.RestorePolicy, []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}},
	} {
		var kinds []string
		for _, doc := range split(t, want.data) {
			obj, err := decode(doc)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			kinds = append(kinds, obj.GetObjectKind().GroupVersionKind().Kind)
		}
		if !slices.Equal(kinds, want.kinds) {
			t.Errorf("%s holds %v, want %v", name, kinds, want.kinds)
		}
	}
}

// Keys that people may set; any other under stategraft.io/ is a slip.
var (
	annotations = []string{
		"restore", "restore-source", "medusa-config", "storage-secret", "cql-secret", "jmx-secret",
		"config-map", "data-volume", "container", "host-network", "spread", "colocate-with", "expose",
		"medusa-image", "agent-image", "sidecar-resources", "grpc-port",
	}
	podLabels = []string{"inject", "workload"}
)

func TestExamples(t *testing.T) {
	docs := documents(t)
	labelled := map[string]bool{}
	configMaps := map[string]*corev1.ConfigMap{}
	services := map[string]*corev1.Service{}
	for _, d := range docs {
		switch o := d.object.(type) {
		case *corev1.Namespace:
			labelled[o.Name] = o.Labels["stategraft.io/inject"] == "enabled"
		case *corev1.ConfigMap:
			configMaps[o.Namespace+"/"+o.Name] = o
		case *corev1.Service:
			services[o.Namespace+"/"+o.Name] = o
		}
	}
	check := func(file string, keys map[string]string, known []string) {
		for k := range keys {
			if rest, ours := strings.CutPrefix(k, "stategraft.io/"); ours && !slices.Contains(known, rest) {
				t.Errorf("%s: unknown key %s", file, k)
			}
		}
	}
	n := 0
	for _, d := range docs {
		set, ok := d.object.(*appsv1.StatefulSet)
		if !ok {
			continue
		}
		n++
		pod := set.Spec.Template
		check(d.file, pod.Annotations, annotations)
		check(d.file, pod.Labels, podLabels)
		if !labelled[set.Namespace] {
			t.Errorf("%s: namespace %s is not labelled", d.file, set.Namespace)
		}
		if sel, err := metav1.LabelSelectorAsSelector(set.Spec.Selector); err != nil || !sel.Matches(labels.Set(pod.Labels)) {
			t.Errorf("%s: the selector does not match the template (%v)", d.file, err)
		}
		svc := services[set.Namespace+"/"+set.Spec.ServiceName]
		switch {
		case svc == nil:
			t.Errorf("%s: no Service %s", d.file, set.Spec.ServiceName)
		case svc.Spec.ClusterIP != corev1.ClusterIPNone || !svc.Spec.PublishNotReadyAddresses ||
			!labels.SelectorFromSet(svc.Spec.Selector).Matches(labels.Set(pod.Labels)):
			t.Errorf("%s: Service %s is not headless, hides unready pods or selects others", d.file, svc.Name)
		}
		if cm, want := pod.Annotations["stategraft.io/config-map"]; want {
			if c := configMaps[set.Namespace+"/"+cm]; c == nil || c.Data["anna-config.yml"] == "" {
				t.Errorf("%s: no ConfigMap %s with anna-config.yml", d.file, cm)
			}
		}
		if s, want := pod.Annotations["stategraft.io/colocate-with"]; want {
			sel, err := labels.Parse(s)
			if err != nil {
				t.Errorf("%s: colocate-with: %v", d.file, err)
			} else if !slices.ContainsFunc(docs, func(other document) bool {
				o, ok := other.object.(*appsv1.StatefulSet)
				// Pod affinity looks in the pod's own namespace.
				return ok && o.Namespace == set.Namespace && sel.Matches(labels.Set(o.Spec.Template.Labels))
			}) {
				t.Errorf("%s: colocate-with %s: no such pods in namespace %s", d.file, s, set.Namespace)
			}
		}
		volumes := map[string]bool{}
		for _, v := range pod.Spec.Volumes {
			volumes[v.Name] = true
		}
		for _, v := range set.Spec.VolumeClaimTemplates {
			volumes[v.Name] = true
		}
		for _, c := range pod.Spec.Containers {
			for _, m := range c.VolumeMounts {
				if !volumes[m.Name] {
					t.Errorf("%s: %s mounts %s, which is not there", d.file, c.Name, m.Name)
				}
			}
			for _, p := range c.Ports {
				if len(p.Name) > 15 {
					t.Errorf("%s: the port name %s is longer than 15 characters", d.file, p.Name)
				}
			}
		}
	}
	if n < 7 {
		t.Errorf("%d StatefulSets", n)
	}
}

// What is inside the ConfigMaps is YAML too.
func TestConfigMapsHoldYAML(t *testing.T) {
	for _, d := range documents(t) {
		cm, ok := d.object.(*corev1.ConfigMap)
		if !ok {
			continue
		}
		for key, text := range cm.Data {
			if ext := filepath.Ext(key); ext != ".yaml" && ext != ".yml" {
				continue
			}
			var v map[string]any
			if err := yaml.UnmarshalStrict([]byte(text), &v); err != nil {
				t.Errorf("%s: %s: %v", d.file, key, err)
			}
			if key == "config.yaml" && (v["apiVersion"] != "config.stategraft.io/v1alpha1" || v["kind"] != "WebhookConfiguration") {
				t.Errorf("%s: %s is %v, %v", d.file, key, v["apiVersion"], v["kind"])
			}
		}
	}
}
