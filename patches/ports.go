package patches

import (
	"fmt"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// portRange is how many ports after the usual one are tried.
const portRange = 100

// ports chooses the ports of the injected containers. All containers of a pod
// share its network, and with hostNetwork the node's.
func (b *builder) ports() error {
	if b.w.Kind != workload.KindCassandra {
		if err := b.lifePorts(); err != nil || !b.w.HoldsData() {
			return err
		}
	}
	if want := b.s.GRPCPort; want != 0 {
		if who, ok := b.taken(want); ok {
			return &Conflict{workload.ReasonPortConflict, fmt.Sprintf("port %d of annotation %s is taken by %s", want, api.AnnotationGRPCPort, who)}
		}
		b.grpcPort = want
	} else {
		port, ok := b.firstFree(DefaultGRPCPort)
		if !ok {
			return &Conflict{workload.ReasonPortConflict, fmt.Sprintf("no port from %d to %d is free in the pod; set annotation %s",
				DefaultGRPCPort, DefaultGRPCPort+portRange-1, api.AnnotationGRPCPort)}
		}
		b.grpcPort = port
	}
	for _, p := range [...]struct {
		port *int32
		from int32
		what string
	}{{&b.snapshotPort, DefaultSnapshotPort, "snapshot server"}, {&b.nodePort, node.DefaultPort, "node's service"}} {
		if p.port == &b.snapshotPort && b.w.Kind != workload.KindCassandra {
			continue
		}
		port, ok := b.firstFree(p.from)
		if !ok {
			return &Conflict{workload.ReasonPortConflict, fmt.Sprintf("no port from %d to %d is free in the pod for the %s", p.from, p.from+portRange-1, p.what)}
		}
		*p.port = port
	}
	return nil
}

func (b *builder) firstFree(from int32) (int32, bool) {
	for i := range int32(portRange) {
		port := from + (b.portsFrom+i)%portRange
		if _, ok := b.taken(port); !ok && port != b.grpcPort && port != b.snapshotPort && port != b.lifePort {
			return port, true
		}
	}
	return 0, false
}

// taken tells who has a port: a container that declares it or is probed on it,
// or the database by its nature, for declaring a port is only informational.
func (b *builder) taken(port int32) (who string, ok bool) {
	if b.w.Kind == workload.KindCassandra {
		switch port {
		case 7000, 7001, 7199, 9042, 9142, 9160, b.w.CQLPort, b.w.JMXPort, b.w.Management.Port:
			return "the database", true
		}
	}
	for _, first := range rolePorts[b.w.Role] {
		if port >= first && port < first+threadPorts {
			return "the database", true
		}
	}
	for _, list := range [...][]workload.Container{b.pod.Spec.InitContainers, b.pod.Spec.Containers} {
		for i := range list {
			if c := &list[i]; !workload.Own(c.Name) && uses(c, port) {
				return "container " + c.Name, true
			}
		}
	}
	return "", false
}

func uses(c *workload.Container, port int32) bool {
	for i := range c.Ports {
		if c.Ports[i].ContainerPort == port || c.Ports[i].HostPort == port {
			return true
		}
	}
	for _, probe := range [...]*workload.Probe{c.Readiness, c.Liveness, c.Startup} {
		if probe == nil {
			continue
		}
		for _, at := range [...]workload.IntOrString{probe.HTTP.Port, probe.TCP.Port, probe.GRPC.Port} {
			if at.Is(port) {
				return true
			}
		}
	}
	return false
}

// threadPorts is how far apart Anna's kinds of ports are: one for each thread.
const threadPorts = 50

// rolePorts are the first ports of each kind that a process of Anna or
// Cloudburst binds; thread n binds the n-th after each (hydro-project/common
// include/kvs_threads.hpp, cloudburst/shared/utils.py).
var rolePorts = map[workload.Role][]int32{
	workload.RoleMemory:     {6000, 6050, 6100, 6150, 6200, 6250, 6300, 7050, 7100},
	workload.RoleDisk:       {6000, 6050, 6100, 6150, 6200, 6250, 6300, 7050, 7100},
	workload.RoleRouting:    {6350, 6400, 6450, 6500, 6550},
	workload.RoleMonitoring: {6600, 6650, 6700, 6750},
	workload.RoleExecutor:   {4000, 4010, 4020, 4030, 4040, 4050, 5500, 7150, 6800, 6850},
	workload.RoleScheduler:  {5000, 5001, 5002, 5003, 5004, 5005, 5006, 5007, 5008, 5010, 5011},
}
