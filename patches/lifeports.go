package patches

import (
	"fmt"
	"slices"

	"github.com/stategraft/stategraft/workload"
)

// The ports of Anna's and Cloudburst's agents: two that Anna's answers come to, and one
// for the hook and the metrics, by role, so that pods which share the host network of a
// node do not get in each other's way. Nothing of upstream's is between 6950 and 6999. The
// two tiers cannot share a node anyway, as both bind 6200.
const (
	responseFirst = 6980
	lifeSpare     = 6988 // from here on, where a role's own is taken
	lifeEnd       = 7000 // the management's
)

var lifePort = map[workload.Role]int32{
	workload.RoleMemory: 6982, workload.RoleDisk: 6982, workload.RoleRouting: 6983, workload.RoleMonitoring: 6984,
	workload.RoleExecutor: 6985, workload.RoleScheduler: 6986, workload.RoleBenchmark: 6987,
}

// lifePorts chooses them.
func (b *builder) lifePorts() error {
	used := []int32{b.s.GRPCPort}
	free := func(port int32) bool {
		_, taken := b.taken(port)
		return !taken && !slices.Contains(used, port)
	}
	// choose gives the first of so many free ones in a row, or 0.
	choose := func(own, many int32) int32 {
		for port := own; port+many <= lifeEnd; port = max(port+1, lifeSpare) {
			if free(port) && free(port+many-1) {
				used = append(used, port, port+many-1)
				return port
			}
		}
		return 0
	}
	if b.w.HoldsData() {
		b.responsePort = choose(responseFirst, 2)
	}
	b.lifePort = choose(lifePort[b.w.Role], 1)
	if b.lifePort == 0 || b.w.HoldsData() && b.responsePort == 0 {
		return &Conflict{workload.ReasonPortConflict, fmt.Sprintf(
			"ports from %d to %d are taken in the pod, of which the agent needs up to three; free %d to %d", responseFirst, lifeEnd-1, lifeSpare, lifeSpare+2)}
	}
	return nil
}
