package adopt

import "github.com/stategraft/stategraft/test/scenario"

// Items are what the tests show, for a command that prints a line for each.
var Items = []scenario.Item{
	{Name: "2  containers killed again and again: a bounded number", Test: "TestKilledAgainAndAgain", Pkg: pkg},
	{Name: "2  60 containers in a pod's life, no more", Test: "TestWholeLife", Pkg: pkg},
	{Name: "2  an image or a Secret missing: one round, which waits", Test: "TestWaits", Pkg: pkg},
	{Name: "3  200 pods of 40 workloads within the limits", Test: "TestLimits", Pkg: pkg},
	{Name: "3  the controller killed at any instant, pods deleted", Test: "TestControllerKilled", Pkg: pkg},
	{Name: "3  the leader of two controllers killed", Test: "TestAdoptLeaderKilled", Pkg: pkg},
	{Name: "3  the API server restarted", Test: "TestAdoptAPIServerRestarted", Pkg: pkg},
	{Name: "3  the pair of certificates renewed: one pod at a time", Test: "TestAdoptPairRenewed", Pkg: pkg},
	{Name: "4  not adopted, each with its reason", Test: "TestReasons", Pkg: pkg},
	{Name: "4  pods as other projects make them: adopted, or not", Test: "TestCorpus", Pkg: pkg},
	{Name: "4  nobody asked: nothing is added", Test: "TestNotAsked", Pkg: pkg},
	{Name: "5  restricted Pod Security is kept", Test: "TestRestricted", Pkg: pkg},
	{Name: "5  the controller's account may add nothing else", Test: "TestAllowedToController", Pkg: pkg},
}

const pkg = "./test/adopt"
