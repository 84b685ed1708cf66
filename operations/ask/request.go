package ask

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Request is what is asked for. What is left out stays out of the object, and the
// API server's defaults apply.
type Request struct {
	Namespace string
	Name      string // of the Restore; made up if empty
	Backup    string
	Undo      string // the Restore to go back on; in place of Backup
	Pods      Pods   // none with Undo: those of the earlier Restore

	Mode         api.RestoreMode
	Prefix       *string
	Cluster      string
	Nodes        map[string]string // of the backup, by pod
	WhenNoBackup api.WhenNoBackup
	KeepPrevious api.KeepPrevious
	Parallel     int32
	Deadline     time.Duration
}

// aTime looks like one and is none that is understood: taken for the name of a
// backup it would be looked for in vain.
var aTime = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}([T ]\d{1,2}:\d{2}|T?$)`)

// ParseBackup refuses what was meant to be a time and is none.
func ParseBackup(text string) error {
	if text == "" {
		return fmt.Errorf("--backup: it takes the name of a backup, latest, or a time such as 2026-11-30T08:30:00Z")
	}
	if _, err := time.Parse(time.RFC3339, text); err != nil && aTime.MatchString(text) && strings.Contains(text, ":") {
		return fmt.Errorf("--backup %s: a time is written with its zone, as 2026-11-30T08:30:00Z or 2026-11-30T09:30:00+01:00", text)
	}
	return nil
}

// Of the names that are made up.
const (
	stamp      = "-20060102-150405" // ends them
	nameLength = 63                 // fits a label, too
)

var stamped = regexp.MustCompile(`(-undo)?-\d{8}-\d{6}(-\d+)?$`)

// MadeUp is a name for a Restore or a Backup of a workload.
func MadeUp(workload string, now time.Time) string {
	end := now.UTC().Format(stamp)
	if len(workload) > nameLength-len(end) {
		workload = strings.TrimRight(workload[:nameLength-len(end)], "-.")
	}
	return workload + end
}

// Restore is the object.
func (r Request) Restore(now time.Time) (*api.Restore, error) {
	name := r.Name
	if name == "" {
		base := r.Pods.Workload
		if r.Undo != "" {
			base = stamped.ReplaceAllString(r.Undo, "") + "-undo"
		}
		name = MadeUp(base, now)
	}
	out := &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: name}}
	spec := &out.Spec
	spec.Backup, spec.Undo = r.Backup, r.Undo
	if r.Pods.Selector != nil {
		spec.Pods.Selector = r.Pods.Selector
	} else {
		spec.Pods.Names = r.Pods.Names
	}
	spec.Mode, spec.WhenNoBackup, spec.KeepPrevious, spec.Parallel = r.Mode, r.WhenNoBackup, r.KeepPrevious, r.Parallel
	if r.Deadline > 0 {
		spec.Deadline = &metav1.Duration{Duration: r.Deadline}
	}
	for _, pod := range slices.Sorted(maps.Keys(r.Nodes)) {
		if len(r.Pods.Names) > 0 && !slices.Contains(r.Pods.Names, pod) {
			return nil, fmt.Errorf("--node %s=%s: pod %s is not one of those to restore: %s", pod, r.Nodes[pod], pod, strings.Join(r.Pods.Names, ", "))
		}
	}
	if r.Prefix != nil || r.Cluster != "" || len(r.Nodes) > 0 {
		spec.Source = &api.RestoreSource{Prefix: r.Prefix, Cluster: r.Cluster, Nodes: r.Nodes}
	}
	return out, nil
}

// Create makes a Restore or a Backup. A name that was made up and is taken gets a
// number.
func Create(ctx context.Context, c client.Client, made client.Object, madeUp bool) error {
	is, name := lookAt(made), made.GetName()
	for try := 2; ; try++ {
		err := c.Create(ctx, made)
		switch {
		case err == nil:
			return nil
		case apierrors.IsAlreadyExists(err) && madeUp && try < 10:
			made.SetName(name + "-" + strconv.Itoa(try))
			made.SetResourceVersion("")
		case apierrors.IsAlreadyExists(err):
			return fmt.Errorf("there is a %s %s in namespace %s already: choose another --name, or see kubectl stategraft %s show %s -n %s",
				is.kind, made.GetName(), made.GetNamespace(), is.command(), made.GetName(), made.GetNamespace())
		case apierrors.IsInvalid(err):
			return fmt.Errorf("the API server does not accept this %s: %w", is.kind, err)
		default:
			return Explain(err, "create", is.resource, made.GetNamespace(), "")
		}
	}
}
