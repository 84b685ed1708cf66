package deploy_test

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/stategraft/stategraft/agent/anna/config"
	"github.com/stategraft/stategraft/agent/anna/management"
)

// kvs are the documents of the examples of Anna and Cloudburst, and what is in Anna's
// ConfigMap.
func kvs(t *testing.T) ([]document, *config.Config) {
	t.Helper()
	var docs []document
	for _, d := range examples(t) {
		if strings.HasPrefix(d.file, "examples/anna/") || strings.HasPrefix(d.file, "examples/cloudburst/") {
			docs = append(docs, d)
		}
	}
	conf, err := config.Parse([]byte(object[*corev1.ConfigMap](t, docs, "anna").Data[config.File]))
	if err != nil {
		t.Fatal(err)
	}
	if len(conf.Warnings) > 0 {
		t.Errorf("anna-config.yml: %q", conf.Warnings)
	}
	return docs, conf
}

// roles are the StatefulSets by what their pods do, as Anna calls it.
func roles(t *testing.T, docs []document) map[string]*appsv1.StatefulSet {
	t.Helper()
	sets := map[string]*appsv1.StatefulSet{}
	for _, d := range docs {
		if set, ok := d.object.(*appsv1.StatefulSet); ok {
			sets[set.Spec.Template.Labels["role"]] = set
		}
	}
	for _, role := range []string{config.RoleMemory, config.RoleDisk, config.RoleRouting, config.RoleMonitoring, config.RoleScheduler, "function"} {
		if sets[role] == nil {
			t.Fatalf("no StatefulSet of role %s", role)
		}
	}
	return sets
}

// What the configuration says has to be so: a name without a Service, more copies than
// nodes, or a tier in another directory than its volume lose data without a word.
func TestAnnaExampleFitsItsConfiguration(t *testing.T) {
	docs, conf := kvs(t)
	sets := roles(t, docs)
	services := conf.Options.Services
	for role, service := range map[string]string{
		config.RoleMemory: services.Memory, config.RoleDisk: services.Disk, config.RoleRouting: services.Routing,
		config.RoleMonitoring: services.Monitoring, config.RoleScheduler: services.Scheduler, "function": services.Executor,
	} {
		if sets[role].Spec.ServiceName != service {
			t.Errorf("%s: the Service is %s, and the configuration names %s", role, sets[role].Spec.ServiceName, service)
		}
		if sets[role].Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
			t.Errorf("%s: its pods start one after the other, and wait for each other", role)
		}
		if len(object[*corev1.Service](t, docs, service).Spec.Ports) == 0 {
			t.Errorf("Service %s has no port, so the DNS no SRV records of it", service)
		}
	}
	object[*corev1.Service](t, docs, services.Management)
	if got := int(*sets[config.RoleMemory].Spec.Replicas); got < conf.Replication.Memory {
		t.Errorf("%d memory nodes for %d copies", got, conf.Replication.Memory)
	}
	if got := int(*sets[config.RoleDisk].Spec.Replicas); got < conf.Replication.Disk || conf.Replication.Disk == 0 {
		t.Errorf("%d disk nodes for %d copies", got, conf.Replication.Disk)
	}
	memory := sets[config.RoleMemory].Spec.Template.Spec.Containers[0]
	if limit := memory.Resources.Limits.Memory().Value(); limit < int64(conf.Capacities.Memory)*1e9 {
		t.Errorf("memory-cap %d GB for a limit of %d", conf.Capacities.Memory, limit)
	}
	disk := sets[config.RoleDisk]
	claim := disk.Spec.VolumeClaimTemplates[0]
	if mount := disk.Spec.Template.Spec.Containers[0].VolumeMounts; !slices.ContainsFunc(mount, func(m corev1.VolumeMount) bool {
		return m.Name == claim.Name && m.MountPath == conf.Disk
	}) {
		t.Errorf("the volume is not on %s: %v", conf.Disk, mount)
	}
	if size := claim.Spec.Resources.Requests.Storage().Value(); size < int64(conf.Capacities.Disk)*1e9 {
		t.Errorf("ebs-cap %d GB for a volume of %d", conf.Capacities.Disk, size)
	}
}

func TestAnnaExampleDeclaresThePortsOfItsThreads(t *testing.T) {
	docs, conf := kvs(t)
	sets := roles(t, docs)
	for role, bases := range map[string][]int32{
		config.RoleMemory: {6000, 6050, 6100, 6200, 6250}, config.RoleDisk: {6000, 6050, 6100, 6200, 6250}, config.RoleRouting: {6450},
	} {
		threads := map[string]int{config.RoleMemory: conf.Threads.Memory, config.RoleDisk: conf.Threads.Disk, config.RoleRouting: conf.Threads.Routing}[role]
		var have []int32
		for _, p := range sets[role].Spec.Template.Spec.Containers[0].Ports {
			have = append(have, p.ContainerPort)
		}
		for _, base := range bases {
			for tid := range int32(threads) {
				if !slices.Contains(have, base+tid) {
					t.Errorf("%s does not declare %d", role, base+tid)
				}
			}
		}
	}
	service := object[*corev1.Service](t, docs, conf.Options.Services.Management)
	var have []int32
	for _, p := range service.Spec.Ports {
		have = append(have, p.Port)
	}
	for port := int32(management.PortRestart); port <= management.PortStatistics; port++ {
		if !slices.Contains(have, port) {
			t.Errorf("the management's Service has no port %d", port)
		}
	}
	deployment := object[*appsv1.Deployment](t, docs, service.Name)
	if !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(deployment.Spec.Template.Labels)) {
		t.Error("the management's Service selects other pods")
	}
}

// Any Kubernetes will do: nothing of a cloud, of a node, or of the API.
func TestAnnaExampleIsPortable(t *testing.T) {
	docs, _ := kvs(t)
	for _, d := range docs {
		var pod *corev1.PodSpec
		switch o := d.object.(type) {
		case *appsv1.StatefulSet:
			pod = &o.Spec.Template.Spec
			for _, claim := range o.Spec.VolumeClaimTemplates {
				if claim.Spec.StorageClassName != nil {
					t.Errorf("%s: a StorageClass, which another cluster has not", d.file)
				}
			}
		case *appsv1.Deployment:
			pod = &o.Spec.Template.Spec
		case *corev1.Service:
			if len(o.Annotations) > 0 || o.Spec.Type == corev1.ServiceTypeLoadBalancer {
				t.Errorf("%s: a Service that is not the same everywhere", d.file)
			}
			continue
		default:
			if kind := d.object.GetObjectKind().GroupVersionKind().Kind; slices.Contains([]string{"DaemonSet", "Role", "ClusterRole", "RoleBinding", "ServiceAccount"}, kind) {
				t.Errorf("%s: a %s", d.file, kind)
			}
			continue
		}
		if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken || pod.HostNetwork || len(pod.NodeSelector) > 0 {
			t.Errorf("%s: a token, the host's network or chosen nodes", d.file)
		}
		for _, v := range pod.Volumes {
			if v.HostPath != nil {
				t.Errorf("%s: volume %s is a host's", d.file, v.Name)
			}
		}
		for _, c := range pod.Containers {
			script := strings.Join(append(slices.Clone(c.Command), c.Args...), "\n")
			for _, foreign := range []string{"git ", "curl", "ifconfig", "kubectl", "apt"} {
				if strings.Contains(script, foreign) {
					t.Errorf("%s: container %s calls %s", d.file, c.Name, foreign)
				}
			}
		}
	}
}

// Each program is where its configuration is rendered: conf in its working directory.
func TestAnnaExampleStartsPrograms(t *testing.T) {
	docs, _ := kvs(t)
	for role, set := range roles(t, docs) {
		for _, c := range set.Spec.Template.Spec.Containers {
			if !path.IsAbs(c.WorkingDir) {
				t.Errorf("%s: container %s starts somewhere", role, c.Name)
			}
			for _, e := range c.Env {
				if e.Name == "ANNA_CONF_BASE" || e.ValueFrom != nil {
					t.Errorf("%s: container %s is told %s, which is rendered", role, c.Name, e.Name)
				}
			}
		}
		if set.Spec.Template.Annotations["stategraft.io/config-map"] == "" {
			t.Errorf("%s: nothing is rendered without a ConfigMap", role)
		}
	}
	executors := roles(t, docs)["function"].Spec.Template.Spec.Containers
	var ids []string
	for _, c := range executors {
		shares := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/requests" })
		if !shares {
			t.Errorf("container %s has no /requests", c.Name)
		}
		for _, e := range c.Env {
			if e.Name == "THREAD_ID" {
				ids = append(ids, e.Value)
			}
		}
	}
	for i := range 3 {
		if len(ids) != 3 || ids[i] != strconv.Itoa(i) {
			t.Fatalf("threads %q: Cloudburst counts on three executors", ids)
		}
	}
}

func TestBudgetsAndAutoscalersOfExamples(t *testing.T) {
	docs := examples(t)
	for _, d := range docs {
		switch o := d.object.(type) {
		case *policyv1.PodDisruptionBudget:
			selector, err := metav1.LabelSelectorAsSelector(o.Spec.Selector)
			if err != nil || selector.Empty() || !slices.ContainsFunc(docs, func(other document) bool {
				switch w := other.object.(type) {
				case *appsv1.StatefulSet:
					return w.Namespace == o.Namespace && selector.Matches(labels.Set(w.Spec.Template.Labels))
				case *appsv1.Deployment:
					return w.Namespace == o.Namespace && selector.Matches(labels.Set(w.Spec.Template.Labels))
				}
				return false
			}) {
				t.Errorf("%s: it is for no pods (%v)", d.file, err)
			}
		case *autoscalingv2.HorizontalPodAutoscaler:
			set := object[*appsv1.StatefulSet](t, docs, o.Spec.ScaleTargetRef.Name)
			if *o.Spec.MinReplicas > *set.Spec.Replicas || o.Spec.ScaleTargetRef.Kind != "StatefulSet" || set.Namespace != o.Namespace {
				t.Errorf("%s: it is not for what there is", d.file)
			}
			for _, m := range o.Spec.Metrics {
				for _, c := range set.Spec.Template.Spec.Containers {
					if _, requested := c.Resources.Requests[m.Resource.Name]; !requested {
						t.Errorf("%s: container %s requests no %s, so nothing is known of its use", d.file, c.Name, m.Resource.Name)
					}
				}
			}
		}
	}
}

// An image that a kustomization replaces is one that its folder has.
func TestImagesOfKustomizations(t *testing.T) {
	docs := examples(t)
	for _, d := range docs {
		u, ok := d.object.(*unstructured.Unstructured)
		if !ok || u.GetKind() != "Kustomization" {
			continue
		}
		images, _, err := unstructured.NestedSlice(u.Object, "images")
		if err != nil {
			t.Errorf("%s: %v", d.file, err)
		}
		for _, image := range images {
			name, _ := image.(map[string]any)["name"].(string)
			if !slices.ContainsFunc(docs, func(other document) bool {
				return path.Dir(other.file) == path.Dir(d.file) && strings.Contains(string(other.text), "image: "+name+"\n")
			}) {
				t.Errorf("%s: no container has image %q", d.file, name)
			}
		}
	}
}
