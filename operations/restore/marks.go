package restore

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// A namespace bears the label LabelRestoring while a Restore of it is under way. The
// policy on pending pods looks at such namespaces only, so the label
//
//   - goes on after the finalizer and before anything is pending, and again whenever a
//     probe is not refused: no pod is deleted before the API server knows both;
//   - goes off after the last finalizer of the namespace. Whoever takes it off has read
//     the namespace before the Restores, writes it only if it is as it was then, and
//     looks again afterwards: another process may have begun with one meanwhile.
//
// What a crash, or somebody by hand, leaves otherwise keepMarks sets right.

// marksEvery is how often that is looked for.
const marksEvery = time.Minute

// needsMark tells whether the policy has to look at the namespace of a Restore.
func needsMark(r api.Restore) bool { return held(&r) || len(r.Status.Pending) > 0 }

// mark puts the label on the namespace of a Restore.
func (r *reconciler) mark(ctx context.Context, restore *api.Restore) error {
	err := r.cluster.mark(ctx, restore.Namespace)
	if err != nil && refusedFor(err) {
		tellAbout(r.tell, restore, nil, corev1.EventTypeWarning, eventWaiting, "waits, as without it no pod would be held: "+err.Error())
	}
	return err
}

// unmark takes the label off a namespace none of whose Restores needs it.
func (r *reconciler) unmark(ctx context.Context, namespace string) error {
	r.beginning.Lock()
	defer r.beginning.Unlock()
	marked, err := r.cluster.marked(ctx, namespace)
	if err != nil || len(marked) == 0 {
		return err
	}
	needed := func() (bool, error) {
		all, err := r.cluster.restores(ctx, namespace)
		return slices.ContainsFunc(all, needsMark), err
	}
	if is, err := needed(); is || err != nil {
		return err
	}
	if err := r.cluster.unmark(ctx, namespace, marked[namespace]); err != nil {
		return err
	}
	is, err := needed()
	if is {
		return r.cluster.mark(ctx, namespace)
	}
	return err
}

// keepMarks sets the labels right until the context ends.
func (r *reconciler) keepMarks(ctx context.Context) {
	for {
		if err := r.sweepMarks(ctx); err != nil && ctx.Err() == nil {
			r.log.Error(err, "setting the label of namespaces with Restores under way right", "label", api.LabelRestoring)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(marksEvery):
		}
	}
}

func (r *reconciler) sweepMarks(ctx context.Context) error {
	marked, err := r.cluster.marked(ctx, "")
	if err != nil {
		return err
	}
	all, err := r.cluster.restores(ctx, "")
	if err != nil {
		return err
	}
	var failed []error
	needed := map[string]bool{}
	for i := range all {
		namespace := all[i].Namespace
		if !needsMark(all[i]) || needed[namespace] {
			continue
		}
		needed[namespace] = true
		if _, is := marked[namespace]; !is {
			r.log.Info("a namespace with a Restore under way lacks its label", "namespace", namespace, "label", api.LabelRestoring)
			failed = append(failed, r.mark(ctx, &all[i]))
		}
	}
	for namespace := range marked {
		if !needed[namespace] {
			failed = append(failed, r.unmark(ctx, namespace))
		}
	}
	return errors.Join(slices.DeleteFunc(failed, func(err error) bool { return err == nil || outdated(err) })...)
}
