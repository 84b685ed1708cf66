package restore

import (
	"context"
	"fmt"
	"time"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// settleLimit is how long a Restore may take after the last interruption.
const settleLimit = 5 * time.Minute

// judge waits for the end of a Restore and says what does not hold: it is completed,
// nobody is pending or gated, the ring is ready, each pod of data holds what it is to
// hold, and its volume remembers the request once and replaced its data once.
func (r *ring) judge(ctx context.Context, name string, data map[string]string) (faulty []string) {
	wrong := func(format string, args ...any) { faulty = append(faulty, fmt.Sprintf(format, args...)) }
	o, err := r.final(ctx, settleLimit, name)
	if err != nil {
		return []string{err.Error()}
	}
	if o.Status.Phase != api.RestoreCompleted {
		wrong("Restore %s is %s: %s", name, o.Status.Phase, o.Status.Message)
	}
	if len(o.Status.Pending) > 0 {
		wrong("Restore %s is %s, and pods are pending: %v", name, o.Status.Phase, o.Status.Pending)
	}
	if err := r.ready(ctx, false); err != nil {
		wrong("%v", err)
	}
	for _, pod := range r.pods() {
		v := r.volume(pod)
		want, asked := data[pod]
		if !asked {
			want = "new"
		}
		if v.Data != want || v.Applying != nil {
			wrong("the volume of %s holds %q (half replaced: %v), not %q", pod, v.Data, v.Applying != nil, want)
		}
		if times := v.Replaced[o.Status.ID]; asked != (times == 1) || !asked && times > 0 {
			wrong("the data of %s were replaced %d times for %s", pod, times, o.Status.ID)
		}
		if times := r.remembered(pod, o.Status.ID); asked != (times == 1) {
			wrong("the volume of %s remembers %s %d times", pod, o.Status.ID, times)
		}
		if at := o.Status.Pod(pod); asked && (at == nil || at.Phase != api.PodRestored) {
			wrong("the status of Restore %s does not say that %s is restored: %+v", name, pod, at)
		}
	}
	return append(faulty, r.Witness.Violations(r.ns)...)
}

// remembered counts how often a volume's marker has a request.
func (r *ring) remembered(pod, id string) (times int) {
	for _, done := range r.volume(pod).Done {
		if done.ID == id {
			times++
		}
	}
	return times
}

// again deletes a Restore that is completed, applies it again as a repository of
// manifests would, and says what happened to the volumes: nothing may. It answers
// whether pods were made anew for it.
func (r *ring) again(ctx context.Context, o *api.Restore, data map[string]string) (touched bool, faulty []string) {
	before, err := r.read(ctx)
	if err != nil {
		return false, []string{err.Error()}
	}
	if err := r.remove(ctx, o.Name); err != nil {
		return false, []string{err.Error()}
	}
	if err := r.ask(ctx, o); err != nil {
		return false, []string{err.Error()}
	}
	faulty = r.judge(ctx, o.Name, data)
	after, err := r.read(ctx)
	if err != nil {
		return false, append(faulty, err.Error())
	}
	for name, pod := range before {
		touched = touched || after[name] == nil || after[name].UID != pod.UID
	}
	for i := range faulty {
		faulty[i] = "applied again: " + faulty[i]
	}
	return touched, faulty
}

// all gives every pod the same data but for its name.
func all(pods []string, data func(string) string) map[string]string {
	m := map[string]string{}
	for _, p := range pods {
		m[p] = data(p)
	}
	return m
}
