package patches

import (
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// Names of the injected containers and volumes.
const (
	ContainerAgent    = workload.OwnPrefix + "agent"
	ContainerSnapshot = workload.OwnPrefix + "snapshot"
	ContainerMedusa   = workload.OwnPrefix + "medusa"
	ContainerSetup    = workload.OwnPrefix + "setup"
	ContainerRestore  = workload.OwnPrefix + "restore"

	VolumeShared       = workload.OwnPrefix + "shared"        // the agent's binary and state
	VolumeMedusa       = workload.OwnPrefix + "medusa"        // the effective medusa.ini
	VolumeMedusaConfig = workload.OwnPrefix + "medusa-config" // the user's medusa.ini
	VolumeStorage      = workload.OwnPrefix + "storage"
	VolumeCQL          = workload.OwnPrefix + "cql"
	VolumeJMX          = workload.OwnPrefix + "jmx"
	VolumeGRPCTLS      = workload.OwnPrefix + "grpc-tls"
	VolumeTmp          = workload.OwnPrefix + "tmp"
	VolumeSnapshotTmp  = workload.OwnPrefix + "snapshot-tmp"
	VolumeConfig       = workload.OwnPrefix + "config"
	VolumeNoToken      = workload.OwnPrefix + "no-token"
	VolumeConf         = workload.OwnPrefix + "conf"       // configurations that setup renders
	VolumeRequests     = workload.OwnPrefix + "requests"   // sockets of executors and their cache
	VolumePodinfo      = workload.OwnPrefix + "podinfo"    // what the controller tells a pod of itself
	VolumeDecryption   = workload.OwnPrefix + "decryption" // the identity that backups are read with
)

// Names of the container ports that the controllers ask for backups at.
const (
	PortMedusa = "medusa-grpc"
	PortAgent  = workload.OwnPrefix + "grpc" // Anna's agent
)

// Names of the other ports of Anna's agent. Anna dials the two for its answers.
const (
	PortLife      = workload.OwnPrefix + "life" // metrics, and the hook before the node ends
	PortKeys      = workload.OwnPrefix + "keys"
	PortAddresses = workload.OwnPrefix + "addr"
)

// PathDepart is where the agent is asked, at PortLife, to have the node hand its keys over
// before it ends.
const PathDepart = "/depart"

// Places inside the injected containers.
const (
	DirShared       = "/stategraft"
	DirMedusa       = "/etc/medusa" // fixed in Medusa's image (k8s/docker-entrypoint.sh)
	DirMedusaConfig = "/etc/stategraft/medusa"
	DirConfig       = "/etc/stategraft/config"
	DirStorage      = "/etc/medusa-secrets" // as k8ssandra-operator has it
	DirCQL          = "/etc/stategraft/cql"
	DirJMX          = "/etc/stategraft/jmx"
	DirGRPCTLS      = "/etc/stategraft/grpc-tls"
	DirPodinfo      = "/etc/stategraft/podinfo"
	DirDecryption   = "/etc/stategraft/decryption"
	DirConf         = "/stategraft-conf" // with a directory for each container of Anna's and Cloudburst's

	// FilePublicAddress, in DirPodinfo, has the pod's api.AnnotationPublicAddress; it is
	// empty until that is known.
	FilePublicAddress = "public-address"

	// dirToken is where the API server mounts the token of the pod's service
	// account into every container that has nothing there, ours included
	// (k8s.io/kubernetes/plugin/pkg/admission/serviceaccount).
	dirToken = "/var/run/secrets/kubernetes.io/serviceaccount"

	// AgentInImage is the agent in its own image, AgentShared the copy that it
	// puts on the shared volume for the other containers.
	AgentInImage = "/usr/local/bin/stategraft-agent"
	AgentShared  = DirShared + "/bin/stategraft-agent"
)

// Variables of the injected containers that more than one room knows. The policies
// that keep a pod from starting without its restore read EnvBackup and
// api.EnvRestoreID (deploy/chart/templates/admission); the agent reads all.
const (
	EnvBackup        = "STATEGRAFT_BACKUP"         // the backup to restore
	EnvRestoreSource = "STATEGRAFT_RESTORE_SOURCE" // the node of the backup, where it is not the pod itself
	EnvRestoreAction = "STATEGRAFT_RESTORE_ACTION" // empty or undo; without it, restore
	EnvRestoreUndo   = "STATEGRAFT_RESTORE_UNDO"   // the request whose previous data come back
	EnvRestoreMode   = "STATEGRAFT_RESTORE_MODE"   // Remote; without it, in place
	EnvRestorePrefix = "STATEGRAFT_RESTORE_PREFIX" // of the storage, where it is not the pod's own
	EnvKeepPrevious  = "STATEGRAFT_KEEP_PREVIOUS"  // Always or IfRoom; without it, Never
	EnvNodePort      = "STATEGRAFT_NODE_PORT"      // of the service of api/node
	EnvTidyAfter     = "STATEGRAFT_TIDY_AFTER"     // how long the database answers until previous data go
	envGRPCTLS       = "STATEGRAFT_GRPC_TLS"       // off; without it the agent asks for TLS

	// Of Anna's and Cloudburst's.
	EnvSubdomain    = "STATEGRAFT_SUBDOMAIN"     // the headless Service by which the pod has a name
	EnvRender       = "STATEGRAFT_RENDER"        // what setup renders, as JSON
	EnvConfDir      = "STATEGRAFT_CONF_DIR"      // the node's effective configuration, in the agent
	EnvExpose       = "STATEGRAFT_EXPOSE"        // true: setup waits for FilePublicAddress
	EnvLifePort     = "STATEGRAFT_LIFE_PORT"     // of PortLife
	EnvResponsePort = "STATEGRAFT_RESPONSE_PORT" // of PortKeys; PortAddresses is the next one
	EnvMemoryLimit  = "STATEGRAFT_MEMORY_LIMIT"  // the node's own, in bytes
	EnvGrace        = "STATEGRAFT_GRACE"         // how long the pod's end may take, in seconds
)

// AnySource, as the source of a restore of Anna, stands for all parts of the backup.
const AnySource = "*"

// restoreEnv are the variables that say what the restore container restores.
var restoreEnv = [...]string{api.EnvRestoreID, EnvBackup, EnvRestoreSource, EnvRestoreAction, EnvRestoreUndo,
	EnvRestoreMode, EnvRestorePrefix, EnvKeepPrevious}

// The commands run in whatever image they are put into, as long as it has a
// shell: a container whose image cannot be pulled is healed by giving it the
// database's own image, where it then idles instead of failing.
const (
	// runOrIdle runs the agent of the container's own image.
	runOrIdle = `b=` + AgentInImage + `;[ -x $b ]&&exec $b "$@";echo "stategraft: degraded: no $b in this image";` +
		`trap 'exit 0' TERM INT;while :;do sleep 3600&wait $!;done`
	// waitAndRun waits for the agent to appear on the shared volume.
	waitAndRun = `b=` + AgentShared + `;trap 'exit 0' TERM INT;n=0;until [ -x $b ];do n=$((n+1));` +
		`[ $n = 60 ]&&echo "stategraft: degraded: waiting for $b";sleep 1&wait $!;done;exec $b "$@"`
)

func shell(script string, args ...string) []string {
	return append([]string{"/bin/sh", "-c", script, "stategraft-agent"}, args...)
}

var (
	commandPod       = shell(runOrIdle, "pod")
	commandAnnaServe = shell(runOrIdle, "anna", "serve")
	commandSnapshot  = shell(waitAndRun, "snapshot-server")
	commandServe     = shell(waitAndRun, "medusa", "serve")
)

func value(name, text string) EnvVar { return EnvVar{Name: name, Value: text} }

// Fields of the pod that variables take their values from.
var (
	podName      = &FieldSource{FieldRef{"metadata.name"}}
	podNamespace = &FieldSource{FieldRef{"metadata.namespace"}}
	podIP        = &FieldSource{FieldRef{"status.podIP"}}
	hostIP       = &FieldSource{FieldRef{"status.hostIP"}}
)

func field(name string, source *FieldSource) EnvVar { return EnvVar{Name: name, ValueFrom: source} }

func mount(volume, path string) VolumeMount { return VolumeMount{Name: volume, MountPath: path} }

func readOnly(volume, path string) VolumeMount {
	return VolumeMount{Name: volume, MountPath: path, ReadOnly: true}
}

// like mounts a volume as the database's container has it.
func like(m workload.Mount, readOnly bool) VolumeMount {
	return VolumeMount{Name: m.Volume, MountPath: m.Path, SubPath: m.SubPath, SubPathExpr: m.SubPathExpr, ReadOnly: readOnly}
}
