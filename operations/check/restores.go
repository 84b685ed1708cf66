package check

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

var restoreResource = api.GroupVersion.WithResource("restores")

// How long is too long for a step that the controller does by itself.
const (
	takenUpWithin = time.Minute
	checkedWithin = 10 * time.Minute // the storage answers in two, or it is waited for
	stoppedWithin = 15 * time.Minute // longer than the grace periods of databases
	movedWithin   = 30 * time.Minute // figures of a download are written every few seconds
	failedLately  = 24 * time.Hour   // a failure that somebody may not have seen yet
	failuresLimit = 3                // from here on it is no hiccup
)

func lookRestores(ctx context.Context, c *Cluster) []Finding {
	if c.installation(ctx).Mode() == Preflight {
		// What is left of an installation that is gone still has to be looked at.
		switch served, err := c.serves(ctx, api.GroupVersion.String(), restoreResource.Resource); {
		case err != nil:
			return skipped(err)
		case !served:
			return []Finding{early(c.Named)}
		}
	}
	all, err := c.namespaces(ctx)
	if err != nil && (c.Namespace == "" || !forbidden(err)) {
		return skipped(err)
	}
	labels := map[string]map[string]string{}
	for i := range all {
		labels[all[i].Name] = all[i].Labels
	}
	var findings []Finding
	var restores []api.Restore
	orphans := c.uncontrolled(ctx)
	err = c.restores(ctx, func(restore *api.Restore) {
		kept := *restore
		kept.ManagedFields = nil
		restores = append(restores, kept)
		if orphans {
			findings = append(findings, judgeOrphan(restore)...)
			return
		}
		findings = append(findings, judgeRestore(restore, c.Now())...)
		if space, known := labels[restore.Namespace]; known {
			findings = append(findings, judgeLabels(restore, space, c.Now())...)
		}
	})
	findings = append(findings, judgeHalfReplaced(restores)...)
	switch {
	case apierrors.IsNotFound(err): // no such resource, which the item restore-crd says
		return []Finding{finding(Info, "", "nothing to look at: there is no %s", crdRestores)}
	case err != nil:
		return append(findings, skipped(err)...)
	case len(findings) == 0 && len(restores) == 0:
		return []Finding{finding(OK, "", "no Restore")}
	case len(findings) == 0:
		return []Finding{finding(OK, "", "%s, and none that is stuck", counted(len(restores), "Restore", ""))}
	}
	return findings
}

// restores reads those of the namespace that was asked for, or all.
func (c *Cluster) restores(ctx context.Context, each func(*api.Restore)) error {
	return eachOf(ctx, c, restoreResource, each)
}

// judgeRestore judges one by what the controller wrote about it. Databases that are
// kept from starting by one that does not go on are the worst that it can come to.
func judgeRestore(r *api.Restore, now time.Time) []Finding {
	subject := r.Namespace + "/" + r.Name
	command := func(what string) string {
		return fmt.Sprintf("kubectl stategraft restore %s %s -n %s", what, r.Name, r.Namespace)
	}
	const controller = "see that the controller runs (the item components, kubectl logs deployment/stategraft-controller)"
	stopped, s := "", &r.Status
	if len(s.Pending) > 0 {
		stopped = fmt.Sprintf(" (kept from starting: %s)", strings.Join(s.Pending, ", "))
	}
	since := func(kind string) time.Duration {
		for i := range s.Conditions {
			if s.Conditions[i].Type == kind {
				return now.Sub(s.Conditions[i].LastTransitionTime.Time)
			}
		}
		return 0
	}
	giveUp := command("cancel") + ", and the databases start with what is on their volumes"
	switch late := overdue(r, now); {
	case r.DeletionTimestamp != nil && now.Sub(r.DeletionTimestamp.Time) > takenUpWithin:
		return []Finding{finding(Fail, subject, "is being deleted since %s, and the controller does not let it go%s", day(r.DeletionTimestamp.Time), stopped).With(controller)}
	case s.Phase == "" && now.Sub(r.CreationTimestamp.Time) > takenUpWithin:
		return []Finding{finding(Fail, subject, "nobody has taken it up").With(controller)}
	case s.Phase == api.RestoreFailed && stopped != "":
		return []Finding{finding(Fail, subject, "failed%s: %s", stopped, s.Message).With("settle the cause: a pod that is restored yet is let go; or give up: %s", giveUp)}
	case s.Phase == api.RestoreFailed && !s.Finished.IsZero() && now.Sub(s.Finished.Time) < failedLately:
		return []Finding{finding(Warn, subject, "failed, and keeps no pod from starting: %s", s.Message).With("ask anew under another name, and delete this one")}
	case s.Phase.Final() && stopped != "":
		return []Finding{finding(Fail, subject, "is %s and keeps pods from starting all the same%s", s.Phase, stopped).With("delete it: kubectl delete restores.%s %s -n %s", api.Group, r.Name, r.Namespace)}
	case s.Phase.Final():
		return nil
	case late > takenUpWithin:
		return []Finding{finding(Fail, subject, "its deadline is over since %s, and nobody has ended it%s", late.Round(time.Second), stopped).With("%s; or give up: %s", controller, giveUp)}
	case r.Spec.Suspend && stopped != "":
		return []Finding{finding(Warn, subject, "is suspended%s", stopped).With("%s; or give up: %s", command("resume"), giveUp)}
	case r.Spec.Suspend:
		return []Finding{finding(Info, subject, "is suspended, and has stopped no pod").With("%s", command("resume"))}
	case s.Phase == api.RestoreWaiting:
		message := s.Message
		if cause := unchecked(r, now); !strings.Contains(message, cause) {
			message = strings.TrimPrefix(message+"; "+cause, "; ")
		}
		return []Finding{finding(Warn, subject, "waits%s: %s", stopped, message).With("settle what it waits for, or give up: %s", giveUp)}
	case s.Phase == api.RestoreChecking && unchecked(r, now) != "":
		return []Finding{finding(Warn, subject, "waits%s: %s", stopped, unchecked(r, now)).With("settle what it waits for, or give up: %s", giveUp)}
	case s.Phase == api.RestoreStopping && since(api.ConditionStopping) > stoppedWithin:
		return []Finding{finding(Warn, subject, "its pods have not gone down after %s%s: %s", since(api.ConditionStopping).Round(time.Minute), stopped, s.Message).
			With("kubectl -n %s get pods: see what holds them (a node that is gone, a finalizer); nothing is ever deleted by force", r.Namespace)}
	}
	if failing := judgeRestoringPods(r, command("cancel")); len(failing) > 0 {
		return failing
	}
	return judgeStalled(r, now, stopped, controller+"; what is waited for: "+command("show")+"; or give up: "+giveUp)
}

// reasonStorage is operations/restore.ReasonStorage.
const reasonStorage = "StorageUnreachable"

// unchecked is why a Restore does not get through its prechecks; empty where nothing
// speaks against it or the answer is still to come. The condition stays while it is
// tried again, also where another lookup has just begun (Checking).
func unchecked(r *api.Restore, now time.Time) string {
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		if c.Type == api.ConditionPrechecked && c.Status == metav1.ConditionFalse && (c.Reason == reasonStorage || now.Sub(c.LastTransitionTime.Time) > takenUpWithin) {
			return c.Message
		}
	}
	return ""
}

// judgeStalled finds one that was taken up and does not go on, although nothing has
// failed and its deadline is far: its controller is gone, or it waits for something
// that does not come. How far it is, is written down as it goes on.
func judgeStalled(r *api.Restore, now time.Time, stopped, remedy string) []Finding {
	limit := movedWithin
	if r.Status.Phase == api.RestoreChecking {
		limit = checkedWithin
	}
	since := lastWritten(r)
	if since.IsZero() || now.Sub(since) <= limit {
		return nil
	}
	return []Finding{finding(Warn, r.Namespace+"/"+r.Name, "is %s, and has not gone on for %s%s: %s", r.Status.Phase, now.Sub(since).Round(time.Minute), stopped, r.Status.Message).
		With("%s", remedy)}
}

// lastWritten is when the status changed last. The API server notes it for each who
// writes; the times in the status itself stand in where it does not.
func lastWritten(r *api.Restore) time.Time {
	var last time.Time
	later := func(t *metav1.Time) {
		if t != nil && t.After(last) {
			last = t.Time
		}
	}
	for i := range r.ManagedFields {
		if r.ManagedFields[i].Subresource == "status" {
			later(r.ManagedFields[i].Time)
		}
	}
	later(r.Status.Started)
	for i := range r.Status.Conditions {
		later(&r.Status.Conditions[i].LastTransitionTime)
	}
	for i := range r.Status.Pods {
		later(r.Status.Pods[i].Started)
		later(r.Status.Pods[i].Finished)
	}
	return last
}

// judgeRestoringPods finds pods whose restore fails again and again.
func judgeRestoringPods(r *api.Restore, cancel string) []Finding {
	var findings []Finding
	for i := range r.Status.Pods {
		pod := &r.Status.Pods[i]
		if pod.Failures == 0 || pod.Phase != api.PodRestoring {
			continue
		}
		status := Warn
		if pod.Failures >= failuresLimit {
			status = Fail
		}
		findings = append(findings, finding(status, r.Namespace+"/"+pod.Name, "its restore by %s has failed %s, and its database is kept from starting: %s", r.Name, counted(int(pod.Failures), "time", ""), pod.Message).
			With("kubectl -n %s logs %s -c stategraft-restore --previous; it is tried again by itself. To give up: %s", r.Namespace, pod.Name, cancel))
	}
	return findings
}

// markedWithin is how long the controller may take to label the namespace of a Restore
// again (operations/restore/marks.go).
const markedWithin = 2 * time.Minute

// judgeLabels judges one whose pods nobody holds back, or the API server does not, by the
// labels of its namespace.
func judgeLabels(r *api.Restore, space map[string]string, now time.Time) []Finding {
	if len(r.Status.Pending) == 0 {
		return nil
	}
	if space[api.LabelInject] == api.InjectEnabled {
		if space[api.LabelRestoring] == api.RestoringTrue || r.Status.Started == nil || now.Sub(r.Status.Started.Time) < markedWithin {
			return nil
		}
		return []Finding{finding(Fail, r.Namespace+"/"+r.Name, "its namespace lacks the label %s, which the controller keeps there: while the webhook is down nothing keeps %s from starting without the restore", api.LabelRestoring, strings.Join(r.Status.Pending, ", ")).
			With("see that the controller runs and may patch namespaces; kubectl label --overwrite namespace %s %s=%s", r.Namespace, api.LabelRestoring, api.RestoringTrue)}
	}
	return []Finding{finding(Fail, r.Namespace+"/"+r.Name, "its namespace is not labelled any more: nothing keeps %s from starting without the restore", strings.Join(r.Status.Pending, ", ")).
		With("kubectl label --overwrite namespace %s %s=%s", r.Namespace, api.LabelInject, api.InjectEnabled)}
}

// overdue is for how long a Restore's deadline is over; below zero while it is not.
func overdue(r *api.Restore, now time.Time) time.Duration {
	if r.Spec.Deadline == nil || r.Status.Started.IsZero() {
		return -1
	}
	return now.Sub(r.Status.Started.Add(r.Spec.Deadline.Duration))
}
