package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/operations/ask/adopt"
	"github.com/stategraft/stategraft/webhook/offline"
)

// explained is a decision, and of a pod that runs how it stands to adoption.
type explained struct {
	offline.Explanation
	Adopt *adopt.Pod `json:"adopt,omitempty"`
}

// adoption says how a pod that was read from a cluster stands to adoption; nil for one
// that was not, or of which the decision says the same. Its node is not known.
func (f *flags) adoption(ctx context.Context, r offline.Result) *adopt.Pod {
	pod := corev1.Pod{}
	if r.Document.Kind != "Pod" || json.Unmarshal(r.Document.JSON, &pod) != nil || pod.Status.Phase == "" {
		return nil
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	maps.Copy(pod.Annotations, f.options.Annotations)
	looker := adopt.Looker{Config: f.options.Config, Namespace: f.options.Namespace, Now: time.Now}
	p := looker.Look(ctx, []corev1.Pod{pod}, "")[0]
	if p.Reason != "" && p.Reason == string(r.Reason) {
		return nil
	}
	return &p
}

func (e explained) write(w io.Writer, output string) error {
	if output == "json" && e.Adopt == nil {
		return e.JSON(w)
	}
	if output == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(e)
	}
	if err := e.Text(w); err != nil || e.Adopt == nil {
		return err
	}
	text := e.Adopt.Line()
	if e.Adopt.State == adopt.StatePossible {
		text = "it can be, as it runs: " + strings.Join(e.Adopt.Containers, ", ")
	}
	_, err := fmt.Fprintf(w, "  %-16s %s\n", "adoption", text)
	return err
}
