package restore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/workload"
)

// Reasons of a backup that cannot be found.
const (
	ReasonNoBackups    = "NoBackups"
	ReasonNoSuchBackup = "NoSuchBackup"
	ReasonNodesMissing = "NodesMissing"
	ReasonFutureTime   = "FutureTime"
)

// ahead is how far a time asked for may be in the future: clocks differ.
const ahead = time.Minute

// Resolve finds the backup that is asked for by name, as the latest, or by a point
// in time, among those in the storage. need are the nodes of which it has to have a
// part. By name it may be one that other nodes have not finished; what is not named
// is chosen among the complete ones only. A newer one that lacks a node is not
// passed over for an older: that would lose more than people expect.
func Resolve(asked string, b node.Backups, need []string, now time.Time) (name string, p *Problem) {
	found, p := find(asked, b, need, now)
	if p != nil {
		return "", p
	}
	if lacks := lacking(found, need); len(lacks) > 0 {
		return "", nodesMissing(asked, b, found, need, lacks)
	}
	return found.Name, nil
}

// find is Resolve without asking for every node: any that has something is found.
func find(asked string, b node.Backups, need []string, now time.Time) (*node.Summary, *Problem) {
	if len(b.Backups) == 0 {
		return nil, &Problem{Reason: ReasonNoBackups, Message: fmt.Sprintf("there is no backup at all below %s; check bucket_name and prefix in medusa.ini, and spec.source if it is another cluster's", prefixText(b.Prefix))}
	}
	if i := slices.IndexFunc(b.Backups, func(s node.Summary) bool { return s.Name == asked }); i >= 0 && asked != api.BackupLatest {
		return &b.Backups[i], nil
	}
	at, timed := pointInTime(asked)
	switch {
	case asked == api.BackupLatest:
	case !timed:
		return nil, noSuchBackup(asked, b)
	case at.After(now.Add(ahead)):
		return nil, &Problem{Reason: ReasonFutureTime, Message: fmt.Sprintf("%s has not come yet (it is %s); name a time that has passed, or %s", asked, now.UTC().Format(time.RFC3339), api.BackupLatest)}
	}
	var complete, best *node.Summary
	for i := range b.Backups {
		s := &b.Backups[i]
		if !s.Complete || s.Finished.IsZero() || timed && s.Finished.After(at) {
			continue
		}
		if complete == nil || later(s, complete) {
			complete = s
		}
		if (len(need) == 0 || len(lacking(s, need)) < len(need)) && (best == nil || later(s, best)) {
			best = s
		}
	}
	switch {
	case best != nil:
		return best, nil
	case complete != nil:
		return nil, &Problem{Reason: ReasonNodesMissing, Message: fmt.Sprintf("no complete backup below %s%s has anything of %s; the newest, %s, is of %s. Are these pods called otherwise in it? Then spec.source.nodes says which is which",
			prefixText(b.Prefix), until(timed, asked), nodesText(need), complete.Name, nodesText(complete.Nodes))}
	default:
		return nil, &Problem{Reason: ReasonNoSuchBackup, Message: fmt.Sprintf("no backup below %s is complete%s; %s", prefixText(b.Prefix), until(timed, asked), newest(b))}
	}
}

func later(a, b *node.Summary) bool {
	if !a.Finished.Equal(b.Finished) {
		return a.Finished.After(b.Finished)
	}
	return a.Name > b.Name
}

func until(timed bool, asked string) string {
	if timed {
		return " and had finished by " + asked
	}
	return ""
}

// lacking are the nodes of which a backup has no part.
func lacking(s *node.Summary, need []string) (lacks []string) {
	for _, n := range need {
		if !slices.Contains(s.Nodes, n) {
			lacks = append(lacks, n)
		}
	}
	return lacks
}

// nodesMissing tells of which nodes a backup has nothing, and which one has all.
func nodesMissing(asked string, b node.Backups, found *node.Summary, need, lacks []string) *Problem {
	what := "backup " + found.Name
	if found.Name != asked {
		what += ", which is " + asked + ","
		if asked != api.BackupLatest {
			what = "backup " + found.Name + ", the newest by " + asked + ","
		}
	}
	message := fmt.Sprintf("%s has nothing of %s, only of %s", what, nodesText(lacks), nodesText(found.Nodes))
	var all *node.Summary
	for i := range b.Backups {
		if s := &b.Backups[i]; s.Complete && len(lacking(s, need)) == 0 && (all == nil || later(s, all)) {
			all = s
		}
	}
	if all != nil {
		message += "; the newest that has all of them is " + all.Name
	}
	return &Problem{Reason: ReasonNodesMissing, Message: message + "; name another backup, or the nodes in spec.source.nodes, or let these pods start without data by whenNoBackup: Empty"}
}

// noSuchBackup names those that there are, and what may have been meant.
func noSuchBackup(asked string, b node.Backups) *Problem {
	message := fmt.Sprintf("there is no backup %s below %s", workload.Short(asked), prefixText(b.Prefix))
	if at, ok := onlyDate(asked); ok {
		message += fmt.Sprintf("; for the newest at a point in time name the time, too: %s", at)
	} else if near := nearest(asked, b); near != "" {
		message += "; did you mean " + near + "?"
	}
	return &Problem{Reason: ReasonNoSuchBackup, Message: message + "; " + newest(b)}
}

// onlyDate is the point in time that is meant by one without its time of day, or
// written as people do; what is not said of it is the beginning of the day, in UTC.
func onlyDate(asked string) (string, bool) {
	for _, layout := range []string{time.DateOnly, time.DateTime, "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02T15:04Z07:00", "2006-01-02 15:04:05Z07:00"} {
		if at, err := time.Parse(layout, asked); err == nil {
			return at.UTC().Format(time.RFC3339), true
		}
	}
	return "", false
}

// newest names the newest few backups.
func newest(b node.Backups) string {
	sorted := make([]*node.Summary, 0, len(b.Backups))
	for i := range b.Backups {
		sorted = append(sorted, &b.Backups[i])
	}
	slices.SortStableFunc(sorted, func(x, y *node.Summary) int { return y.Started.Compare(x.Started) })
	names := make([]string, 0, len(sorted))
	for _, s := range sorted {
		name := workload.Short(s.Name)
		if !s.Complete {
			name += " (not complete)"
		}
		names = append(names, name)
	}
	return "the newest are " + someOf(names)
}

// nearest is the name that is most like the one asked for; none if none is.
func nearest(asked string, b node.Backups) string {
	const longest = 64 // the distance takes the product of the lengths
	clip := func(text string) string { return strings.ToLower(text[:min(len(text), longest)]) }
	want := clip(asked)
	found, least := "", len(want)/3+2
	for i := len(b.Backups) - 1; i >= 0; i-- { // the newer of two that are as near
		if d := distance(want, clip(b.Backups[i].Name)); d < least {
			found, least = b.Backups[i].Name, d
		}
	}
	if d := distance(want, api.BackupLatest); d <= 2 && d <= least {
		return api.BackupLatest
	}
	return workload.Short(found)
}

// distance is the Levenshtein distance.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

func prefixText(prefix string) string {
	if prefix == "" || prefix == noPrefix {
		return "the bucket's root"
	}
	return "prefix " + workload.Short(prefix)
}

func nodesText(nodes []string) string {
	if len(nodes) == 1 {
		return "node " + workload.Short(nodes[0])
	}
	sorted := slices.Clone(nodes)
	slices.SortFunc(sorted, natural)
	return "nodes " + someOf(sorted)
}

// SourceNodes are the nodes of which the backup has to have a part, as far as they
// are known before it is looked into: in mode Remote without a mapping they are
// not. With whenNoBackup: Empty they are those that it has, if it has any.
func SourceNodes(f Facts) []string {
	if f.Restore.Spec.Undo != "" {
		return nil
	}
	var nodes []string
	for _, pod := range chosen(f) {
		for _, n := range (&api.PodRestore{Node: sourceOf(f, pod)}).Sources() {
			if !slices.Contains(nodes, n) {
				nodes = append(nodes, n)
			}
		}
	}
	if f.Restore.Spec.WhenNoBackup != api.NoBackupEmpty || f.Backups == nil {
		return nodes
	}
	found, p := find(f.Restore.Spec.Backup, *f.Backups, nodes, f.Now)
	if p != nil {
		return nodes
	}
	lacks := lacking(found, nodes)
	if len(lacks) == len(nodes) {
		return nodes
	}
	return slices.DeleteFunc(nodes, func(n string) bool { return slices.Contains(lacks, n) })
}

// sourceOf is the node of the backup that a pod gets; empty where only the backup
// itself can tell. A pod is called in its backups as the agent names it: by its
// name, or by its address where it is on the host's network.
func sourceOf(f Facts, pod *corev1.Pod) string {
	if s := f.Restore.Spec.Source; s != nil {
		if n, ok := s.Nodes[pod.Name]; ok {
			return n
		}
	}
	if mode(f.Restore) == api.Remote || kvs.HoldsData(pod) {
		return ""
	}
	if n := f.Reports[pod.Name].Node; n != "" {
		return n
	}
	if pod.Spec.HostNetwork && pod.Status.PodIP != "" {
		return pod.Status.PodIP
	}
	return pod.Name
}
