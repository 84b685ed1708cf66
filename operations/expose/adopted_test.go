package expose

import (
	"slices"
	"testing"

	"github.com/stategraft/stategraft/operations/adopted/adoptedtest"
)

// An adopted pod is reached at the ports of an injected one.
func TestPortsOfAdopted(t *testing.T) {
	for name, pair := range adoptedtest.Corpus(t, "../..") {
		was, is := portsOf(pair.Injected), portsOf(pair.Adopted)
		if len(is) == 0 || !slices.Equal(was, is) {
			t.Errorf("%s: %v; injected %v", name, is, was)
		}
	}
}
