package backup

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

const (
	// checkEvery is how often the storage is asked while pods upload, and again where it
	// does not answer; where that takes long, ten times as long passes between, up to
	// checkLate.
	checkEvery = 10 * time.Second
	checkLate  = 5 * time.Minute
	// checkLimit is how long it may take to answer.
	checkLimit = 2 * time.Minute
	// checkBy is how many pods are asked for it before it is held to be at fault.
	checkBy = 3
)

// check asks the storage what it has of the backup, once for all pods that are done.
func (r *reconciler) check(ctx context.Context, b *api.Backup, n *notes, w *world) {
	now := r.clock()
	checking, running := 0, 0
	var by []*corev1.Pod
	for i := range b.Status.Pods {
		at := &b.Status.Pods[i]
		s := w.pods[at.Name]
		p := n.pods[at.Name]
		switch {
		case at.Phase == api.PodBackupChecking || !at.Phase.Final() && s.sight == succeededSight:
			checking++
		case at.Phase == api.PodBackupRunning:
			running++
		}
		if p != nil && p.pod != nil && !p.absent && p.why == "" {
			by = append(by, p.pod)
		}
	}
	if checking == 0 {
		n.unknown = ""
		return
	}
	w.unknown = n.unknown
	if (running > 0 || n.unknown != "") && now.Before(n.recheck) || len(by) == 0 {
		return
	}
	defer func() {
		ended := r.clock()
		n.recheck = ended.Add(min(max(checkEvery, 10*ended.Sub(now)), checkLate))
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, checkLimit, fmt.Errorf("no answer within %v", checkLimit))
	defer cancel()
	var failed error
	for _, pod := range by[:min(checkBy, len(by))] {
		stored, err := r.ask.Backup(ctx, pod, storagePrefix(b.Status.Prefix), b.Status.Name)
		if err == nil {
			w.stored, w.unknown, n.unknown = &stored, "", ""
			return
		}
		failed = err
	}
	n.unknown = line(failed.Error())
	w.unknown = n.unknown
}

// storagePrefix is a prefix as api/node is asked for it: empty would be the pod's own.
func storagePrefix(prefix string) string {
	if prefix == "" {
		return "."
	}
	return prefix
}
