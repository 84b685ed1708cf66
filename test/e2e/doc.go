// Package e2e runs whole pods: the webhook's, the agent's, Medusa's and
// Cassandra's real programs in containers on a real node.
//
//	e2e.go       a cluster with the webhook, a node, the images and an S3 server
//	pods.go      applying, waiting, running commands in containers
//	setup.go     a StatefulSet of Cassandra and what it is given
//	cassandra.go its rows, its backups
//	grpc.go      who the clients of Medusa's gRPC are
//	measure.go   deletion and start in seconds, serving without a gap
//	collect.go   what is kept of a test that failed
//	manifests/   what is applied
//	scripts/     what runs in containers: CQL, and Medusa's gRPC client
//
// The tests are scenarios, named after what they show. They run with
// STATEGRAFT_E2E=1, as root on Debian. What is kept of a failed one is in the
// folder that STATEGRAFT_E2E_LOGS names, or in one that the test's output names.
package e2e
