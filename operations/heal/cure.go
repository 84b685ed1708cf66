package heal

import (
	"slices"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// cure is an image that one of our containers is to be given.
type cure struct {
	trouble
	image string
}

// troubles are those of our sidecars, and of the setup container before Anna where
// its image cannot be used: how it ends otherwise is about what it sets up.
func troubles(all []part) (found []trouble) {
	for _, p := range all {
		side := slices.Contains(curable, p.Name) && sidecar(p.Container, p.init)
		if !p.own || !side && p.Name != containerSetup {
			continue
		}
		if t, ok := troubleOf(p); ok && (side || t.cause == api.CauseImagePull) {
			found = append(found, t)
		}
	}
	return found
}

// blocks tells whether the trouble is that of the setup container, which nothing
// can stand in for.
func (t trouble) blocks() bool { return t.Name == containerSetup }

// cures are the images that the containers in trouble are to be given: the
// database's own, which is on the node. The snapshot server has that already; it
// gets the agent's, where that runs, in which there is no nodetool to fail. What
// was healed before is not healed again.
func cures(all []part, troubles []trouble) (found []cure) {
	for _, t := range troubles {
		if t.blocks() || idles(all, t.part) || !t.looping() {
			continue
		}
		if t.Name != containerSnapshot {
			found = append(found, cure{trouble: t}) // which container is the database's, the whole pod tells
			continue
		}
		for _, p := range all {
			if p.own && p.Name == containerAgent && p.status.State.Running != nil && !usersImage(all, p.Image) {
				found = append(found, cure{t, p.Image})
			}
		}
	}
	return found
}

// allIdle tells whether all containers in trouble were healed.
func allIdle(all []part, troubles []trouble) bool {
	return !slices.ContainsFunc(troubles, func(t trouble) bool { return !idles(all, t.part) })
}
