package patches

import (
	"slices"

	"github.com/stategraft/stategraft/workload"
)

// InjectedCommand is what an injected container of a role runs, of Anna where that is so.
func InjectedCommand(r Role, kind workload.Kind) []string {
	switch {
	case kind != workload.KindCassandra:
		return slices.Clone(commandAnnaServe)
	case r == RoleSnapshot:
		return slices.Clone(commandSnapshot)
	case r == RoleMedusa:
		return slices.Clone(commandServe)
	}
	return slices.Clone(commandPod)
}
