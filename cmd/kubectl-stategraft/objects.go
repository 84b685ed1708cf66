package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stategraft/stategraft/operations/ask"
)

// What the commands about Backups and about Restores have in common.

// reach connects. The namespace is empty for all.
func (c *connection) reach(all bool) (at *reached, namespace string, err error) {
	if at, err = c.connect(); err == nil && !all {
		namespace = at.namespace
	}
	return at, namespace, err
}

// asking is an object that is to be made.
type asking struct {
	object client.Object
	madeUp bool // its name was
	wait   bool
	output string
	follow func() error // shows how far it is, to the end
}

// ask makes the object, and waits for its end if it is to.
func (a asking) ask(ctx context.Context, t *terminal, at *reached) error {
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	err := ask.Create(limited, at, a.object, a.madeUp)
	lost := limited.Err() != nil
	cancel()
	kind, name, namespace := kindOf(a.object), a.object.GetName(), a.object.GetNamespace()
	switch {
	case err != nil && lost:
		return fmt.Errorf("no answer of the API server to the making of %s %s; whether it was made: kubectl stategraft %s show %s -n %s (%w)",
			kind, name, strings.ToLower(kind), name, namespace, err)
	case err != nil:
		return err
	case a.wait && a.output == "":
		fmt.Fprintf(t.out, "%s created\n", nameOf(a.object))
		return a.follow()
	case a.wait:
		return a.follow()
	}
	if err := printObject(t.out, a.output, a.object, "created"); err != nil {
		return err
	}
	if a.output == "" {
		fmt.Fprintf(t.err, "How far it is: kubectl stategraft %s wait %s -n %s\n", strings.ToLower(kind), name, namespace)
	}
	return nil
}

// further says what becomes of an object that is not followed any more, and how to go
// on. Idle tells that no controller was seen to act on it.
func further(kind, name, namespace string, idle bool) string {
	goes := "it goes on"
	if idle {
		goes = "no controller seems to act on it (kubectl stategraft check)"
	}
	return fmt.Sprintf("%s.\n  to see it:    kubectl stategraft %s wait %s -n %s\n  to cancel it: kubectl stategraft %s cancel %s -n %s",
		goes, kind, name, namespace, kind, name, namespace)
}

// printed prints a list as output has it, or says that there is nothing in the
// namespace, empty for all; done is false where it is left to be written as a table.
func printed[O any, P interface {
	*O
	client.Object
}](t *terminal, output, namespace string, meta metav1.ListMeta, items []O) (done bool, err error) {
	switch {
	case output == "json" || output == "yaml" || output == "name":
		return true, printList[O, P](t.out, output, meta, items)
	case len(items) > 0:
		return false, nil
	case namespace == "":
		fmt.Fprintln(t.err, "No resources found")
	default:
		fmt.Fprintf(t.err, "No resources found in %s namespace.\n", namespace)
	}
	return true, nil
}

// changeEach changes each object that it can: one that cannot be changed does not keep
// the others as they are. Change gives nil for one that was so already; what it gives is
// looked at afterwards, by a function that may be nil.
func changeEach[O any](ctx context.Context, names []string, change func(name string) (*reached, *O, error), afterwards func(*reached, *O, time.Time) error) error {
	var errs []error
	var changed []*O
	var at *reached
	for i := 0; i < len(names) && ctx.Err() == nil; i++ {
		reached, object, err := change(names[i])
		switch {
		case errors.Is(err, ask.ErrNotServed): // nor for the others
			return err
		case err != nil:
			errs = append(errs, err)
		case object != nil:
			at, changed = reached, append(changed, object)
		}
	}
	if afterwards != nil {
		until := time.Now().Add(actsWithin)
		for _, object := range changed {
			if err := afterwards(at, object, until); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return joined(errs)
}
