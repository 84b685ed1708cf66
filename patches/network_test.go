package patches_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// TestHostNetwork asks for a host network, where it is possible and where the
// API server would refuse the pod for it.
func TestHostNetwork(t *testing.T) {
	for _, c := range []struct {
		what     string
		raw      []byte
		security string
		given    bool
		dns      string
		warning  string
	}{
		{"plain", pod("", ""), "", true, "ClusterFirstWithHostNet", ""},
		{"privileged namespace", pod("", ""), "privileged", true, "ClusterFirstWithHostNet", ""},
		{"baseline namespace", pod("", ""), "baseline", false, "", "enforces the baseline Pod Security Standard"},
		{"restricted namespace", pod("", ""), "restricted", false, "", "enforces the restricted Pod Security Standard"},
		{"has it already", pod(`"hostNetwork":true,"dnsPolicy":"ClusterFirstWithHostNet"`, ""), "baseline", true, "ClusterFirstWithHostNet", ""},
		{"defaulted DNS", pod(`"dnsPolicy":"ClusterFirst"`, ""), "", true, "ClusterFirstWithHostNet", ""},
		{"own DNS", pod(`"dnsPolicy":"None"`, ""), "", true, "None", "dnsPolicy None is left"},
		{"false said", pod(`"hostNetwork":false`, ""), "", true, "ClusterFirstWithHostNet", ""},
		{"mapped", pod("", `"ports":[{"containerPort":9042,"hostPort":19042},{"containerPort":7000}]`), "", false, "", "maps port 9042 to host port 19042"},
		{"mapped to the same", pod("", `"ports":[{"containerPort":9042,"hostPort":9042},{"containerPort":7000}]`), "", true, "ClusterFirstWithHostNet", ""},
		{"declared by two", pod(`"containers":[{"name":"a","ports":[{"containerPort":7000}]},`+container(pod("", ""))+`]`, ""), "", false, "", "port 7000/TCP, which the node has once, is declared by a and by cassandra"},
		{"declared by two, other protocols", pod(`"containers":[{"name":"a","ports":[{"containerPort":7000,"protocol":"UDP"}]},`+container(pod("", ""))+`]`, ""), "", true, "ClusterFirstWithHostNet", ""},
		// The API server takes it as long as it is no host port.
		{"declared twice by one", pod("", `"ports":[{"name":"a","containerPort":9042},{"name":"b","containerPort":9042},{"containerPort":7000}]`), "", false, "", "port 9042"},
		{"user namespace", pod(`"hostUsers":false`, ""), "", false, "", "hostUsers"},
		{"host name of its own", pod(`"hostnameOverride":"x"`, ""), "", false, "", "hostnameOverride"},
		{"network sysctl", pod(`"securityContext":{"sysctls":[{"name":"net.ipv4.tcp_keepalive_time","value":"60"}]}`, ""), "", false, "", "net.ipv4.tcp_keepalive_time"},
		{"other sysctl", pod(`"securityContext":{"sysctls":[{"name":"kernel.shm_rmid_forced","value":"1"}]}`, ""), "", true, "ClusterFirstWithHostNet", ""},
		{"twice in an init container", pod(`"initContainers":[{"name":"i","ports":[{"containerPort":1},{"containerPort":1}]}]`, ""), "", false, "", "port 1/TCP"},
		{"anna", anna("", ""), "", true, "ClusterFirstWithHostNet", ""},
	} {
		p, patch := graft(t, c.raw, settings(func(s *patches.Settings) { s.HostNetwork, s.PodSecurity = true, c.security }))
		if p.Spec.HostNetwork != c.given {
			t.Errorf("%s: hostNetwork is %v, warnings %q", c.what, p.Spec.HostNetwork, patch.Warnings)
			continue
		}
		if c.given && string(p.Spec.DNSPolicy) != c.dns {
			t.Errorf("%s: dnsPolicy %s", c.what, p.Spec.DNSPolicy)
		}
		warned := strings.Join(patch.Warnings, "\n")
		if c.given && c.what != "has it already" && c.what != "anna" {
			// The node's address is not the pod's: said once, always.
			const identity = "the backup is filed under the node's address"
			if strings.Count(warned, identity) != 1 {
				t.Errorf("%s: warnings %q", c.what, warned)
			}
			if c.warning == "" {
				warned = ""
			}
		}
		if c.warning == "" && warned != "" || !strings.Contains(warned, c.warning) {
			t.Errorf("%s: warnings %q", c.what, warned)
		}
		if err := hostPorts(p); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if c.given && c.what == "anna" && len(p.Spec.Containers[0].Ports) < 5 {
			t.Errorf("%s: ports %v", c.what, p.Spec.Containers[0].Ports)
		}
	}
}

// hostPorts checks what the API server checks (k8s.io/kubernetes
// pkg/apis/core/validation).
func hostPorts(p corev1.Pod) error {
	seen := map[string]bool{}
	for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
		for _, port := range c.Ports {
			if p.Spec.HostNetwork && port.HostPort != port.ContainerPort || !p.Spec.HostNetwork && workload.Own(c.Name) && port.HostPort != 0 {
				return fmt.Errorf("container %s: %+v", c.Name, port)
			}
			protocol := port.Protocol
			if protocol == "" {
				protocol = corev1.ProtocolTCP
			}
			key := fmt.Sprintf("%s %s %d", protocol, port.HostIP, port.HostPort)
			if seen[key] && port.HostPort != 0 {
				return fmt.Errorf("container %s: %s twice", c.Name, key)
			}
			seen[key] = true
		}
	}
	return nil
}

// TestPorts: the ports of the sidecars keep out of the way of all that the pod
// tells of its own.
func TestPorts(t *testing.T) {
	sidecar := func(ports string) []byte {
		return pod(`"containers":[`+container(pod("", ""))+`,{"name":"other",`+ports+`}]`, "")
	}
	var many []string
	for port := 50051; port < 50151; port++ {
		many = append(many, fmt.Sprintf(`{"containerPort":%d}`, port))
	}
	for _, c := range []struct {
		what           string
		raw            []byte
		want           int32 // of the annotation grpc-port
		grpc, snapshot string
		conflict       string
	}{
		{"free", pod("", ""), 0, "50051", "9188", ""},
		{"declared", sidecar(`"ports":[{"containerPort":50051},{"containerPort":50052},{"containerPort":9188}]`), 0, "50053", "9189", ""},
		{"declared by an init container", pod(`"initContainers":[{"name":"i","ports":[{"containerPort":50051}]}]`, ""), 0, "50052", "9188", ""},
		{"host port", sidecar(`"ports":[{"containerPort":1,"hostPort":50051}]`), 0, "50052", "9188", ""},
		{"HTTP probe", sidecar(`"livenessProbe":{"httpGet":{"port":50051}}`), 0, "50052", "9188", ""},
		{"TCP probe", sidecar(`"readinessProbe":{"tcpSocket":{"port":9188}}`), 0, "50051", "9189", ""},
		{"gRPC probe", sidecar(`"startupProbe":{"grpc":{"port":50051}}`), 0, "50052", "9188", ""},
		{"named probe", sidecar(`"livenessProbe":{"httpGet":{"port":"http"}}`), 0, "50051", "9188", ""},
		{"chosen", pod("", ""), 51000, "51000", "9188", ""},
		{"chosen, the snapshot server's", pod("", ""), 9188, "9188", "9189", ""},
		{"chosen and taken", sidecar(`"ports":[{"containerPort":51000}]`), 51000, "", "", "port 51000 of annotation stategraft.io/grpc-port is taken by container other"},
		{"chosen, the database's", pod("", ""), 7199, "", "", "taken by the database"},
		{"CQL elsewhere", pod("", `"env":[{"name":"CASSANDRA_CQL_PORT_NUMBER","value":"19042"}]`), 19042, "", "", "taken by the database"},
		{"all taken", sidecar(`"ports":[` + strings.Join(many, ",") + `]`), 0, "", "", "set annotation stategraft.io/grpc-port"},
	} {
		s := settings(func(s *patches.Settings) { s.GRPCPort = c.want })
		if c.conflict != "" {
			_, err := build(t, c.raw, s)
			var conflict *patches.Conflict
			if !errors.As(err, &conflict) || conflict.Reason != workload.ReasonPortConflict || !strings.Contains(conflict.Message, c.conflict) {
				t.Errorf("%s: error %v", c.what, err)
			}
			continue
		}
		p, _ := graft(t, c.raw, s)
		agent, snapshot, medusa := own(t, p, patches.ContainerAgent), own(t, p, patches.ContainerSnapshot), own(t, p, patches.ContainerMedusa)
		for what, got := range map[string]string{
			"agent's port": variable(agent, "STATEGRAFT_GRPC_PORT"), "medusa's port": variable(medusa, "STATEGRAFT_GRPC_PORT"),
			"declared port": fmt.Sprint(medusa.Ports[0].ContainerPort)} {
			if got != c.grpc {
				t.Errorf("%s: %s is %s, want %s", c.what, what, got, c.grpc)
			}
		}
		if a, b := variable(agent, "STATEGRAFT_SNAPSHOT_PORT"), variable(snapshot, "STATEGRAFT_SNAPSHOT_PORT"); a != c.snapshot || b != c.snapshot {
			t.Errorf("%s: snapshot ports %s and %s, want %s", c.what, a, b, c.snapshot)
		}
	}
}
