// Package cluster is the rig: a real Kubernetes control plane for tests, on a
// machine that has nothing but Go.
//
// [Build] compiles etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler and kubectl from their Go modules into a cache folder outside
// the repository. [Start] runs them on free ports of 127.0.0.1 and answers with
// a [ControlPlane]: a kubeconfig, a client configuration, a kubectl. Admission,
// RBAC, quotas and the built-in controllers are the real ones. Without a node
// pods stay Pending unless a test writes their status; with [Options].Node, or
// after [ControlPlane.StartNode], they run: that needs Linux, root, and some of
// Debian's packages.
//
// The parts, in reading order:
//
//	versions.go      what is pinned, and how to upgrade
//	build.go         the cache of programs
//	kubernetes.go    a module that can build k8s.io/kubernetes
//	components.go    the servers: order, arguments, health checks
//	controlplane.go  start, stop, restart
//	process.go       one child process, its group, its log, its pid file
//	state.go         the state folder, and cleaning up after a killed rig
//	pki.go           keys and certificates
//	kubeconfig.go    kubeconfig files
//	kubectl.go       running kubectl
//	node.go          the node: start, images, stop
//	node_config.go   the node's servers: order, arguments, configuration
//	node_install.go  what the node needs of Debian
//	node_linux.go    what the node changes on the machine, and taking it back
//	node_kernel_linux.go  its parts: cgroups, iptables, stray files
//	provisioner.go   persistent volumes
//
// The package works on Unix-like systems. On Linux the kernel also ends the
// servers when the program that started them is killed.
package cluster
