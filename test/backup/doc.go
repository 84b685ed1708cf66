// Package backup shows, on a real control plane with the real webhook and controller,
// that a Backup ends as what it is, whatever is killed meanwhile, and what backups of a
// thousand pods cost. The sidecars are simulated: Medusa's real gRPC service and the
// agent's own server, on addresses of the loopback network, in this process.
//
//	STATEGRAFT_RIG=1 go test ./test/backup
//
//	env.go       everything that runs, shared by the tests
//	node.go      the pods' sidecars, and what a kubelet writes of pods
//	cluster.go   a StatefulSet of a test, and what is asked of it
//	judge.go     what has to hold at the end of a Backup
//	faults_test.go, scale_test.go
package backup
