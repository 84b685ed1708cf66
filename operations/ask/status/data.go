package status

import (
	"time"

	"github.com/stategraft/stategraft/operations/rpo"
)

// Document is what is printed for programs. Times that are not known are left out.
type Document struct {
	Pods   []Pod `json:"pods"`
	Behind int   `json:"behind"` // of them
	// Problems keep pods from being backed up, beside what is said of each.
	Problems []string `json:"problems,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	// Adoptions are what is the matter with containers of adoption.
	Adoptions []string `json:"adoptions,omitempty"`
}

// Pod is a row.
type Pod struct {
	Namespace     string    `json:"namespace"`
	Pod           string    `json:"pod"`
	Workload      string    `json:"workload"`
	WorkloadKind  string    `json:"workloadKind"`
	Database      string    `json:"database"`
	Sidecar       string    `json:"sidecar"`
	SidecarReason string    `json:"sidecarReason,omitempty"`
	LastBackup    string    `json:"lastBackup,omitempty"`
	Started       time.Time `json:"started,omitzero"` // the pod's part of it
	Finished      time.Time `json:"finished,omitzero"`
	AgeSeconds    int64     `json:"ageSeconds,omitempty"` // since it was started
	Bytes         int64     `json:"bytes,omitempty"`
	Schedules     []string  `json:"schedules,omitempty"`
	Next          time.Time `json:"next,omitzero"`
	Verified      time.Time `json:"verified,omitzero"`
	Verification  string    `json:"verification,omitempty"` // Passed, Failed, Unknown, Running
	RPOSeconds    int64     `json:"rpoSeconds,omitempty"`
	RPOFrom       string    `json:"rpoFrom,omitempty"`
	Behind        bool      `json:"behind"`
	Reason        string    `json:"reason,omitempty"`
	Why           string    `json:"why,omitempty"`
}

// Document is the status for programs.
func (s *Status) Document() Document {
	out := Document{Pods: []Pod{}, Behind: len(s.Behind()), Problems: s.Problems, Notes: s.Notes, Adoptions: s.Adoptions}
	for i := range s.Rows {
		out.Pods = append(out.Pods, podOf(&s.Rows[i]))
	}
	return out
}

func podOf(r *rpo.Row) Pod {
	p := Pod{Namespace: r.Namespace, Pod: r.Pod, Workload: r.Workload, WorkloadKind: r.WorkloadKind, Database: string(r.Kind),
		Sidecar: string(r.Sidecar), SidecarReason: r.SidecarReason, Bytes: r.Bytes, Schedules: r.Schedules, Next: r.Next.UTC(),
		Verification: string(r.VerifiedResult), RPOSeconds: int64(r.RPO.Seconds()), RPOFrom: r.RPOFrom, Behind: r.Behind, Reason: string(r.Reason), Why: r.Why}
	if r.Last != nil {
		p.LastBackup, p.Started, p.Finished, p.AgeSeconds = r.Last.Name, r.LastStarted.UTC(), r.LastFinished.UTC(), int64(r.Age.Seconds())
	}
	if r.Verified != nil {
		p.Verified = r.Verified.UTC()
	}
	return p
}
