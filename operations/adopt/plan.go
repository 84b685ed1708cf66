package adopt

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/patches"
)

// The bounds where nobody says otherwise.
const (
	DefaultPerNode = 2
	DefaultInAll   = 10
	DefaultPerDay  = 5
)

// MaxContainers is how many containers are added to a pod as long as it lives: they stay on
// it for ever.
const MaxContainers = 60

// DefaultBackoff is how long after a container has ended the next ones are added, by how many
// times that was done within a day.
var DefaultBackoff = []time.Duration{30 * time.Second, 2 * time.Minute, 8 * time.Minute, 32 * time.Minute}

// day is what PerDay is meant for.
const day = 24 * time.Hour

// Pod is what Plan has to know of a pod.
type Pod struct {
	Parts    []adopted.Part
	Taken    int    // the highest number that a name like ours has, whoever added it
	Asked    bool   // Asks, and scope.Asks of its namespace
	Labelled bool   // it carries api.LabelInjected
	Renew    string // value of api.AnnotationAdoptRenew
	Pair     string // digest of api.SecretGRPC now; empty where that is not known

	// Digests are those of the newest containers as they would be added now, by role
	// (patches.EnvAdoptedDigest); nil where that is not known.
	Digests map[patches.Role]string

	Now     time.Time
	PerDay  int             // 0 for DefaultPerDay
	Backoff []time.Duration // nil for DefaultBackoff
}

// Of reads from a pod what is on it.
func Of(pod *corev1.Pod) Pod {
	p := Pod{Parts: adopted.Parts(pod), Renew: pod.Annotations[api.AnnotationAdoptRenew]}
	_, p.Labelled = pod.Labels[api.LabelInjected]
	for i := range pod.Spec.EphemeralContainers {
		if n, ours := numberOf(pod.Spec.EphemeralContainers[i].Name); ours {
			p.Taken = max(p.Taken, n)
		}
	}
	return p
}

// numberOf reads the number of a container of ours, by its name alone.
func numberOf(name string) (number int, ours bool) {
	for _, role := range patches.Roles {
		if rest, ok := strings.CutPrefix(name, role.Container()+"-"); ok {
			n, err := strconv.Atoi(rest)
			return n, err == nil && n > 0
		}
	}
	return 0, false
}

// Do is what is to be done with a pod.
type Do string

// What can be done.
const (
	DoNothing Do = ""        // all is well, or nothing can be done before Step.Until
	DoAdd     Do = "add"     // add Step.Roles
	DoLabel   Do = "label"   // its parts are up: write api.LabelInjected
	DoUnlabel Do = "unlabel" // nothing serves, and nothing is added: take it off
)

// State is how the adoption of a pod does.
type State string

// The states; the metric stategraft_adopted_pods has a series of each but StateNone.
const (
	StateNone     State = ""         // nothing was added
	StateAdopted  State = "adopted"  // all parts are up
	StateAdopting State = "adopting" // they are coming up
	StateWaiting  State = "waiting"  // one waits, for its image or a Secret, or has ended and is followed by another
	StateFailed   State = "failed"   // one has ended, and none follows for long
)

// Step is the next thing to be done with a pod.
type Step struct {
	Do     Do
	State  State
	Next   int            // DoAdd: number of the first container
	Roles  []patches.Role // DoAdd: patches.Adoption.Roles; nil for all
	Until  time.Time      // when something else may be to be done; zero for not before something changes
	Reason Reason         // why nothing is added although something should be
	Text   string         // what is the matter, for people; empty where nothing is
	Cause  string         // the same in what does not change while it lasts: whose words do, say so once
}

// Plan says what is to be done next with a pod that could be adopted (Judge). It knows nothing
// of other pods.
//
//	parts                        | step
//	none                         | add all, if that is asked for
//	all up                       | label
//	all up, pair or renew differ | add all: the new ones take over
//	one has ended                | add it, after the backoff
//	one waits                    | nothing: the kubelet goes on trying
//	one waits, its digest differs| add it as it is now, after the backoff
//	added too often              | nothing; no label where nothing serves
func Plan(p Pod) Step {
	if len(p.Parts) == 0 {
		if !p.Asked {
			return Step{Reason: ReasonNotAsked}
		}
		return Step{Do: DoAdd, Next: p.Taken + 1}
	}
	l := look(p)
	step := Step{State: l.state(), Text: l.text(), Cause: l.cause()}
	roles, wanted := l.wanted(p)
	switch {
	case !wanted:
		if step.State == StateAdopted && p.Asked && !p.Labelled {
			step.Do = DoLabel
		}
		return step
	case !p.Asked:
		step.Reason = ReasonNotAsked
	case len(p.Parts)+l.size(roles) > MaxContainers:
		step.Reason = ReasonExhausted
		step.Text = joined(step.Text, fmt.Sprintf("%d containers were added to it, and no pod gets more than %d: delete it, to have it created with its sidecars", len(p.Parts), MaxContainers))
	default:
		step.Reason, step.Until = l.due(p)
		if step.Reason == ReasonExhausted {
			step.Text = joined(step.Text, fmt.Sprintf("containers were added %d times within a day, and are again at %s", p.perDay(), step.Until.UTC().Format(time.RFC3339)))
		}
	}
	if step.Reason == "" {
		step.Do, step.Next, step.Roles, step.Until = DoAdd, p.Taken+1, roles, time.Time{}
		return step
	}
	if step.Reason == ReasonExhausted && step.State == StateWaiting {
		step.State = StateFailed
	}
	switch {
	case step.Reason != ReasonBackingOff && p.Labelled && !l.serves():
		step.Do = DoUnlabel
	case step.State == StateAdopted && p.Asked && !p.Labelled:
		step.Do = DoLabel // what is to be renewed serves until then
	}
	return step
}

func (p *Pod) perDay() int {
	if p.PerDay <= 0 {
		return DefaultPerDay
	}
	return p.PerDay
}

func (p *Pod) backoff(times int) time.Duration {
	steps := p.Backoff
	if len(steps) == 0 {
		steps = DefaultBackoff
	}
	return steps[min(max(times, 1), len(steps))-1]
}

func joined(texts ...string) string {
	var said []string
	for _, text := range texts {
		if text != "" {
			said = append(said, text)
		}
	}
	return strings.Join(said, "; ")
}
