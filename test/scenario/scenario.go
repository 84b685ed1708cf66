// Package scenario is what the commands have in common that show what has to
// hold: each item is a Go test, which is run; a line tells its name, PASS or
// FAIL, how long it took, and what it measured. A test tells what it measured by
// logging a line with "figure: ".
package scenario

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stategraft/stategraft/test/controlplane/rigged"
)

// Item is something that has to hold.
type Item struct {
	Name string
	Test string // name of the Go test
	Pkg  string // its package, such as "./deploy"; empty for that of the other items
}

// among tells whether one of the texts of a list is in the item's name or test.
func (it Item) among(list string) bool {
	return slices.ContainsFunc(strings.Split(list, ","), func(text string) bool {
		return strings.Contains(it.Name, text) || strings.Contains(it.Test, text)
	})
}

// Suite is what a command shows.
type Suite struct {
	Items    []Item
	Pkg      string // of the items that name none; "./test/e2e" where it is empty
	Parallel int    // how many tests run at once, of those that allow it

	// Environment variables that the tests look at: EnabledEnv is set to 1,
	// LogsEnv to the folder for what is kept of failed ones, TimesEnv to judge or
	// print. Env are further ones.
	EnabledEnv, LogsEnv, TimesEnv string
	Env                           []string
}

// Main reads the flags, runs the tests and answers the exit status: 0 if all
// hold, 1 if not, 2 if it could not find out.
func Main(s Suite) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if s.Pkg == "" {
		s.Pkg = "./test/e2e"
	}
	status, err := s.run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "show:", err)
	}
	return status
}

func (s Suite) run(ctx context.Context) (int, error) {
	only := flag.String("only", "", "run only the items whose name or test contains this; several, separated by commas")
	parallel := flag.Int("parallel", s.Parallel, "how many run at once, of those that measure no time")
	limit := flag.Duration("timeout", time.Hour, "for all of them")
	logs := flag.String("logs", "", "folder for what is kept of failed scenarios")
	times := flag.String("times", "judge", "judge: lengths of time over their limit fail; print: they are only printed, for a machine that is not quiet")
	verbose := flag.Bool("v", false, "print what the tests print")
	flag.Parse()
	if *times != "judge" && *times != "print" {
		return 2, fmt.Errorf("-times is judge or print, not %q", *times)
	}
	var wanted []Item
	var packages, tests []string
	for _, it := range s.Items {
		if !it.among(*only) {
			continue
		}
		if it.Pkg == "" {
			it.Pkg = s.Pkg
		}
		wanted = append(wanted, it)
		tests = append(tests, it.Test)
		if !slices.Contains(packages, it.Pkg) {
			packages = append(packages, it.Pkg)
		}
	}
	if len(wanted) == 0 {
		return 2, fmt.Errorf("no item has %q in its name", *only)
	}
	root, err := rigged.Root(ctx)
	if err != nil {
		return 2, err
	}
	// One package after the other: each has the machine for itself.
	args := append([]string{"test", "-json", "-count=1", "-p=1", "-timeout=" + limit.String(), fmt.Sprintf("-parallel=%d", *parallel),
		"-run=^(" + strings.Join(tests, "|") + ")$"}, packages...)
	cmd := exec.CommandContext(ctx, "go", args...)
	// An interrupt lets the tests take their node down; go test does not pass it on.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Minute
	cmd.Dir = root
	cmd.Env = append(os.Environ(), s.EnabledEnv+"=1", s.TimesEnv+"="+*times)
	cmd.Env = append(cmd.Env, s.Env...)
	if *logs != "" {
		cmd.Env = append(cmd.Env, s.LogsEnv+"="+*logs)
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
