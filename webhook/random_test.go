package webhook

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// generator makes pods that an API server might send: each part is present,
// null, empty or filled, by chance.
type generator struct{ *rand.Rand }

func pick[T any](g generator, choices ...T) T { return choices[g.IntN(len(choices))] }

func (g generator) chance(percent int) bool { return g.IntN(100) < percent }

// maybe puts a member: absent, null, or its value.
func (g generator) maybe(object map[string]any, key string, value func() any) {
	switch n := g.IntN(10); {
	case n < 3:
	case n == 3:
		object[key] = nil
	default:
		object[key] = value()
	}
}

func (g generator) pod() map[string]any {
	metadata := map[string]any{"name": "db-0", "x-unknown": 1.5}
	g.maybe(metadata, "labels", func() any {
		labels := map[string]any{"app": pick(g, "db", "cassandra")}
		if g.chance(30) {
			labels["stategraft.io/workload"] = pick(g, "cassandra", "anna", "cloudburst")
		}
		if g.chance(10) {
			labels["stategraft.io/injected"] = pick(g, "cassandra", "mine")
		}
		return labels
	})
	g.maybe(metadata, "annotations", func() any { return g.annotations() })
	g.maybe(metadata, "ownerReferences", func() any {
		return []any{map[string]any{"apiVersion": "apps/v1", "kind": pick(g, "StatefulSet", "ReplicaSet", "Redis"), "name": "db", "controller": true, "uid": "u"}}
	})
	spec := map[string]any{"containers": g.containers(pick(g, 1, 1, 2, 3), "c"), "x~/y": map[string]any{}}
	if g.chance(20) {
		spec["schedulingGates"] = pick[any](g, nil, []any{}, []any{map[string]any{"name": "a/b"}}, []any{map[string]any{"name": api.GateRestore, "x": 1}})
	}
	if g.chance(5) {
		spec["nodeName"] = "n1"
	}
	g.maybe(spec, "initContainers", func() any { return g.containers(g.IntN(3), "i") })
	g.maybe(spec, "volumes", func() any { return g.volumes() })
	g.maybe(spec, "affinity", func() any { return g.affinity() })
	g.maybe(spec, "securityContext", func() any { return g.security() })
	g.maybe(spec, "nodeSelector", func() any { return map[string]any{"a/b": "c"} })
	if g.chance(20) {
		spec["hostNetwork"], spec["dnsPolicy"] = true, pick(g, "ClusterFirst", "Default")
	}
	if g.chance(10) {
		spec["resources"] = g.resources()
	}
	keepMounted(spec)
	return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": nil}
}

// keepMounted drops the mounts of volumes that the pod has not, and second
// mounts of a path: the API server would not take them.
func keepMounted(spec map[string]any) {
	there := map[any]bool{}
	volumes, _ := spec["volumes"].([]any)
	for _, v := range volumes {
		if object, ok := v.(map[string]any); ok {
			there[object["name"]] = true
		}
	}
	for _, list := range []string{"containers", "initContainers"} {
		containers, _ := spec[list].([]any)
		for _, c := range containers {
			object, _ := c.(map[string]any)
			mounts, ok := object["volumeMounts"].([]any)
			if !ok {
				continue
			}
			for _, m := range mounts {
				if _, ok := object["env"].([]any); !ok {
					m.(map[string]any)["subPathExpr"] = "" // $(NODE) would not resolve
				}
			}
			object["volumeMounts"] = slices.DeleteFunc(mounts, func(m any) bool {
				mount, ok := m.(map[string]any)
				return !ok || !there[mount["name"]]
			})
		}
	}
}

func (g generator) annotations() map[string]any {
	out := map[string]any{}
	for key, values := range map[string][]string{
		"restore": {"b1", "nightly:2"}, "spread": {"host", "zone,host"}, "colocate-with": {"a=b", "a in (b,c)"},
		"config-map": {"conf"}, "host-network": {"true", "false"}, "grpc-port": {"50051", "9188", "7000"},
		"cql-secret": {"cql"}, "jmx-secret": {"jmx"}, "storage-secret": {"none", "s"}, "data-volume": {"data"},
		"sidecar-resources": {`{"limits":{"cpu":"1","memory":"1Gi"}}`}, "other/key~": {"x"},
	} {
		if g.chance(20) {
			out["stategraft.io/"+key] = pick(g, values...)
		}
	}
	return out
}

func (g generator) containers(n int, prefix string) []any {
	list := []any{}
	for i := range n {
		c := map[string]any{"name": fmt.Sprintf("%s%d", prefix, i), "x-unknown": []any{nil},
			"image": pick(g, "cassandra:4.1", "k8ssandra/cass-management-api:4.1", "hydroproject/anna", "hydroproject/cloudburst", "busybox", "my/cassandra")}
		if g.chance(40) {
			c["name"] = pick(g, "cassandra", "memory-container") + fmt.Sprint(prefix, i)
		}
		g.maybe(c, "ports", func() any {
			ports := []any{}
			for _, port := range []int{9042, 7000, 7199, 9188, 50051, 8080} {
				if g.chance(40) {
					ports = append(ports, map[string]any{"containerPort": port})
				}
			}
			return ports
		})
		g.maybe(c, "volumeMounts", func() any {
			mounts := []any{}
			for _, path := range []string{"/var/lib/cassandra", "/var/lib/cassandra/commitlog", "/ebs", "/config", "/etc/cassandra"} {
				if g.chance(50) {
					mounts = append(mounts, map[string]any{"name": pick(g, "data", "data", "log", "server-config"), "mountPath": path,
						"readOnly": g.chance(10), "subPathExpr": pick(g, "", "", "$(NODE)")})
				}
			}
			return mounts
		})
		g.maybe(c, "env", func() any {
			return []any{map[string]any{"name": "NODE", "valueFrom": pick[any](g, nil, map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.uid"}},
				map[string]any{"secretKeyRef": map[string]any{"name": "s", "key": "k"}})},
				map[string]any{"name": "SERVER_TYPE", "value": pick(g, "memory", "ebs", "r")},
				map[string]any{"name": pick(g, "JVM_EXTRA_OPTS", "JAVA_TOOL_OPTIONS", "X"), "value": pick(g, "", "-Xms1g", "$(SERVER_TYPE)")}}
		})
		g.maybe(c, "resources", func() any { return g.resources() })
		g.maybe(c, "securityContext", func() any { return g.security() })
		list = append(list, c)
	}
	return list
}

func (g generator) volumes() []any {
	list := []any{}
	for _, name := range []string{"data", "log", "server-config", "x"} {
		if g.chance(80) {
			list = append(list, map[string]any{"name": name, pick(g, "emptyDir", "persistentVolumeClaim", "hostPath", "x-unknown"): map[string]any{"claimName": "c", "path": "/p"}})
		}
	}
	return list
}

func (g generator) affinity() map[string]any {
	out := map[string]any{}
	for _, kind := range []string{"podAffinity", "podAntiAffinity", "nodeAffinity"} {
		g.maybe(out, kind, func() any {
			lists := map[string]any{}
			g.maybe(lists, "requiredDuringSchedulingIgnoredDuringExecution", func() any {
				if kind == "nodeAffinity" {
					return map[string]any{"nodeSelectorTerms": []any{}}
				}
				return pick(g, []any{}, []any{map[string]any{"topologyKey": "rack", "x": 1}})
			})
			return lists
		})
	}
	return out
}

func (g generator) resources() map[string]any {
	amounts := func() any {
		return pick(g, map[string]any{"cpu": "1", "memory": "2Gi"}, map[string]any{"cpu": 1}, map[string]any{})
	}
	out := map[string]any{}
	g.maybe(out, "requests", amounts)
	g.maybe(out, "limits", amounts)
	return out
}

func (g generator) security() map[string]any {
	out := map[string]any{}
	g.maybe(out, "runAsUser", func() any { return pick(g, 0, 999, 999, 1001) })
	g.maybe(out, "runAsNonRoot", func() any { return true })
	g.maybe(out, "fsGroup", func() any { return 999 })
	g.maybe(out, "seLinuxOptions", func() any { return map[string]any{"level": "s0"} })
	return out
}

// TestRandomPods holds random pods to what has to hold for every pod. A failure
// prints the seed that gives its pod again.
func TestRandomPods(t *testing.T) {
	count, base := 2000, uint64(time.Now().UnixNano())
	if testing.Short() {
		count = 500
	}
	injected, seen := map[workload.Kind]int{}, map[string]bool{}
	for i := range count {
		seed := base + uint64(i)
		if raw, err := randomPod(t, seed, injected); err != nil && !seen[err.Error()] {
			seen[err.Error()] = true // each way to fail once, for there may be thousands
			t.Errorf("seed %d: %v\npod: %s", seed, err, raw)
		}
	}
	for _, kind := range []workload.Kind{workload.KindCassandra, workload.KindAnna, workload.KindCloudburst} {
		if injected[kind] < count/200 {
			t.Errorf("only %d of %d random pods are injected as %s: the generator proves nothing", injected[kind], count, kind)
		}
	}
}

func randomPod(tb testing.TB, seed uint64, injected map[workload.Kind]int) ([]byte, error) {
	g := generator{rand.New(rand.NewPCG(seed, 1))}
	raw := encode(tb, g.pod())
	in := Input{Pod: raw, Namespace: labelled(), Config: DefaultConfig(), NativeSidecars: g.chance(70)}
	var order api.Order
	if g.chance(40) {
		order = g.order()
		in.Order = ordered(order)
	}
	out := Decide(in)
	if order.Pending && out.Verdict == workload.Skip {
		return raw, fmt.Errorf("admitted as it was (%s), with a pending order", out.Reason)
	}
	if err := holds(raw, in, out); err != nil {
		return raw, err
	}
	if out.Patch == nil {
		return raw, nil
	}
	injected[out.Workload.Kind]++
	var before, after corev1.Pod
	// Not strictly: the random pods have members that nobody knows.
	if err := yaml.Unmarshal(raw, &before); err != nil {
		return raw, err
	}
	if err := yaml.Unmarshal(mustPatch(tb, raw, out), &after); err != nil {
		return raw, err
	}
	if err := wellFormed(&after); err != nil {
		return raw, err
	}
	if qosClass(&before) == corev1.PodQOSGuaranteed && qosClass(&after) != corev1.PodQOSGuaranteed {
		return raw, errors.New("no longer Guaranteed")
	}
	return raw, nil
}
