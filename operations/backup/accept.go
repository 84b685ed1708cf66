package backup

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

const (
	// mostPods is how many pods a Backup may have; the CustomResourceDefinition has the same.
	mostPods = 1000
	// grace is how long what a Backup needs may be missing: it may be applied together
	// with its workload.
	grace = time.Minute
	// setGrace is how long all pods of a StatefulSet may be missing that is to have some.
	setGrace = 10 * time.Minute
)

// choose tells which of the pods are to be asked for a report, or why it cannot come
// to that.
func choose(f Facts) (ask []*corev1.Pod, p *Problem) {
	young := f.Now.Sub(f.Backup.CreationTimestamp.Time) < grace
	if f.Terminating {
		// The informer of namespaces may not have heard yet of a new one.
		return nil, &Problem{Reason: ReasonNamespaceGoing, Wait: young, Message: fmt.Sprintf("namespace %s is being deleted", f.Backup.Namespace)}
	}
	if !f.Labelled {
		return nil, &Problem{Reason: ReasonNamespaceNotLabelled, Wait: young, Message: fmt.Sprintf(
			"namespace %[1]s does not have the label %[2]s=%[3]s, so that its pods have no sidecars; kubectl label namespace %[1]s %[2]s=%[3]s, then kubectl stategraft adopt gives them theirs while they run, or re-create the pods once",
			f.Backup.Namespace, api.LabelInject, api.InjectEnabled)}
	}
	names, pods, p := candidates(f)
	switch {
	case p != nil:
		return nil, p
	case len(names) == 0 && f.Set != nil && f.Set.Spec.Replicas != nil && *f.Set.Spec.Replicas == 0:
		return nil, &Problem{Reason: ReasonNoPods, Wait: young, Message: fmt.Sprintf("StatefulSet %s is scaled to 0, so there is no pod that could be backed up; kubectl -n %s scale statefulset %[1]s --replicas=N", f.Set.Name, f.Backup.Namespace)}
	case len(names) == 0:
		return nil, &Problem{Reason: ReasonNoPods, Wait: young, Message: fmt.Sprintf("there is no pod in namespace %s that spec.pods (%s) means; kubectl -n %[1]s get pods --show-labels tells which there are", f.Backup.Namespace, specText(f.Backup))}
	case len(names) > mostPods:
		return nil, &Problem{Reason: ReasonTooManyPods, Message: fmt.Sprintf("spec.pods means %d pods, and a Backup has at most %d", len(names), mostPods)}
	case len(pods) == 0:
		return nil, &Problem{Reason: ReasonPodNotFound, Wait: young || f.Set != nil && f.Now.Sub(f.Backup.CreationTimestamp.Time) < setGrace, Message: fmt.Sprintf("there is no pod %s in namespace %s", someOf(names), f.Backup.Namespace)}
	}
	why := ""
	for _, name := range names {
		pod := pods[name]
		if pod == nil {
			continue
		}
		if kind := foreign(pod); kind != "" {
			return nil, &Problem{Reason: ReasonNotSupported, Message: fmt.Sprintf("pod %s is of %s, which keeps no data of its own: there is nothing to back up", name, kind)}
		}
		if wrong := CheckPod(pod); wrong != "" {
			if why == "" {
				why = "pod " + name + ": " + wrong
			}
			continue
		}
		ask = append(ask, pod)
	}
	if len(ask) == 0 {
		return nil, &Problem{Reason: ReasonNotInjected, Wait: young, Message: "none of the pods can be backed up; " + why}
	}
	return ask, nil
}

// judge settles the pods of a Backup and their prefix, or tells why it cannot be
// accepted.
func judge(f Facts) *verdict {
	if _, p := choose(f); p != nil {
		return &verdict{problem: p}
	}
	names, pods, _ := candidates(f)
	matches, _, _ := wanted(f) // as candidates has found
	v := &verdict{seen: map[string]seen{}}
	prefixes := map[string]string{} // a pod of each
	var silent []string
	for _, name := range names {
		at, s := settled(f, name, pods[name])
		v.pods, v.seen[name] = append(v.pods, at), s
		if s.sight == silentSight && at.Phase == api.PodBackupWaiting {
			silent = append(silent, name)
		}
		if pods[name] != nil && !matches(pods[name]) {
			v.added = append(v.added, name)
		}
		if report, ok := f.Reports[name]; ok && prefixes[report.Prefix] == "" {
			prefixes[report.Prefix] = name
			v.prefix = report.Prefix
		}
	}
	switch {
	case len(prefixes) == 0:
		message := "waits for an answer from the sidecar of " + someOf(silent)
		for _, name := range silent {
			if err := f.Silent[name]; err != nil {
				message += ": " + line(err.Error())
				break
			}
		}
		v.problem = &Problem{Reason: ReasonSidecarSilent, Wait: true, Message: message}
	case len(prefixes) > 1:
		sorted := slices.Sorted(maps.Keys(prefixes))
		v.problem = &Problem{Reason: ReasonPrefixesDiffer, Message: fmt.Sprintf("the pods are of several clusters: the backups of %s go below %s, those of %s below %s; make a Backup for each, or give them one [storage] prefix in medusa.ini",
			prefixes[sorted[0]], prefixText(sorted[0]), prefixes[sorted[1]], prefixText(sorted[1]))}
	}
	return v
}

// settled is the entry of a pod, and what is known of it.
func settled(f Facts, name string, pod *corev1.Pod) (api.PodBackup, seen) {
	at := api.PodBackup{Name: name, Phase: api.PodBackupWaiting}
	if pod == nil {
		return at, seen{sight: absentSight, since: f.Now}
	}
	if wrong := CheckPod(pod); wrong != "" {
		at.Phase, at.Message = api.PodBackupFailed, workload.Clip(wrong, podLimit)
		return at, seen{sight: silentSight, since: f.Now}
	}
	s := seen{uid: pod.UID, leaving: pod.DeletionTimestamp != nil, log: logOf(pod)}
	report, ok := f.Reports[name]
	switch {
	case !ok:
		s.sight, s.since = silentSight, f.Now
		if err := f.Silent[name]; err != nil {
			s.why = line(err.Error())
		}
		return at, s
	case report.BackupRunning:
		s.sight = busySight
	case replaying(report.Replay) != "":
		s.sight, s.instead = busySight, replaying(report.Replay)
	default:
		s.sight = idleSight // of a name that nobody has been asked for before
	}
	s.node, s.prefix, s.reported = report.Node, report.Prefix, true
	if report.Node != name {
		at.Node = report.Node
	}
	return at, s
}

// specText says in a few words which pods are asked for.
func specText(b *api.Backup) string {
	switch spec := b.Spec.Pods; {
	case spec == nil:
		return "none"
	case spec.Workload != nil:
		return fmt.Sprintf("%s %s", orElse(spec.Workload.Kind, kindSet), spec.Workload.Name)
	case spec.Selector != nil:
		return "a selector"
	default:
		return someOf(spec.Names)
	}
}
