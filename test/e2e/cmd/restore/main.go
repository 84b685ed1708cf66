// Command restore runs what a Restore has to show and prints a line for each: its
// name, PASS or FAIL, how long it took, and what it measured. It ends with status
// 0 if all hold, 1 if not, and 2 if it could not find out.
package main

import (
	"os"

	"github.com/stategraft/stategraft/test/cluster"
	"github.com/stategraft/stategraft/test/e2e"
	"github.com/stategraft/stategraft/test/restore"
	"github.com/stategraft/stategraft/test/scenario"
)

var items = []scenario.Item{
	{Name: "1  one pod of three by annotation on the live pod", Test: "TestRestoreOfOnePodByAnnotation"},
	{Name: "1  a whole cluster by selector, and undo", Test: "TestRestoreOfClusterAndUndo"},
	{Name: "1  into another namespace, other names", Test: "TestRestoreIntoAnotherNamespace"},
	{Name: "1  no sidecar answers: found in the bucket", Test: "TestRestoreWithAllDown"},
	{Name: "2  exactly once: real node, one fault after the other", Test: "TestRestoreExactlyOnce"},
}

func main() {
	os.Exit(scenario.Main(scenario.Suite{
		Items: append(items, restore.Items...), EnabledEnv: e2e.RestoresEnv, LogsEnv: e2e.LogsEnv, TimesEnv: e2e.TimesEnv,
		Env:      []string{cluster.EnabledEnv + "=1", restore.InterruptionsEnv + "=200"},
		Parallel: 1, // three or six nodes of a third of a processor each, on two
	}))
}
