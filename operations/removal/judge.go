package removal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/operations/schedule/retention"
	"github.com/stategraft/stategraft/workload"
)

// Abandoned is how old a backup is that has not finished before it is taken for one
// that never will, where its nodes cannot be asked.
const Abandoned = 24 * time.Hour

// answer is what a pod has said of itself.
type answer struct {
	pod     *corev1.Pod
	node    string // its name in backups
	running string // "" for no backup
	err     error
}

// unsafe is the error of a deletion that would take other backups along: Medusa goes by
// what names begin with, a folder "data" is beside the backups', and each deletion
// clears that of what it takes for unneeded (retention.SafeName).
func unsafe(name string, list []node.Summary) error {
	if !retention.SafeName(name) {
		return waitFor(Unsafe, ErrUnsafe, "backup %s is not deleted, as its name has to do with that of Medusa's folder data: its deletion may take the data of all backups along. Delete it by hand, and set deletionPolicy: Keep to let the object go", name)
	}
	for _, other := range list {
		if other.Name == name {
			continue
		}
		if strings.HasPrefix(other.Name, name) {
			return waitFor(Unsafe, ErrUnsafe, "backup %s is not deleted, as its name is the beginning of that of backup %s, which Medusa would delete too: delete that one first, or set deletionPolicy: Keep to let the object go", name, workload.Short(other.Name))
		}
		if !retention.SafeName(other.Name) {
			return waitFor(Unsafe, ErrUnsafe, "backup %s is not deleted, as there is a backup %s: with any deletion Medusa takes files of that one for unneeded, as its name has to do with that of the folder data. Delete that one by hand first, or set deletionPolicy: Keep to let the object go", name, workload.Short(other.Name))
		}
	}
	return nil
}

// runs is the error of a deletion while a backup is made: by a node that says so, or
// by one that cannot be asked, where the storage has a backup that was begun. The one
// that is to go itself keeps no other from being whole.
func runs(name string, list []node.Summary, said []answer, now time.Time) error {
	asked := map[string]bool{}
	for _, a := range said {
		if a.err != nil {
			continue
		}
		asked[a.node] = true
		if a.running != "" {
			return waitFor(BackupRuns, nil, "backup %s is deleted when no backup of the cluster runs, and pod %s makes %s", name, a.pod.Name, a.running)
		}
	}
	for _, s := range list {
		if s.Name == name || s.Complete || s.Started.IsZero() || now.Sub(s.Started) > Abandoned {
			continue
		}
		at := slices.IndexFunc(s.Nodes, func(n string) bool { return !asked[n] })
		if at < 0 {
			continue // whoever began says that it is at it no more
		}
		return waitFor(BackupRuns, nil, "backup %s is deleted when no backup of the cluster runs: %s was begun at %s and is not finished, and its node %s cannot be asked. At the latest it is %s after that",
			name, workload.Short(s.Name), s.Started.UTC().Format(time.RFC3339), workload.Short(s.Nodes[at]), hours(Abandoned))
	}
	return nil
}

func hours(d time.Duration) string { return fmt.Sprintf("%d hours", int(d.Hours())) }

// someOf names some of many.
func someOf(names []string) string {
	const most = 5
	shown := make([]string, 0, most)
	for _, name := range names[:min(most, len(names))] {
		shown = append(shown, workload.Short(name))
	}
	text := strings.Join(shown, ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
