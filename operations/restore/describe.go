package restore

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// describe says what a plan does and what it costs, for people who may still
// change their minds.
func describe(f Facts, pods []*corev1.Pod, plan []api.PodRestore) (lines []string) {
	b := f.Backup
	var bytes int64
	var from, empty, unknown []string
	finished := b.Finished
	for i := range plan {
		at := &plan[i]
		if at.Action == api.ActionEmpty {
			empty = append(empty, at.Name)
			continue
		}
		bytes += at.BytesTotal
		if at.Node != at.Name {
			from = append(from, at.Node+" to "+at.Name)
		}
		if at.Message != "" {
			unknown = append(unknown, at.Name)
		}
		if member, _ := b.Member(at.Node); b.Finished.IsZero() && member.Finished.After(finished) {
			finished = member.Finished // of a backup that other nodes have not finished
		}
	}
	n := len(plan) - len(empty)
	line := fmt.Sprintf("%s %s backup %s, finished %s: %s", counted(n, "pod"), verb(n, "gets", "get"), b.Name, timeText(finished), sizeText(bytes))
	if len(from) > 0 {
		line += ", " + someOf(from)
	}
	lines = append(lines, line)
	if len(empty) > 0 {
		lines = append(lines, fmt.Sprintf("%s %s without data, as the backup has nothing of %s: what %s now is lost",
			someOf(empty), verb(len(empty), "starts", "start"), verb(len(empty), "it", "them"), verb(len(empty), "it holds", "they hold")))
	}
	lines = append(lines, lost(f, finished))
	if text := noWayBack(f, plan); text != "" {
		lines = append(lines, text)
	}
	if len(unknown) > 0 {
		lines = append(lines, "The room on the volume of "+someOf(unknown)+" is not known; the restore container looks before it touches anything")
	}
	if left := leftOut(f, plan); len(left) > 0 {
		lines = append(lines, left...)
	}
	if text := versions(f, pods, plan); text != "" {
		lines = append(lines, text)
	}
	if text := unknownTokens(pods, plan); text != "" {
		lines = append(lines, text)
	}
	return append(lines, unknownDatacenters(b, pods, plan)...)
}

// lost says what is not there any more afterwards.
func lost(f Facts, finished time.Time) string {
	since := "since then"
	if finished.IsZero() {
		since = "since the backup"
	}
	if mode(f.Restore) == api.InPlace && !covers(f) {
		return "What these nodes have taken " + since + " is lost on them; where other replicas have it, nodetool repair brings it back"
	}
	return "What was written " + since + " is lost"
}

// noWayBack says where the data from before are not kept. The restore container
// decides it when it knows all (agent/restore/keep.go): where nobody insists, a tenth
// of the volume is to be free afterwards.
func noWayBack(f Facts, plan []api.PodRestore) string {
	const tenth = 10
	switch f.Restore.Spec.KeepPrevious {
	case api.KeepNever:
		return "The data from before are not kept: there is no way back"
	case api.KeepAlways:
		return ""
	}
	var short []string
	for i := range plan {
		report, ok := f.Reports[plan[i].Name]
		after := report.Free - plan[i].BytesTotal
		for _, p := range report.Previous { // given back by then
			after += p.Bytes
		}
		if ok && report.Size > 0 && after < report.Size/tenth {
			short = append(short, plan[i].Name)
		}
	}
	if len(short) == 0 {
		return ""
	}
	return "There will be no way back on " + someOf(short) + ": with the data from before less than a tenth of the volume would be free"
}

// imageVersion finds the version of Cassandra in the name of an image that is the
// database: of Docker's own and its like, and of the management API's.
var imageVersion = regexp.MustCompile(`(?:^|/)(?:cassandra|cass-management-api|cassandra-management):v?(\d+\.\d+)`)

var majorMinor = regexp.MustCompile(`^\d+\.\d+`)

// versions mentions where the backup is another version's than the pods': an older
// database cannot read what a newer one has written.
func versions(f Facts, pods []*corev1.Pod, plan []api.PodRestore) string {
	var differ []string
	for i := range plan {
		member, ok := f.Backup.Member(plan[i].Node)
		was := majorMinor.FindString(member.Version)
		if !ok || was == "" || plan[i].Action != api.ActionRestore {
			continue
		}
		for _, pod := range pods {
			if pod.Name != plan[i].Name {
				continue
			}
			if is := databaseVersion(pod); is != "" && is != was {
				text := fmt.Sprintf("the backup is of Cassandra %s, the pods run %s", member.Version, is)
				if !slices.Contains(differ, text) {
					differ = append(differ, text)
				}
			}
		}
	}
	if len(differ) == 0 {
		return ""
	}
	return "Versions differ: " + someOfTexts(differ) + "; an older Cassandra cannot read what a newer one has written"
}

func databaseVersion(pod *corev1.Pod) string {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if workload.Own(c.Name) {
			continue
		}
		if found := imageVersion.FindStringSubmatch(c.Image); found != nil {
			return found[1]
		}
	}
	return ""
}
