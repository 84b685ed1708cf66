package main

import "github.com/stategraft/stategraft/workload"

// variant is a way in which pods of the corpus are decided on besides as they
// are. Its golden files are called POD.NAME.json.
type variant struct {
	name        string
	annotations map[string]string // without the prefix stategraft.io/
	config      string            // text of the configuration file
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

var variants = []variant{
	{name: ""},
	{name: "restore", annotations: map[string]string{"restore": "nightly-20261130"}, each: holdsData},
	{name: "restore-skipped", annotations: map[string]string{"restore": "nightly-20261130"},
		pods: []string{"plain-official-novolume", "plain-official-deployment", "k8ssandra-operator-medusa", "nginx", "opted-out", "anna-routing"}},
	{name: "restore-bad", annotations: map[string]string{"restore": "../etc"}, pods: []string{"plain-official-41", "nginx"}},
	{name: "restore-source", annotations: map[string]string{"restore": "b", "restore-source": "other-cassandra-2"}, pods: []string{"plain-official-41", "anna-memory"}},
	{name: "config-map", annotations: map[string]string{"config-map": "conf"},
		pods: []string{"plain-official-41", "cass-operator", "anna-memory", "anna-ebs", "anna-routing", "cloudburst-executor", "cloudburst-scheduler"}},
	{name: "host-network", annotations: map[string]string{"host-network": "true"},
		pods: []string{"plain-official-41", "anna-memory", "anna-upstream-ebs", "cloudburst-executor", "elassandra-operator", "helm-incubator-hostnetwork"}},
	{name: "spread", annotations: map[string]string{"spread": "host,zone"},
		pods: []string{"plain-official-41", "cass-operator", "bare-fixed-name", "anna-memory", "helm-incubator", "instaclustr"}},
	{name: "colocate", annotations: map[string]string{"colocate-with": "role in (memory,ebs),tier=hot"}, pods: []string{"cloudburst-executor", "cass-operator"}},
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
	{name: "defaults", config: configHead + "annotations: {medusa-config: from-config, spread: zone}\nresources: {agent: {limits: {cpu: 200m, memory: 90Mi}}}\n",
		pods: []string{"plain-official-41"}},
}
