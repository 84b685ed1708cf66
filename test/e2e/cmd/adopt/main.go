// Command adopt runs what adoption has to show and prints a line for each: its name, PASS
// or FAIL, how long it took, and what it measured. It ends with status 0 if all hold, 1 if
// not, and 2 if it could not find out.
package main

import (
	"os"

	"github.com/stategraft/stategraft/test/adopt"
	"github.com/stategraft/stategraft/test/cluster"
	"github.com/stategraft/stategraft/test/e2e"
	"github.com/stategraft/stategraft/test/scenario"
)

var items = []scenario.Item{
	{Name: "1  running Cassandra: adopted, backed up, restored", Test: "TestAdoptRunningCluster"},
	{Name: "1  running Anna: adopted, backed up, restored", Test: "TestAdoptRunningAnna"},
	{Name: "1  one command: backup --adopt, restricted namespace", Test: "TestBackupAdopt"},
	{Name: "2  killed, out of memory, no image, node under pressure", Test: "TestAdoptedThroughTrouble"},
}

func main() {
	os.Exit(scenario.Main(scenario.Suite{
		Items: append(items, adopt.Items...), EnabledEnv: e2e.RestoresEnv, LogsEnv: e2e.LogsEnv, TimesEnv: e2e.TimesEnv,
		Env:      []string{cluster.EnabledEnv + "=1", adopt.ScaleEnv + "=full"},
		Parallel: 1,
	}))
}
