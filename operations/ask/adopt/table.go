package adopt

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stategraft/stategraft/operations/adopt"
	"github.com/stategraft/stategraft/operations/ask"
)

// Document is what is printed for programs.
type Document struct {
	Namespace string   `json:"namespace"`
	DryRun    bool     `json:"dryRun,omitempty"`
	Pods      []Pod    `json:"pods"`
	Notes     []string `json:"notes,omitempty"` // what could not be looked at
}

// Cannot are the pods that get no sidecar as they are.
func Cannot(pods []Pod) []Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool { return p.State != StateCannot })
}

// Names are those of pods.
func Names(pods []Pod) (names []string) {
	for i := range pods {
		names = append(names, pods[i].Name)
	}
	return names
}

// Line says in a line how a pod stands.
func (p *Pod) Line() string {
	switch p.State {
	case StateInjected:
		return "has its sidecar: " + p.Message
	case StateAdopted:
		return "adopted: " + strings.Join(p.Containers, ", ")
	case StateAdopting:
		return "adopting: " + p.Message
	case StatePossible:
		return "waits for the controller" + p.why()
	case StateLater:
		return "waits" + p.why()
	case StateNeedless:
		return "needs no sidecar" + p.why()
	case StateOptedOut:
		return "is not adopted from now on" + p.why()
	}
	return "cannot be adopted" + p.why()
}

// why is the reason and the message, each where there is one.
func (p *Pod) why() (text string) {
	if p.Reason != "" {
		text = " (" + p.Reason + ")"
	}
	if p.Message != "" {
		text += ": " + p.Message
	}
	return text
}

// WritePlan writes what would be done with pods.
func WritePlan(w io.Writer, namespace string, pods []Pod, renew bool) error {
	to := 0
	rows := [][]string{{"  POD", "PLAN", "CONTAINERS", "NOTE"}}
	for i := range pods {
		p := &pods[i]
		if (p.State == StatePossible || p.State == StateLater || p.State == StateOptedOut) && !p.createdAnew() {
			to++
		}
		rows = append(rows, []string{"  " + p.Name, planOf(p, renew), ask.OrNone(strings.Join(p.Containers, ", ")), note(p)})
	}
	what := fmt.Sprintf("adopt %d of %s, which go on running", to, ask.Plural(len(pods), "pod"))
	switch {
	case to == 0 && renew:
		what = "there is nothing to renew"
	case to == 0:
		what = "there is nothing to adopt"
	case renew:
		what = fmt.Sprintf("give %d of %s new containers", to, ask.Plural(len(pods), "pod"))
	}
	if to == 1 {
		what = strings.Replace(what, "which go on", "which goes on", 1)
	} else if to > 1 {
		what += ", one of a workload at a time"
	}
	if _, err := fmt.Fprintf(w, "Plan for namespace %s: %s\n\n", namespace, what); err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	return ask.Table(w, ask.Trimmed(rows))
}

// createdAnew tells of a pod that gets its sidecar by that.
func (p *Pod) createdAnew() bool {
	return p.Reason == string(adopt.ReasonBeingDeleted) || p.Reason == string(adopt.ReasonRestorePending)
}

func note(p *Pod) string {
	if p.Reason == "" {
		return p.Message
	}
	return p.Reason + ": " + p.Message
}

func planOf(p *Pod, renew bool) string {
	switch {
	case p.State == StateCannot:
		return "cannot"
	case p.State == StateAdopting:
		return "goes on"
	case p.State == StateOptedOut:
		return "ask again"
	case p.Has(), p.State == StateNeedless, p.createdAnew():
		return "nothing"
	case p.State == StateLater && renew:
		return "renew later"
	case p.State == StateLater:
		return "adopt later"
	case renew:
		return "renew"
	}
	return "adopt"
}
