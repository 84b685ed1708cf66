// Package v1alpha1 holds what users write: the labels and annotations of
// Stategraft, and later its objects.
package v1alpha1

// Group is the API group of Stategraft's objects and the prefix of every label
// and annotation it reads.
const Group = "stategraft.io"

// Labels. LabelInject stands on a namespace (InjectEnabled) or on a pod
// (InjectDisabled); LabelWorkload on a pod.
const (
	LabelInject   = Group + "/inject"
	LabelWorkload = Group + "/workload"

	InjectEnabled  = "enabled"
	InjectDisabled = "disabled"
)

// Annotations, of a pod or of its namespace. The pod's win.
const (
	// AnnotationRestore names the backup to restore before the database starts.
	AnnotationRestore = Group + "/restore"
	// AnnotationRestoreSource names the node of the backup to take, where it is
	// not the pod's own name.
	AnnotationRestoreSource = Group + "/restore-source"
	// AnnotationMedusaConfig names the ConfigMap that holds medusa.ini.
	AnnotationMedusaConfig = Group + "/medusa-config"
	// AnnotationStorageSecret names the Secret with the storage credentials.
	AnnotationStorageSecret = Group + "/storage-secret"
	// AnnotationCQLSecret and AnnotationJMXSecret name Secrets with the keys
	// username and password.
	AnnotationCQLSecret = Group + "/cql-secret"
	AnnotationJMXSecret = Group + "/jmx-secret"
	// AnnotationConfigMap names the ConfigMap with the database's own
	// configuration files.
	AnnotationConfigMap = Group + "/config-map"
	// AnnotationDataVolume and AnnotationContainer settle what recognition
	// cannot know: the volume that holds the data, the database's container.
	AnnotationDataVolume = Group + "/data-volume"
	AnnotationContainer  = Group + "/container"
	// AnnotationHostNetwork puts the pod on its node's network.
	AnnotationHostNetwork = Group + "/host-network"
	// AnnotationSpread keeps a workload's pods apart by host, zone or both.
	AnnotationSpread = Group + "/spread"
	// AnnotationColocateWith is a label selector of pods to be next to.
	AnnotationColocateWith = Group + "/colocate-with"
	// AnnotationExpose asks for a Service per pod.
	AnnotationExpose = Group + "/expose"
	// Images, resources and port of the injected containers.
	AnnotationMedusaImage      = Group + "/medusa-image"
	AnnotationAgentImage       = Group + "/agent-image"
	AnnotationSidecarResources = Group + "/sidecar-resources"
	AnnotationGRPCPort         = Group + "/grpc-port"
)

// Annotations lists every annotation that Stategraft reads.
var Annotations = []string{
	AnnotationRestore, AnnotationRestoreSource, AnnotationMedusaConfig, AnnotationStorageSecret,
	AnnotationCQLSecret, AnnotationJMXSecret, AnnotationConfigMap, AnnotationDataVolume,
	AnnotationContainer, AnnotationHostNetwork, AnnotationSpread, AnnotationColocateWith,
	AnnotationExpose, AnnotationMedusaImage, AnnotationAgentImage, AnnotationSidecarResources,
	AnnotationGRPCPort,
}

// Labels lists every label that Stategraft reads.
var Labels = []string{LabelInject, LabelWorkload}
