// Command show runs what an installation has to show and prints a line for each
// item: its name, PASS or FAIL, how long it took, and what it measured. It ends
// with status 0 if all hold, 1 if not, and 2 if it could not find out.
package main

import (
	"os"

	"github.com/stategraft/stategraft/test/cluster"
	"github.com/stategraft/stategraft/test/deploy"
	"github.com/stategraft/stategraft/test/scenario"
)

var items = []scenario.Item{
	{Name: "nothing lost under load: own CA", Test: "TestLoadSelfSigned"},
	{Name: "nothing lost under load: cert-manager", Test: "TestLoadCertManager"},
	{Name: "a registry that serves none of our images", Test: "TestRegistryWithoutUs"},
	{Name: "the webhook gone entirely", Test: "TestWebhookGone"},
	{Name: "helm: install, upgrade, uninstall, in both modes", Test: "TestRelease", Pkg: "./deploy"},
	{Name: "helm: lint", Test: "TestLint", Pkg: "./deploy"},
	{Name: "helm: schema errors name the value", Test: "TestSchemaNamesTheValue", Pkg: "./deploy"},
	{Name: "restricted Pod Security for all that is rendered", Test: "TestPodSecurityOfServer", Pkg: "./deploy"},
	{Name: "memory with 200 and 20,000 injected pods", Test: "TestMemory"},
}

func main() {
	os.Exit(scenario.Main(scenario.Suite{
		Items: items, Pkg: "./test/deploy", Parallel: 1,
		EnabledEnv: deploy.EnabledEnv, LogsEnv: deploy.LogsEnv, TimesEnv: deploy.TimesEnv,
		Env: []string{cluster.EnabledEnv + "=1"},
	}))
}
