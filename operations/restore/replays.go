package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/sidecar"
	"github.com/stategraft/stategraft/workload"
)

// ReasonReplayFailed says that keys could not be written again, and not for a time.
const ReasonReplayFailed = "ReplayFailed"

// replay is a sidecar to be asked to write keys again.
type replay struct {
	pod     *corev1.Pod
	request node.ReplayRequest
}

// replayed tells of a pod whether its data are there only once they are written again.
func (c *course) replayed(at *api.PodRestore) bool {
	return c.status.Kind == api.KindAnna && (at.Action == api.ActionRestore || at.Action == "")
}

// process names the start of a pod's database: another one holds nothing of what was
// written to this. A container that starts again in the same pod is another one, too.
func process(pod *corev1.Pod) string {
	restarts := int32(0)
	for _, s := range pod.Status.ContainerStatuses {
		if !workload.Own(s.Name) {
			restarts += s.RestartCount
		}
	}
	return fmt.Sprintf("%s/%d", pod.UID, restarts)
}

// losses finds nodes that were lost since any of the others may have written keys to them,
// as keys go where the ring puts them. All nodes write theirs once more then, into the
// cluster as it is. One that was created anew has its part staged again before. Which
// start of a database counts is written down before anybody can write to it.
func (c *course) losses() {
	if c.status.Kind != api.KindAnna {
		return
	}
	var lost []string
	for i := range c.status.Pods {
		at := &c.status.Pods[i]
		pod := c.w.pods[at.Name]
		switch {
		case at.Process != "" && (pod == nil || process(pod) != at.Process):
			lost = append(lost, at.Name)
			at.Process = ""
		case at.Process == "" && c.came(at.Name) && c.anyReplaying():
			lost = append(lost, at.Name) // it came up without its part, goes, and has been written to
		default:
			continue
		}
		if c.came(at.Name) { // until it goes, which may be never, it is lost once
			at.Process = process(pod)
		}
	}
	if len(lost) == 0 {
		return
	}
	c.status.Round++
	for i := range c.status.Pods {
		at := &c.status.Pods[i]
		at.Keys, at.Finished = 0, nil
		if at.Phase == api.PodReplayed {
			at.Phase, at.Message = api.PodReplaying, ""
		}
	}
	c.warn(eventReplayAgain, fmt.Sprintf("%s started anew while keys were, or could be, written to %s: all nodes write theirs once more", few(lost), verb(len(lost), "it", "them")))
}

// came tells whether a pod came up without its restore container.
func (c *course) came(name string) bool {
	return c.seen[name].sight == bare && c.w.pods[name].DeletionTimestamp == nil
}

// anyReplaying tells whether any pod has been seen to have its part.
func (c *course) anyReplaying() bool {
	for i := range c.status.Pods {
		if phase := c.status.Pods[i].Phase; phase == api.PodReplaying || phase == api.PodReplayed {
			return true
		}
	}
	return false
}

// observeStaged takes over that a pod has its part of the backup, and how far its sidecar
// is with writing it.
func (c *course) observeStaged(at *api.PodRestore, was api.PodRestore, s seen) {
	staged := at.Message
	at.Phase, at.Finished, at.Message = was.Phase, was.Finished, was.Message
	if s.pod.DeletionTimestamp != nil {
		at.Phase, at.Message = api.PodWaiting, "it is being deleted, and goes on when it is created again"
		return
	}
	if was.Phase != api.PodReplaying && was.Phase != api.PodReplayed {
		at.Phase, at.Finished, at.Message = api.PodReplaying, nil, staged
		c.say = append(c.say, saying{pod: s.pod, kind: corev1.EventTypeNormal, reason: eventStaged,
			message: fmt.Sprintf("pod %s has its part, and its keys are written again (%s)", at.Name, c.what(at))})
	}
	c.follow(at, s.pod)
}

// follow writes down how far a sidecar is.
func (c *course) follow(at *api.PodRestore, pod *corev1.Pod) {
	if at.Process == "" {
		at.Process = process(pod)
	}
	r, answers := c.w.replays[at.Name]
	switch {
	case at.Phase == api.PodReplayed:
	case !answers:
		if why := c.w.silent[at.Name]; why != "" {
			at.Message = workload.Clip("its sidecar does not answer: "+line(why), failureLimit)
		}
	case r.ID != c.status.ReplayID():
		if c.status.Round > 0 || c.r.Spec.Mode == api.Merge {
			if lacks := c.unnoted(); len(lacks) > 0 {
				at.Message = "waits for " + few(lacks) + ", to which it writes too"
				return
			}
			c.replay = append(c.replay, replay{pod, node.ReplayRequest{ID: c.status.ReplayID(), Backup: c.status.Backup, Prefix: c.status.Prefix, Sources: at.Sources()}})
			at.Message = "is asked to write its part again"
			if r.ID != "" && r.Ended.IsZero() {
				at.Message = "waits for another replay of its sidecar to end: " + workload.Short(r.ID)
			}
			return
		}
		at.Message = "waits for its sidecar to begin"
	default:
		c.followed(at, pod, r)
	}
}

// unnoted are the pods of which it is not written down which start of their database is
// written to: they are not there.
func (c *course) unnoted() (names []string) {
	for i := range c.status.Pods {
		if at := &c.status.Pods[i]; at.Process == "" {
			if pod := c.w.pods[at.Name]; pod != nil && pod.DeletionTimestamp == nil && c.r.Spec.Mode == api.Merge {
				continue // it is, in this very step
			}
			names = append(names, at.Name)
		}
	}
	return names
}

// followed is for a sidecar that tells of the replay that is waited for.
func (c *course) followed(at *api.PodRestore, pod *corev1.Pod, r node.Replay) {
	at.Keys = r.Keys
	if r.Total > 0 {
		at.KeysTotal = r.Total
	}
	switch r.Phase {
	case node.ReplayDone:
		at.Phase, at.Keys = api.PodReplayed, at.KeysTotal
		stamp(&at.Finished, c.now)
		at.Message = fmt.Sprintf("%d keys are written again", r.Keys)
		if r.Newer > 0 {
			at.Message += fmt.Sprintf(", but %d that had a later value", r.Newer)
		}
		c.say = append(c.say, saying{pod: pod, kind: corev1.EventTypeNormal, reason: eventReplayed, message: fmt.Sprintf("pod %s: %s (%s)", at.Name, at.Message, c.what(at))})
	case node.ReplayFailed:
		text := orElse(line(r.Message), fmt.Sprintf("%d keys were refused", r.Failed))
		c.failed[at.Name] = text
		at.Message = workload.Clip("cannot write all of its keys: "+text, failureLimit)
	default:
		at.Message = workload.Clip(line(r.Message), failureLimit)
	}
}

// allReplayed ends it for all pods of a cluster at once: as long as one of them writes, the
// loss of any other would cost keys.
func (c *course) allReplayed() {
	if c.status.Kind != api.KindAnna || len(c.status.Pods) == 0 {
		return
	}
	for i := range c.status.Pods {
		if at := &c.status.Pods[i]; c.replayed(at) && at.Phase != api.PodReplayed && at.Phase != api.PodRestored {
			return
		}
	}
	for i := range c.status.Pods {
		at := &c.status.Pods[i]
		if at.Phase != api.PodReplayed {
			continue
		}
		at.Phase, at.Process = api.PodRestored, ""
		c.counted[outcomeRestored]++
		c.say = append(c.say, saying{pod: c.w.pods[at.Name], kind: corev1.EventTypeNormal, reason: eventRestored,
			message: fmt.Sprintf("pod %s is restored (%s)", at.Name, c.what(at))})
		c.drop(at.Name)
	}
	c.count()
}

// replayFails ends a Restore some of whose keys cannot be written, once nothing else is
// waited for. The pods stay on the list, and so without clients, until somebody decides.
func (c *course) replayFails() bool {
	if len(c.failed) == 0 {
		return false
	}
	var names []string
	for i := range c.status.Pods {
		at := &c.status.Pods[i]
		_, failed := c.failed[at.Name]
		if !failed && at.Phase != api.PodReplayed && at.Phase != api.PodRestored {
			return false
		}
		if failed {
			names = append(names, at.Name)
		}
	}
	slices.SortFunc(names, natural)
	message := fmt.Sprintf("not all keys of backup %s could be written again. Pod %s: %s. ", c.status.Backup, names[0], c.failed[names[0]])
	if c.r.Spec.Mode == api.Merge {
		message += "What is written stays"
	} else {
		message += "The nodes run with the others, and are not Ready for clients until this Restore is cancelled (spec.cancel: true) or deleted"
	}
	c.fail(ReasonReplayFailed, message, c.r.Generation, c.now)
	c.after = latePause
	if c.r.Spec.Mode == api.Merge {
		c.after = 0
	}
	return true
}

// addReplays says how far the pods of a cluster of Anna are.
func (c *course) addReplays(add func(text string, names []string)) {
	var writing, written []string
	for i := range c.status.Pods {
		switch at := &c.status.Pods[i]; at.Phase {
		case api.PodReplaying:
			writing = append(writing, at.Name)
		case api.PodReplayed:
			written = append(written, at.Name)
		}
	}
	add("writing keys again:", writing)
	add("done, while others write:", written)
}

// askReplays asks the sidecars of a cluster of Anna how far they are.
func (r *reconciler) askReplays(ctx context.Context, c *course) {
	if c.status.Kind != api.KindAnna {
		return
	}
	var asked []*corev1.Pod
	for i := range c.status.Pods {
		at := &c.status.Pods[i]
		pod := c.w.pods[at.Name]
		if pod == nil || pod.DeletionTimestamp != nil || at.Phase == api.PodReplayed || at.Phase.Over() || !c.replayed(at) {
			continue
		}
		if sight := c.seen[at.Name].sight; c.r.Spec.Mode == api.Merge || sight == restored || sight == unclear {
			asked = append(asked, pod)
		}
	}
	if len(asked) == 0 {
		return
	}
	answers, silent := r.reports(ctx, asked, progressLimit)
	for name, report := range answers {
		c.w.replays[name] = node.Replay{}
		if report.Replay != nil {
			c.w.replays[name] = *report.Replay
		}
	}
	for name, err := range silent {
		c.w.silent[name] = err.Error()
	}
}

// askToReplay asks sidecars to write keys again. That they do is seen when they are asked
// how far they are.
func (r *reconciler) askToReplay(ctx context.Context, restore *api.Restore, list []replay) {
	if r.replays == nil {
		return
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, askedAtOnce)
	for _, each := range list {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			limited, cancel := context.WithTimeout(ctx, reportLimit)
			defer cancel()
			if _, err := r.replays.Replay(limited, each.pod, each.request); err != nil && !errors.Is(err, sidecar.ErrReplaying) {
				r.log.Info("a sidecar does not begin a replay", "namespace", restore.Namespace, "restore", restore.Name, "pod", each.pod.Name, "error", strings.TrimSpace(err.Error()))
			}
		})
	}
	group.Wait()
}
