// Package simulated plays the nodes of tests of adoption on a control plane that has
// none: Node objects with what matters of them, and a kubelet for all that runs what is
// bound to them. It runs no process; it writes of each container what a kubelet would.
//
//	play.go        what becomes of an ephemeral container, and when
//	pod.go         a pod: its containers, and what there is to say of them
//	references.go  the Secrets and ConfigMaps that containers wait for
//	nodes.go       the Node objects
//	kubelet.go     keeps up with the pods, binds and runs them
//	write.go       writes what it says of them
package simulated
