package coverage

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/workload"
)

// The reasons of this package, beside those of workload. Both are about pods that
// would be injected if they were created now.
const (
	// ReasonCreatedBefore is for a pod that is older than the label of its
	// namespace or than the webhook.
	ReasonCreatedBefore = "created-before"
	// ReasonWebhookWasDown is for a younger one: the API server admitted it without
	// us, as failurePolicy Ignore has it.
	ReasonWebhookWasDown = "webhook-was-down"
)

// Since is from when on pods have been injected. A pod of the same second as
// either counts as younger.
type Since struct {
	Webhook time.Time // creation of the MutatingWebhookConfiguration; zero if there is none
	Label   time.Time // when the namespace was labelled, see LabelledSince; zero if not known
}

// Judgement says of a live pod whether our containers are missing, and why.
type Judgement struct {
	Without bool          // the pod is a database that ought to have our containers and does not
	Reason  string        // one of workload's wanted reasons or of the two above; empty unless Without
	Message string        // what was seen and what would settle it; empty unless Without
	Remedy  string        // where its adoption has begun: what settles it by itself; else empty
	Kind    workload.Kind // as far as known
	NoData  bool          // it is known to keep nothing that could be backed up
}

// Judge looks at a pod as it is in the cluster: in.Pod is its JSON as read from
// the API server, the rest what a webhook would decide by today. It makes the
// decision that admission would make (webhook.Decide), so the reasons are the same.
//
//	decision today                    | without, reason
//	inject                            | yes, created-before or webhook-was-down
//	skip or refuse, reason is wanted  | yes, that reason
//	anything else                     | no: it has all, or nobody wants it to
//
// A pod that was adopted has all once it bears api.LabelInjected (operations/adopt); until
// then it is without, so that whoever adopts sees it.
//
// What has changed since the pod was created cannot be seen: one that was skipped
// for an annotation that has been corrected since then counts as
// webhook-was-down. Who wants the reason of the time judges soon after the
// creation and keeps what came out.
func Judge(in webhook.Input, since Since) Judgement {
	b := begun{namespace: in.Namespace.Name, above: in.Namespace.Annotations}
	if pod, err := workload.Parse(in.Pod); err == nil {
		b.pod, b.said, b.parts = pod.Metadata.Name, pod.Metadata.Annotations, partsOf(pod, in.Pod)
		if _, labelled := pod.Metadata.Labels[api.LabelInjected]; carries(pod) || len(b.parts) > 0 && labelled {
			return Judgement{}
		}
		in.Namespace.Quotas = vacated(in.Namespace.Quotas, pod)
	}
	created := createdAt(in.Pod)
	in.HeldBack = heldAt(in.HeldBack, created)
	out := webhook.Decide(in)
	switch {
	case out.Verdict == workload.Inject:
		settled, alone := remedy(out), ""
		if len(b.parts) > 0 {
			settled, alone = b.lacks()
		}
		reason, message := missed(created, since, settled)
		return Judgement{Without: true, Reason: reason, Message: message, Remedy: alone, Kind: out.Workload.Kind, NoData: noData(&out.Workload)}
	case out.Reason.Wanted():
		return Judgement{Without: true, Reason: string(out.Reason), Message: out.Message, Kind: out.Workload.Kind, NoData: noData(&out.Workload)}
	}
	return Judgement{Kind: out.Workload.Kind}
}

// noData tells of a pod that was recognised whether there is nothing to back up in it.
func noData(w *workload.Workload) bool { return w.Kind != "" && !w.HoldsData() }

// carries tells whether a container of the pod is ours: also one of a version
// that added others than this one, which Decide would add to.
func carries(pod *workload.Pod) bool {
	for _, list := range [][]workload.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if workload.Own(list[i].Name) {
				return true
			}
		}
	}
	return false
}

// partsOf are the containers that adoption has put on a pod, which is encoded in raw.
func partsOf(pod *workload.Pod, raw []byte) []adopted.Part {
	if !slices.ContainsFunc(pod.Spec.Ephemeral, func(c workload.Named) bool { return workload.Own(c.Name) }) {
		return nil
	}
	whole := &corev1.Pod{}
	if err := json.Unmarshal(raw, whole); err != nil {
		return nil // as of a pod that nobody adopts
	}
	return adopted.Parts(whole)
}

// heldAt also finds workloads that are held back no longer and were when the pod
// was created.
func heldAt(find func(namespace, kind, name string) (api.HeldBack, bool), created time.Time) func(namespace, kind, name string) (api.HeldBack, bool) {
	if find == nil {
		return nil
	}
	return func(namespace, kind, name string) (api.HeldBack, bool) {
		entry, now := find(namespace, kind, name)
		// A creationTimestamp has no fractions of a second.
		return entry, now || entry.Active(created) && !created.Before(entry.Since.Truncate(time.Second))
	}
}

// remedy says how a pod that would be injected comes to a sidecar.
func remedy(out webhook.Outcome) string {
	text := "create it anew"
	if out.Owner.Name != "" {
		text = fmt.Sprintf("restart %s %s", out.Owner.Kind, out.Owner.Name)
	}
	if !noData(&out.Workload) {
		text += fmt.Sprintf("; or annotation %s=%s on the pod or its namespace gives it a sidecar without a restart", api.AnnotationAdopt, api.AdoptRunning)
	}
	return text
}

// missed says why a pod that would be injected is not.
func missed(created time.Time, since Since, remedy string) (reason, message string) {
	switch {
	case since.Webhook.IsZero():
		return ReasonWebhookWasDown, "it has no sidecar, as there is no MutatingWebhookConfiguration of Stategraft: install it again, then " + remedy
	case created.Before(since.Webhook):
		return ReasonCreatedBefore, "it is older than Stategraft's webhook and has no sidecar: " + remedy
	case created.Before(since.Label):
		return ReasonCreatedBefore, "it is older than the label " + api.LabelInject + " of its namespace and has no sidecar: " + remedy
	}
	return ReasonWebhookWasDown, "it has no sidecar, as the webhook did not answer when it was created: " + remedy
}

// createdAt reads the pod's creationTimestamp; zero if there is none.
func createdAt(raw []byte) time.Time {
	var pod struct {
		Metadata struct {
			Created time.Time `json:"creationTimestamp"`
		} `json:"metadata"`
	}
	// Of a pod that cannot be read Decide says so.
	_ = json.Unmarshal(raw, &pod)
	return pod.Metadata.Created
}
