// Command show runs the scenarios with whole pods and prints a line for each: its
// name, PASS or FAIL, how long it took, and what it measured. It ends with status
// 0 if all hold, 1 if not, and 2 if it could not find out.
//
// To add something, write a scenario in test/e2e, and an item here that names
// it. A scenario tells what it measured by logging a line with "figure: ".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/stategraft/stategraft/test/controlplane/rigged"
	"github.com/stategraft/stategraft/test/e2e"
)

const pkg = "./test/e2e"

// item is something that has to hold.
type item struct{ name, test string }

var items = []item{
	{"1  one node: backup over gRPC, restore by annotation, once", "TestBackupAndRestoreOfOneNode"},
	{"2  three nodes: all volumes lost, restored at once", "TestBackupAndRestoreOfThreeNodes"},
	{"3  only the data directory on a volume", "TestOnlyDataOnVolume"},
	{"3  read-only root, Pod Security restricted enforced", "TestRestricted"},
	{"3  starts as root, fresh root-owned volume", "TestRootAndFreshVolume"},
	{"3  Bitnami's layout, user 1001, any-uid image", "TestBitnami"},
	{"4  passwords on JMX and CQL, from Secrets", "TestPasswords"},
	{"5  sidecar killed and S3 down in mid-backup", "TestBackupInterrupted"},
	{"5  backup with wrong bucket credentials", "TestBackupWrongCredentials"},
	{"5  backup with a failing nodetool", "TestBackupNodetoolFails"},
	{"5  restore refused: unknown, credentials, [storage]", "TestRestoreRefused"},
	{"5  volume full in mid-restore", "TestRestoreVolumeFull"},
	{"6  deletion: at most 3 s longer", "TestDeletion"},
	{"7  admission to Ready: under 2 s more", "TestAdmissionToReady"},
	{"8  images that cannot be pulled, healed in place", "TestImagesMissing"},
	{"8  Medusa crashes at every start", "TestMedusaCrashes"},
	{"8  the sidecar runs out of memory", "TestMedusaOutOfMemory"},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status, err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "show:", err)
	}
	os.Exit(status)
}

func run(ctx context.Context) (int, error) {
	only := flag.String("only", "", "run only the items whose name or test contains this")
	parallel := flag.Int("parallel", 3, "how many scenarios run at once, of those that measure no time; each Cassandra takes 430 MB")
	limit := flag.Duration("timeout", time.Hour, "for all of them")
	logs := flag.String("logs", "", "folder for what is kept of failed scenarios")
	times := flag.String("times", "judge", "judge: lengths of time over their limit fail; print: they are only printed, for a machine that is not quiet")
	verbose := flag.Bool("v", false, "print what the tests print")
	flag.Parse()

	if *times != "judge" && *times != "print" {
		return 2, fmt.Errorf("-times is judge or print, not %q", *times)
	}
	var wanted []item
	var tests []string
	for _, it := range items {
		if strings.Contains(it.name, *only) || strings.Contains(it.test, *only) {
			wanted = append(wanted, it)
			tests = append(tests, it.test)
		}
	}
	if len(wanted) == 0 {
		return 2, fmt.Errorf("no item has %q in its name", *only)
	}
	root, err := rigged.Root(ctx)
	if err != nil {
		return 2, err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-timeout="+limit.String(), fmt.Sprintf("-parallel=%d", *parallel),
		"-run=^("+strings.Join(tests, "|")+")$", pkg)
	// An interrupt lets the tests take their node down; go test does not pass it on.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Minute
	cmd.Dir = root
	cmd.Env = append(os.Environ(), e2e.EnabledEnv+"=1", e2e.TimesEnv+"="+*times)
	if *logs != "" {
		cmd.Env = append(cmd.Env, e2e.LogsEnv+"="+*logs)
	}
	began := time.Now()
	r := newResults(wanted, *verbose)
	failed := r.follow(cmd)
	if ctx.Err() != nil {
		return 2, context.Cause(ctx)
	}
	held := r.summary()
	fmt.Printf("\n%d of %d hold, after %s\n", held, len(wanted), time.Since(began).Round(time.Second))
	if held == len(wanted) && failed == nil {
		return 0, nil
	}
	r.explain(failed)
	if len(r.done) == 0 {
		return 2, errors.New("no scenario ran")
	}
	return 1, nil
}
