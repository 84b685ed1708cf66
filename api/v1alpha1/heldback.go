package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// HeldBackConfigMap is the ConfigMap in Stategraft's own namespace that lists the
// workloads whose pods are admitted without injection for now. The controller
// writes it and the webhook follows it; each key of its data is a workload
// (HeldBack.Key), each value a HeldBack. To take a key out, or the whole object,
// ends the holding back at once.
const HeldBackConfigMap = "stategraft-held-back"

// AnnotationHeldBack, with the value HeldBackIgnore on a pod or its namespace, has
// the pod injected although its workload is held back. With it a pod that is
// Pending because of us stays as it is, too.
const (
	AnnotationHeldBack = Group + "/held-back"
	HeldBackIgnore     = "ignore"
)

// ConditionDegraded is the condition of a pod, one that is True while one of our
// containers fails or idles. Its reason is a word of the Degraded… set. When the
// reason was given stands in lastProbeTime: the status may be True for longer.
const ConditionDegraded = Group + "/Degraded"

// The reasons of ConditionDegraded.
const (
	DegradedImagePull   = "ImagePull"
	DegradedCrashLoop   = "CrashLoop"
	DegradedOutOfMemory = "OutOfMemory"
	DegradedHealed      = "Healed"    // the container idles in an image that is not its own
	DegradedNotHealed   = "NotHealed" // it fails, and there is no other image to idle in
	DegradedRefused     = "Refused"   // it fails, and the API server refuses to give it another image
	DegradedRecovered   = "Recovered" // with the status False
)

// Cause says why a workload is held back.
type Cause string

// The causes, a closed set: a metric is labelled by it.
const (
	CauseImagePull     Cause = "image-pull"    // no container can be made of the image: not pulled, no shell in it, …
	CauseCrashLoop     Cause = "crash-loop"    // a container of ours ends again and again
	CauseOutOfMemory   Cause = "out-of-memory" // the same, killed for want of memory
	CauseUnschedulable Cause = "unschedulable" // there is room for the pod on a node, but not with our requests
	CauseRefused       Cause = "refused"       // the API server takes the pod without us only: a policy, a quota, another webhook
)

// Causes lists the closed set.
var Causes = []Cause{CauseImagePull, CauseCrashLoop, CauseOutOfMemory, CauseUnschedulable, CauseRefused}

// HeldBack is a workload whose pods are admitted without injection for now.
//
// +kubebuilder:object:generate=false
type HeldBack struct {
	// Namespace, Kind and Name are those of the pods' controlling owner, or of
	// the pod itself where it has none (Kind "Pod").
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`

	Cause Cause `json:"cause"`
	// Containers are what failed, for the first three causes. The holding back
	// ends when none of it would be injected any more.
	Containers []HeldContainer `json:"containers,omitempty"`
	Since      time.Time       `json:"since"`
	Until      time.Time       `json:"until"` // when injection is tried again
	// Ended is when it ended before its time; zero where it did not. The entry stays
	// for a while, so that the next holding back is longer.
	Ended   time.Time `json:"ended,omitzero"`
	Message string    `json:"message,omitempty"`

	// Trial, with CauseRefused, says that it is not known yet whether we are the
	// cause: it shows by whether pods come up without us.
	Trial *Trial `json:"trial,omitempty"`
}

// HeldContainer is an injected container that failed.
//
// +kubebuilder:object:generate=false
type HeldContainer struct {
	Name  string `json:"name"`
	Image string `json:"image"`
	// Memory is its memory limit as a quantity, where that was the cause.
	Memory string `json:"memory,omitempty"`
}

// Trial is where a trial began.
//
// +kubebuilder:object:generate=false
type Trial struct {
	Created int32 `json:"created"` // pods that there were
}

// clocksDiffer is by how much the clocks of the controller and the webhook may.
const clocksDiffer = time.Hour

// Active tells whether pods are admitted without injection at the time. An entry
// from a time to come is not: the clock was ahead, and there is no telling when it
// would end.
func (h *HeldBack) Active(now time.Time) bool {
	return h.Ended.IsZero() && now.Before(h.Until) && h.Since.Before(now.Add(clocksDiffer))
}

// Key is the workload's key in the ConfigMap's data.
func (h *HeldBack) Key() string { return HeldBackKey(h.Namespace, h.Kind, h.Name) }

// maxKey is how long a key of a ConfigMap may be
// (k8s.io/apimachinery/pkg/util/validation, IsConfigMapKey).
const maxKey = 253

var goodKey = regexp.MustCompile(`^[-._a-zA-Z0-9]+$`)

// HeldBackKey is namespace.kind.name, the kind in lower case. What is too long for
// a key, or has characters that none may have (an owner's kind is free text), is
// cut and ends in a hash of the whole.
func HeldBackKey(namespace, kind, name string) string {
	key := namespace + "." + strings.ToLower(kind) + "." + name
	if len(key) <= maxKey && goodKey.MatchString(key) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	hash := "." + hex.EncodeToString(sum[:8])
	kept := strings.Map(func(r rune) rune {
		if r < 0x80 && goodKey.MatchString(string(r)) {
			return r
		}
		return '_'
	}, key)
	return kept[:min(len(kept), maxKey-len(hash))] + hash
}

// ParseHeldBack reads a value of the ConfigMap. Members that it does not know are
// left out, so that a newer controller may write more.
func ParseHeldBack(text string) (HeldBack, error) {
	var h HeldBack
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return HeldBack{}, fmt.Errorf("it is no JSON of a held back workload: %w", err)
	}
	switch {
	case h.Namespace == "" || h.Kind == "" || h.Name == "":
		return HeldBack{}, errors.New("namespace, kind or name is missing")
	case !slices.Contains(Causes, h.Cause):
		return HeldBack{}, fmt.Errorf("cause %q is not known", h.Cause)
	case h.Since.IsZero() || h.Until.IsZero():
		return HeldBack{}, errors.New("since or until is missing")
	}
	return h, nil
}

// Encode is the value for the ConfigMap.
func (h *HeldBack) Encode() string {
	text, err := json.Marshal(h)
	if err != nil {
		panic("encoding a held back workload: " + err.Error()) // only a year beyond 9999 does that
	}
	return string(text)
}
