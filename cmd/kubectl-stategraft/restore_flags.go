package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
)

// restoreFlags are the command line of restore and of the commands below it.
type restoreFlags struct {
	connection

	// The object.
	backup, name, selector, mode    string
	prefix, sourceCluster           string
	nodes                           []string
	whenNoBackup, keepPrevious      string
	parallel                        int32
	deadline                        time.Duration
	set                             *pflag.FlagSet // what of these was given
	dryRun, wait, yes, allNamespace bool

	timeout time.Duration
	output  string
}

func (f *restoreFlags) addSpec(set *pflag.FlagSet) {
	f.set = set
	set.StringVar(&f.backup, "backup", api.BackupLatest, "name of a Backup of the namespace, or of a backup in the storage; or latest, or a time (2026-11-30T08:00:00Z): the newest complete one, or that not after it")
	set.StringVarP(&f.selector, "selector", "l", "", "restore the pods with these labels")
	set.StringVar(&f.mode, "mode", "", "in-place: the pods' own backup (default); remote: that of another cluster or namespace, with its tokens; merge: of Anna, into the cluster as it runs (kubectl stategraft repair)")
	set.StringVar(&f.prefix, "source-prefix", "", "[storage] prefix that the backup was made with (default: the pods' own)")
	set.StringVar(&f.sourceCluster, "source-cluster", "", "NAMESPACE/CLUSTER of the backup, where its medusa.ini has no prefix of its own")
	set.StringArrayVar(&f.nodes, "node", nil, "POD=NODE: the node of the backup that the pod gets (may be repeated; default: its own name, or by rack)")
	set.StringVar(&f.whenNoBackup, "when-no-backup", "", "fail (default) or empty: what becomes of a pod that the backup has nothing of")
	set.StringVar(&f.keepPrevious, "keep-previous", "", "always, if-room (default) or never: keep the data that are replaced for a while, for restore undo")
}

// addCourse are the flags that an undo has too.
func (f *restoreFlags) addCourse(set *pflag.FlagSet) {
	set.StringVar(&f.name, "name", "", "name of the Restore (default: the workload's, and the time)")
	set.Int32Var(&f.parallel, "parallel", 0, "how many pods restore at a time (default: all)")
	set.DurationVar(&f.deadline, "deadline", 0, "how long it may take, such as 6h (default 24h)")
	set.BoolVar(&f.dryRun, "dry-run", false, "show the plan, do nothing")
	set.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	set.BoolVar(&f.wait, "wait", false, "stay until it is over, and show how far each pod is")
	f.addTimeout(set)
	f.addOutput(set, "json|yaml|name")
}

func (f *restoreFlags) addTimeout(set *pflag.FlagSet) {
	set.DurationVar(&f.timeout, "timeout", 0, "how long to wait, such as 2h (default: to the end; 5m for a plan)")
}

func (f *restoreFlags) addOutput(set *pflag.FlagSet, outputs string) {
	set.StringVarP(&f.output, "output", "o", "", outputs)
}

// choice reads a word as the value that it stands for, whatever its case.
func choice[T ~string](flag, word string, values map[string]T, order ...string) (T, error) {
	if word == "" {
		return "", nil
	}
	if value, ok := values[strings.ToLower(strings.ReplaceAll(word, "-", ""))]; ok {
		return value, nil
	}
	return "", fmt.Errorf("--%s %s: it takes %s", flag, word, strings.Join(order, ", "))
}

// request is what the flags ask for.
func (f *restoreFlags) request() (*ask.Request, error) {
	r := &ask.Request{}
	if err := f.course(r); err != nil {
		return nil, err
	}
	r.Backup = strings.TrimSpace(f.backup)
	err := ask.ParseBackup(r.Backup)
	if err != nil {
		return nil, err
	}
	if r.Mode, err = choice("mode", f.mode, map[string]api.RestoreMode{"inplace": api.InPlace, "remote": api.Remote, "merge": api.Merge}, "in-place", "remote", "merge"); err != nil {
		return nil, err
	}
	if r.WhenNoBackup, err = choice("when-no-backup", f.whenNoBackup, map[string]api.WhenNoBackup{"fail": api.NoBackupFail, "empty": api.NoBackupEmpty}, "fail", "empty"); err != nil {
		return nil, err
	}
	if r.KeepPrevious, err = choice("keep-previous", f.keepPrevious, map[string]api.KeepPrevious{"always": api.KeepAlways, "ifroom": api.KeepIfRoom, "never": api.KeepNever}, "always", "if-room", "never"); err != nil {
		return nil, err
	}
	if r.Nodes, err = parseNodes(f.nodes); err != nil {
		return nil, err
	}
	if f.set.Changed("source-prefix") { // an empty one is that of a storage without prefix
		if f.sourceCluster != "" {
			return nil, fmt.Errorf("--source-prefix and --source-cluster exclude one another: the prefix is made of the cluster, or given")
		}
		if strings.Contains(f.prefix, "/") {
			return nil, fmt.Errorf("--source-prefix %s: a prefix has no slash", f.prefix)
		}
		prefix := f.prefix
		r.Prefix = &prefix
	}
	r.Cluster = f.sourceCluster
	if r.Mode == api.Remote && r.Prefix == nil && r.Cluster == "" && len(r.Nodes) == 0 {
		return nil, fmt.Errorf("--mode %s: whose backup is it? Give --source-cluster or --source-prefix", f.mode)
	}
	return r, nil
}

// course reads the flags that an undo has too.
func (f *restoreFlags) course(r *ask.Request) error {
	if err := oneOf(f.output, "", "json", "yaml", "name"); err != nil {
		return err
	}
	switch {
	case f.parallel < 0:
		return fmt.Errorf("--parallel %d: it takes a number of pods, or 0 for all", f.parallel)
	case f.deadline < 0 || f.set.Changed("deadline") && f.deadline == 0:
		return fmt.Errorf("--deadline %s: it takes a duration above zero, such as 6h", f.deadline)
	case f.timeout < 0:
		return fmt.Errorf("--timeout %s: it takes a duration, such as 2h, or 0 to wait for the end", f.timeout)
	case f.timeout > 0 && !f.wait && !f.dryRun && f.yes:
		return fmt.Errorf("--timeout %s: nothing is waited for; give --wait", f.timeout)
	case f.dryRun && f.wait:
		return fmt.Errorf("--dry-run and --wait exclude one another: nothing happens that could be waited for")
	}
	if problems := validation.IsDNS1123Subdomain(f.name); f.name != "" && len(problems) > 0 {
		return fmt.Errorf("--name %s: %s", f.name, problems[0])
	}
	r.Name, r.Parallel, r.Deadline = f.name, f.parallel, f.deadline
	return nil
}

func parseNodes(list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	nodes := map[string]string{}
	taken := map[string]string{}
	for _, item := range list {
		pod, node, ok := strings.Cut(item, "=")
		pod = strings.TrimPrefix(pod, "pod/")
		switch {
		case !ok || pod == "" || node == "":
			return nil, fmt.Errorf("--node %s: it takes POD=NODE", item)
		case nodes[pod] != "":
			return nil, fmt.Errorf("--node %s: pod %s is given twice", item, pod)
		case taken[node] != "":
			return nil, fmt.Errorf("--node %s: node %s is %s's already; two pods with the tokens of one node would fight over them", item, node, taken[node])
		}
		nodes[pod], taken[node] = node, pod
	}
	return nodes, nil
}

func oneOf(output string, known ...string) error {
	var shown []string
	for _, word := range known {
		if output == word {
			return nil
		}
		if word != "" {
			shown = append(shown, word)
		}
	}
	return fmt.Errorf("--output %s: it takes %s", output, strings.Join(shown, ", "))
}
