package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/test/controlplane/rigged"
	"github.com/stategraft/stategraft/test/images"
	"github.com/stategraft/stategraft/test/kvs"
)

// corpusPods are the pods of Anna and Cloudburst in the corpus.
var corpusPods = []string{"anna-routing", "anna-monitoring", "anna-memory", "anna-ebs", "cloudburst-scheduler", "cloudburst-executor"}

// annaBase is the ConfigMap that their entry points want.
const annaBase = `ebs: /ebs
capacities: {memory-cap: 1, ebs-cap: 1}
threads: {memory: 4, ebs: 4, routing: 4, benchmark: 4}
replication: {memory: 1, ebs: 1, minimum: 2, local: 1}
policy: {elasticity: false, selective-rep: false, tiering: false}
`

// The pods of the corpus run after they were injected, with the test node in the place
// of the images and less asked for of the machine, and otherwise as they are.
func TestKVSCorpus(t *testing.T) {
	e, ctx := restoring(t, 15*time.Minute)
	step := stepper(t)
	const namespace = "hydro"
	e.namespaces = append(e.namespaces, namespace)
	step("namespace", e.CreateNamespace(ctx, namespace, map[string]string{api.LabelInject: api.InjectEnabled},
		map[string]string{api.AnnotationConfigMap: "anna"}))
	step("storage", e.storage(ctx, namespace))
	step("client", e.Apply(ctx, namespace, "annaclient.yaml", map[string]string{"ANNA_IMAGE": images.Anna}))
	_, err := e.Client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "anna"},
		Data: map[string]string{"anna-config.yml": annaBase}}, metav1.CreateOptions{})
	step("configuration", err)
	for _, name := range []string{"anna", "cloudburst"} {
		_, err := e.Client.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		step("account "+name, err)
	}
	k := &KVS{e: e, Namespace: namespace, setup: KVSSetup{Routing: 2}, threads: 4}
	step("management", k.management(ctx))
	for _, name := range corpusPods {
		step(name, k.corpusSet(ctx, name, nil))
	}
	began := time.Now()
	for _, name := range corpusPods {
		step(name+" is ready", e.RolledOut(ctx, namespace, "statefulset/"+name, 5*time.Minute))
	}
	took := time.Since(began)
	d := kvs.Data{Keys: 2000, Large: 2, Seed: 5}
	k.written(ctx, t, d)
	k.all(ctx, t, d)
	memory := k.as(memorySet)
	step("asked", memory.AskBackup(ctx, "corpus", api.BackupSpec{}))
	_, err = memory.BackupUntil(ctx, "corpus", 5*time.Minute, "complete", func(b *api.Backup) bool { return b.Status.Phase == api.BackupComplete })
	step("backed up", err)
	restarts, err := k.Restarts(ctx)
	step("counted", err)
	if restarts > 0 {
		t.Errorf("containers were restarted %d times:\n%s", restarts, e.describe(ctx, namespace))
	}
	injected, err := k.injected(ctx)
	step("read", err)
	if injected < len(corpusPods) {
		t.Errorf("only %d pods are injected", injected)
	}
	figure(t, "%d pods of %d shapes, injected, all ready after %s; 2,000 keys written, read and backed up; no restart", injected, len(corpusPods), took.Round(time.Second))
}

// injected counts the pods that have our agent.
func (k *KVS) injected(ctx context.Context) (n int, err error) {
	list, err := k.e.Client.CoreV1().Pods(k.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("listing pods: %w", err)
	}
	for _, pod := range list.Items {
		for _, c := range pod.Spec.InitContainers {
			if c.Name == patches.ContainerAgent {
				n++
			}
		}
	}
	return n, nil
}

// management makes what answers Anna's and Cloudburst's questions, of the example.
func (k *KVS) management(ctx context.Context) error {
	objects, err := k.objects(ctx)
	if err != nil {
		return err
	}
	made := 0
	for i := range objects {
		o := &objects[i]
		if o.GetName() != "hydro-management" {
			continue
		}
		text, err := o.MarshalJSON()
		if err != nil {
			return err
		}
		if _, err := k.e.Kubectl(ctx, strings.NewReader(string(text)), "-n", k.Namespace, "apply", "-f", "-"); err != nil {
			return err
		}
		made++
	}
	if made < 2 {
		return fmt.Errorf("the example has %d objects of the name hydro-management, not a Service and a Deployment", made)
	}
	return k.e.RolledOut(ctx, k.Namespace, "deployment/hydro-management", time.Minute)
}

// corpusSet makes a StatefulSet whose pods are as one of the corpus, changed where change
// is not nil, and its headless Service.
func (k *KVS) corpusSet(ctx context.Context, name string, change func(*corev1.PodSpec)) error {
	root, err := rigged.Root(ctx)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, "test", "corpus", "pods", name+".yaml"))
	if err != nil {
		return fmt.Errorf("reading a pod of the corpus: %w", err)
	}
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(text, &pod); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	labels := map[string]string{}
	for key, value := range pod.Labels {
		if !strings.Contains(key, "pod-index") && !strings.Contains(key, "revision-hash") && !strings.Contains(key, "pod-name") {
			labels[key] = value
		}
	}
	set := appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	set.Spec.ServiceName, set.Spec.PodManagementPolicy = name, appsv1.ParallelPodManagement
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": labels["app.kubernetes.io/name"]}}
	set.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: pod.Annotations}, Spec: pod.Spec}
	replicas := int32(1)
	if name == "anna-routing" || name == "cloudburst-scheduler" {
		replicas = 2 // as the others' environment names them
	}
	set.Spec.Replicas = &replicas
	spec := &set.Spec.Template.Spec
	spec.Hostname, spec.Subdomain = "", "" // the controller's
	var volumes []corev1.Volume
	for _, v := range spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			volumes = append(volumes, v)
			continue
		}
		claim := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: v.Name}}
		claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, claim)
	}
	spec.Volumes = volumes
	for i := range spec.Containers {
		c := &spec.Containers[i]
		c.Image = images.Anna
		c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")}
	}
	if change != nil {
		change(spec)
	}
	service := corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
	service.Spec = corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Selector: set.Spec.Selector.MatchLabels,
		Ports: []corev1.ServicePort{{Name: "any", Port: 6200}}}
	if _, err := k.e.Client.CoreV1().Services(k.Namespace).Create(ctx, &service, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making Service %s: %w", name, err)
	}
	if _, err := k.e.Client.AppsV1().StatefulSets(k.Namespace).Create(ctx, &set, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making StatefulSet %s: %w", name, err)
	}
	return nil
}
