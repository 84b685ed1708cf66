package patches

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/workload"
)

var optional = true

// copyEnv copies a variable of the user's into a container of ours. A reference
// becomes optional: what the database's container insists on, ours does not.
func copyEnv(v workload.EnvVar) (EnvVar, bool) {
	out := EnvVar{Name: v.Name, Value: v.Value}
	if len(v.ValueFrom) == 0 || string(v.ValueFrom) == "null" {
		return out, true
	}
	from := &corev1.EnvVarSource{}
	if err := json.Unmarshal(v.ValueFrom, from); err != nil {
		return out, false
	}
	switch {
	case from.ConfigMapKeyRef != nil:
		from.ConfigMapKeyRef.Optional = &optional
	case from.SecretKeyRef != nil:
		from.SecretKeyRef.Optional = &optional
	case from.FieldRef != nil:
	default: // a resource of the user's container, or a source not known here
		return out, false
	}
	out.Value, out.ValueFrom = "", from
	return out, true
}
