// Command daily runs of what the controllers have to show what there is time for every
// day: a Restore, an adoption, a backup after a total loss, and that for Anna. The others
// are in the commands beside it.
package main

import (
	"os"

	"github.com/stategraft/stategraft/test/e2e"
	"github.com/stategraft/stategraft/test/scenario"
)

var items = []scenario.Item{
	{Name: "Restore: one pod of three by annotation on the live pod", Test: "TestRestoreOfOnePodByAnnotation"},
	{Name: "Adoption: one command, restricted namespace", Test: "TestBackupAdopt"},
	{Name: "Backup: total loss: bucket and chart alone", Test: "TestTotalLoss"},
	{Name: "Anna: total loss, into another cluster; killed; once more", Test: "TestKVSTotalLoss"},
}

func main() {
	os.Exit(scenario.Main(scenario.Suite{
		Items: items, EnabledEnv: e2e.RestoresEnv, LogsEnv: e2e.LogsEnv, TimesEnv: e2e.TimesEnv,
		Env: []string{e2e.KVSKeysEnv + "=20000"}, Parallel: 1,
	}))
}
