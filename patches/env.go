package patches

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/workload"
)

var optional = true

// copyEnv copies a variable of the user's container into one of ours. A
// reference becomes optional: what the database's container insists on, ours
// does not.
func copyEnv(c *workload.Container, v workload.EnvVar) (EnvVar, bool) {
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
	case from.ResourceFieldRef != nil:
		if from.ResourceFieldRef.ContainerName == "" {
			from.ResourceFieldRef.ContainerName = c.Name
		}
	default: // a source that is not known here
		return out, false
	}
	out.Value, out.ValueFrom = "", from
	return out, true
}

// expand gives a container the variables that the subPathExpr of its mounts
// refer to, as the database's container has them: without one of them the
// container could not be created.
func (b *builder) expand(c *Container) {
	var text string
	for i := range c.VolumeMounts {
		text += c.VolumeMounts[i].SubPathExpr
	}
	main := b.main()
	if text == "" || main == nil {
		return
	}
	// A value may refer to variables before it, so look from the last.
	var needed []workload.EnvVar
	for i := len(main.Env) - 1; i >= 0; i-- {
		if v := main.Env[i]; strings.Contains(text, "$("+v.Name+")") && !named(needed, v.Name) {
			needed = append(needed, v)
			text += v.Value
		}
	}
	for _, name := range references(text) {
		if _, ours := variable(c.Env, name); !ours && !named(needed, name) {
			b.conflict = b.unexpandable(name, c)
			return
		}
	}
	for i := len(needed) - 1; i >= 0; i-- {
		v := needed[i]
		copied, ok := copyEnv(main, v)
		have, taken := variable(c.Env, v.Name)
		switch {
		case taken && sameField(have, copied):
		case taken || !ok:
			b.conflict = b.unexpandable(v.Name, c)
		default:
			c.Env = append(c.Env, copied)
		}
	}
}

func (b *builder) unexpandable(name string, c *Container) *Conflict {
	return &Conflict{workload.ReasonNameConflict, fmt.Sprintf(
		"a mount of container %s takes its path from variable %s, which %s cannot be given; use subPath, or a variable of the container's own",
		b.w.Container, workload.Short(name), c.Name)}
}

// references lists the variables that a text refers to as $(NAME).
func references(text string) []string {
	var names []string
	for {
		_, rest, ok := strings.Cut(text, "$(")
		if !ok {
			return names
		}
		name, after, ok := strings.Cut(rest, ")")
		if !ok {
			return names
		}
		names, text = append(names, name), after
	}
}

func named(list []workload.EnvVar, name string) bool {
	for i := range list {
		if list[i].Name == name {
			return true
		}
	}
	return false
}

func variable(list []EnvVar, name string) (EnvVar, bool) {
	for _, v := range list {
		if v.Name == name {
			return v, true
		}
	}
	return EnvVar{}, false
}

// sameField tells whether both variables take the same field of the pod.
func sameField(ours, theirs EnvVar) bool {
	field, ok := ours.ValueFrom.(*FieldSource)
	source, also := theirs.ValueFrom.(*corev1.EnvVarSource)
	return ok && also && source.FieldRef != nil && source.FieldRef.FieldPath == field.FieldRef.FieldPath
}
