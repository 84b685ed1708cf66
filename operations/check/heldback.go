package check

import (
	"context"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// heldBack is which workloads are admitted without injection for now.
type heldBack struct {
	entries map[string]string // as they are in the ConfigMap
	active  map[string]api.HeldBack
}

// find is what a webhook asks.
func (h heldBack) find(namespace, kind, name string) (api.HeldBack, bool) {
	entry, ok := h.active[api.HeldBackKey(namespace, kind, name)]
	return entry, ok
}

// readHeldBack reads the ConfigMap, which the controller writes and which is
// missing where it never had to.
func (c *Cluster) readHeldBack(ctx context.Context) (heldBack, error) {
	return c.held.get(func() (heldBack, error) {
		own := c.installation(ctx).Namespace
		object, err := c.Kube.CoreV1().ConfigMaps(own).Get(ctx, api.HeldBackConfigMap, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return heldBack{}, nil
		}
		if err != nil {
			return heldBack{}, unread(err, right{Verb: "get", Resource: "configmaps", Name: api.HeldBackConfigMap, Namespace: own})
		}
		return activeAt(object.Data, c.Now()), nil
	})
}

// heldBack is readHeldBack where it is only of help.
func (c *Cluster) heldBack(ctx context.Context) heldBack {
	held, _ := c.readHeldBack(ctx)
	return held
}

func activeAt(entries map[string]string, now time.Time) heldBack {
	held := heldBack{entries: entries, active: map[string]api.HeldBack{}}
	for _, text := range entries {
		if entry, err := api.ParseHeldBack(text); err == nil && entry.Active(now) {
			held.active[entry.Key()] = entry
		}
	}
	return held
}

func lookHeldBack(ctx context.Context, c *Cluster) []Finding {
	held, err := c.readHeldBack(ctx)
	if err != nil {
		return skipped(err)
	}
	return judgeHeldBack(held.entries, c.Namespace, c.Now())
}

// judgeHeldBack says of each workload, of one namespace or of all, that it is
// admitted without injection.
func judgeHeldBack(entries map[string]string, only string, now time.Time) []Finding {
	var findings []Finding
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		h, err := api.ParseHeldBack(entries[key])
		if err != nil {
			findings = append(findings, finding(Warn, key, "the entry cannot be read, and nobody heeds it: %v", err).
				With("take the key out of ConfigMap %s", api.HeldBackConfigMap))
			continue
		}
		if only != "" && h.Namespace != only || !h.Active(now) {
			continue
		}
		findings = append(findings, finding(Fail, h.Namespace+"/"+h.Kind+"/"+h.Name, "new pods are admitted without sidecar until %s (%s, since %s): %s", day(h.Until), h.Cause, day(h.Since), h.Message).
			With("settle the cause; annotation %s=%s on the pods or their namespace has them injected at once", api.AnnotationHeldBack, api.HeldBackIgnore))
	}
	if len(findings) == 0 {
		return []Finding{finding(OK, "", "no workload is held back")}
	}
	return findings
}
