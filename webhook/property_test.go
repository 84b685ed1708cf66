package webhook

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// strange is a value that no Go type of this program or of Kubernetes knows.
// The number loses its last digits in a float64, its last zero in any number.
var strange = `{"~/<&>": [1.50, 9007199254740993, null, {"~1~0": "ü\u2028"}], "": false}`

// sprinkle puts unknown members wherever a pod has a mapping of fixed members.
func sprinkle(tb testing.TB, raw []byte) []byte {
	tb.Helper()
	value, err := tree([]byte(strange))
	if err != nil {
		tb.Fatal(err)
	}
	places := 0
	put := func(v any) {
		if object, ok := v.(map[string]any); ok {
			object["x~/unknown"] = value
			places++
		}
	}
	pod := mustTree(tb, raw)
	put(pod)
	put(pod["metadata"])
	spec, _ := pod["spec"].(map[string]any)
	put(spec)
	put(spec["securityContext"])
	for _, list := range []string{"containers", "initContainers", "volumes"} {
		entries, _ := spec[list].([]any)
		for _, entry := range entries {
			put(entry)
			object, _ := entry.(map[string]any)
			for _, inner := range []string{"env", "ports", "volumeMounts"} {
				parts, _ := object[inner].([]any)
				for _, part := range parts {
					put(part)
				}
			}
			put(object["securityContext"])
		}
	}
	if places < 4 {
		tb.Fatalf("only %d places", places)
	}
	return encode(tb, pod)
}

// variants are the settings under which every pod is looked at.
var propertyVariants = map[string]map[string]string{
	"plain":   {},
	"restore": {"stategraft.io/restore": "nightly-1"},
	"all": {
		"stategraft.io/restore": "nightly-1", "stategraft.io/restore-source": "other-0", "stategraft.io/config-map": "conf",
		"stategraft.io/cql-secret": "cql", "stategraft.io/jmx-secret": "jmx", "stategraft.io/spread": "host,zone",
		"stategraft.io/colocate-with": "app in (a,b),role", "stategraft.io/grpc-port": "50099", "stategraft.io/expose": "LoadBalancer",
	},
	"host":    {"stategraft.io/host-network": "true"},
	"render":  {"stategraft.io/config-map": "conf", "stategraft.io/decryption-secret": "age", "stategraft.io/on-config-change": "restart"},
	"secrets": {"stategraft.io/storage-secret": "none", "stategraft.io/grpc-tls": "off", "stategraft.io/sidecar-resources": `{"limits":{"cpu":"1","memory":"1Gi"}}`},
}

// TestCorpusProperties holds each pod of the corpus, with members that nobody
// knows, to what has to hold for every pod.
func TestCorpusProperties(t *testing.T) {
	for name, raw := range corpus(t) {
		for variant, annotations := range propertyVariants {
			t.Run(name+"/"+variant, func(t *testing.T) {
				plain := annotated(t, raw, annotations)
				in := Input{Pod: plain, Namespace: labelled(), Config: DefaultConfig(), NativeSidecars: true}
				first := Decide(in)
				if err := holds(plain, in, first); err != nil {
					t.Error(err)
				}
				odd := in
				odd.Pod = sprinkle(t, plain)
				second := Decide(odd)
				if err := holds(odd.Pod, odd, second); err != nil {
					t.Error("with unknown members:", err)
				}
				if !reflect.DeepEqual(first, second) {
					t.Errorf("unknown members changed the outcome: %+v, then %+v", first, second)
				}
				if first.Patch != nil {
					injectedPod(t, plain, first, variant)
				}
			})
		}
	}
}

// injectedPod checks the result as the API server would see it.
func injectedPod(t *testing.T, raw []byte, out Outcome, variant string) {
	t.Helper()
	result := mustPatch(t, raw, out)
	var before, after corev1.Pod
	if err := yaml.UnmarshalStrict(raw, &before); err != nil {
		t.Fatalf("the corpus has a pod that is none: %v", err)
	}
	if err := yaml.UnmarshalStrict(result, &after); err != nil {
		t.Fatalf("the result is no pod: %v", err)
	}
	if err := wellFormed(&after); err != nil {
		t.Error(err)
	}
	if err := portsFree(&before, &after); err != nil {
		t.Error(err)
	}
	if class := qosClass(&before); class == corev1.PodQOSGuaranteed && qosClass(&after) != class {
		t.Errorf("QoS was %s and is %s", class, qosClass(&after))
	}
	if restricted(&before, anyContainer) == nil && variant != "host" {
		if err := restricted(&after, anyContainer); err != nil {
			t.Errorf("the pod was restricted and is not: %v", err)
		}
	}
	if out.Patch.Init == nil || variant == "plain" {
		for _, c := range after.Spec.InitContainers {
			if out.Workload.Kind == workload.KindCassandra && workload.Own(c.Name) {
				t.Errorf("init container %s without a restore", c.Name)
			}
		}
	}
	if n := len(before.Spec.Containers); variant == "plain" && !reflect.DeepEqual(before.Spec.Containers, withoutHook(after.Spec.Containers[:n], out.Workload)) {
		t.Error("the user's containers are not the first, unchanged")
	}
	if _, hasRestore := propertyVariants[variant]["stategraft.io/restore"]; hasRestore {
		found := slices.ContainsFunc(after.Spec.InitContainers, func(c corev1.Container) bool {
			return c.Name == patches.ContainerRestore && slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool {
				return v.Name == patches.EnvBackup && v.Value == "nightly-1"
			})
		})
		if !found {
			t.Error("a restore was asked for, and the pod is injected without it")
		}
	}
}

// withoutHook takes off the one thing that a node of Anna's is given besides: it hands its
// keys over before it ends.
func withoutHook(list []corev1.Container, w workload.Workload) []corev1.Container {
	list = slices.Clone(list)
	if w.Kind != workload.KindAnna || !w.HoldsData() {
		return list
	}
	if hook := list[w.Index].Lifecycle; hook != nil && hook.PreStop != nil && hook.PreStop.HTTPGet != nil && hook.PreStop.HTTPGet.Path == patches.PathDepart {
		list[w.Index].Lifecycle = nil
	}
	return list
}

// portsFree checks that no port of ours is one that the pod declares, and that
// the pod's host ports are one each.
func portsFree(before, after *corev1.Pod) error {
	taken := map[int32]string{}
	for _, c := range before.Spec.Containers {
		for _, p := range c.Ports {
			taken[p.ContainerPort] = c.Name
		}
	}
	host, main := map[string]string{}, map[string]bool{}
	for _, c := range after.Spec.Containers {
		main[c.Name] = true
	}
	for _, c := range slices.Concat(after.Spec.Containers, after.Spec.InitContainers) {
		for _, p := range c.Ports {
			if workload.Own(c.Name) {
				// The restore container is done when the one with the same service starts.
				other, ok := taken[p.ContainerPort]
				twins := []string{patches.ContainerMedusa, patches.ContainerAgent, patches.ContainerRestore}
				if ok && !(slices.Contains(twins, c.Name) && slices.Contains(twins, other) && p.Name == node.PortName) {
					return fmt.Errorf("port %d of %s is taken by %s", p.ContainerPort, c.Name, other)
				}
				taken[p.ContainerPort] = c.Name
			}
			if after.Spec.HostNetwork && p.HostPort == 0 && !main[c.Name] {
				p.HostPort = p.ContainerPort // as the API server defaults it
			}
			if after.Spec.HostNetwork && p.HostPort != p.ContainerPort {
				return fmt.Errorf("%s: port %d, host port %d on a host network", c.Name, p.ContainerPort, p.HostPort)
			}
			if !main[c.Name] && !workload.Own(c.Name) {
				continue // init containers of the user's run one by one
			}
			key := fmt.Sprintf("%s/%s/%d", p.Protocol, p.HostIP, p.HostPort)
			if other, ok := host[key]; ok && p.HostPort != 0 && c.Name != patches.ContainerRestore && other != patches.ContainerRestore {
				return fmt.Errorf("host port %s of %s is taken by %s", key, c.Name, other)
			}
			host[key] = c.Name
		}
	}
	return nil
}

// TestDeterministic decides often: the order of Go's maps changes each time.
func TestDeterministic(t *testing.T) {
	for name, raw := range corpus(t) {
		raw = annotated(t, raw, propertyVariants["all"])
		first := decideOn(raw)
		var want []byte
		if first.Patch != nil {
			want, _ = patches.Marshal(first.Patch.Operations)
		}
		for range 10 {
			again := decideOn(raw)
			var got []byte
			if again.Patch != nil {
				got, _ = patches.Marshal(again.Patch.Operations)
			}
			if !bytes.Equal(want, got) || !reflect.DeepEqual(first, again) {
				t.Errorf("%s: two outcomes of one pod", name)
				break
			}
		}
	}
}

// A container may name several programs; which comes first must not be chance.
func TestDeterministicEvidence(t *testing.T) {
	for name, container := range map[string]string{
		"anna":       `{"name":"kvs","image":"anna","command":["bash","-c","anna-route & anna-monitor & anna-bench & anna-kvs"]}`,
		"cloudburst": `{"name":"x","image":"cloudburst","env":[{"name":"ROLE","value":"benchmark"}],"command":["bash","-c","start-cloudburst.sh; python executor/server.py; python scheduler/server.py"]}`,
	} {
		raw := []byte(`{"metadata":{"name":"p"},"spec":{"containers":[` + container + `]}}`)
		first := decideOn(raw)
		for range 50 {
			if again := decideOn(raw); !reflect.DeepEqual(first, again) {
				t.Errorf("%s: role %s, evidence %q, then role %s, evidence %q", name,
					first.Workload.Role, first.Workload.Evidence, again.Workload.Role, again.Workload.Evidence)
				break
			}
		}
	}
}
