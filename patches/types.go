package patches

// The types below have the members of core/v1 that the patches write, and no
// others. The types of k8s.io/api are several times as large, and most of an
// admission's time and memory would go into carrying and encoding empty
// members (make bench). That what they encode to is a valid core/v1 Pod is
// tested by decoding it strictly.

// Container is a core/v1 Container.
type Container struct {
	Name                     string           `json:"name"`
	Image                    string           `json:"image"`
	ImagePullPolicy          string           `json:"imagePullPolicy"`
	Command                  []string         `json:"command"`
	Env                      []EnvVar         `json:"env,omitempty"`
	Ports                    []Port           `json:"ports,omitempty"`
	Resources                Resources        `json:"resources"`
	RestartPolicy            string           `json:"restartPolicy,omitempty"`
	SecurityContext          *SecurityContext `json:"securityContext"`
	TerminationMessagePolicy string           `json:"terminationMessagePolicy,omitempty"`
	VolumeMounts             []VolumeMount    `json:"volumeMounts,omitempty"`
}

// EnvVar is a core/v1 EnvVar; ValueFrom encodes to an EnvVarSource.
type EnvVar struct {
	Name      string `json:"name"`
	Value     string `json:"value,omitempty"`
	ValueFrom any    `json:"valueFrom,omitempty"`
}

// FieldSource is an EnvVarSource that takes a field of the pod.
type FieldSource struct {
	FieldRef FieldRef `json:"fieldRef"`
}

// FieldRef is a core/v1 ObjectFieldSelector.
type FieldRef struct {
	FieldPath string `json:"fieldPath"`
}

// Port is a core/v1 ContainerPort.
type Port struct {
	Name          string `json:"name,omitempty"`
	ContainerPort int32  `json:"containerPort"`
	HostPort      int32  `json:"hostPort,omitzero"`
	Protocol      string `json:"protocol"`
}

// ReadinessGate is a core/v1 PodReadinessGate.
type ReadinessGate struct {
	ConditionType string `json:"conditionType"`
}

// Hook is a core/v1 LifecycleHandler that asks an HTTP server of the pod's.
type Hook struct {
	HTTPGet HTTPGet `json:"httpGet"`
}

// HTTPGet is a core/v1 HTTPGetAction.
type HTTPGet struct {
	Path string `json:"path"`
	Port int32  `json:"port"`
}

// Gate is a core/v1 PodSchedulingGate.
type Gate struct {
	Name string `json:"name"`
}

// VolumeMount is a core/v1 VolumeMount.
type VolumeMount struct {
	Name        string `json:"name"`
	MountPath   string `json:"mountPath"`
	ReadOnly    bool   `json:"readOnly,omitzero"`
	SubPath     string `json:"subPath,omitempty"`
	SubPathExpr string `json:"subPathExpr,omitempty"`
}

// Resources is a core/v1 ResourceRequirements.
type Resources struct {
	Requests Amounts `json:"requests,omitzero"`
	Limits   Amounts `json:"limits,omitzero"`
}

// Amounts is a core/v1 ResourceList of the resources that a sidecar is given,
// as quantities are written; empty for none.
type Amounts struct {
	CPU              string `json:"cpu,omitempty"`
	Memory           string `json:"memory,omitempty"`
	EphemeralStorage string `json:"ephemeral-storage,omitempty"`
}

// SecurityContext is a core/v1 SecurityContext.
type SecurityContext struct {
	RunAsUser                int64           `json:"runAsUser"`
	RunAsGroup               int64           `json:"runAsGroup"`
	RunAsNonRoot             bool            `json:"runAsNonRoot"`
	AllowPrivilegeEscalation bool            `json:"allowPrivilegeEscalation"`
	ReadOnlyRootFilesystem   bool            `json:"readOnlyRootFilesystem"`
	Capabilities             *Capabilities   `json:"capabilities"`
	SeccompProfile           *SeccompProfile `json:"seccompProfile"`
	SELinuxOptions           any             `json:"seLinuxOptions,omitempty"`
}

// Capabilities is a core/v1 Capabilities.
type Capabilities struct {
	Add  []string `json:"add,omitempty"`
	Drop []string `json:"drop"`
}

// SeccompProfile is a core/v1 SeccompProfile.
type SeccompProfile struct {
	Type string `json:"type"`
}

// Volume is a core/v1 Volume.
type Volume struct {
	Name        string       `json:"name"`
	EmptyDir    *EmptyDir    `json:"emptyDir,omitzero"`
	ConfigMap   *ConfigMap   `json:"configMap,omitzero"`
	Secret      *Secret      `json:"secret,omitzero"`
	DownwardAPI *DownwardAPI `json:"downwardAPI,omitzero"`
}

// DownwardAPI is a core/v1 DownwardAPIVolumeSource.
type DownwardAPI struct {
	Items []DownwardFile `json:"items"`
}

// DownwardFile is a core/v1 DownwardAPIVolumeFile.
type DownwardFile struct {
	Path     string   `json:"path"`
	FieldRef FieldRef `json:"fieldRef"`
}

// EmptyDir is a core/v1 EmptyDirVolumeSource without a size limit: exceeding
// one evicts the whole pod.
type EmptyDir struct{}

// ConfigMap is a core/v1 ConfigMapVolumeSource.
type ConfigMap struct {
	Name     string `json:"name"`
	Optional bool   `json:"optional"`
}

// Secret is a core/v1 SecretVolumeSource.
type Secret struct {
	SecretName string `json:"secretName"`
	Optional   bool   `json:"optional"`
}

var anEmptyDir = &EmptyDir{}

// Every reference is optional: a missing object would keep the pod from
// starting; the agent says instead what it waits for.
func emptyVolume(name string) Volume { return Volume{Name: name, EmptyDir: anEmptyDir} }

func configMapVolume(name, object string) Volume {
	return Volume{Name: name, ConfigMap: &ConfigMap{Name: object, Optional: true}}
}

func secretVolume(name, object string) Volume {
	return Volume{Name: name, Secret: &Secret{SecretName: object, Optional: true}}
}
