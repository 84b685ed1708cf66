// Package adopt shows, on a real control plane with the real webhook and controller and
// with the chart's rights and policies, how pods that run are adopted: how many at once,
// which not and why, how often one whose containers do not stay up gets new ones, and
// that the controller may be killed at any instant. The nodes are simulated (package
// simulated), and a witness (package witness) sees every version of every pod.
//
//	STATEGRAFT_RIG=1 STATEGRAFT_SCALE=full STATEGRAFT_SEED=1 go test ./test/adopt
//
// Without STATEGRAFT_SCALE=full it is less of the same, for `make test`.
//
//	env.go       everything that runs, shared by the tests
//	corpus.go    the workloads, and what is peculiar about each
//	others.go    pods of other projects, from the corpus
//	town.go      namespaces of workloads that ran before they could be injected
//	scaled.go    the controller of adoption with a clock that goes faster
//	figures.go   what the controller tells of itself
//	items.go     what the tests show
//	*_test.go    limits, reasons, corpus, ended, waits, killed, leaders, restarted, renewed
//	             (with sidecars that answer), allowed
package adopt
