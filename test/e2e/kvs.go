package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	syaml "sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/test/controlplane/rigged"
	"github.com/stategraft/stategraft/test/images"
)

// The StatefulSets of deploy/examples/anna.
const (
	memorySet  = "anna-memory"
	diskSet    = "anna-ebs"
	routingSet = "anna-routing"
)

// KVSSetup says what is particular of an Anna.
type KVSSetup struct {
	Routing, Memory, Disk int
	Threads               int
	Capacity              int               // of a memory node, in GB; 1 where it is 0
	Annotations           map[string]string // of the pods of KVS nodes
	Cloudburst            bool
	Change                func(*unstructured.Unstructured) // of each object
}

// KVS is the example of an Anna in a namespace of its own, with the test node in
// the place of upstream's images.
type KVS struct {
	e         *Env
	setup     KVSSetup
	Namespace string
	threads   int // of a routing node
}

// KVS makes one and waits until its pods are ready.
func (e *Env) KVS(ctx context.Context, namespace string, s KVSSetup) (*KVS, error) {
	e.namespaces = append(e.namespaces, namespace)
	if err := e.CreateNamespace(ctx, namespace, map[string]string{api.LabelInject: api.InjectEnabled}, nil); err != nil {
		return nil, err
	}
	k := &KVS{e: e, Namespace: namespace}
	if err := e.storage(ctx, namespace); err != nil {
		return nil, err
	}
	if err := e.Apply(ctx, namespace, "annaclient.yaml", map[string]string{"ANNA_IMAGE": images.Anna}); err != nil {
		return nil, err
	}
	return k, k.Deploy(ctx, s)
}

// storage makes the ConfigMap and the Secret that name the bucket.
func (e *Env) storage(ctx context.Context, namespace string) error {
	c := Cassandra{e: e, Namespace: namespace}
	return c.configure(ctx)
}

// Deploy makes the objects of the example, or changes them, and waits until the pods
// are ready.
func (k *KVS) Deploy(ctx context.Context, s KVSSetup) error {
	k.setup, k.threads = s, s.Threads
	objects, err := k.objects(ctx)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for i := range objects {
		line, err := objects[i].MarshalJSON()
		if err != nil {
			return fmt.Errorf("encoding %s: %w", objects[i].GetName(), err)
		}
		text.Write(append([]byte("---\n"), line...))
	}
	if _, err := k.e.Kubectl(ctx, &text, "-n", k.Namespace, "apply", "-f", "-"); err != nil {
		return fmt.Errorf("applying the example: %w", err)
	}
	return k.Ready(ctx, 3*time.Minute)
}

// Sets are the StatefulSets of KVS nodes and routing.
func Sets() []string { return []string{routingSet, memorySet, diskSet} }

// Ready waits until all pods are.
func (k *KVS) Ready(ctx context.Context, limit time.Duration) error {
	for _, set := range Sets() {
		if err := k.e.RolledOut(ctx, k.Namespace, "statefulset/"+set, limit); err != nil {
			return err
		}
	}
	_, err := k.e.Await(ctx, k.Namespace, "annaclient", limit, "ready", ready)
	return err
}

// objects are those of the example, fit for one small node.
func (k *KVS) objects(ctx context.Context) ([]unstructured.Unstructured, error) {
	root, err := rigged.Root(ctx)
	if err != nil {
		return nil, err
	}
	example := "anna"
	if k.setup.Cloudburst {
		example = "cloudburst"
	}
	text, err := k.e.Kubectl(ctx, nil, "kustomize", filepath.Join(root, "deploy", "examples", example))
	if err != nil {
		return nil, fmt.Errorf("reading the example: %w", err)
	}
	text = strings.NewReplacer(".anna.svc", "."+k.Namespace+".svc").Replace(text)
	var objects []unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		var o unstructured.Unstructured
		if err := decoder.Decode(&o.Object); err != nil {
			break
		}
		switch {
		case len(o.Object) == 0, o.GetKind() == "Namespace", o.GetKind() == "BackupSchedule",
			o.GetName() == patches.DefaultMedusaConfig: // they have their own
			continue
		}
		o.SetNamespace(k.Namespace)
		if err := k.fit(&o); err != nil {
			return nil, fmt.Errorf("changing %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// fit takes out of an object what one node with two cores cannot give, and puts the
// test node in.
func (k *KVS) fit(o *unstructured.Unstructured) error {
	switch o.GetKind() {
	case "ConfigMap":
		return k.configIn(o)
	case "StatefulSet", "Deployment":
	default:
		return nil
	}
	if n, ok := map[string]int{routingSet: k.setup.Routing, memorySet: k.setup.Memory, diskSet: k.setup.Disk}[o.GetName()]; ok {
		if err := unstructured.SetNestedField(o.Object, int64(n), "spec", "replicas"); err != nil {
			return err
		}
	}
	template := []string{"spec", "template", "metadata", "annotations"}
	annotations, _, err := unstructured.NestedStringMap(o.Object, template...)
	if err != nil {
		return err
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	for _, key := range []string{api.AnnotationSpread, api.AnnotationColocateWith} {
		delete(annotations, key)
	}
	if o.GetName() == memorySet || o.GetName() == diskSet {
		for key, value := range k.setup.Annotations {
			annotations[key] = value
		}
	}
	if err := unstructured.SetNestedStringMap(o.Object, annotations, template...); err != nil {
		return err
	}
	containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	if err != nil {
		return err
	}
	for _, c := range containers {
		c := c.(map[string]any)
		if image, _ := c["image"].(string); strings.Contains(image, "hydroproject/") {
			c["image"] = images.Anna
		} else {
			c["image"] = images.Agent
		}
		c["resources"] = map[string]any{"requests": map[string]any{"cpu": "10m", "memory": "32Mi"}}
	}
	if err := unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers"); err != nil {
		return err
	}
	if k.setup.Change != nil {
		k.setup.Change(o)
	}
	return nil
}

// configIn sets what the setup says in anna-config.yml.
func (k *KVS) configIn(o *unstructured.Unstructured) error {
	text, found, err := unstructured.NestedString(o.Object, "data", "anna-config.yml")
	if err != nil || !found {
		return err
	}
	var config map[string]any
	if err := syaml.Unmarshal([]byte(text), &config); err != nil {
		return fmt.Errorf("reading anna-config.yml: %w", err)
	}
	n := max(k.setup.Threads, 1)
	config["threads"] = map[string]any{"memory": n, "ebs": n, "routing": n, "benchmark": 1}
	config["capacities"] = map[string]any{"memory-cap": max(k.setup.Capacity, 1), "ebs-cap": 8}
	changed, err := syaml.Marshal(config)
	if err != nil {
		return err
	}
	return unstructured.SetNestedField(o.Object, string(changed), "data", "anna-config.yml")
}

// Delete deletes the KVS and routing nodes, and the claims with their volumes: what is left is
// in the bucket.
func (k *KVS) Delete(ctx context.Context) error {
	if _, err := k.e.Kubectl(ctx, nil, "-n", k.Namespace, "delete", "statefulset", "--all", "--cascade=foreground", "--timeout=300s"); err != nil {
		return err
	}
	_, err := k.e.Kubectl(ctx, nil, "-n", k.Namespace, "delete", "pvc", "--all", "--timeout=300s")
	return err
}

// Client runs the client of test/kvs in the cluster, and answers what it found.
func (k *KVS) Client(ctx context.Context, found any, verb string, flags ...string) (seconds float64, err error) {
	var hosts []string
	for i := range k.setup.Routing {
		hosts = append(hosts, fmt.Sprintf("%s-%d.%s.%s.svc.cluster.local", routingSet, i, routingSet, k.Namespace))
	}
	args := append([]string{"annaclient", "-routing", strings.Join(hosts, ","), "-routing-threads", strconv.Itoa(max(k.threads, 1))}, flags...)
	out, err := k.e.Exec(ctx, k.Namespace, "annaclient", "annaclient", "", append(args, verb)...)
	if err != nil {
		return 0, fmt.Errorf("the client's %s: %w", verb, err)
	}
	answer := struct {
		Found   any     `json:"found"`
		Seconds float64 `json:"seconds"`
	}{Found: found}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		return 0, fmt.Errorf("reading what the client printed: %w: %s", err, out)
	}
	return answer.Seconds, nil
}

// Pods are the names of the pods of StatefulSets.
func (k *KVS) Pods(ctx context.Context, sets ...string) (names []string, err error) {
	list, err := k.e.Client.CoreV1().Pods(k.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	for _, pod := range list.Items {
		owner := metav1.GetControllerOf(&pod)
		for _, set := range sets {
			if owner != nil && owner.Name == set {
				names = append(names, pod.Name)
			}
		}
	}
	return names, nil
}

// as is a Cassandra of the same namespace, for what does not ask which database it is.
func (k *KVS) as(set string) *Cassandra {
	return &Cassandra{e: k.e, setup: Setup{Name: set}, Namespace: k.Namespace}
}

// Restarts counts the restarts of the containers of the pods, but for those that a
// test kills.
func (k *KVS) Restarts(ctx context.Context) (all int32, err error) {
	list, err := k.e.Client.CoreV1().Pods(k.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("listing pods: %w", err)
	}
	for _, pod := range list.Items {
		for _, s := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			if s.Name != patches.ContainerAgent {
				all += s.RestartCount
			}
		}
	}
	return all, nil
}

// kvsKeys is how many keys the scenarios have; KVSKeysEnv says another number.
func kvsKeys(usual int) int {
	if n, err := strconv.Atoi(os.Getenv(KVSKeysEnv)); err == nil && n > 0 {
		return n
	}
	return usual
}

// KVSKeysEnv is how many keys an Anna gets.
const KVSKeysEnv = "STATEGRAFT_E2E_KEYS"
