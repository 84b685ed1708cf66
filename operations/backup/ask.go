package backup

import (
	"cmp"
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/sidecar"
	"github.com/stategraft/stategraft/workload"
)

// keep takes over a pod that was read.
func (p *note) keep(pod *corev1.Pod, now time.Time) {
	if p.uid != pod.UID {
		p.try, p.failure, p.discards, p.blamed, p.blame, p.refused = 0, "", 0, 0, trouble{}, time.Time{}
	}
	if p.absent {
		p.answers()
	}
	p.uid, p.pod, p.read, p.leaving, p.stale = pod.UID, slim(pod), now, pod.DeletionTimestamp != nil, false
	if p.version == "" {
		p.version = pod.ResourceVersion
	}
}

// unlabelled tells whether the pod was found though the informer does not have it.
func (p *note) unlabelled() bool { return p.pod != nil && p.pod.Labels[api.LabelInjected] == "" }

// seen is what is known of a pod without asking it.
func (p *note) seen(at *api.PodBackup) seen {
	s := seen{uid: p.uid, leaving: p.leaving, since: p.since, why: p.why, asked: p.try == at.Tries}
	if p.pod != nil {
		s.log = logOf(p.pod)
	}
	switch {
	case p.since.IsZero():
	case p.absent:
		s.sight = absentSight
	default:
		s.sight = silentSight
	}
	if p.discards >= mostDiscards {
		s.stuck = p.refusal
	}
	return s
}

// observePods asks pods how far they are.
func (r *reconciler) observePods(ctx context.Context, b *api.Backup, n *notes, w *world, asked []*api.PodBackup) {
	now := r.clock()
	answers := make([]seen, len(asked))
	r.each(len(asked), func(i int) {
		p := n.pods[asked[i].Name]
		answers[i] = r.observe(ctx, b, p.pod)
		if answers[i].said == "" {
			answers[i].trouble = r.blame(ctx, b, asked[i], p, answers[i])
		}
	})
	for i, at := range asked {
		p, s := n.pod(at.Name), answers[i]
		if s.sight == silentSight {
			p.misses(false, s.why, now)
			p.stale = true
		} else {
			p.answers()
		}
		known := p.seen(at)
		s.uid, s.leaving, s.since, s.asked, s.stuck, s.log = known.uid, known.leaving, known.since, known.asked, known.stuck, known.log
		p.refuses(&s, now)
		if s.sight == idleSight {
			s.why = cmp.Or(p.failure, s.why)
			if p.busy { // it has refused, and that is no try
				s.sight, s.instead = busySight, p.failure
			}
		}
		p.busy = false
		p.later(now)
		w.pods[at.Name] = s
	}
}

// observe asks one pod.
func (r *reconciler) observe(ctx context.Context, b *api.Backup, pod *corev1.Pod) seen {
	if wrong := CheckPod(pod); wrong != "" {
		return seen{sight: silentSight, why: wrong}
	}
	phase, err := r.ask.Status(ctx, pod, b.Status.Name)
	switch {
	case errors.Is(err, sidecar.ErrForgotten):
		return r.idle(ctx, b, pod)
	case errors.Is(err, sidecar.ErrUnreachable), errors.Is(err, sidecar.ErrNoService):
		return seen{sight: silentSight, why: cmp.Or(r.waiting(ctx, pod), line(err.Error()))}
	case err != nil:
		return seen{sight: troubledSight, why: line(err.Error()), trouble: troubleOf(err)}
	}
	switch phase {
	case sidecar.Running:
		return seen{sight: runningSight}
	case sidecar.Succeeded:
		return seen{sight: succeededSight}
	case sidecar.Failed:
		s := seen{sight: failedSight}
		if report, err := r.ask.Report(ctx, pod); err == nil {
			s.why = line(report.WhyFailed(b.Status.Name))
		}
		return s
	}
	return seen{sight: troubledSight, why: "its Medusa does not say how far the backup is"}
}

// waiting says what a Medusa waits for that does not answer, where its pod tells: for its
// configuration, or for the node to have memory to spare, as beside a database that it was
// added to.
func (r *reconciler) waiting(ctx context.Context, pod *corev1.Pod) string {
	report, err := r.ask.Report(ctx, pod)
	if err != nil || report.Waiting == "" {
		return ""
	}
	return "its Medusa waits: " + line(report.Waiting)
}

// replaying says that a node of Anna writes keys of a backup again, during which it makes
// none; empty for that it does not.
func replaying(r *node.Replay) string {
	if r == nil {
		return ""
	}
	switch r.Phase {
	case node.ReplayStaging, node.ReplayWaiting, node.ReplayReplaying:
		return "it writes the keys of backup " + workload.Short(r.Backup) + " again"
	}
	return ""
}

// idle asks a pod that knows nothing of the backup whether it makes one.
func (r *reconciler) idle(ctx context.Context, b *api.Backup, pod *corev1.Pod) seen {
	report, err := r.ask.Report(ctx, pod)
	if err != nil {
		return seen{sight: silentSight, why: line(err.Error())}
	}
	s := seen{sight: idleSight, reported: true, node: report.Node, prefix: report.Prefix}
	if why := report.WhyFailed(b.Status.Name); why != "" {
		s.why = quote("its sidecar has given the backup up: ", why)
	}
	if report.BackupRunning {
		s.sight = busySight
		if report.Backup != nil {
			s.busyWith = report.Backup.Name
		}
	} else if s.instead = cmp.Or(replaying(report.Replay), line(report.Busy)); s.instead != "" {
		s.sight = busySight
	}
	return s
}
