package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// restoreFinalizer is operations/restore.Finalizer; that package is the controller's.
const restoreFinalizer = api.Group + "/restore"

// uncontrolled tells whether nobody goes on with Restores: nothing of Stategraft is
// there, or no controller. Behind a URL it may run anywhere, and where the Deployments
// cannot be read nobody knows.
func (c *Cluster) uncontrolled(ctx context.Context) bool {
	found := c.installation(ctx)
	if found.ConfigurationsErr != nil || found.DeploymentsErr != nil || found.part(partController) != nil {
		return false
	}
	hook, _ := found.webhook()
	return hook == nil || hook.ClientConfig.URL == nil
}

// judgeOrphan judges a Restore that no controller looks after. It stays in the middle,
// and with it the pods that wait for it.
func judgeOrphan(r *api.Restore) []Finding {
	held := slices.Contains(r.Finalizers, restoreFinalizer)
	if r.Status.Phase.Final() && len(r.Status.Pending) == 0 && !held {
		return nil
	}
	state := "is not taken up yet"
	if r.Status.Phase != "" {
		state = fmt.Sprintf("is %s", r.Status.Phase)
	}
	if r.DeletionTimestamp != nil {
		state = "is being deleted"
	}
	if len(r.Status.Pending) > 0 {
		state += fmt.Sprintf(" (waiting for it: %s)", strings.Join(r.Status.Pending, ", "))
	}
	remedy := fmt.Sprintf("kubectl delete restores.%s %s -n %s", api.Group, r.Name, r.Namespace)
	if held {
		remedy = fmt.Sprintf(`kubectl patch restores.%s %s -n %s --type merge -p '{"metadata":{"finalizers":null}}'`, api.Group, r.Name, r.Namespace)
		if r.DeletionTimestamp == nil {
			remedy += ", then delete it"
		}
	}
	if len(r.Status.Pending) > 0 {
		remedy += "; pods with SchedulingGated or at Init:Error are to be deleted then, and a database that starts may have half of the restored data: restore it again before it is used"
	}
	return []Finding{finding(Fail, r.Namespace+"/"+r.Name, "%s, and no controller is installed: nobody goes on with it, or lets it go", state).
		With("install Stategraft again, and it goes on; or give it up: %s", remedy)}
}
