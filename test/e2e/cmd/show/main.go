// Command show runs the scenarios with whole pods and prints a line for each: its
// name, PASS or FAIL, how long it took, and what it measured. It ends with status
// 0 if all hold, 1 if not, and 2 if it could not find out.
//
// To add something, write a scenario in test/e2e, and an item here that names
// it. A scenario tells what it measured by logging a line with "figure: ".
package main

import (
	"os"

	"github.com/stategraft/stategraft/test/e2e"
	"github.com/stategraft/stategraft/test/scenario"
)

var items = []scenario.Item{
	{Name: "1  one node: backup over gRPC, restore by annotation, once", Test: "TestBackupAndRestoreOfOneNode"},
	{Name: "2  three nodes: all volumes lost, restored at once", Test: "TestBackupAndRestoreOfThreeNodes"},
	{Name: "3  only the data directory on a volume", Test: "TestOnlyDataOnVolume"},
	{Name: "3  read-only root, Pod Security restricted enforced", Test: "TestRestricted"},
	{Name: "3  starts as root, fresh root-owned volume", Test: "TestRootAndFreshVolume"},
	{Name: "3  Bitnami's layout, user 1001, any-uid image", Test: "TestBitnami"},
	{Name: "4  passwords on JMX and CQL, from Secrets", Test: "TestPasswords"},
	{Name: "4  gRPC: its Secret comes late, and changes", Test: "TestGRPCSecretComesLate"},
	{Name: "5  sidecar killed and S3 down in mid-backup", Test: "TestBackupInterrupted"},
	{Name: "5  backup with wrong bucket credentials", Test: "TestBackupWrongCredentials"},
	{Name: "5  backup with a failing nodetool", Test: "TestBackupNodetoolFails"},
	{Name: "5  restore refused: unknown, credentials, [storage]", Test: "TestRestoreRefused"},
	{Name: "5  volume full in mid-restore", Test: "TestRestoreVolumeFull"},
	{Name: "6  deletion: at most 3 s longer", Test: "TestDeletion"},
	{Name: "7  admission to Ready: under 2 s more", Test: "TestAdmissionToReady"},
	{Name: "8  images that cannot be pulled, healed in place", Test: "TestImagesMissing"},
	{Name: "8  Medusa crashes at every start", Test: "TestMedusaCrashes"},
	{Name: "8  the sidecar runs out of memory", Test: "TestMedusaOutOfMemory"},
}

func main() {
	os.Exit(scenario.Main(scenario.Suite{
		Items: items, EnabledEnv: e2e.EnabledEnv, LogsEnv: e2e.LogsEnv, TimesEnv: e2e.TimesEnv,
		Parallel: 3, // of those that measure no time; each Cassandra takes 430 MB
	}))
}
