package restore

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// Names of backups and of their nodes, as the webhook takes them in annotations
// (webhook/parse.go; a test compares). They become parts of object keys and of
// file names (medusa/storage/node_backup.py), so they have no slash.
var (
	backupPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:+-]{0,252}$`)
	nodePattern   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._:-]{0,251}[A-Za-z0-9])?$`)
)

// ValidBackup tells why a text cannot stand for a backup, or is empty. A time and
// "latest" look like names too.
func ValidBackup(text string) string {
	switch {
	case text == "":
		return "it is empty; name a backup, or " + api.BackupLatest + ", or a time such as 2026-01-31T12:00:00Z"
	case !backupPattern.MatchString(text) || strings.Contains(text, ".."):
		return fmt.Sprintf("%q cannot be the name of a backup: a letter or digit, then letters, digits and . _ : + - (no slash, no ..), at most 253; "+
			"or %s, or a time such as 2026-01-31T12:00:00Z", workload.Short(text), api.BackupLatest)
	}
	return ""
}

// ValidNode tells why a text cannot be a node of a backup, or is empty.
func ValidNode(text string) string {
	if !nodePattern.MatchString(text) {
		return fmt.Sprintf("%q cannot be the name of a node in a backup, such as cassandra-0", workload.Short(text))
	}
	return ""
}

// CheckSpec tells what does not fit together in a Restore, or nil. The CRD asks
// for most of it too, but it may be older than this program.
func CheckSpec(r *api.Restore) *Problem {
	bad := func(format string, args ...any) *Problem {
		return &Problem{Reason: ReasonBadSpec, Message: fmt.Sprintf(format, args...)}
	}
	s := &r.Spec
	names, selected := len(s.Pods.Names) > 0, s.Pods.Selector != nil
	switch {
	case s.Backup == "" && s.Undo == "":
		return bad("spec.backup names no backup, and spec.undo no earlier restore; one of them has to be there")
	case s.Backup != "" && s.Undo != "":
		return bad("spec.backup and spec.undo exclude one another; leave one of them out")
	case s.Undo == r.Name:
		return bad("spec.undo names this restore itself; name an earlier one")
	case s.Undo != "" && (mode(r) != api.InPlace || s.Source != nil):
		return bad("spec.undo goes back to data on the pods' own volumes; leave out spec.source and mode %s", mode(r))
	case s.Mode == api.Merge && s.WhenNoBackup == api.NoBackupEmpty:
		return bad("spec.whenNoBackup: mode %s empties no node; leave it out", api.Merge)
	case names && selected:
		return bad("spec.pods has both names and selector; leave one of them out")
	case !names && !selected && s.Undo == "":
		return bad("spec.pods names and selects nothing; give names or a selector")
	case s.Deadline != nil && s.Deadline.Duration <= 0:
		return bad("spec.deadline is %s; it has to be more than nothing, such as 6h", s.Deadline.Duration)
	}
	if s.Backup != "" {
		if why := ValidBackup(s.Backup); why != "" {
			return bad("spec.backup: %s", why)
		}
	}
	if selected {
		if len(s.Pods.Selector.MatchLabels)+len(s.Pods.Selector.MatchExpressions) == 0 {
			return bad("spec.pods.selector is empty and would take every pod of the namespace; name a label")
		}
		if _, err := metav1.LabelSelectorAsSelector(s.Pods.Selector); err != nil {
			return bad("spec.pods.selector cannot be read: %v", err)
		}
	}
	return checkSource(s, bad)
}

func checkSource(s *api.RestoreSpec, bad func(string, ...any) *Problem) *Problem {
	if s.Source == nil {
		return nil
	}
	if s.Source.Prefix != nil && s.Source.Cluster != "" {
		return bad("spec.source has both prefix and cluster; leave one of them out")
	}
	pods := map[string]string{}
	for _, pod := range slices.Sorted(maps.Keys(s.Source.Nodes)) {
		for _, node := range (&api.PodRestore{Node: s.Source.Nodes[pod]}).Sources() {
			if why := ValidNode(node); why != "" {
				return bad("spec.source.nodes of pod %s: %s", workload.Short(pod), why)
			}
			if other, ok := pods[node]; ok {
				return bad("spec.source.nodes gives node %s to both %s and %s; two nodes with the same tokens and data cannot be in one ring", node, other, pod)
			}
			pods[node] = pod
		}
	}
	return nil
}

// SourcePrefix is the prefix of the storage that the backup is below; nil for the
// pods' own.
func SourcePrefix(r *api.Restore) *string {
	switch s := r.Spec.Source; {
	case s == nil:
		return nil
	case s.Prefix != nil:
		return s.Prefix
	case s.Cluster != "":
		namespace, cluster, _ := strings.Cut(s.Cluster, "/")
		return new(node.Prefix(namespace, cluster))
	}
	return nil
}

// Asked tells which pods a Restore is about: by name, or by a selector, which is
// nil then. earlier is the one that it undoes, if any. Of a spec that CheckSpec
// has something against it may be none.
func Asked(r, earlier *api.Restore) (names []string, selector labels.Selector) {
	switch {
	case len(r.Spec.Pods.Names) > 0:
		return slices.Clone(r.Spec.Pods.Names), nil
	case r.Spec.Pods.Selector != nil:
		if len(r.Spec.Pods.Selector.MatchLabels)+len(r.Spec.Pods.Selector.MatchExpressions) == 0 {
			return nil, nil
		}
		selector, err := metav1.LabelSelectorAsSelector(r.Spec.Pods.Selector)
		if err != nil {
			return nil, nil
		}
		return nil, selector
	case r.Spec.Undo != "" && earlier != nil:
		for i := range earlier.Status.Pods {
			if earlier.Status.Pods[i].MayHavePrevious() {
				names = append(names, earlier.Status.Pods[i].Name)
			}
		}
	}
	return names, nil
}

// mode is the Restore's, in place where none is said.
func mode(r *api.Restore) api.RestoreMode {
	if r.Spec.Mode == "" {
		return api.InPlace
	}
	return r.Spec.Mode
}

// pointInTime reads a time out of RestoreSpec.Backup.
func pointInTime(asked string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, asked)
	return at, err == nil
}
