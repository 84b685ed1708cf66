// Command backup runs what backups have to show and prints a line for each: its name,
// PASS or FAIL, how long it took, and what it measured. It ends with status 0 if all
// hold, 1 if not, and 2 if it could not find out.
package main

import (
	"os"

	"github.com/stategraft/stategraft/test/backup"
	"github.com/stategraft/stategraft/test/cluster"
	"github.com/stategraft/stategraft/test/e2e"
	"github.com/stategraft/stategraft/test/scenario"
)

var items = []scenario.Item{
	{Name: "1  every minute for ten: restored, no overlap, retention", Test: "TestScheduleEveryMinute"},
	{Name: "1  restored on trial; damage in the bucket is found", Test: "TestVerification"},
	{Name: "2  real node: one fault after the other", Test: "TestBackupThroughFaults"},
	{Name: "2  real node: a pod that never comes", Test: "TestBackupOfPodThatNeverComes"},
	{Name: "2  real node: a wrong key is told, and the right one taken", Test: "TestBackupRefused"},
	{Name: "2  real node: what nodetool says is told", Test: "TestBackupSaysWhatNodetoolSays"},
	{Name: "4  total loss: bucket and chart alone", Test: "TestTotalLoss"},
}

func main() {
	os.Exit(scenario.Main(scenario.Suite{
		Items: append(items, backup.Items...), EnabledEnv: e2e.RestoresEnv, LogsEnv: e2e.LogsEnv, TimesEnv: e2e.TimesEnv,
		Env:      []string{cluster.EnabledEnv + "=1", backup.ScaleEnv + "=full"},
		Parallel: 1,
	}))
}
