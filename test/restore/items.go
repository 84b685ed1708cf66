package restore

import "github.com/stategraft/stategraft/test/scenario"

// Items are what the tests show, for a command that prints a line for each.
var Items = []scenario.Item{
	{Name: "2  exactly once, whatever is interrupted (simulated node)", Test: "TestInterrupted", Pkg: pkg},
	{Name: "2  the leading controller killed in the middle", Test: "TestLeaderKilled", Pkg: pkg},
	{Name: "2  applied together with its workload: all pods or none", Test: "TestAppliedTogether", Pkg: pkg},
	{Name: "3  a webhook's watch held back: no pod starts without", Test: "TestStaleWebhook", Pkg: pkg},
	{Name: "3  without the policy: found, and deleted before it is ready", Test: "TestWithoutPolicy", Pkg: pkg},
	{Name: "3  a volume that forgets: found", Test: "TestForgettingIsFound", Pkg: pkg},
	{Name: "4  refused before anything is touched, with the remedy", Test: "TestRefused", Pkg: pkg},
	{Name: "4  refused: no label on the namespace, a pod opted out", Test: "TestRefusedWithoutSidecar", Pkg: pkg},
	{Name: "4  one node's backup missing: empty where asked for", Test: "TestMissingIsEmpty", Pkg: pkg},
	{Name: "4  two Restores for one pod: the second waits", Test: "TestTwoForOnePod", Pkg: pkg},
}

const pkg = "./test/restore"
