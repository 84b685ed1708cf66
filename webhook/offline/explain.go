package offline

import (
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// Explanation is a decision in words, as printed by explain.
type Explanation struct {
	Name     string           `json:"name"`
	Decision workload.Verdict `json:"decision"`
	Reason   workload.Reason  `json:"reason"`
	Message  string           `json:"message"`
	Workload struct {
		Kind       workload.Kind     `json:"kind"`
		Role       workload.Role     `json:"role,omitempty"`
		Container  string            `json:"container"`
		DataVolume string            `json:"dataVolume"`
		DataPath   string            `json:"dataPath"`
		Snapshot   workload.Snapshot `json:"snapshot"`
		Evidence   []string          `json:"evidence,omitempty"`
	} `json:"workload"`
	Warnings []string `json:"warnings"`
	Adds     struct {
		InitContainers []string `json:"initContainers"`
		Containers     []string `json:"containers"`
		Volumes        []string `json:"volumes"`
	} `json:"adds"`
}

// Explain puts the result in words.
func (r Result) Explain() Explanation {
	e := Explanation{Name: r.Document.Name, Decision: r.Verdict, Reason: r.Reason, Message: r.Message}
	w := r.Workload
	e.Workload.Kind, e.Workload.Role, e.Workload.Container = w.Kind, w.Role, w.Container
	e.Workload.DataVolume, e.Workload.DataPath, e.Workload.Snapshot = w.Data.Volume, w.Data.Path, w.Snapshot
	e.Workload.Evidence = w.Evidence
	e.Warnings = append([]string{}, r.Warnings...)
	e.Adds.InitContainers, e.Adds.Containers, e.Adds.Volumes = []string{}, []string{}, []string{}
	if r.Patch != nil {
		e.Adds.InitContainers = names(r.Patch.Init)
		e.Adds.Containers = names(r.Patch.Containers)
		for _, v := range r.Patch.Volumes {
			e.Adds.Volumes = append(e.Adds.Volumes, v.Name)
		}
	}
	return e
}

func names(containers []*patches.Container) []string {
	out := make([]string, 0, len(containers))
	for _, c := range containers {
		out = append(out, c.Name)
	}
	return out
}

// Text writes the explanation for people.
func (e Explanation) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Name, e.Decision)
	if e.Reason != "" {
		fmt.Fprintf(&b, " (%s)", e.Reason)
	}
	fmt.Fprintf(&b, "\n  %s\n", e.Message)
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "  %-16s %s\n", label, text)
		}
	}
	line("kind", strings.TrimSpace(string(e.Workload.Kind)+" "+string(e.Workload.Role)))
	line("container", e.Workload.Container)
	if e.Workload.DataVolume != "" {
		line("data", fmt.Sprintf("volume %s on %s", e.Workload.DataVolume, e.Workload.DataPath))
	}
	line("snapshot", string(e.Workload.Snapshot))
	line("evidence", strings.Join(e.Workload.Evidence, ", "))
	line("init containers", strings.Join(e.Adds.InitContainers, ", "))
	line("containers", strings.Join(e.Adds.Containers, ", "))
	line("volumes", strings.Join(e.Adds.Volumes, ", "))
	for _, warning := range e.Warnings {
		line("warning", warning)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// JSON writes the explanation as one line.
func (e Explanation) JSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(e)
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
