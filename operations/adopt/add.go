package adopt

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/workload"
)

// turn is one look at all pods.
type turn struct {
	slots     *Slots
	reads     int                          // how many more pods are judged
	left      bool                         // some were not
	restoring map[string]map[string]string // by namespace: pods that a Restore is about, and which
}

// add adds containers to a pod, or says on the candidate why not. What speaks against it for
// good is looked for first, so that it is told however many are waiting.
func (c *controller) add(ctx context.Context, t *turn, one *candidate) {
	if one.memory.until.After(c.Clock()) {
		one.again()
		return
	}
	out, ok := c.judge(ctx, t, one)
	if !ok {
		return
	}
	if reason, text := verdict(one.pod, out); reason != "" {
		one.refuse(reason, text)
		return
	}
	node, err := c.node(ctx, one.pod.Spec.NodeName)
	if err != nil {
		c.unread(ctx, t, one, "its node "+one.pod.Spec.NodeName, err)
		return
	}
	if reason, text := Judge(one.pod, node, out); reason != "" {
		one.refuse(reason, text)
		return
	}
	if restore := c.restoring(ctx, t, one); restore != "" {
		one.refuse(ReasonRestorePending, "Restore "+restore+" is about it: it creates the pod anew, with its sidecars")
		return
	}
	before := one.busy()
	if waits, ok := t.slots.Take(one.seat(), len(one.facts.Parts) > 0); !ok {
		one.refuse(ReasonWaits, waits)
		return
	}
	if !c.graft(ctx, t, one, node) {
		t.slots.Give(client.ObjectKeyFromObject(one.pod), before)
	}
}

// judge gives what is decided on a pod as a whole; ok is false where that is not known yet.
func (c *controller) judge(ctx context.Context, t *turn, one *candidate) (out webhook.Outcome, ok bool) {
	by, now := one.by, c.Clock()
	if j := one.memory.judged; j != nil && j.by == by && j.until.After(now) {
		return j.out, true
	}
	template := c.alike.of(one.pod, by)
	if j := c.alike[template]; j != nil && j.until.After(now) {
		one.memory.judged = j
		return j.out, true
	}
	if t.reads <= 0 {
		t.left = true
		return out, false
	}
	t.reads--
	live := c.live(ctx, t, one)
	if live == nil {
		return out, false
	}
	out, containers := c.made(one, live, c.adoption(one))
	j := &judged{by: by, out: out, until: now.Add(holdsFor(out))}
	j.out = webhook.Outcome{Decision: workload.Decision{Verdict: out.Verdict, Reason: out.Reason, Message: out.Message}} // there may be very many
	if len(one.facts.Parts) > 0 {
		j.digests = digests(containers)
	}
	one.memory.judged = j
	if template.owner != "" && (out.Reason == workload.ReasonNotADatabase || out.Reason == workload.ReasonJobOwned) {
		c.alike[template] = j
	}
	return j.out, true
}

// compare finds out whether what waits would be added otherwise now. That shows at the next
// look.
func (c *controller) compare(ctx context.Context, t *turn, one *candidate) {
	if one.memory.until.After(c.Clock()) {
		one.again()
		return
	}
	j := one.memory.judged
	_, ok := c.judge(ctx, t, one)
	if ok && one.memory.judged != j {
		t.left = true
	}
}

// adoption is what the newest containers of a pod were made of, or the first would be, so
// that those that are made now can be compared with them.
func (c *controller) adoption(one *candidate) patches.Adoption {
	a := patches.Adoption{Next: 1, At: c.Clock().UTC().Truncate(time.Second), Pair: one.facts.Pair, Renew: one.facts.Renew}
	if rounds := Rounds(one.facts.Parts); len(rounds) > 0 {
		last := rounds[len(rounds)-1]
		a.Next = last.First
		for _, role := range last.Roles {
			if role != patches.RoleAgent {
				a.Roles = append(a.Roles, role)
			}
		}
	}
	return a
}

func digests(containers []corev1.EphemeralContainer) map[patches.Role]string {
	all := map[patches.Role]string{}
	for _, p := range partsOf(containers) {
		all[p.Role] = p.Env(patches.EnvAdoptedDigest)
	}
	return all
}

// live reads the very pod of a candidate; nil where that cannot be had now.
func (c *controller) live(ctx context.Context, t *turn, one *candidate) *corev1.Pod {
	live, err := c.server.pod(ctx, client.ObjectKeyFromObject(one.pod))
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		c.unread(ctx, t, one, "it", err)
		return nil
	case err != nil, live.UID != one.pod.UID:
		t.left = true
		return nil
	}
	return live
}

// made decides on a pod that was just read, and makes its containers.
func (c *controller) made(one *candidate, live *corev1.Pod, a patches.Adoption) (webhook.Outcome, []corev1.EphemeralContainer) {
	raw, err := json.Marshal(live)
	if err != nil {
		return webhook.Outcome{Decision: workload.Decision{Verdict: workload.Skip, Reason: workload.ReasonInternalError, Message: "encoding the pod: " + err.Error()}}, nil
	}
	in := webhook.Input{Pod: raw, Config: c.Config(), NativeSidecars: c.NativeSidecars(), HeldBack: c.HeldBack,
		Namespace: webhook.Namespace{Name: live.Namespace, Labels: one.namespace.Labels, Annotations: one.namespace.Annotations}}
	return c.decide(in, a)
}

// graft adds the containers to the pod as the API server has it now, if that still is what is
// to be done. It tells whether the pod keeps its place: also where it is not known whether
// anything was added, or somebody else was quicker.
func (c *controller) graft(ctx context.Context, t *turn, one *candidate, node *corev1.Node) bool {
	live := c.live(ctx, t, one)
	if live == nil {
		return false
	}
	one.memory.unsure = time.Time{}
	delete(c.pairs, live.Namespace) // the containers say what they were added with
	pair, noPair := c.pair(ctx, live.Namespace)
	facts := Of(live)
	facts.Asked, facts.Pair, facts.Digests = Asks(one.namespace, live), pair, one.facts.Digests
	facts.Now, facts.PerDay, facts.Backoff = c.Clock(), c.PerDay, c.Backoff
	step := Plan(facts)
	if step.Do != DoAdd {
		t.left = true
		return len(facts.Parts) > 0 // the watch was behind
	}
	a := patches.Adoption{Next: step.Next, Roles: step.Roles, At: facts.Now.UTC().Truncate(time.Second), Pair: facts.Pair, Renew: facts.Renew}
	out, containers := c.made(one, live, a)
	if reason, text := Judge(live, node, out); reason != "" {
		one.refuse(reason, text)
		return false
	}
	switch {
	case len(containers) == 0 || len(facts.Parts)+len(containers) > MaxContainers:
		one.refuse(Reason(workload.ReasonInternalError), fmt.Sprintf("%d containers were made for it", len(containers)))
		return false
	case facts.Pair == "" && slices.ContainsFunc(containers, func(e corev1.EphemeralContainer) bool { return takesPair(&e) }):
		one.refuse(ReasonNoPair, lacksPair(noPair))
		return false
	}
	after, err := c.server.add(ctx, live, containers)
	if err != nil {
		return c.failed(ctx, t, one, err)
	}
	one.memory.added = slim(after)
	one.memory.succeed()
	one.facts.Parts, one.step.State = partsOf(containers), StateAdopting
	one.refuse("", "")
	names := make([]string, 0, len(containers))
	for _, p := range partsOf(containers) {
		addedContainers.WithLabelValues(string(p.Role)).Inc()
		names = append(names, p.Container.Name)
	}
	log.FromContext(ctx).Info("containers added to a running pod", "namespace", live.Namespace, "pod", live.Name, "kind", out.Workload.Kind, "containers", names, "why", step.Text)
	return true
}

// restoring names the Restore that is about a pod and not over; empty for none.
func (c *controller) restoring(ctx context.Context, t *turn, one *candidate) string {
	name := one.namespace.Name
	if one.namespace.Labels[api.LabelRestoring] == "" {
		return ""
	}
	if _, read := t.restoring[name]; !read {
		pods, err := c.server.restoring(ctx, name)
		if err != nil {
			log.FromContext(ctx).Error(err, "running pods wait, as it is not known whether they are to be restored", "namespace", name)
		}
		t.restoring[name] = pods // nil where they are not known
	}
	if t.restoring[name] == nil {
		return "(the Restores of its namespace cannot be read)"
	}
	return t.restoring[name][one.pod.Name]
}
