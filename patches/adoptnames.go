package patches

// What is grafted onto a pod that runs (Adopt) are ephemeral containers: they have neither
// ports nor probes, resources nor volumes of their own, cannot be changed, and are never
// started again (k8s.io/kubernetes/pkg/apis/core/validation, allowedEphemeralContainerFields).
// So what a volume would hold comes in variables, and a container that ended is followed by
// one with the next number.

// Role is what a container of an adopted pod does.
type Role string

// The roles, in the order in which their containers are added. The name of a container is
// that of the injected container of the role, "-" and its number.
const (
	RoleAgent    Role = "agent"    // of Cassandra: brings the agent's binary and ends; of Anna: backs up
	RoleSnapshot Role = "snapshot" // of Cassandra, without a management API
	RoleMedusa   Role = "medusa"   // of Cassandra
)

// Roles lists them.
var Roles = []Role{RoleAgent, RoleSnapshot, RoleMedusa}

// Container is the name of the injected container of a role.
func (r Role) Container() string {
	switch r {
	case RoleSnapshot:
		return ContainerSnapshot
	case RoleMedusa:
		return ContainerMedusa
	}
	return ContainerAgent
}

// Variables of the containers of an adopted pod.
const (
	EnvAdopted       = "STATEGRAFT_ADOPTED"        // the container's number; there in such containers alone
	EnvAdoptedAt     = "STATEGRAFT_ADOPTED_AT"     // when it was added, RFC 3339 in UTC
	EnvAdoptedPair   = "STATEGRAFT_ADOPTED_PAIR"   // what api.SecretGRPC held then, as a digest
	EnvAdoptedRenew  = "STATEGRAFT_ADOPTED_RENEW"  // value of api.AnnotationAdoptRenew then
	EnvAdoptedDigest = "STATEGRAFT_ADOPTED_DIGEST" // of the container without these five variables, its name, and the next two
	EnvAdoptedDir    = "STATEGRAFT_ADOPTED_DIR"    // on a volume of the pod: the agent's binary, until it was taken
	EnvAdoptedTakers = "STATEGRAFT_ADOPTED_TAKERS" // in the agent: who takes it, as in "snapshot-2 medusa-3"
	EnvMemory        = "STATEGRAFT_MEMORY"         // in bytes: what the container keeps itself below
	EnvRoot          = "STATEGRAFT_ROOT"           // below which the agent makes the places that are mounted elsewhere
	EnvPodUID        = "POD_UID"
)

// RootAdopted is the value of EnvRoot.
const RootAdopted = "/tmp/stategraft-root"

// DirAdopted is the directory, at the top of a data volume, that EnvAdoptedDir names.
const DirAdopted = ".stategraft/adopted"

// Contents are the variables that hold what injected containers read from files, and where
// the agent puts it, below EnvRoot.
var Contents = []Content{
	{"STATEGRAFT_FILE_INI", DirMedusaConfig + "/medusa.ini"},
	{"STATEGRAFT_FILE_CREDENTIALS", DirStorage + "/credentials"},
	{"STATEGRAFT_FILE_CQL_USERNAME", DirCQL + "/username"},
	{"STATEGRAFT_FILE_CQL_PASSWORD", DirCQL + "/password"},
	{"STATEGRAFT_FILE_JMX_USERNAME", DirJMX + "/username"},
	{"STATEGRAFT_FILE_JMX_PASSWORD", DirJMX + "/password"},
	{"STATEGRAFT_FILE_TLS_CRT", DirGRPCTLS + "/tls.crt"},
	{"STATEGRAFT_FILE_TLS_KEY", DirGRPCTLS + "/tls.key"},
	{"STATEGRAFT_FILE_TLS_CA", DirGRPCTLS + "/ca.crt"},
	{"STATEGRAFT_FILE_ANNA", DirConfig + "/anna-config.yml"},
}

// Content is a variable with what is elsewhere a file.
type Content struct{ Env, Path string }
