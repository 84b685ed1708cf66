package backup

import "github.com/stategraft/stategraft/test/scenario"

// Items are what the tests show, for a command that prints a line for each.
var Items = []scenario.Item{
	{Name: "2  a true end, whatever happens (simulated sidecars)", Test: "TestFaults", Pkg: pkg},
	{Name: "2  nothing is polled for ever", Test: "TestNothingIsPolledForEver", Pkg: pkg},
	{Name: "3  a thousand pods in two hundred clusters", Test: "TestThousandPods", Pkg: pkg},
}

const pkg = "./test/backup"
