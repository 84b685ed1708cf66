package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// variant is a way in which pods of the corpus are decided on besides as they
// are. Its golden files are called POD.NAME.json.
type variant struct {
	name        string
	annotations map[string]string // without the prefix stategraft.io/
	config      string            // text of the configuration file
	order       *api.Restore      // whose one pod is the one that is looked at
	pods        []string          // of the corpus; empty for those that each selects
	each        func(d decided) bool
}

// decided is what came out for a pod as it is.
type decided struct {
	verdict workload.Verdict
	kind    workload.Kind
	role    workload.Role
}

func holdsData(d decided) bool {
	return d.verdict == workload.Inject && ((&workload.Workload{Kind: d.kind, Role: d.role}).HoldsData())
}

const configHead = "apiVersion: config.stategraft.io/v1alpha1\nkind: WebhookConfiguration\n"

// orderOf is a Restore of one pod, whose name is filled in.
func orderOf(spec api.RestoreSpec, pod api.PodRestore) *api.Restore {
	r := &api.Restore{TypeMeta: metav1.TypeMeta{APIVersion: api.GroupVersion.String(), Kind: "Restore"},
		ObjectMeta: metav1.ObjectMeta{Name: "back"}, Spec: spec}
	r.Status.ID, r.Status.Backup = r.RequestID(), spec.Backup
	pod.Phase = api.PodStopping
	r.Status.Pods = []api.PodRestore{pod}
	return r
}

var (
	inPlace = orderOf(api.RestoreSpec{Backup: "nightly-20261130", Mode: api.InPlace, KeepPrevious: api.KeepIfRoom}, api.PodRestore{Action: api.ActionRestore})
	empty   = orderOf(api.RestoreSpec{Backup: "nightly-20261130", Mode: api.InPlace, WhenNoBackup: api.NoBackupEmpty}, api.PodRestore{Action: api.ActionEmpty})
	undo    = orderOf(api.RestoreSpec{Undo: "back", KeepPrevious: api.KeepAlways}, api.PodRestore{Action: api.ActionUndo})
	remote  = orderOf(api.RestoreSpec{Backup: "nightly-20261130", Mode: api.Remote, KeepPrevious: api.KeepNever},
		api.PodRestore{Action: api.ActionRestore, Node: "production-1", Tokens: []string{"-4611686018427387904", "4611686018427387904"}})
)

func init() {
	undo.Status.UndoID = inPlace.Status.ID
	remote.Status.Prefix = "production-main"
}

var variants = []variant{
	{name: ""},
	{name: "restore", annotations: map[string]string{"restore": "nightly-20261130"}, each: holdsData},
	{name: "restore-skipped", annotations: map[string]string{"restore": "nightly-20261130"},
		pods: []string{"plain-official-novolume", "plain-official-deployment", "k8ssandra-operator-medusa", "nginx", "opted-out", "anna-routing"}},
	{name: "restore-bad", annotations: map[string]string{"restore": "../etc"}, pods: []string{"plain-official-41", "nginx"}},
	{name: "restore-source", annotations: map[string]string{"restore": "b", "restore-source": "other-cassandra-2"}, pods: []string{"plain-official-41", "anna-memory"}},
	{name: "config-map", annotations: map[string]string{"config-map": "conf"},
		pods: []string{"plain-official-41", "cass-operator", "anna-memory", "anna-ebs", "anna-routing", "cloudburst-executor", "cloudburst-scheduler",
			"anna-upstream-ebs", "anna-upstream-routing", "cloudburst-upstream-function", "cloudburst-upstream-scheduler"}},
	{name: "host-network", annotations: map[string]string{"host-network": "true"},
		pods: []string{"plain-official-41", "anna-memory", "anna-upstream-ebs", "cloudburst-executor", "elassandra-operator", "helm-incubator-hostnetwork"}},
	{name: "spread", annotations: map[string]string{"spread": "host,zone"},
		pods: []string{"plain-official-41", "cass-operator", "bare-fixed-name", "anna-memory", "helm-incubator", "instaclustr"}},
	{name: "colocate", annotations: map[string]string{"colocate-with": "role in (memory,ebs),tier=hot"}, pods: []string{"cloudburst-executor", "cass-operator"}},
	{name: "expose", annotations: map[string]string{"expose": "LoadBalancer"}, pods: []string{"plain-official-41", "anna-memory", "anna-upstream-memory", "anna-routing"}},
	{name: "decryption", annotations: map[string]string{"restore": "b", "restore-source": "*", "decryption-secret": "age"}, pods: []string{"plain-official-41", "anna-memory"}},
	{name: "on-config-change", annotations: map[string]string{"on-config-change": "reload", "config-map": "conf"}, pods: []string{"anna-monitoring"}},
	{name: "sidecar-resources", annotations: map[string]string{"sidecar-resources": `{"requests":{"cpu":"50m","memory":"64Mi"},"limits":{"cpu":"2","memory":"1500Mi"}}`},
		pods: []string{"plain-official-41", "anna-memory"}},
	{name: "grpc-port", annotations: map[string]string{"grpc-port": "51000"}, pods: []string{"plain-official-41", "anna-memory"}},
	{name: "grpc-port-taken", annotations: map[string]string{"grpc-port": "9042"}, pods: []string{"plain-official-41"}},
	{name: "grpc-tls-off", annotations: map[string]string{"grpc-tls": "off", "restore": "b"}, pods: []string{"plain-official-41"}},
	{name: "secrets", annotations: map[string]string{"cql-secret": "cql-user", "jmx-secret": "jmx-user", "storage-secret": "minio"},
		pods: []string{"plain-official-41", "cass-operator"}},
	{name: "no-storage-secret", annotations: map[string]string{"storage-secret": "none", "restore": "b"}, pods: []string{"plain-official-41", "anna-memory"}},
	{name: "images", annotations: map[string]string{"medusa-image": "mirror.local/medusa@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "agent-image": "mirror.local/agent:1"},
		pods: []string{"plain-official-41", "anna-memory"}},
	{name: "no-native-sidecars", config: configHead + "nativeSidecars: never\n", pods: []string{"anna-memory", "anna-ebs", "cloudburst-executor"}},
	{name: "any-uid", config: configHead + "medusa: {anyUIDImage: 'mirror.local/medusa-any:1'}\n", annotations: map[string]string{"restore": "b"},
		pods: []string{"bitnami", "openshift-scc", "uid-pod-999-container-1000"}},
	{name: "order", order: inPlace, pods: []string{"plain-official-41", "cass-operator", "plain-official-restricted", "elassandra-operator", "helm-incubator-hostnetwork",
		"anna-memory", "anna-ebs"}},
	{name: "order-remote", order: remote,
		pods: []string{"plain-official-41", "dse-server", "cass-operator", "axonops-k8ssandra", "elassandra-operator", "instaclustr", "helm-incubator-hostnetwork"}},
	{name: "order-empty", order: empty, pods: []string{"plain-official-41", "anna-ebs"}},
	{name: "order-undo", order: undo, pods: []string{"plain-official-41", "cass-operator"}},
	{name: "order-tls-off", order: inPlace, annotations: map[string]string{"grpc-tls": "off"}, pods: []string{"plain-official-41"}},
	{name: "order-refused", order: inPlace, pods: []string{"anna-routing", "opted-out", "plain-official-novolume", "k8ssandra-operator-medusa", "mysql"}},
	{name: "order-and-restore", order: inPlace, annotations: map[string]string{"restore": "nightly-20261129"}, pods: []string{"plain-official-41"}},
	{name: "restore-latest", annotations: map[string]string{"restore": "latest"}, pods: []string{"plain-official-41"}},
	{name: "defaults", config: configHead + "annotations: {medusa-config: from-config, spread: zone}\nresources: {agent: {limits: {cpu: 200m, memory: 90Mi}}}\n",
		pods: []string{"plain-official-41"}},
}
