package patches

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Settings is what users can choose of an injection, after annotations and
// configuration have been read and checked.
type Settings struct {
	Restore       string // name of the backup to restore before the database starts; empty for none
	RestoreSource string // node of the backup to take; empty for the pod's own name

	// Order is what a Restore has to do with the pod. While it is pending, it stands
	// instead of Restore and RestoreSource.
	Order api.Order

	MedusaConfig  string // ConfigMap with medusa.ini
	StorageSecret string // Secret with the key credentials; empty for workload identity
	CQLSecret     string // Secrets with username and password; empty for none
	JMXSecret     string
	ConfigMap     string // ConfigMap with the database's configuration files; empty for none

	DecryptionSecret string // Secret with the identity that encrypted backups of Anna are read with; empty for none

	HostNetwork  bool
	SpreadHost   bool
	SpreadZone   bool
	ColocateWith *metav1.LabelSelector
	Expose       bool

	MedusaImage string
	AgentImage  string
	Resources   Set
	GRPCPort    int32 // 0 for the first free one from DefaultGRPCPort
	GRPCTLS     bool  // gRPC is served with mutual TLS, or not at all

	// What the cluster and the namespace allow or ask for.
	NativeSidecars bool   // init containers may have restartPolicy Always
	PodSecurity    string // level that the namespace enforces; empty for none
	LimitCPU       bool   // a quota or a limit range asks for limits.cpu
}

// Restores tells whether the pod is to be restored before its database starts.
func (s *Settings) Restores() bool { return s.Restore != "" || s.Order.Pending }

// Set is the resources of each kind of injected container.
type Set struct {
	Agent    Resources
	Snapshot Resources
	Medusa   Resources
	Anna     Resources
}

// The defaults of the images, the objects and the ports.
const (
	DefaultMedusaImage   = "docker.io/k8ssandra/medusa:0.30.0"
	DefaultAgentImage    = "ghcr.io/stategraft/stategraft-agent:v0.1.0"
	DefaultMedusaConfig  = "medusa"
	DefaultStorageSecret = "medusa-bucket-key"
	DefaultGRPCPort      = 50051 // medusa/config.py [grpc] port
	DefaultSnapshotPort  = 9188
)

// Default gives the settings of a pod without annotations in a cluster that
// knows native sidecars (Kubernetes 1.29 and later).
func Default() Settings {
	return Settings{
		MedusaConfig:   DefaultMedusaConfig,
		StorageSecret:  DefaultStorageSecret,
		MedusaImage:    DefaultMedusaImage,
		AgentImage:     DefaultAgentImage,
		GRPCTLS:        true,
		NativeSidecars: true,
		Resources: Set{
			Agent:    needs("10m", "32Mi", "64Mi"),
			Snapshot: needs("10m", "64Mi", "384Mi"), // nodetool is a Java program
			Medusa:   needs("100m", "128Mi", "1Gi"),
			Anna:     needs("50m", "64Mi", "256Mi"),
		},
	}
}

func needs(cpu, memory, limit string) Resources {
	return Resources{Requests: Amounts{CPU: cpu, Memory: memory}, Limits: Amounts{Memory: limit}}
}
