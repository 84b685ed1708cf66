package cluster

import "time"

// The versions that are built. To upgrade:
//
//  1. Set KubernetesVersion to a release of k8s.io/kubernetes, and EtcdVersion
//     to the version that this release recommends (DefaultEtcdVersion in its
//     cmd/kubeadm/app/constants).
//  2. If Go is too old for it, the build says so: `go` in its go.mod decides.
//  3. Run `go run ./test/cluster/cmd/rig build`, then this package's tests with
//     STATEGRAFT_RIG=1.
//
// Another version gets its own cache folder, so going back costs nothing. What
// is downloaded is verified against Go's checksum database.
const (
	KubernetesVersion = "1.37.2"
	EtcdVersion       = "3.6.8"
	CoreDNSVersion    = "1.15.0"
	HelmVersion       = "4.3.2"
)

// Names of the programs, which are also the names of the components that
// [ControlPlane.Restart] and [ControlPlane.LogFile] know.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kubectl           = "kubectl"
)

// Names of the programs of a node. CoreDNS carries its version, which the cache
// folder's name lacks.
const (
	Kubelet   = "kubelet"
	KubeProxy = "kube-proxy"
	CoreDNS   = "coredns-" + CoreDNSVersion
)

// Helm is the name of Helm's program, for tests of the chart. It carries its
// version as CoreDNS does.
const Helm = "helm-" + HelmVersion

// program is something [Build] can make.
type program struct {
	name string
	pkg  string // the main package
	// expect is about how long it takes with an empty Go build cache on two
	// cores, after the programs before it in the list. It only feeds the
	// progress lines.
	expect time.Duration
	// module answers the text of the go.mod to build in.
	module moduleFile
	// ldflags are added to the ones that strip the binary.
	ldflags string
}

// helmLdflags stamp the version, which charts may ask for.
const helmLdflags = "-X helm.sh/helm/v4/internal/version.version=v" + HelmVersion

// programs are all that can be built.
var programs = []program{
	{Etcd, "go.etcd.io/etcd/server/v3", time.Minute, requireOnly("go.etcd.io/etcd/server/v3", "v"+EtcdVersion), ""},
	{APIServer, "k8s.io/kubernetes/cmd/kube-apiserver", 12 * time.Minute, kubernetesModule, kubernetesLdflags},
	{ControllerManager, "k8s.io/kubernetes/cmd/kube-controller-manager", 2 * time.Minute, kubernetesModule, kubernetesLdflags},
	{Scheduler, "k8s.io/kubernetes/cmd/kube-scheduler", time.Minute, kubernetesModule, kubernetesLdflags},
	{Kubectl, "k8s.io/kubernetes/cmd/kubectl", time.Minute, kubernetesModule, kubernetesLdflags},
	{Kubelet, "k8s.io/kubernetes/cmd/kubelet", 3 * time.Minute, kubernetesModule, kubernetesLdflags},
	{KubeProxy, "k8s.io/kubernetes/cmd/kube-proxy", time.Minute, kubernetesModule, kubernetesLdflags},
	{CoreDNS, "github.com/coredns/coredns", 6 * time.Minute, requireOnly("github.com/coredns/coredns", "v"+CoreDNSVersion), ""},
	{Helm, "helm.sh/helm/v4/cmd/helm", 2 * time.Minute, requireOnly("helm.sh/helm/v4", "v"+HelmVersion), helmLdflags},
}

// ControlPlanePrograms answers the names of the programs that [Start] needs, in
// the order in which they are best built.
func ControlPlanePrograms() []string {
	return []string{Etcd, APIServer, ControllerManager, Scheduler, Kubectl}
}

// NodePrograms answers the names of the programs that a node needs besides those
// of the control plane.
func NodePrograms() []string { return []string{Kubelet, KubeProxy, CoreDNS} }
