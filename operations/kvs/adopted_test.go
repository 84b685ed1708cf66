package kvs

import (
	"testing"

	"github.com/stategraft/stategraft/operations/adopted/adoptedtest"
)

// A node that was adopted is of the same cluster as it would be if it had been injected.
func TestAdopted(t *testing.T) {
	nodes, configured := 0, 0
	for name, pair := range adoptedtest.Corpus(t, "../..") {
		was, is := pair.Injected, pair.Adopted
		if Of(was) != Of(is) || Role(was) != Role(is) || Cluster(was) != Cluster(is) || HoldsData(was) != HoldsData(is) || Idle(was) != Idle(is) {
			t.Errorf("%s: %q of %q; injected %q of %q", name, Role(is), Cluster(is), Role(was), Cluster(was))
		}
		if Of(was) && ConfigMap(was) != ConfigMap(is) {
			t.Errorf("%s: ConfigMap %q; injected %q", name, ConfigMap(is), ConfigMap(was))
		}
		if Of(is) && HoldsData(is) {
			nodes++
		}
		if Of(is) && ConfigMap(is) == "conf" {
			configured++
		}
		if c := Sidecar(is); c == nil || !Serves(c) || c.Name != Sidecar(was).Name {
			t.Errorf("%s: its sidecar is %+v", name, c)
		}
		if Of(is) && !Together(was, is) {
			t.Errorf("%s: adopted and injected are not of one cluster", name)
		}
	}
	if nodes == 0 || configured == 0 {
		t.Errorf("%d nodes of Anna, %d with a ConfigMap", nodes, configured)
	}
}
