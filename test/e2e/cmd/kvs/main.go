// Command kvs runs what Anna and Cloudburst have to show and prints a line for each: its
// name, PASS or FAIL, how long it took, and what it measured. It ends with status 0 if all
// hold, 1 if not, and 2 if it could not find out.
package main

import (
	"os"

	"github.com/stategraft/stategraft/test/cluster"
	"github.com/stategraft/stategraft/test/e2e"
	"github.com/stategraft/stategraft/test/kvs"
	"github.com/stategraft/stategraft/test/scenario"
)

const plain = "./test/kvs"

var items = []scenario.Item{
	{Name: "1  total loss: into another cluster; killed; once more over newer values", Test: "TestKVSTotalLoss"},
	{Name: "2  backup and replay against the plain protocol", Test: "TestRates", Pkg: plain},
	{Name: "2  memory of the sidecar", Test: "TestMemory", Pkg: plain},
	{Name: "3  a backup while keys are written", Test: "TestWhileWriting", Pkg: plain},
	{Name: "3  damage in the storage is refused and named", Test: "TestDamage", Pkg: plain},
	{Name: "4  routing restarted, node lost, node added, all addresses changed", Test: "TestKVSMembership"},
	{Name: "5  the corpus' pods of Anna and Cloudburst run", Test: "TestKVSCorpus"},
	{Name: "   a LoadBalancer for each pod", Test: "TestKVSExposed"},
	{Name: "   a changed ConfigMap", Test: "TestKVSConfigChange"},
}

func main() {
	os.Exit(scenario.Main(scenario.Suite{
		Items: items, EnabledEnv: e2e.RestoresEnv, LogsEnv: e2e.LogsEnv, TimesEnv: e2e.TimesEnv,
		Env:      []string{cluster.EnabledEnv + "=1", kvs.ScaleEnv + "=full"},
		Parallel: 1,
	}))
}
