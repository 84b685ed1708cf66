// Package simulated plays a node for tests on a control plane that has none: its
// kubelet, the volumes, the containers of injected Cassandra pods with what the
// agent does in them, and the storage with the backups. Nothing of it runs a
// database; it goes by the same rules, fast, and can be interrupted anywhere.
// A witness looks on and says what must not have happened.
//
//	volume.go     a data volume: what it holds, and what its marker remembers
//	run.go        a run of the restore container, in the agent's phases
//	container.go  a container as the kubelet knows it: waiting, running, ended
//	pod.go        a pod: its containers one after the other
//	status.go     what the kubelet says of it
//	write.go      writes that, and removes a pod that has ended
//	node.go       the node: Node, Lease, and the pods that are bound to it
//	follow.go     keeps up with objects
//	faults.go     what can be done to it
//	claims.go     volumes for claims
//	service.go    the node API of the pods (api/node)
//	catalogue.go  the backups in the storage
//	witness.go    what must not happen
//	timeline.go   what happened, for a failure
package simulated
