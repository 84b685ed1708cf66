package check

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// reference is an object that injected pods take files from. All are optional to
// the kubelet, so that a missing one keeps no pod from starting; nothing but the
// agent's log tells that it is missing.
type reference struct {
	namespace string
	kind      string // ConfigMap or Secret
	name      string
}

// use is who takes what from it.
type use struct {
	keys []string // that have to be there
	key  string   // the annotation that names the object
	lost string   // what does not work without it
	pods []string
}

// read by the agent and by Medusa from our volumes.
var readVolumes = map[string]use{
	patches.VolumeMedusaConfig: {keys: []string{"medusa.ini"}, key: api.AnnotationMedusaConfig, lost: "the sidecar does not know where backups go"},
	patches.VolumeStorage:      {keys: []string{"credentials"}, key: api.AnnotationStorageSecret, lost: "no backup is stored"},
	patches.VolumeCQL:          {keys: []string{"username", "password"}, key: api.AnnotationCQLSecret, lost: "Medusa cannot ask the database for its tokens and schema"},
	patches.VolumeJMX:          {keys: []string{"username", "password"}, key: api.AnnotationJMXSecret, lost: "no snapshot is taken"},
	patches.VolumeConfig:       {key: api.AnnotationConfigMap, lost: "the database starts without the configuration"},
}

// references are what the pod takes from where.
func references(pod *corev1.Pod) map[reference]use {
	found := map[reference]use{}
	for _, v := range pod.Spec.Volumes {
		what, ours := readVolumes[v.Name]
		if !ours || v.Name == patches.VolumeStorage && backupless(pod) {
			continue
		}
		switch {
		case v.ConfigMap != nil:
			found[reference{pod.Namespace, "ConfigMap", v.ConfigMap.Name}] = what
		case v.Secret != nil:
			// One Secret may be both storage's and the database's.
			at := reference{pod.Namespace, "Secret", v.Secret.SecretName}
			if before, twice := found[at]; twice {
				what.keys = slices.Concat(before.keys, what.keys)
			}
			found[at] = what
		}
	}
	return found
}

// backupless tells of pods that keep no data of their own: nothing is lost without what
// they would be stored with.
func backupless(pod *corev1.Pod) bool {
	return workload.Kind(kindOf(pod)) == workload.KindCloudburst || kvs.Idle(pod)
}

func lookReferences(ctx context.Context, c *Cluster) []Finding {
	s, err := c.sweep(ctx)
	if err != nil {
		return skipped(err)
	}
	var findings []Finding
	denied := map[string]bool{} // said once for a namespace and kind
	order := slices.SortedFunc(maps.Keys(s.references), func(a, b reference) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	})
	for _, r := range order {
		if denied[r.namespace+"/"+r.kind] {
			continue
		}
		have, err := c.keys(ctx, r)
		if err != nil && !apierrors.IsNotFound(err) {
			denied[r.namespace+"/"+r.kind] = forbidden(err)
			findings = append(findings, skipped(err)...)
			continue
		}
		findings = append(findings, judgeReference(r, s.references[r], err == nil, have)...)
	}
	if len(order) == 0 {
		return s.say(findings, "no pod takes any")
	}
	return s.say(findings, "%s", counted(len(order), "object", "with all that is taken from them"))
}

// keys are those of the object; values are not kept.
func (c *Cluster) keys(ctx context.Context, r reference) ([]string, error) {
	var keys []string
	if r.kind == "Secret" {
		object, err := c.Kube.CoreV1().Secrets(r.namespace).Get(ctx, r.name, metav1.GetOptions{})
		if err != nil {
			return nil, unread(err, right{Verb: "get", Resource: "secrets", Namespace: r.namespace})
		}
		for key, value := range object.Data {
			if len(value) > 0 {
				keys = append(keys, key)
			}
		}
		return keys, nil
	}
	object, err := c.Kube.CoreV1().ConfigMaps(r.namespace).Get(ctx, r.name, metav1.GetOptions{})
	if err != nil {
		return nil, unread(err, right{Verb: "get", Resource: "configmaps", Namespace: r.namespace})
	}
	for key, value := range object.Data {
		if value != "" {
			keys = append(keys, key)
		}
	}
	return append(keys, slices.Collect(maps.Keys(object.BinaryData))...), nil
}

// judgeReference judges one object by whether it is there and the keys that have
// a value in it.
func judgeReference(r reference, u use, there bool, have []string) []Finding {
	subject, pods := r.namespace+"/"+r.name, some(u.pods)
	if !there {
		return []Finding{finding(Fail, subject, "the %s is missing: %s (%s)", r.kind, u.lost, pods).
			With("create it%s, or name another in %s", withKeys(u.keys), u.key)}
	}
	var missing []string
	for _, key := range u.keys {
		if !slices.Contains(have, key) && !slices.Contains(missing, key) {
			missing = append(missing, key)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return []Finding{finding(Fail, subject, "the %s has nothing under %s: %s (%s)", r.kind, strings.Join(missing, ", "), u.lost, pods).
		With("add it; the pods see it within two minutes")}
}

func withKeys(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	return " with " + strings.Join(keys, " and ")
}
