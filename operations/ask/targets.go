package ask

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Target is what was named on the command line: a pod, or a StatefulSet for all of
// its pods.
type Target struct {
	StatefulSet bool
	Name        string
}

// kinds are the words for a kind that kubectl takes too.
var kinds = map[string]bool{ // whether it is the StatefulSet
	"pod": false, "pods": false, "po": false,
	"statefulset": true, "statefulsets": true, "sts": true, "statefulset.apps": true, "statefulsets.apps": true,
}

// ParseTargets reads what is to be restored: KIND/NAME, or KIND NAME..., as kubectl
// does.
func ParseTargets(args []string) ([]Target, error) {
	return ParseTargetsTo("restored", "list, show, wait, cancel, undo, suspend, resume", args)
}

// ParseTargetsTo is ParseTargets for what is to be done in a word such as restored, in
// place of which there are commands, or none.
func ParseTargetsTo(done, commands string, args []string) ([]Target, error) {
	if len(args) > 1 && !strings.Contains(args[0], "/") {
		if set, known := kinds[strings.ToLower(args[0])]; known {
			var targets []Target
			for _, name := range args[1:] {
				if strings.Contains(name, "/") {
					return nil, fmt.Errorf("%s: after %s names are taken, or KIND/NAME throughout", name, args[0])
				}
				targets = append(targets, Target{set, name})
			}
			return targets, nil
		}
	}
	var targets []Target
	for _, arg := range args {
		kind, name, ok := strings.Cut(arg, "/")
		set, known := kinds[strings.ToLower(kind)]
		switch {
		case !ok || name == "":
			if commands != "" {
				commands = ", or a command: " + commands
			}
			return nil, fmt.Errorf("%s: it takes pod/NAME or statefulset/NAME%s", arg, commands)
		case !known:
			return nil, fmt.Errorf("%s: only pods and StatefulSets can be %s (pod/NAME, statefulset/NAME, or -l SELECTOR)", arg, done)
		}
		targets = append(targets, Target{set, name})
	}
	return targets, nil
}

// Pods are those that a Restore is for.
type Pods struct {
	Names    []string              // in order, each once
	Selector *metav1.LabelSelector // what they were selected by; the Restore has it in place of the names
	Workload string                // what their owner is called, for the Restore's name
}

// Resolve finds the pods that are meant.
func Resolve(ctx context.Context, c client.Reader, namespace string, targets []Target, selector string) (*Pods, error) {
	var found []corev1.Pod
	out := &Pods{}
	switch {
	case selector != "" && len(targets) > 0:
		return nil, errors.New("names and a selector (-l) exclude one another")
	case selector != "":
		parsed, err := labels.Parse(selector)
		if err == nil {
			out.Selector, err = asObject(parsed)
		}
		if err != nil {
			return nil, fmt.Errorf("-l %s: %w", selector, err)
		}
		if found, err = selected(ctx, c, namespace, parsed); err != nil {
			return nil, err
		}
	case len(targets) == 0:
		return nil, errors.New("which pods? Give pod/NAME, statefulset/NAME or -l SELECTOR")
	}
	for _, target := range targets {
		var err error
		var more []corev1.Pod
		if target.StatefulSet {
			more, err = ofStatefulSet(ctx, c, namespace, target.Name)
		} else {
			more, err = named(ctx, c, namespace, target.Name)
		}
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	for i := range found {
		if !slices.Contains(out.Names, found[i].Name) {
			out.Names = append(out.Names, found[i].Name)
		}
	}
	out.Workload = owner(&found[0])
	return out, nil
}

// owner is the name of what made the pod, or its own.
func owner(pod *corev1.Pod) string {
	if ref := metav1.GetControllerOf(pod); ref != nil {
		return ref.Name
	}
	return pod.Name
}

func named(ctx context.Context, c client.Reader, namespace, name string) ([]corev1.Pod, error) {
	var pod corev1.Pod
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &pod)
	if apierrors.IsNotFound(err) {
		return nil, Within(ctx, c, namespace, fmt.Errorf("there is no pod %s in namespace %s%s", name, namespace, instead(ctx, c, namespace)))
	}
	if err != nil {
		return nil, Explain(err, "get", pods, namespace, name)
	}
	return []corev1.Pod{pod}, nil
}

// asObject is a selector as objects have it.
func asObject(selector labels.Selector) (*metav1.LabelSelector, error) {
	requirements, _ := selector.Requirements()
	if len(requirements) == 0 {
		return nil, errors.New("it selects every pod of the namespace; give a label")
	}
	out := &metav1.LabelSelector{}
	for _, r := range requirements {
		values := r.Values().UnsortedList()
		slices.Sort(values)
		operators := map[selection.Operator]metav1.LabelSelectorOperator{
			selection.In: metav1.LabelSelectorOpIn, selection.NotIn: metav1.LabelSelectorOpNotIn, selection.NotEquals: metav1.LabelSelectorOpNotIn,
			selection.Exists: metav1.LabelSelectorOpExists, selection.DoesNotExist: metav1.LabelSelectorOpDoesNotExist}
		switch operator, known := operators[r.Operator()]; {
		case r.Operator() == selection.Equals || r.Operator() == selection.DoubleEquals:
			if has, twice := out.MatchLabels[r.Key()]; twice && has != values[0] {
				return nil, fmt.Errorf("%s cannot be both %s and %s", r.Key(), has, values[0])
			}
			if out.MatchLabels == nil {
				out.MatchLabels = map[string]string{}
			}
			out.MatchLabels[r.Key()] = values[0]
		case !known:
			return nil, fmt.Errorf("an object has no operator %s", r.Operator())
		default:
			out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{Key: r.Key(), Operator: operator, Values: values})
		}
	}
	return out, nil
}

func selected(ctx context.Context, c client.Reader, namespace string, selector labels.Selector) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := c.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, Explain(err, "list", pods, namespace, "")
	}
	if len(list.Items) == 0 {
		return nil, Within(ctx, c, namespace, fmt.Errorf("no pod of namespace %s has the labels %s%s", namespace, selector, instead(ctx, c, namespace)))
	}
	sort(list.Items)
	return list.Items, nil
}

// LackingError says that a StatefulSet has not all of its pods.
type LackingError struct {
	namespace string
	Have      string // what it has and should have, in a sentence
}

func (e *LackingError) Error() string {
	return fmt.Sprintf("%s: wait for the others (kubectl -n %s get events; restore does with --wait), or name the pods that you mean", e.Have, e.namespace)
}

// ofStatefulSet finds the pods that a StatefulSet owns. One that lacks pods is
// refused: a ring restored but for a node is a thing to ask for by name.
func ofStatefulSet(ctx context.Context, c client.Reader, namespace, name string) ([]corev1.Pod, error) {
	owned, wanted, err := ownedBy(ctx, c, namespace, name)
	switch {
	case err != nil:
		return nil, err
	case wanted == 0:
		return nil, fmt.Errorf("statefulset %s of namespace %s is scaled to 0: scale it up first, a restore needs its pods", name, namespace)
	case len(owned) < wanted:
		have := "none of them is there"
		if len(owned) > 0 {
			have = "there are only " + strings.Join(names(owned), ", ")
		}
		return nil, &LackingError{namespace, fmt.Sprintf("statefulset %s of namespace %s is to have %d pods and %s", name, namespace, wanted, have)}
	}
	return owned, nil
}

// ownedBy are the pods of a StatefulSet that are there, and how many there are to be.
func ownedBy(ctx context.Context, c client.Reader, namespace, name string) (owned []corev1.Pod, wanted int, err error) {
	var set appsv1.StatefulSet
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &set); err != nil {
		err = Explain(err, "get", StatefulSets, namespace, name)
		return nil, 0, Within(ctx, c, namespace, err)
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return nil, 0, fmt.Errorf("the selector of statefulset %s: %w", name, err)
	}
	var list corev1.PodList
	if err := c.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, 0, Explain(err, "list", pods, namespace, "")
	}
	owned = slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return !metav1.IsControlledBy(&pod, &set) })
	sort(owned)
	wanted = 1
	if set.Spec.Replicas != nil {
		wanted = int(*set.Spec.Replicas)
	}
	return owned, wanted, nil
}

// instead names pods that could have been meant, where they can be read.
func instead(ctx context.Context, c client.Reader, namespace string) string {
	const most = 10
	var list corev1.PodList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return ""
	}
	list.Items = slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
		ref := metav1.GetControllerOf(&pod)
		return ref == nil || ref.Kind == "ReplicaSet" || ref.Kind == "Job" || ref.Kind == "DaemonSet"
	})
	if len(list.Items) == 0 {
		return ": no StatefulSet has pods there"
	}
	sort(list.Items)
	all := names(list.Items)
	if len(all) > most {
		return fmt.Sprintf("; there are %s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return "; there are " + strings.Join(all, ", ")
}

func names(list []corev1.Pod) []string {
	var out []string
	for i := range list {
		out = append(out, list[i].Name)
	}
	return out
}

// sort has db-2 before db-10.
func sort(list []corev1.Pod) {
	slices.SortFunc(list, func(a, b corev1.Pod) int { return Compare(a.Name, b.Name) })
}

// Compare orders names of pods by owner and ordinal.
func Compare(a, b string) int {
	baseA, nA := ordinal(a)
	baseB, nB := ordinal(b)
	if baseA != baseB {
		return strings.Compare(a, b)
	}
	return nA - nB
}

func ordinal(name string) (string, int) {
	at := strings.LastIndexByte(name, '-')
	n, err := strconv.Atoi(name[at+1:])
	if err != nil || n < 0 {
		return name, 0
	}
	return name[:at+1], n
}
