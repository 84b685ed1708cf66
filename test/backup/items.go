package backup

import "github.com/stategraft/stategraft/test/scenario"

// Items are what the tests show, for a command that prints a line for each.
var Items = []scenario.Item{
	{Name: "2  a true end, whatever happens, and no call after it (simulated sidecars)", Test: "TestFaults", Pkg: pkg},
	{Name: "3  a thousand pods in two hundred clusters", Test: "TestThousandPods", Pkg: pkg},
}

const pkg = "./test/backup"
