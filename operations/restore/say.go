package restore

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// Pauses until a Restore is looked at again. Pods without the label of injected ones
// are not watched, so one that comes back without its restore is found by looking.
const (
	quickPause = 500 * time.Millisecond
	briefPause = time.Second
	slowPause  = 3 * time.Second
	latePause  = 10 * time.Second

	// briefFor is how long pods are expected to come and go.
	briefFor = 15 * time.Minute
	// graceLimit is how long a pod may take to go beyond its own grace period.
	graceLimit = time.Minute
)

func equalBut(was, is *api.RestoreStatus, blank func(*api.RestoreStatus)) bool {
	a, b := was.DeepCopy(), is.DeepCopy()
	blank(a)
	blank(b)
	return equality.Semantic.DeepEqual(a, b)
}

// names are the pods of the pending list that look like one of these.
func (c *course) names(looks ...sight) (names []string) {
	c.each(func(at *api.PodRestore, s seen) {
		for _, l := range looks {
			if s.sight == l {
				names = append(names, at.Name)
			}
		}
	})
	return names
}

// few puts names into a sentence that stays short.
func few(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// tellPhase sets the phase, its conditions and the sentence that says what happens.
// From Stopping to Restoring it goes once.
func (c *course) tellPhase() {
	stopping := c.names(old, leaving)
	if len(stopping) == 0 && c.status.Phase != api.RestoreRestoring {
		c.status.Phase = api.RestoreRestoring
		c.set(api.ConditionStopping, false, ReasonStopped, "no pod runs with the data that are replaced", c.r.Generation, c.now)
		c.set(api.ConditionRestoring, true, ReasonRestoring, "pods come back and restore", c.r.Generation, c.now)
		c.normal(eventRestoring, restoringText(c.status.Pending))
	}
	var parts []string
	add := func(text string, names []string) {
		if len(names) > 0 {
			parts = append(parts, text+" "+few(names))
		}
	}
	add("to be stopped:", c.names(old))
	add("stopping:", append(c.names(leaving), c.names(bare)...))
	add("restoring:", c.names(restoring))
	add("waiting to be created:", c.names(absent, replaced))
	add("waiting to start:", c.names(coming))
	add("waiting for their turn:", c.names(gated))
	if c.status.Kind == api.KindAnna {
		c.addReplays(add)
	} else {
		add("waiting to be Ready:", c.names(restored))
	}
	add("ended without a known outcome:", c.names(unclear))
	message := strings.Join(parts, "; ")
	if hint := c.hint(); hint != "" {
		message += ". " + hint
	}
	if c.r.Spec.Suspend {
		message = "suspended: no further pod is stopped or let start. " + message
	}
	c.status.Message = workload.Clip(message, messageLimit)
	for reason, text := range map[string]string{eventUnseen: hintUnseen, eventMissing: hintUnlabelled} {
		if strings.Contains(c.status.Message, text) && !strings.Contains(c.r.Status.Message, text) {
			c.warn(reason, text+few(c.names(bare)))
		}
	}
	c.status.ObservedGeneration = c.r.Generation
}

func restoringText(pending []string) string {
	if len(pending) == 1 {
		return "no pod runs with the data that are replaced; " + pending[0] + " restores when it comes back"
	}
	return "no pod runs with the data that are replaced; " + few(pending) + " restore as they come back"
}

const hintUnseen = "The API server still admits pods without their restore, so none is stopped or let start: is the policy " + policyName +
	" installed, and is the namespace still labelled stategraft.io/inject: enabled?"

// hintUnlabelled goes before the names of pods.
const hintUnlabelled = "Its namespace has lost the label stategraft.io/inject: enabled, so pods come up without their restore and are not deleted, as they would again. " +
	"Label it, or cancel this Restore: "

// hint says what may be wrong where something takes long.
func (c *course) hint() string {
	_, since := condition(&c.status, api.ConditionPrechecked)
	waited := c.now.Sub(since)
	switch {
	case c.w.unlabelled:
		return hintUnlabelled + few(c.names(bare)) + " of namespace " + c.r.Namespace
	case c.r.Spec.Suspend:
		return ""
	}
	if len(c.names(old))+len(c.turns()) > 0 && !c.w.probe.refused && c.w.probe.other == "" && waited > probeLimit {
		if c.w.probe.failed != "" {
			return "Whether the API server refuses pods without their restore cannot be found out, so none is stopped or let start: " + c.w.probe.failed
		}
		return hintUnseen
	}
	var stuck []string
	c.each(func(at *api.PodRestore, s seen) {
		if s.sight == leaving && c.now.Sub(s.pod.DeletionTimestamp.Time) > graceLimit {
			stuck = append(stuck, at.Name)
		}
	})
	if len(stuck) > 0 {
		return fmt.Sprintf("%s should have gone by now; if its node is lost, delete the pod by force yourself once its database is surely down", few(stuck))
	}
	if gone := c.names(absent); len(gone) > 0 && waited > 2*time.Minute {
		return "Is the StatefulSet scaled down, or are its pods refused? Its events tell"
	}
	return ""
}

// pause is when to look again.
func (c *course) pause() time.Duration {
	_, since := condition(&c.status, api.ConditionPrechecked)
	waited := c.now.Sub(since)
	switch {
	case len(c.names(old))+len(c.turns()) > 0 && !c.heeded() && waited < probeLimit:
		return quickPause
	case waited < briefFor && len(c.names(absent, leaving, bare, replaced)) > 0:
		return briefPause
	}
	return slowPause
}
