package check

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

// listedWithin is how long ago a storage was listed at most; the controller does it
// every ten minutes.
const listedWithin = time.Hour

// catalogued is what is read of operations/catalogue.Document; that package is the
// controller's.
type catalogued struct {
	Prefix   string    `json:"prefix"`
	Pod      string    `json:"pod"`
	Listed   time.Time `json:"listed"`
	Backups  int       `json:"backups"`
	Complete int       `json:"complete"`
	Missing  int       `json:"missing"`
	Failed   string    `json:"failed"`
}

func lookCatalogue(ctx context.Context, c *Cluster) []Finding {
	s, err := c.sweep(ctx)
	if err != nil {
		return skipped(err)
	}
	var findings []Finding
	backups, complete := 0, 0
	for _, ns := range slices.Sorted(maps.Keys(s.backedUp)) {
		object, err := c.Kube.CoreV1().ConfigMaps(ns).Get(ctx, api.ConfigMapCatalogue, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			findings = append(findings, finding(Info, ns, "nobody has looked into its storage yet").With("kubectl stategraft sync -n %s", ns))
			continue
		case err != nil:
			findings = append(findings, skipped(unread(err, right{Verb: "get", Resource: "configmaps", Namespace: ns}))...)
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(object.Data)) {
			var d catalogued
			if json.Unmarshal([]byte(object.Data[key]), &d) != nil {
				continue // somebody else's
			}
			backups, complete = backups+d.Backups, complete+d.Complete
			findings = append(findings, judgeCatalogue(ns, key, d, cmp.Or(s.adopted[ns+"/"+d.Pod], patches.ContainerMedusa), c.Now())...)
		}
	}
	return s.say(findings, "%s in the storage, %d of them complete", counted(backups, "backup", ""), complete)
}

// judgeCatalogue judges what was found in the storage of one cluster. log is the container
// of the pod that looked whose log tells more.
func judgeCatalogue(ns, key string, d catalogued, log string, now time.Time) []Finding {
	subject := ns + "/" + key
	switch {
	case d.Failed != "":
		return []Finding{finding(Warn, subject, "what backups there are is not known, and none is deleted: %s", d.Failed).
			With("kubectl -n %s logs %s -c %s; then kubectl stategraft sync -n %[1]s", ns, orPod(d.Pod), log)}
	case !d.Listed.IsZero() && now.Sub(d.Listed) > listedWithin:
		return []Finding{finding(Warn, subject, "its storage was looked into at %s, and not since", day(d.Listed)).
			With("see that the controller and a pod of the cluster run; then kubectl stategraft sync -n %s", ns)}
	case d.Missing > 0:
		return []Finding{finding(Warn, subject, "%s not in the storage any more", counted(d.Missing, "backup", "")).With("kubectl stategraft backup list -n %s shows them, as Missing", ns)}
	}
	return nil
}

func orPod(name string) string {
	if name == "" {
		return "POD"
	}
	return name
}
