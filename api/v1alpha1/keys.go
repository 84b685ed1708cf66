// Package v1alpha1 holds what users write: the labels and annotations of
// Stategraft, and its objects.
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

// LabelInjected stands on every pod that is injected, with the kind of its
// database (cassandra, anna, cloudburst), so that such pods can be selected.
// Admission writes it and reads it nowhere: in a template that a live pod was
// copied into it says nothing. Who selects by it looks for the containers too.
// The controller writes it on pods that it has adopted (package adopted).
const LabelInjected = Group + "/injected"

// LabelRestoring stands on a namespace, with RestoringTrue, while a Restore of it is
// under way. The controller writes it. The policy that holds pods that are to be restored
// looks at these namespaces only (docs/decisions/0010-restoring-label.md).
const (
	LabelRestoring = Group + "/restoring"
	RestoringTrue  = "true"
)

// LabelLookup stands on the pods that look into the storage for a Restore, made by our
// controller (operations/lookup).
const LabelLookup = Group + "/lookup"

// SecretGRPC is the Secret, in each labelled namespace, with tls.crt, tls.key and
// ca.crt: what the sidecars' gRPC identifies itself by, and verifies clients with.
const SecretGRPC = "stategraft-grpc"

// GRPCServerName is the name that the certificate of SecretGRPC is made out to.
// It is the same for all pods of a namespace: clients reach them by address.
func GRPCServerName(namespace string) string { return "medusa." + namespace + "." + Group }

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
	// AnnotationOnConfigChange is "restart": the pods are re-created one at a time when
	// the ConfigMap of AnnotationConfigMap changes. Without it that is only told.
	AnnotationOnConfigChange = Group + "/on-config-change"
	// AnnotationDecryptionSecret names the Secret whose key "identity" holds the age
	// identity that an encrypted backup of Anna is read with. Only a restore container
	// sees it.
	AnnotationDecryptionSecret = Group + "/decryption-secret"
	// Images, resources and port of the injected containers.
	AnnotationMedusaImage      = Group + "/medusa-image"
	AnnotationAgentImage       = Group + "/agent-image"
	AnnotationSidecarResources = Group + "/sidecar-resources"
	AnnotationGRPCPort         = Group + "/grpc-port"
	// AnnotationGRPCTLS is on or off: whether the sidecars' gRPC asks for mutual
	// TLS, with SecretGRPC.
	AnnotationGRPCTLS = Group + "/grpc-tls"

	// AnnotationBackupSchedule is a cron expression in UTC: the pod's cluster gets a
	// BackupSchedule with it (operations/annotated).
	AnnotationBackupSchedule = Group + "/backup-schedule"
	// AnnotationRetain is how many complete backups of that schedule are kept; all
	// without it.
	AnnotationRetain = Group + "/retain"
	// AnnotationRPO is how old the pod's last complete backup may become before that
	// is told, a Period (14d) or a duration (90m); without it, what follows from its
	// schedule (operations/rpo).
	AnnotationRPO = Group + "/rpo"
)

// Adoption: pods that ran before they could be injected are given their containers while
// they run (operations/adopt).
const (
	// AnnotationAdopt is AdoptRunning, for that to be done, or AdoptNever. The pod's wins
	// over its namespace's; without either it is not done.
	AnnotationAdopt = Group + "/adopt"
	// AnnotationAdoptRenew, on a pod that is adopted, has its containers replaced by new
	// ones, which read Secrets, ConfigMap and annotations as they are now: with any value
	// that was not there before. The command line writes the time.
	AnnotationAdoptRenew = Group + "/adopt-renew"

	AdoptRunning = "running"
	AdoptNever   = "never"
)

// Annotations lists every annotation that Stategraft reads.
var Annotations = []string{
	AnnotationRestore, AnnotationRestoreSource, AnnotationMedusaConfig, AnnotationStorageSecret,
	AnnotationCQLSecret, AnnotationJMXSecret, AnnotationConfigMap, AnnotationDataVolume,
	AnnotationContainer, AnnotationHostNetwork, AnnotationSpread, AnnotationColocateWith,
	AnnotationExpose, AnnotationOnConfigChange, AnnotationDecryptionSecret, AnnotationMedusaImage, AnnotationAgentImage, AnnotationSidecarResources,
	AnnotationGRPCPort, AnnotationGRPCTLS, AnnotationHeldBack,
	AnnotationBackupSchedule, AnnotationRetain, AnnotationRPO,
	AnnotationAdopt, AnnotationAdoptRenew,
}

// Labels lists every label that Stategraft reads.
var Labels = []string{LabelInject, LabelWorkload}

// The catalogue of a namespace: a ConfigMap in which the controller says what it found
// in the storage of each of its clusters, and when. Who wants it looked at now writes
// AnnotationSync on it, with any value that was not there before; the answer is
// AnnotationSynced, with the value that it answers.
const (
	ConfigMapCatalogue = "stategraft-catalogue"
	AnnotationSync     = Group + "/sync"
	AnnotationSynced   = Group + "/synced"
)

// LabelVerify stands on the pods and claims of restores on trial, with the UID of the
// Backup.
const LabelVerify = Group + "/verify"

// LabelAnnotated stands on a BackupSchedule that was made of annotations
// (AnnotationBackupSchedule), with "true". Who takes it off keeps the schedule as it is.
const LabelAnnotated = Group + "/annotated"

// AnnotationExpiring stands on a Backup from when retention has said in its
// deletionPolicy that its data go, until they have gone: why, and " Delete" after it where
// the policy was that before. Should it be kept after all, it gets its policy back.
const AnnotationExpiring = Group + "/expiring"

// OnConfigChangeRestart is the value of AnnotationOnConfigChange.
const OnConfigChangeRestart = "restart"

// AnnotationPublicAddress stands on a pod with AnnotationExpose: the address at which its
// Service is reached from outside. The controller writes it (operations/expose), the setup
// container waits for it.
const AnnotationPublicAddress = Group + "/public-address"

// ConditionReplayed is the readiness gate of an Anna pod that is restored: it is true when
// all keys of the pod's part have been written again. The controller writes it.
const ConditionReplayed = Group + "/replayed"

// LabelExposed stands on the Services of operations/expose, with the name of the pod.
const LabelExposed = Group + "/exposed"
