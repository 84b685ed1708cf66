// Package status tells of each pod that ought to be backed up how its backups stand:
// what kubectl stategraft status prints. What it reads is judged by operations/rpo, as
// the controller does.
//
//	status.go    what is read of the cluster
//	adopted.go   what is the matter with containers of adoption
//	problems.go  what is wrong beside the age of backups
//	table.go     as a table, and in sentences
//	data.go      for programs
package status

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	controller "github.com/stategraft/stategraft/operations/adopt"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/operations/ask/adopt"
	"github.com/stategraft/stategraft/operations/coverage"
	"github.com/stategraft/stategraft/operations/rpo"
	"github.com/stategraft/stategraft/operations/scope"
	"github.com/stategraft/stategraft/webhook"
)

// Status is what Read has found.
type Status struct {
	Rows []rpo.Row
	// Notes are what could not be seen, or is not as it looks, a sentence each.
	Notes []string
	// Problems are what keeps pods from being backed up, beside what the rows tell of
	// each, a sentence each.
	Problems []string
	// Adoptions are what is the matter with the containers that pods were given as they
	// ran, a sentence each.
	Adoptions []string
}

// reasonAdopting is why a pod has no sidecar that is being given one (operations/adopt).
const reasonAdopting = "adopting"

// Behind are the rows that are.
func (s *Status) Behind() []rpo.Row {
	return slices.DeleteFunc(slices.Clone(s.Rows), func(r rpo.Row) bool { return !r.Behind })
}

// Read reads the pods of a namespace, or those of all labelled ones for none, and their
// backups. Config is that of the webhook, as far as it is known: it tells which pods
// without a sidecar ought to have one.
func Read(ctx context.Context, c client.Reader, namespace string, config *webhook.Config, now time.Time) (*Status, error) {
	out := &Status{}
	namespaces, err := out.namespaces(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	in := rpo.Input{Namespaces: map[string]map[string]string{}, Now: now}
	for i := range namespaces {
		ns := &namespaces[i]
		in.Namespaces[ns.Name] = ns.Annotations
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.InNamespace(ns.Name)); err != nil {
			return nil, ask.Explain(err, "list", "pods", ns.Name, "")
		}
		known, databases := covered(ns, pods.Items, config, now)
		in.Pods = append(in.Pods, known...)
		out.adoptions(ns, pods.Items)
		out.unlabelled(ns, databases)
	}
	var backups api.BackupList
	if err := c.List(ctx, &backups, client.InNamespace(namespace)); err != nil {
		return nil, ask.Explain(err, "list", ask.Backups, namespace, "")
	}
	var schedules api.BackupScheduleList
	if err := c.List(ctx, &schedules, client.InNamespace(namespace)); err != nil {
		return nil, ask.Explain(err, "list", ask.Schedules, namespace, "")
	}
	in.Backups, in.Schedules = backups.Items, schedules.Items
	out.Rows = rpo.Rows(in)
	out.judgeSchedules(ctx, c, namespaces, schedules.Items)
	out.misread()
	return out, nil
}

// namespaces are those to look at.
func (s *Status) namespaces(ctx context.Context, c client.Reader, name string) ([]corev1.Namespace, error) {
	if name == "" {
		var list corev1.NamespaceList
		if err := c.List(ctx, &list, client.MatchingLabels{api.LabelInject: api.InjectEnabled}); err != nil {
			return nil, ask.Explain(err, "list", ask.Namespaces, "", "")
		}
		return slices.DeleteFunc(list.Items, func(ns corev1.Namespace) bool { return scope.LeftOut(ns.Name, "") }), nil
	}
	ns := corev1.Namespace{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, &ns)
	switch {
	case apierrors.IsForbidden(err):
		s.Notes = append(s.Notes, fmt.Sprintf("You have no right to read namespace %s: its annotation %s counts, and is not known here.", name, api.AnnotationRPO))
		// Pods whose adoption has begun are taken for ones that it asks for.
		return []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.LabelInject: api.InjectEnabled},
			Annotations: map[string]string{api.AnnotationAdopt: api.AdoptRunning}}}}, nil
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no namespace %q", name)
	case err != nil:
		return nil, ask.Explain(err, "get", ask.Namespaces, "", name)
	}
	return []corev1.Namespace{ns}, nil
}

// covered are the pods of a namespace that ought to be backed up. In one without our
// label that are only those with a sidecar; databases counts the others, too.
func covered(ns *corev1.Namespace, pods []corev1.Pod, config *webhook.Config, now time.Time) (out []rpo.Pod, databases int) {
	labels := map[string]string{}
	maps.Copy(labels, ns.Labels)
	labels[api.LabelInject] = api.InjectEnabled // as it would be
	in := webhook.Input{Config: config, NativeSidecars: true, Namespace: webhook.Namespace{Name: ns.Name, Labels: labels, Annotations: ns.Annotations}}
	// When the webhook was registered only few may see: what is told from it is left to
	// kubectl stategraft check.
	since := coverage.Since{Webhook: time.Unix(0, 0).Add(time.Second), Label: coverage.LabelledSince(ns)}
	asks := scope.Asks(ns, "")
	for i := range pods {
		pod := &pods[i]
		if pod.Labels[api.LabelInjected] != "" && (adopt.Injected(pod) || adopted.Is(pod)) {
			if known, ok := rpo.OfPod(adopted.View(pod)); ok {
				out, databases = append(out, known), databases+1
			}
			continue
		}
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		raw, err := json.Marshal(pod)
		if err != nil {
			continue // of an object that was read as JSON
		}
		in.Pod = raw
		if j := coverage.Judge(in, since); j.Without {
			if adopted.Is(pod) {
				j.Reason = begun(ns, pod, now)
			}
			if known, ok := rpo.OfUncovered(pod, j.Kind, j.Reason); ok {
				if databases++; asks {
					out = append(out, known)
				}
			}
		}
	}
	return out, databases
}

// begun is why a pod has no sidecar whose adoption has begun: that it is under way, or why
// nobody goes on with it.
func begun(ns *corev1.Namespace, pod *corev1.Pod, now time.Time) string {
	facts := controller.Of(pod)
	facts.Asked, facts.Now = asked(ns, pod), now
	switch reason := controller.Plan(facts).Reason; {
	case !facts.Asked: // which Plan says only of what it would add to
		return string(controller.ReasonNotAsked)
	case reason == controller.ReasonExhausted:
		return string(reason)
	}
	return reasonAdopting
}

func asked(ns *corev1.Namespace, pod *corev1.Pod) bool {
	return scope.Asks(ns, "") && controller.Asks(ns, pod)
}

// misread names annotations that cannot be read, each once.
func (s *Status) misread() {
	for _, row := range s.Rows {
		for _, bad := range row.RPOBad {
			where := fmt.Sprintf("pod %s of namespace %s", row.Pod, row.Namespace)
			if bad.OfNamespace {
				where = "namespace " + row.Namespace
			}
			note := fmt.Sprintf("The annotation %s of %s cannot be read: %q (it takes a time such as 26h, 90m or 7d).", api.AnnotationRPO, where, ask.Clean(bad.Value))
			if !slices.Contains(s.Notes, note) {
				s.Notes = append(s.Notes, note)
			}
		}
	}
}
