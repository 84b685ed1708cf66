package cluster

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// containerdConfig is for Debian's containerd 1.6. What matters:
//   - restrict_oom_score_adj: without CAP_SYS_RESOURCE, as in many virtual
//     machines, no sandbox starts otherwise ("can't get final child's PID from
//     pipe: EOF");
//   - bin_dir: where Debian's containernetworking-plugins are;
//   - network namespaces, runc's state and the CNI configuration stay below the
//     state folder.
const containerdConfig = `version = 2
root = "@DIR@/containerd"
state = "@DIR@/run"
[grpc]
  address = "@DIR@/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "@BUSYBOX@"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "@DIR@/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      Root = "@DIR@/runc"
`

// cniConfig puts pods on a bridge. Nothing leaves the machine, so there is no
// masquerading, and no iptables rule but kube-proxy's.
const cniConfig = `{"cniVersion": "0.4.0", "name": "@BRIDGE@", "plugins": [
  {"type": "bridge", "bridge": "@BRIDGE@", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "@DIR@/ipam", "ranges": [[{"subnet": "@PODS@"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
`

// kubeletConfig: no cgroup for pods (cgroupsPerQOS), only for containers, and
// cgroup v1 will do. Files that a kubelet keeps outside of its root folder stay
// below the state folder as well. Images are never collected: they cannot be
// pulled again. A changed Secret is in its pods after seconds, not a minute
// (syncFrequency).
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: @NODEIP@
port: @PORT@
healthzBindAddress: 127.0.0.1
healthzPort: @HEALTH@
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: "@STATE@/pki/ca.crt"}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupsPerQOS: false
cgroupRoot: /@BRIDGE@
enforceNodeAllocatable: []
failSwapOn: false
failCgroupV1: false
makeIPTablesUtilChains: false
containerRuntimeEndpoint: unix://@DIR@/containerd.sock
podLogsDir: @DIR@/pod-logs
volumePluginDir: @DIR@/plugins
clusterDNS: ["@DNS@"]
clusterDomain: cluster.local
resolvConf: ""
maxPods: 200
syncFrequency: 5s
imageGCHighThresholdPercent: 100
imageMinimumGCAge: 240h
evictionHard: {memory.available: 100Mi, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%}
`

// proxyConfig: with masqueradeAll, traffic between two pods of the bridge by way
// of a Service passes the machine's netfilter on its way back too.
const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clusterCIDR: @PODS@
hostnameOverride: @NODENAME@
clientConnection: {kubeconfig: "@KUBECONFIG@"}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
iptables: {masqueradeAll: true, localhostNodePorts: false, minSyncPeriod: 100ms}
healthzBindAddress: 127.0.0.1:@HEALTH@
metricsBindAddress: 127.0.0.1:@PORT@
`

// dnsConfig answers names and, in the pods' and Services' ranges, addresses of
// the cluster; everything else does not exist.
const dnsConfig = `cluster.local:53 in-addr.arpa:53 {
    bind @NODEIP@
    errors
    ready 127.0.0.1:@HEALTH@
    kubernetes cluster.local in-addr.arpa {
        kubeconfig @KUBECONFIG@ rig
        pods insecure
        ttl 1
    }
}
.:53 {
    bind @NODEIP@
    template ANY ANY {
        rcode NXDOMAIN
    }
}
`

// nodeManifests are the objects that a node brings: the DNS Service in front of
// the CoreDNS on the bridge's address, the end of the Service "kubernetes", and
// the storage class.
var nodeManifests = strings.NewReplacer("@NODEIP@", NodeIP, "@APIPORT@", strconv.Itoa(apiPort), "@DNS@", dnsService, "@PROVISIONER@", provisioner).Replace(`
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec: {clusterIP: @DNS@, ports: [{port: 53, protocol: UDP, name: dns}, {port: 53, protocol: TCP, name: dns-tcp}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kube-dns-1, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
addressType: IPv4
endpoints: [{addresses: [@NODEIP@]}]
ports: [{port: 53, protocol: UDP, name: dns}, {port: 53, protocol: TCP, name: dns-tcp}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kubernetes, namespace: default, labels: {kubernetes.io/service-name: kubernetes}}
addressType: IPv4
endpoints: [{addresses: [@NODEIP@]}]
ports: [{port: @APIPORT@, protocol: TCP, name: https}]
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: standard, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: @PROVISIONER@
`)

// apiPort is where pods find the API server at NodeIP, by way of the Service
// "kubernetes".
const apiPort = 6443

// nodeComponents writes the configuration of a node's servers and answers them
// in the order of their start. The ports are used for what needs one; apiServer
// is the address that the API server listens on.
func nodeComponents(s state, p ports, apiServer string) ([]component, error) {
	if err := makeDirs(s, "", "cni", "ipam", "pod-logs", "plugins", "volumes", "kubelet"); err != nil {
		return nil, err
	}
	write := func(name, text, kubeconfig string, port, health int) (string, error) {
		path := s.node(name)
		text = strings.NewReplacer("@DIR@", s.node(""), "@STATE@", s.dir, "@BUSYBOX@", BusyboxImage, "@BRIDGE@", bridge,
			"@PODS@", podRange, "@NODEIP@", NodeIP, "@NODENAME@", NodeName, "@DNS@", dnsService,
			"@KUBECONFIG@", kubeconfig, "@PORT@", strconv.Itoa(port), "@HEALTH@", strconv.Itoa(health)).Replace(text)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return "", fmt.Errorf("writing the node's configuration: %w", err)
		}
		return path, nil
	}
	if _, err := write("cni/10-rig.conflist", cniConfig, "", 0, 0); err != nil {
		return nil, err
	}
	containerd, err := write("containerd.toml", containerdConfig, "", 0, 0)
	if err != nil {
		return nil, err
	}
	kubelet, err := write("kubelet.yaml", kubeletConfig, "", p.etcdClient, p.etcdPeer)
	if err != nil {
		return nil, err
	}
	proxy, err := write("proxy.yaml", proxyConfig, s.kubeconfig(KubeProxy), p.apiServer, p.controllerManager)
	if err != nil {
		return nil, err
	}
	dns, err := write("Corefile", dnsConfig, s.kubeconfig(CoreDNS), 0, p.scheduler)
	if err != nil {
		return nil, err
	}
	api := net.JoinHostPort(NodeIP, strconv.Itoa(apiPort))
	return []component{
		{Socat, []string{fmt.Sprintf("TCP-LISTEN:%d,bind=%s,fork,reuseaddr,backlog=128", apiPort, NodeIP), "TCP:" + apiServer}, "https://" + api + "/readyz"},
		{Containerd, []string{"--config=" + containerd}, ""},
		{Kubelet, []string{
			"--config=" + kubelet,
			"--kubeconfig=" + s.kubeconfig(Kubelet),
			"--hostname-override=" + NodeName,
			"--node-ip=" + NodeIP, // the machine's own name need not resolve
			"--root-dir=" + s.node("kubelet"),
			"--cert-dir=" + s.node("kubelet-pki"),
		}, "http://" + address(p.etcdPeer) + "/healthz"},
		{KubeProxy, []string{"--config=" + proxy}, "http://" + address(p.controllerManager) + "/healthz"},
		{CoreDNS, []string{"-conf=" + dns}, "http://" + address(p.scheduler) + "/ready"},
	}, nil
}
