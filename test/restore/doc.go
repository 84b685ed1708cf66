// Package restore shows, on a real control plane with the real webhook and
// controller, that a restore that was asked for happens, and happens once, whatever
// is killed meanwhile, and that no database starts without it. The node is simulated
// (package simulated), so that hundreds of interruptions take minutes.
//
//	STATEGRAFT_RIG=1 STATEGRAFT_RESTORE_INTERRUPTIONS=200 STATEGRAFT_SEED=1 go test ./test/restore
//
// Without a number it is a handful, for `make test`. The seed decides on scenarios,
// interruptions and lengths of time; what meets what depends on the machine, too.
//
//	env.go            everything that runs, shared by the tests
//	balance.go        shares the API server's calls out among the webhook's replicas
//	hold.go           holds a replica's watch back
//	faults.go         the interruptions
//	ring.go           a StatefulSet of a test, and what is asked of it
//	kinds.go          the scenarios that are interrupted
//	judge.go          what has to hold at the end of each
//	play.go           plays them until they were interrupted often enough
//	items.go          what the tests show
//	*_test.go         interrupted, mutations, stale caches, leaders, refusals
package restore
