package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/operations/ask/adopt"
	"github.com/stategraft/stategraft/webhook"
)

// adoptEvery is how long it takes until pods that are adopted are looked at again.
var adoptEvery = 2 * time.Second

// adopting is what the commands that have pods adopted have in common.
type adopting struct {
	t       *terminal
	at      *reached
	asked   adopt.Asked
	output  string
	timeout time.Duration

	looker *adopt.Looker
	notes  []string
}

// look says how the pods stand, in a namespace in which pods are adopted.
func (a *adopting) look(ctx context.Context, pods []corev1.Pod) ([]adopt.Pod, error) {
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	ns, note, err := adopt.Namespace(limited, a.at, a.at.namespace)
	if err != nil {
		return nil, interrupted(ctx, err)
	}
	a.looker = adopt.NewLooker(a.at, webhook.DefaultConfig(), ns, a.t.now)
	looked := a.looker.Look(limited, pods, a.asked.Renew)
	if limited.Err() != nil {
		return nil, interrupted(ctx, limited.Err())
	}
	if note != "" {
		a.notes = append(a.notes, note)
	}
	a.notes = append(a.notes, a.looker.Notes()...)
	for _, note := range a.notes {
		fmt.Fprintln(a.t.err, note)
	}
	return looked, nil
}

func (a *adopting) document(pods []adopt.Pod) adopt.Document {
	return adopt.Document{Namespace: a.at.namespace, Pods: append([]adopt.Pod{}, pods...), Notes: a.notes}
}

// write asks on the pods that can be adopted, says how the others stand, and gives those
// that it asked on: one that cannot be asked on does not keep the others from it.
func (a *adopting) write(ctx context.Context, pods []corev1.Pod, looked []adopt.Pod) (written []corev1.Pod, errs []error) {
	for i := range looked {
		p := &looked[i]
		switch {
		case p.State == adopt.StateCannot, p.State == adopt.StateNeedless:
			fmt.Fprintf(a.t.err, "pod/%s %s\n", p.Name, p.Line())
			continue
		case p.To():
			if err := a.writeOne(ctx, &pods[i]); err != nil {
				errs = append(errs, err)
				continue
			}
			if p.State == adopt.StateOptedOut { // which that has ended
				p.State, p.Message = adopt.StateAdopting, "what was added goes on"
			}
			written = append(written, pods[i])
			if a.asked.Renew != "" {
				a.say(p.Name, "is asked for new containers")
			} else {
				a.say(p.Name, "is asked to be adopted")
			}
		case p.State == adopt.StateAdopted:
			a.say(p.Name, "has its sidecar (adopted); --renew has it read its ConfigMap and Secrets anew")
		default:
			a.say(p.Name, "has its sidecar ("+string(p.State)+")")
		}
	}
	return written, errs
}

func (a *adopting) say(pod, text string) {
	if a.output == "" {
		fmt.Fprintf(a.t.out, "pod/%s %s\n", pod, text)
	}
}

func (a *adopting) writeOne(ctx context.Context, pod *corev1.Pod) error {
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return interrupted(ctx, adopt.Write(limited, a.at, pod, a.asked))
}

// follow shows how far the pods are until each has its sidecar or cannot get one. The
// controller goes on whatever becomes of who follows, and that is said.
func (a *adopting) follow(ctx context.Context, pods []corev1.Pod) ([]adopt.Pod, error) {
	limited, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	progress := a.t.progress(a.output != "")
	follower := adopt.Follower{Client: a.at, Looker: a.looker, Namespace: a.at.namespace, Renew: a.asked.Renew, Every: adoptEvery, Note: progress.Note,
		Said: func(p adopt.Pod) { progress.Say(p.Name, p.Line(), p.Name+": "+p.Line()) }}
	after, err := follower.Follow(limited, pods)
	if err == nil {
		return after, nil
	}
	open := slices.DeleteFunc(slices.Clone(after), func(p adopt.Pod) bool { return p.Over() })
	switch {
	case ctx.Err() != nil:
		return after, fmt.Errorf("%w; the controller goes on with %s.%s", errInterrupted, strings.Join(adopt.Names(open), ", "), a.further(open))
	case errors.Is(err, context.DeadlineExceeded):
		return after, fmt.Errorf("%s without sidecar after %s (%s: %s); the controller goes on.%s", several(len(open), open[0].Name+" is", "%d pods are"), a.timeout, open[0].Name, open[0].Line(), a.further(open))
	}
	return after, err
}

// further says how to go on with pods that are not followed any more.
func (a *adopting) further(open []adopt.Pod) string {
	names := adopt.Names(open)
	slices.SortFunc(names, ask.Compare)
	pods := "pod/" + strings.Join(names, " pod/")
	if a.asked.Renew != "" {
		return fmt.Sprintf("\n  to see it: kubectl describe %s -n %s", pods, a.at.namespace)
	}
	return fmt.Sprintf("\n  to see it:  kubectl stategraft adopt %s -n %s\n  to stop it: kubectl stategraft adopt %s -n %s --never", pods, a.at.namespace, pods, a.at.namespace)
}
