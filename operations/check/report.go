package check

import (
	"encoding/json"
	"fmt"
	"io"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// ReportVersion and ReportKind head the document of -o json. Members may be
// added to it; what is there keeps its name and meaning within the version.
const (
	ReportVersion = "check." + api.Group + "/v1alpha1"
	ReportKind    = "CheckReport"
)

// Report is the outcome of a run, and the document of -o json.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`

	Mode Mode `json:"mode"`
	// Installed is yes, no, or unknown for lack of rights.
	Installed string `json:"installed"`
	Cluster   struct {
		Where   string `json:"where"`
		Version string `json:"version"` // of Kubernetes
	} `json:"cluster"`
	// OwnNamespace is Stategraft's; empty before the installation.
	OwnNamespace string `json:"ownNamespace,omitempty"`
	// Namespace is the one that was asked for; empty for all that are labelled.
	Namespace string `json:"namespace,omitempty"`

	Items    []ReportItem   `json:"items"`
	Findings []Finding      `json:"findings"`
	Summary  map[Status]int `json:"summary"` // findings by status; every status is there
	Result   Result         `json:"result"`
}

// ReportItem is an item that was looked at.
type ReportItem struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Group  Group  `json:"group"`
	Status Status `json:"status"` // the worst of its findings
}

// Result is what the run comes to.
type Result string

// The results.
const (
	// Fine is that nothing is broken, and all was looked at.
	Fine Result = "fine"
	// Broken is that something is.
	Broken Result = "broken"
	// Incomplete is that nothing broken was seen, and not all was looked at.
	Incomplete Result = "incomplete"
)

func newReport(c *Cluster, version string, found *Installation) *Report {
	r := &Report{APIVersion: ReportVersion, Kind: ReportKind, Mode: found.Mode(), Namespace: c.Namespace,
		Installed: "yes", OwnNamespace: found.Namespace, Items: []ReportItem{}, Findings: []Finding{}, Summary: map[Status]int{}}
	switch {
	case found.Unknown():
		r.Installed = "unknown"
	case found.Mode() == Preflight:
		r.Installed, r.OwnNamespace = "no", ""
	}
	r.Cluster.Where, r.Cluster.Version = c.Where, version
	for _, status := range Statuses {
		r.Summary[status] = 0
	}
	r.Result = Fine
	return r
}

func (r *Report) add(item Item, found []Finding) {
	worst := OK
	for _, f := range found {
		f.Item = item.ID
		r.Findings = append(r.Findings, f)
		r.Summary[f.Status]++
		if f.Status.Worse(worst) {
			worst = f.Status
		}
	}
	r.Items = append(r.Items, ReportItem{ID: item.ID, Title: item.Title, Group: item.Group, Status: worst})
	switch {
	case r.Summary[Fail] > 0:
		r.Result = Broken
	case r.Summary[Skip] > 0:
		r.Result = Incomplete
	}
}

// JSON writes the document.
func (r *Report) JSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
