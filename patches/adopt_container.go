package patches

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// ephemeral makes of a part the container that the API server takes for an ephemeral one.
func (b *builder) ephemeral(p *part, a *Adoption) (*corev1.EphemeralContainer, error) {
	security, err := b.adoptSecurity()
	if err != nil {
		return nil, err
	}
	mounts, files, err := b.adoptMounts(p)
	if err != nil {
		return nil, err
	}
	memory, err := resource.ParseQuantity(p.memory)
	if err != nil {
		return nil, fmt.Errorf("reading how much memory %s is to keep below: %w", p.Name, err)
	}
	env := slices.Concat(p.Env, files, []EnvVar{
		field(EnvPodUID, podUID), value(EnvRoot, RootAdopted), value(EnvMemory, strconv.FormatInt(memory.Value(), 10))})
	pull := corev1.PullPolicy(p.ImagePullPolicy)
	if pull == "" {
		pull = corev1.PullIfNotPresent
	}
	c := &corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: fmt.Sprintf("%s-%d", p.role.Container(), p.number), Image: p.Image, ImagePullPolicy: pull, Command: p.Command,
		Env: coreEnv(lasting(env)), VolumeMounts: mounts, SecurityContext: security,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError, // why it ended is told from its status
	}}
	digest, err := adoptDigest(c)
	if err != nil {
		return nil, err
	}
	c.Env = append(c.Env, coreEnv(nonEmpty([]EnvVar{
		value(EnvAdopted, strconv.Itoa(p.number)), value(EnvAdoptedAt, a.At.UTC().Format(time.RFC3339)),
		value(EnvAdoptedPair, a.Pair), value(EnvAdoptedRenew, a.Renew), value(EnvAdoptedDigest, digest)}))...)
	return c, nil
}

var podUID = &FieldSource{FieldRef{"metadata.uid"}}

// adoptDigest is the same for two containers that differ in nothing but their numbers: they
// would wait for the same.
func adoptDigest(c *corev1.EphemeralContainer) (string, error) {
	common := c.EphemeralContainerCommon
	common.Name = ""
	common.Env = slices.DeleteFunc(slices.Clone(common.Env), func(v corev1.EnvVar) bool {
		return v.Name == EnvAdoptedDir || v.Name == EnvAdoptedTakers
	})
	text, err := json.Marshal(common)
	if err != nil {
		return "", fmt.Errorf("encoding container %s: %w", c.Name, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}

// adoptMounts keeps the mounts of the pod's own volumes, and gives variables for what the
// others would have held that is not made by us.
func (b *builder) adoptMounts(p *part) (mounts []corev1.VolumeMount, files []EnvVar, err error) {
	for _, m := range p.VolumeMounts {
		if ourVolume(m.Name) {
			files = append(files, b.contents(m)...)
			continue
		}
		if m.SubPath != "" || m.SubPathExpr != "" {
			return nil, nil, &Conflict{workload.ReasonSubPath, fmt.Sprintf("container %s has volume %s on %s by subPath, and Kubernetes has no such mounts for containers that are added to a pod that runs; "+
				"the pod is injected when it is created anew", b.w.Container, m.Name, workload.Short(m.MountPath))}
		}
		for _, have := range mounts {
			if path.Clean(have.MountPath) == path.Clean(m.MountPath) {
				return nil, nil, &Conflict{workload.ReasonNameConflict, fmt.Sprintf("%s would have volumes %s and %s on %s; mount one of them elsewhere",
					p.Name, have.Name, m.Name, workload.Short(m.MountPath))}
			}
		}
		mounts = append(mounts, corev1.VolumeMount{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly})
	}
	return mounts, files, nil
}

// ourVolume tells whether a mount of one of our containers is of a volume that is injected
// with it. A user's may have a name that begins as ours do.
func ourVolume(name string) bool {
	switch name {
	case VolumeShared, VolumeMedusa, VolumeTmp, VolumeSnapshotTmp, VolumeNoToken, VolumeConf, VolumeRequests, VolumePodinfo,
		VolumeMedusaConfig, VolumeConfig, VolumeStorage, VolumeCQL, VolumeJMX, VolumeGRPCTLS, VolumeDecryption:
		return true
	}
	return false
}

// contents are the variables for what is read from a volume of ours. They are not optional:
// the kubelet keeps the container waiting for what is not there, says so in its status and
// harms nobody by that.
func (b *builder) contents(m VolumeMount) (env []EnvVar) {
	var from func(key string) *corev1.EnvVarSource
	switch m.Name {
	case VolumeMedusaConfig:
		from = configMapKey(b.s.MedusaConfig)
	case VolumeConfig:
		from = configMapKey(b.s.ConfigMap)
	case VolumeStorage:
		from = secretKey(b.s.StorageSecret)
	case VolumeCQL:
		from = secretKey(b.s.CQLSecret)
	case VolumeJMX:
		from = secretKey(b.s.JMXSecret)
	case VolumeGRPCTLS:
		from = secretKey(api.SecretGRPC)
	default:
		return nil
	}
	for _, content := range Contents {
		if dir, key := path.Split(content.Path); path.Clean(dir) == m.MountPath {
			env = append(env, EnvVar{Name: content.Env, ValueFrom: from(key)})
		}
	}
	return env
}

var notOptional = false

func configMapKey(object string) func(string) *corev1.EnvVarSource {
	return func(key string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: object}, Key: key, Optional: &notOptional}}
	}
}

func secretKey(object string) func(string) *corev1.EnvVarSource {
	return func(key string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: object}, Key: key, Optional: &notOptional}}
	}
}

// adoptSecurity is who all of them run as, also beside a database that starts as root: no
// volume is given to anybody here. Without volumes of ours they write to their own root.
func (b *builder) adoptSecurity() (*corev1.SecurityContext, error) {
	sc := *b.ordinary
	sc.ReadOnlyRootFilesystem = false
	text, err := json.Marshal(&sc)
	if err != nil {
		return nil, fmt.Errorf("encoding the security context: %w", err)
	}
	out := &corev1.SecurityContext{}
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("reading the SELinux options of container %s: %w", b.w.Container, err)
	}
	return out, nil
}

// lasting drops the entries that a later one of the same name replaces.
func lasting(env []EnvVar) []EnvVar {
	kept := make([]EnvVar, 0, len(env))
	for i, v := range env {
		if _, again := variable(env[i+1:], v.Name); !again {
			kept = append(kept, v)
		}
	}
	return kept
}

// coreEnv gives variables as types of core/v1.
func coreEnv(env []EnvVar) []corev1.EnvVar {
	out := make([]corev1.EnvVar, 0, len(env))
	for _, v := range env {
		c := corev1.EnvVar{Name: v.Name, Value: v.Value}
		switch from := v.ValueFrom.(type) {
		case *FieldSource:
			c.ValueFrom = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: from.FieldRef.FieldPath}}
		case *corev1.EnvVarSource:
			c.ValueFrom = from
		}
		out = append(out, c)
	}
	return out
}
