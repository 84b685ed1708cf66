package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask/backup"
)

// backupFlags are the command line of backup and of the commands below it.
type backupFlags struct {
	connection

	// The object.
	name, selector, kind, policy string
	parallel, retries            int32
	limit                        time.Duration
	pin, dryRun, adopt           bool
	adoptTimeout                 time.Duration  // of waiting for that
	set                          *pflag.FlagSet // what of these was given

	wait, yes, data, keepData bool
	deleted                   bool // is waited for
	allNamespace              bool
	timeout                   time.Duration // of the waiting
	schedule, output          string
}

func (f *backupFlags) addSpec(set *pflag.FlagSet) {
	f.set = set
	set.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "delete-policy" {
			name = "deletion-policy"
		}
		return pflag.NormalizedName(name)
	})
	set.StringVar(&f.name, "name", "", "name of the Backup (default: the workload's, and the time)")
	set.StringVarP(&f.selector, "selector", "l", "", "back up the pods with these labels")
	set.StringVar(&f.kind, "type", "", "differential (default): upload what the storage does not hold yet; or full. Both are whole")
	set.Int32Var(&f.parallel, "parallel", 0, "how many pods are backed up at a time (default: all)")
	set.DurationVar(&f.limit, "timeout", 0, "how long it may take, waiting and retries included, such as 6h (default 24h)")
	set.Int32Var(&f.retries, "retries", api.DefaultBackupRetries, "how often the backup of a pod that failed is tried again")
	set.StringVar(&f.policy, "deletion-policy", "", "keep (default) or delete: what becomes of the data when the Backup is deleted")
	set.BoolVar(&f.pin, "pin", false, "keep it for good, whatever retention says")
	set.BoolVar(&f.dryRun, "dry-run", false, "show the pods and what speaks against backing them up, do nothing")
	set.BoolVar(&f.adopt, "adopt", false, "give pods without a sidecar theirs first, while they run")
	set.DurationVar(&f.adoptTimeout, "adopt-timeout", adoptTimeout, "how long to wait for the sidecars of --adopt")
	set.BoolVar(&f.wait, "wait", false, "stay until it is over, and show how far each pod is")
}

func (f *backupFlags) addOutput(set *pflag.FlagSet, outputs string) {
	set.StringVarP(&f.output, "output", "o", "", outputs)
}

// request is what the flags ask for.
func (f *backupFlags) request() (*backup.Request, error) {
	if err := oneOf(f.output, "", "json", "yaml", "name"); err != nil {
		return nil, err
	}
	if f.name != "" {
		if err := backup.CheckName(f.name); err != nil {
			return nil, err
		}
	}
	r := &backup.Request{Name: f.name, Parallel: f.parallel, Timeout: f.limit, Pinned: f.pin}
	var err error
	if r.Type, err = choice("type", f.kind, map[string]api.BackupType{"differential": api.BackupDifferential, "full": api.BackupFull}, "differential", "full"); err != nil {
		return nil, err
	}
	if r.Policy, err = choice("deletion-policy", f.policy, map[string]api.DeletionPolicy{"keep": api.DeletionKeep, "delete": api.DeletionDelete}, "keep", "delete"); err != nil {
		return nil, err
	}
	if f.set.Changed("retries") {
		retries := f.retries
		r.Retries = &retries
	}
	return r, f.bounds()
}

func (f *backupFlags) bounds() error {
	const mostPods, mostRetries = 1000, 10 // as the CustomResourceDefinition has them
	switch {
	case f.parallel < 0 || f.parallel > mostPods:
		return fmt.Errorf("--parallel %d: it takes a number of pods up to %d, or 0 for all", f.parallel, mostPods)
	case f.limit < 0 || f.set.Changed("timeout") && f.limit == 0:
		return fmt.Errorf("--timeout %s: it takes a duration above zero, such as 6h", f.limit)
	case f.retries < 0 || f.retries > mostRetries:
		return fmt.Errorf("--retries %d: it takes a number up to %d", f.retries, mostRetries)
	case f.adoptTimeout <= 0:
		return fmt.Errorf("--adopt-timeout %s: it takes a duration above zero, such as 10m", f.adoptTimeout)
	case f.set.Changed("adopt-timeout") && !f.adopt:
		return errors.New("--adopt-timeout: nothing is adopted; give --adopt")
	case f.dryRun && f.wait:
		return errors.New("--dry-run and --wait exclude one another: nothing happens that could be waited for")
	}
	return nil
}

// longest is how long a Backup may take with a controller that acts, and a while: it
// may wait for its acceptance as long as it may take afterwards.
func longest(b *api.Backup) time.Duration {
	return 2*b.Spec.TimeoutOrDefault() + 5*time.Minute
}
