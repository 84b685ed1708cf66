package adopt

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

func (l *looked) state() State {
	all := l.each()
	waits := func(p *adopted.Part) bool {
		return p.State() == adopted.Waiting && !startingUp[p.Status.State.Waiting.Reason]
	}
	switch {
	case slices.ContainsFunc(all, l.ended), slices.ContainsFunc(all, waits), l.stuck() != nil:
		return StateWaiting
	case slices.ContainsFunc(all, func(p *adopted.Part) bool { return !l.up(p) }):
		return StateAdopting
	}
	return StateAdopted
}

// startingUp are the reasons of waiting that are no trouble (k8s.io/kubernetes/pkg/kubelet,
// kubelet_pods.go: ContainerCreating, PodInitializing).
var startingUp = map[string]bool{"": true, "ContainerCreating": true, "PodInitializing": true}

// brought is how long bringing the agent's program takes at most, where all that take it run:
// they look for it each second.
const brought = 2 * time.Minute

// stuck is the agent that brings nothing to those that run; nil for none. It stays up and
// tries again, as the volume may be given room, or to the database's user.
func (l *looked) stuck() *adopted.Part {
	agent := l.newest[patches.RoleAgent]
	if agent == nil || !l.brings(agent) {
		return nil
	}
	for _, p := range l.each() {
		if p != agent && p.Number < agent.Number {
			continue // of an earlier round, and has it
		}
		if p.State() != adopted.Running {
			return nil
		}
		if at := p.Status.State.Running.StartedAt; at.IsZero() || at.Add(brought).After(l.now) {
			return nil
		}
	}
	return agent
}

// Stuck says that an agent brings nothing to those that wait for it; empty where that is not so.
func Stuck(p Pod) string {
	if len(p.Parts) > 0 {
		l := look(p)
		if agent := l.stuck(); agent != nil {
			return stuckText(agent)
		}
	}
	return ""
}

func stuckText(agent *adopted.Part) string {
	return fmt.Sprintf("%[1]s runs since %[2]s, and has not brought the agent's program to the others: its log (kubectl logs -c %[1]s) says why, "+
		"such as a data volume that is full, or at whose top the database's user cannot write, and what settles it",
		agent.Container.Name, agent.Status.State.Running.StartedAt.UTC().Format(time.RFC3339))
}

// text says what is the matter with the parts.
func (l *looked) text() string {
	var said []string
	for _, p := range l.each() {
		switch {
		case l.ended(p):
			t := p.Status.State.Terminated
			said = append(said, fmt.Sprintf("%s ended with status %d (%s)", p.Container.Name, t.ExitCode, t.Reason))
		case p.State() == adopted.Waiting && !startingUp[p.Status.State.Waiting.Reason]:
			w := p.Status.State.Waiting
			said = append(said, fmt.Sprintf("%s waits: %s: %s", p.Container.Name, w.Reason, workload.Clip(w.Message, 200)))
		case p == l.stuck():
			said = append(said, stuckText(p))
		}
	}
	return joined(said...)
}

// cause says who has which trouble. A kubelet that pulls an image says two things in turn
// for as long as it fails, each with other words.
func (l *looked) cause() string {
	var all []string
	for _, p := range l.each() {
		switch {
		case l.ended(p):
			all = append(all, p.Container.Name+" ended")
		case p.State() == adopted.Waiting && !startingUp[p.Status.State.Waiting.Reason]:
			why := p.Status.State.Waiting.Reason
			if strings.Contains(why, "Image") || strings.Contains(why, "Registry") {
				why = "image"
			}
			all = append(all, p.Container.Name+" waits: "+why)
		case p == l.stuck():
			all = append(all, p.Container.Name+" brings nothing")
		}
	}
	return joined(all...)
}
