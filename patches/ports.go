package patches

import (
	"fmt"
	"strconv"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// portRange is how many ports after the usual one are tried.
const portRange = 100

// ports chooses the ports of the injected containers. All containers of a pod
// share its network, and with hostNetwork the node's.
func (b *builder) ports() error {
	taken := takenPorts(b.pod, b.w)
	if want := b.s.GRPCPort; want != 0 {
		if who, ok := taken[want]; ok {
			return &Conflict{workload.ReasonPortConflict, fmt.Sprintf("port %d of annotation %s is taken by %s", want, api.AnnotationGRPCPort, who)}
		}
		b.grpcPort = want
	} else {
		port, ok := firstFree(taken, DefaultGRPCPort)
		if !ok {
			return &Conflict{workload.ReasonPortConflict, fmt.Sprintf("no port from %d to %d is free in the pod; set annotation %s",
				DefaultGRPCPort, DefaultGRPCPort+portRange-1, api.AnnotationGRPCPort)}
		}
		b.grpcPort = port
	}
	taken[b.grpcPort] = ContainerMedusa
	port, ok := firstFree(taken, DefaultSnapshotPort)
	if !ok {
		return &Conflict{workload.ReasonPortConflict, fmt.Sprintf("no port from %d to %d is free in the pod for the snapshot server",
			DefaultSnapshotPort, DefaultSnapshotPort+portRange-1)}
	}
	b.snapshotPort = port
	return nil
}

func firstFree(taken map[int32]string, from int32) (int32, bool) {
	for port := from; port < from+portRange; port++ {
		if _, ok := taken[port]; !ok {
			return port, true
		}
	}
	return 0, false
}

// takenPorts are the ports that a container of the pod declares, is probed on,
// or has by its nature: declaring a port is only informational.
func takenPorts(pod *workload.Pod, w workload.Workload) map[int32]string {
	taken := map[int32]string{}
	if w.Kind == workload.KindCassandra {
		for _, port := range []int32{7000, 7001, 7199, 9042, 9142, 9160, w.CQLPort, w.JMXPort, w.Management.Port} {
			taken[port] = "the database"
		}
	}
	for _, port := range rolePorts[w.Role] {
		for thread := int32(0); thread < 50; thread++ { // ports of a kind are 50 apart, one a thread
			taken[port+thread] = "the database"
		}
	}
	for _, list := range [][]workload.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			if workload.Own(c.Name) {
				continue
			}
			for _, p := range c.Ports {
				taken[p.ContainerPort] = "container " + c.Name
				if p.HostPort != 0 {
					taken[p.HostPort] = "container " + c.Name
				}
			}
			for _, probe := range []*workload.Probe{c.Readiness, c.Liveness, c.Startup} {
				if probe == nil {
					continue
				}
				for _, at := range []workload.IntOrString{probe.HTTP.Port, probe.TCP.Port, probe.GRPC.Port} {
					if port, err := strconv.ParseInt(string(at), 10, 32); err == nil && port > 0 {
						taken[int32(port)] = "container " + c.Name
					}
				}
			}
		}
	}
	return taken
}

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
