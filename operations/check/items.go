package check

import (
	"fmt"
	"slices"
	"strings"
)

// Items are all that is looked at, in the order in which they are printed. Each
// has a section in docs/check.md; a test compares the two.
var Items = []Item{
	{ID: "server-version", Title: "API server's version", Group: GroupCluster, Look: lookServer},
	{ID: "rights", Title: "your rights", Group: GroupCluster, Look: lookRights},
	{ID: "cert-manager", Title: "cert-manager", Group: GroupCluster, Look: lookCertManager},
	{ID: "nodes", Title: "native sidecars by node", Group: GroupCluster, Look: lookNodes},

	{ID: "components", Title: "webhook and controller run", Group: GroupInstallation, Look: lookComponents, Installed: true},
	{ID: "configuration", Title: "the webhook's configuration file", Group: GroupInstallation, Look: lookConfiguration, Installed: true},
	{ID: "webhook-configuration", Title: "what the API server calls the webhook for", Group: GroupInstallation, Look: lookRegistration, Installed: true},
	{ID: "certificate", Title: "the webhook's certificate and its CA", Group: GroupInstallation, Look: lookCertificate, Installed: true},
	{ID: "admission", Title: "a pod is injected", Group: GroupInstallation, Look: lookAdmission, Installed: true},
	{ID: "restore-policy", Title: "no pod starts without its restore", Group: GroupInstallation, Look: lookPolicy, Installed: true},
	{ID: "restore-crd", Title: "Restores can be asked for", Group: GroupInstallation, Look: lookCRD, Installed: true},
	{ID: "backup-crds", Title: "backups can be asked for", Group: GroupInstallation, Look: lookBackupCRDs, Installed: true},
	{ID: "versions", Title: "versions", Group: GroupInstallation, Look: lookVersions, Installed: true},

	{ID: "namespaces", Title: "labels and annotations of namespaces", Group: GroupNamespaces, Look: lookNamespaces},
	{ID: "grpc-certificates", Title: "certificates of the sidecars", Group: GroupNamespaces, Look: lookGRPC, Installed: true},
	{ID: "references", Title: "ConfigMaps and Secrets of the sidecars", Group: GroupNamespaces, Look: lookReferences, Installed: true},
	{ID: "ptr-records", Title: "names of Cassandra nodes", Group: GroupNamespaces, Look: lookNames, Installed: true},
	{ID: "catalogue", Title: "what backups there are in the storage", Group: GroupNamespaces, Look: lookCatalogue, Installed: true},

	{ID: "sidecars", Title: "databases without sidecar", Group: GroupPods, Look: lookSidecars, Installed: true},
	{ID: "refused-pods", Title: "StatefulSets whose pods are refused", Group: GroupPods, Look: lookRefused, Installed: true},
	{ID: "held-back", Title: "workloads that are held back", Group: GroupPods, Look: lookHeldBack, Installed: true},
	{ID: "containers", Title: "containers of ours in trouble", Group: GroupPods, Look: lookContainers, Installed: true},
	{ID: "schedules", Title: "databases that are not backed up in time", Group: GroupPods, Look: lookSchedules, Installed: true},
	{ID: "backups", Title: "Backups that are stuck, failed or lost", Group: GroupPods, Look: lookBackups},
	{ID: "restores", Title: "Restores that are stuck", Group: GroupPods, Look: lookRestores},
	{ID: "pod-security", Title: "Pod Security conflicts", Group: GroupPods, Look: lookSecurity, Installed: true},
}

// Select gives the items with the IDs, in order; all for none. An ID that there
// is not is an error that lists those that there are.
func Select(ids []string) ([]Item, error) {
	if len(ids) == 0 {
		return Items, nil
	}
	var known []string
	for _, item := range Items {
		known = append(known, item.ID)
	}
	for _, id := range ids {
		if !slices.Contains(known, id) {
			return nil, fmt.Errorf("there is no item %q; there are %s", id, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(Items), func(item Item) bool { return !slices.Contains(ids, item.ID) }), nil
}
