package workload

// Kind is what database a pod belongs to.
type Kind string

// The kinds. KindNone is a pod that is no database.
const (
	KindNone       Kind = ""
	KindCassandra  Kind = "cassandra"
	KindAnna       Kind = "anna"
	KindCloudburst Kind = "cloudburst"
)

// Role is what an Anna or Cloudburst pod does; empty for Cassandra.
type Role string

// The roles, by what hydro-project/anna and hydro-project/cloudburst start.
const (
	RoleMemory     Role = "memory"
	RoleDisk       Role = "ebs" // Anna's name of its disk tier
	RoleRouting    Role = "routing"
	RoleMonitoring Role = "monitoring"
	RoleBenchmark  Role = "benchmark"
	RoleExecutor   Role = "executor"
	RoleScheduler  Role = "scheduler"
)

// Snapshot is how a consistent copy of a Cassandra node's files is asked for.
type Snapshot string

// The ways. The management API is part of k8ssandra's images; nodetool of every
// Cassandra image.
const (
	SnapshotNone          Snapshot = ""
	SnapshotManagementAPI Snapshot = "management-api"
	SnapshotNodetool      Snapshot = "nodetool"
)

// Workload is what recognition knows of a pod.
type Workload struct {
	Kind      Kind
	Role      Role
	Container string // the database's container; empty where several are equal (executors)
	Index     int    // of Container in spec.containers, or -1

	Data        Mount   // where the data are, as the database's container mounts them; zero if nowhere
	DataDir     string  // data_file_directories; empty where only the volume is known
	Commitlog   string  // commitlog_directory, by the distribution's habit
	SavedCaches string  // saved_caches_directory, likewise
	Extra       []Mount // other writable mounts of the database's directories: a commit log of its own, …
	Config      Mount   // where cassandra.yaml can be shared; zero if it is only in the image
	Cluster     string  // the cluster's name, as far as the pod tells it

	Snapshot   Snapshot
	Management ManagementAPI

	CQLPort int32
	JMXPort int32

	UID, GID    int64 // who the injected containers run as, so that they read the database's files
	StartsRoot  bool  // the database's container starts as root and gives its volume to UID itself
	HostNetwork bool
	Before      int // index of the init container that already starts the database, or -1

	Evidence []string // what spoke for Kind and Container
}

// HoldsData tells whether there is something to back up in the pod.
func (w *Workload) HoldsData() bool {
	return w.Kind == KindCassandra || w.Kind == KindAnna && (w.Role == RoleMemory || w.Role == RoleDisk)
}

// ManagementAPI is where k8ssandra's management API answers inside the pod.
type ManagementAPI struct {
	Port  int32
	TLS   bool
	Certs Mount // of the certificates, where TLS
}
