package sidecar

import (
	"errors"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/operations/adopted/adoptedtest"
)

// A pod that was adopted is asked where it would be if it had been injected, and the
// container is called what it is on the pod.
func TestFindAdopted(t *testing.T) {
	for name, pair := range adoptedtest.Corpus(t, "../..") {
		for what, service := range map[string]service{"node": nodeService, "Medusa": medusaService} {
			was, err := find(pair.Injected, service)
			if err != nil {
				t.Fatalf("%s, injected: %v", name, err)
			}
			is, err := find(pair.Adopted, service)
			if err != nil || is.container != was.container || pair.Text(is.host) != pair.Text(was.host) || is.tls != was.tls {
				t.Errorf("%s, %s: %+v (%v); injected %+v", name, what, is, err, was)
			}
			if !strings.HasPrefix(is.called, was.container+"-") {
				t.Errorf("%s, %s: the container is called %s", name, what, is.called)
			}
		}
	}
}

func TestFindAdoptedThatDoesNotServe(t *testing.T) {
	pod := adoptedtest.Official(t, "../..").Adopted
	for i := range pod.Status.EphemeralContainerStatuses {
		s := &pod.Status.EphemeralContainerStatuses[i]
		*s = adoptedtest.Waiting(s.Name, "ImagePullBackOff", "")
	}
	if _, err := find(pod, nodeService); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "container stategraft-medusa-3 does not run") {
		t.Error(err)
	}
}
