package check

import "fmt"

// applyAgain brings back what the release has. What kubectl edit or kubectl patch
// wrote is another writer's to the API server, and is only overwritten by force.
const applyAgain = "apply Stategraft's manifest again (kubectl apply --server-side --force-conflicts), or helm upgrade --force-conflicts"

// registerAgain replaces the webhook configuration. A match condition that was
// added is another writer's entry of the list, which no applying takes out.
func registerAgain(name string) string {
	return fmt.Sprintf("kubectl delete mutatingwebhookconfiguration %s, then apply Stategraft's manifest or helm upgrade again", name)
}
