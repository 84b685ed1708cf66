// Package cluster is the rig: a real Kubernetes control plane for tests, on a
// machine that has nothing but Go.
//
// [Build] compiles etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler and kubectl from their Go modules into a cache folder outside
// the repository. [Start] runs them on free ports of 127.0.0.1 and answers with
// a [ControlPlane]: a kubeconfig, a client configuration, a kubectl. Admission,
// RBAC, quotas and the built-in controllers are the real ones; there is no
// node, so pods stay Pending unless a test writes their status.
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
//
// The package works on Unix-like systems. On Linux the kernel also ends the
// servers when the program that started them is killed.
package cluster
