package patches_test

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// Whoever may add ephemeral containers may give one any number after a name of ours: nobody
// counts up to it, and where no number is left that is said.
func TestAdoptAfterAnyNumber(t *testing.T) {
	for number, first := range map[int]string{0: "stategraft-agent-1", 7: "stategraft-agent-8", 1 << 30: "stategraft-agent-1073741825", 1<<30 + 1: "", math.MaxInt: ""} {
		var p corev1.Pod
		if err := json.Unmarshal(pod("", ""), &p); err != nil {
			t.Fatal(err)
		}
		if number > 0 {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "stategraft-medusa-" + strconv.Itoa(number)}}}
		}
		body, err := json.Marshal(&p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := adopt(t, body, patches.Default(), patches.Adoption{Next: 1})
		var conflict *patches.Conflict
		switch {
		case first == "" && (!errors.As(err, &conflict) || conflict.Reason != workload.ReasonNameConflict):
			t.Errorf("after %d: %v", number, err)
		case first != "" && (err != nil || got[0].Name != first):
			t.Errorf("after %d: %v, %v", number, names(got), err)
		}
	}
}
