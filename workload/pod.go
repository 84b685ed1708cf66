package workload

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Pod is the part of a core/v1 Pod that recognition and the patches read. It is
// decoded from the raw JSON of the admission request and never encoded again:
// what a Pod has beyond these fields is not this program's business and
// survives because the patch only adds.
type Pod struct {
	Metadata Metadata `json:"metadata"`
	Spec     Spec     `json:"spec"`

	// Claims names the volumes that a StatefulSet's volumeClaimTemplates will
	// give the pod. Only set for a template read from a file: in a pod that the
	// StatefulSet controller made they are ordinary volumes.
	Claims []string `json:"-"`
}

// Metadata is the part of metav1.ObjectMeta that is read.
type Metadata struct {
	Name         string            `json:"name"`
	GenerateName string            `json:"generateName"`
	Namespace    string            `json:"namespace"`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	Owners       []Owner           `json:"ownerReferences"`

	present bool
}

// UnmarshalJSONFrom remembers that the document has metadata at all.
func (m *Metadata) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type plain Metadata
	object := dec.PeekKind() == '{'
	err := json.UnmarshalDecode(dec, (*plain)(m))
	m.present = object
	return err
}

// Owner is the part of metav1.OwnerReference that is read.
type Owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Controller bool   `json:"controller"`
}

// Spec is the part of core/v1 PodSpec that is read. A nil slice means that the
// member is absent or null, an empty one that it is there.
type Spec struct {
	InitContainers []Container       `json:"initContainers"`
	Containers     []Container       `json:"containers"`
	Ephemeral      []Named           `json:"ephemeralContainers"`
	Volumes        []Volume          `json:"volumes"`
	Security       SecurityContext   `json:"securityContext"`
	Resources      *Resources        `json:"resources"`
	Affinity       jsontext.Value    `json:"affinity"`
	HostNetwork    bool              `json:"hostNetwork"`
	HostUsers      *bool             `json:"hostUsers"`
	HostnameAs     string            `json:"hostnameOverride"`
	DNSPolicy      string            `json:"dnsPolicy"`
	RestartPolicy  string            `json:"restartPolicy"`
	Subdomain      string            `json:"subdomain"`
	NodeSelector   map[string]string `json:"nodeSelector"`
	PriorityClass  string            `json:"priorityClassName"`
	ActiveDeadline *int64            `json:"activeDeadlineSeconds"`
	NodeName       string            `json:"nodeName"`
	Gates          []Gate            `json:"schedulingGates"`
	ReadinessGates []ReadinessGate   `json:"readinessGates"`
	GracePeriod    *int64            `json:"terminationGracePeriodSeconds"`
	Hostname       string            `json:"hostname"`
	OS             struct {
		Name string `json:"name"`
	} `json:"os"`
}

// Named is what is read of an entry that only its name matters of.
type Named struct {
	Name string `json:"name"`
}

// Gate is a core/v1 PodSchedulingGate.
type Gate struct {
	Name string `json:"name"`
}

// ReadinessGate is a core/v1 PodReadinessGate.
type ReadinessGate struct {
	Condition string `json:"conditionType"`
}

// Container is the part of core/v1 Container that is read.
type Container struct {
	Name          string          `json:"name"`
	Image         string          `json:"image"`
	PullPolicy    string          `json:"imagePullPolicy"`
	Command       []string        `json:"command"`
	Args          []string        `json:"args"`
	EnvFrom       []struct{}      `json:"envFrom"`
	Env           []EnvVar        `json:"env"`
	Ports         []Port          `json:"ports"`
	Resources     Resources       `json:"resources"`
	Mounts        []Mount         `json:"volumeMounts"`
	Devices       []Device        `json:"volumeDevices"`
	Security      SecurityContext `json:"securityContext"`
	RestartPolicy string          `json:"restartPolicy"`
	Readiness     *Probe          `json:"readinessProbe"`
	Liveness      *Probe          `json:"livenessProbe"`
	Startup       *Probe          `json:"startupProbe"`
	Lifecycle     *Lifecycle      `json:"lifecycle"`
	WorkingDir    string          `json:"workingDir"`
}

// Lifecycle is the part of core/v1 Lifecycle that is read.
type Lifecycle struct {
	PreStop *Hook `json:"preStop"`
}

// Hook is the part of core/v1 LifecycleHandler that is read.
type Hook struct {
	Exec Exec `json:"exec"`
	HTTP struct {
		Path string `json:"path"`
	} `json:"httpGet"`
}

// EnvVar is a core/v1 EnvVar; where its value comes from elsewhere, ValueFrom
// keeps that as it was written.
type EnvVar struct {
	Name      string         `json:"name"`
	Value     string         `json:"value"`
	ValueFrom jsontext.Value `json:"valueFrom"`
}

// Port is the part of core/v1 ContainerPort that is read.
type Port struct {
	Name          string `json:"name"`
	ContainerPort int32  `json:"containerPort"`
	HostPort      int32  `json:"hostPort"`
	Protocol      string `json:"protocol"`
}

// Mount is the part of core/v1 VolumeMount that is read.
type Mount struct {
	Volume      string `json:"name"`
	Path        string `json:"mountPath"`
	SubPath     string `json:"subPath"`
	SubPathExpr string `json:"subPathExpr"`
	ReadOnly    bool   `json:"readOnly"`
}

// Device is the part of core/v1 VolumeDevice that is read.
type Device struct {
	Volume string `json:"name"`
	Path   string `json:"devicePath"`
}

// Resources is core/v1 ResourceRequirements without claims.
type Resources struct {
	Requests map[string]Quantity `json:"requests"`
	Limits   map[string]Quantity `json:"limits"`
}

// SecurityContext holds the members that a pod's and a container's security
// context share, and those of either that are read.
type SecurityContext struct {
	RunAsUser      *int64         `json:"runAsUser"`
	RunAsGroup     *int64         `json:"runAsGroup"`
	RunAsNonRoot   *bool          `json:"runAsNonRoot"`
	FSGroup        *int64         `json:"fsGroup"`
	SELinuxOptions jsontext.Value `json:"seLinuxOptions"`
	Sysctls        []Sysctl       `json:"sysctls"`
}

// Sysctl is the part of core/v1 Sysctl that is read.
type Sysctl struct {
	Name string `json:"name"`
}

// Probe is the part of core/v1 Probe that is read.
type Probe struct {
	Exec Exec       `json:"exec"`
	HTTP PortHolder `json:"httpGet"`
	TCP  PortHolder `json:"tcpSocket"`
	GRPC PortHolder `json:"grpc"`
}

// Exec is a core/v1 ExecAction.
type Exec struct {
	Command []string `json:"command"`
}

// PortHolder is a probe's action that names a port, by number or by name.
type PortHolder struct {
	Port IntOrString `json:"port"`
}

// Volume is a core/v1 Volume: its name and, of its source, what tells whether
// it can hold data.
type Volume struct {
	Name        string  `json:"name"`
	Claim       *Source `json:"persistentVolumeClaim"`
	EmptyDir    *Source `json:"emptyDir"`
	HostPath    *Source `json:"hostPath"`
	ConfigMap   *Source `json:"configMap"`
	Secret      *Source `json:"secret"`
	Projected   *Source `json:"projected"`
	DownwardAPI *Source `json:"downwardAPI"`
	Image       *Source `json:"image"`
	CSI         *Source `json:"csi"`
}

// Source is what is read of any volume source.
type Source struct {
	ReadOnly bool `json:"readOnly"`
}

// Parse reads a Pod from JSON. Names are matched by case and a name that
// appears twice is an error, as to the API server (sigs.k8s.io/json); members
// that are not read are skipped. The error says where in the document it is.
func Parse(raw []byte) (*Pod, error) {
	pod := &Pod{}
	if err := json.Unmarshal(raw, pod); err != nil {
		return nil, err
	}
	return pod, nil
}

// OwnPrefix starts the name of every container and volume that Stategraft adds.
const OwnPrefix = "stategraft-"

// Own tells whether a container or a volume is one that Stategraft adds.
func Own(name string) bool { return strings.HasPrefix(name, OwnPrefix) }

// Variable gives a literal value of an environment variable of the container.
func (c *Container) Variable(name string) (string, bool) {
	for i := range c.Env {
		if c.Env[i].Name == name {
			return c.Env[i].Value, true
		}
	}
	return "", false
}

// HasMetadata tells whether the document has metadata that can be added to. The
// API server always sends some; a document without any is somebody's test.
func (p *Pod) HasMetadata() bool {
	return p.Metadata.present
}

// Volume finds a volume by name. For a volume that a claim template will give
// the pod it makes one up.
func (p *Pod) Volume(name string) (*Volume, bool) {
	for i := range p.Spec.Volumes {
		if p.Spec.Volumes[i].Name == name {
			return &p.Spec.Volumes[i], true
		}
	}
	for _, claim := range p.Claims {
		if claim == name {
			return &Volume{Name: name, Claim: &Source{}}, true
		}
	}
	return nil, false
}

// HasVolume tells whether the pod has a volume of the name.
func (p *Pod) HasVolume(name string) bool {
	for i := range p.Spec.Volumes {
		if p.Spec.Volumes[i].Name == name {
			return true
		}
	}
	return false
}

// Controller gives the pod's controlling owner, if it has one.
func (p *Pod) Controller() (Owner, bool) {
	for _, owner := range p.Metadata.Owners {
		if owner.Controller {
			return owner, true
		}
	}
	return Owner{}, false
}

// Writable tells whether data written to the volume stays on it.
func (v *Volume) Writable() bool {
	switch {
	case v.ConfigMap != nil, v.Secret != nil, v.Projected != nil, v.DownwardAPI != nil, v.Image != nil:
		return false
	case v.Claim != nil:
		return !v.Claim.ReadOnly
	case v.CSI != nil:
		return !v.CSI.ReadOnly
	}
	return true
}
