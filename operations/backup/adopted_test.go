package backup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/adopted/adoptedtest"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/operations/sidecar"
	"github.com/stategraft/stategraft/patches"
)

// A pod that was adopted can be backed up, whole or as it is kept, and where its log is to be
// read the container is called what it is on the pod.
func TestAdoptedIsBackedUp(t *testing.T) {
	for name, pair := range adoptedtest.Corpus(t, "../..") {
		was, is := slim(pair.Injected), slim(pair.Adopted)
		if why := CheckPod(pair.Adopted); why != "" {
			t.Errorf("%s: %s", name, why)
		}
		if why := CheckPod(is); why != "" {
			t.Errorf("%s, kept: %s", name, why)
		}
		if a, b := kvs.Sidecar(was), kvs.Sidecar(is); len(a.VolumeMounts) != len(b.VolumeMounts) || len(b.Env) != len(a.Env) || len(b.Ports) < 2 {
			t.Errorf("%s: keeps %+v; of the injected %+v", name, b, a)
		}
		if len(is.Status.EphemeralContainerStatuses) > 0 || up(is) != up(was) || kvs.Role(is) != kvs.Role(was) || kvs.Cluster(is) != kvs.Cluster(was) || !adopted.Is(is) {
			t.Errorf("%s: keeps %+v", name, is)
		}
		if log := logOf(was); log != kvs.Sidecar(was).Name {
			t.Errorf("%s: the log of an injected one is of %s", name, log)
		}
		want := kvs.Sidecar(was).Name + "-1"
		if !kvs.Of(is) {
			want = adopted.Serving(adopted.Parts(pair.Adopted)).Container.Name
		}
		if logOf(pair.Adopted) != want || logOf(is) != want || !strings.HasPrefix(want, kvs.Sidecar(was).Name+"-") {
			t.Errorf("%s: the log is of %s, kept %s; want %s", name, logOf(pair.Adopted), logOf(is), want)
		}
	}
}

// What a Backup says of a pod whose sidecar gave up names its container.
func TestAdoptedGivesUp(t *testing.T) {
	pod := adoptedtest.Official(t, "../..").Adopted
	pod.Name = "cas-0"
	p := &note{}
	p.keep(pod, today)
	s := p.seen(&api.PodBackup{Name: "cas-0"})
	if got, want := givenUp(&api.PodBackup{Name: "cas-0"}, s), "(kubectl logs cas-0 -c stategraft-medusa-3)"; !strings.HasSuffix(got, want) {
		t.Errorf("%s", got)
	}
	if got := givenUp(&api.PodBackup{Name: "cas-0"}, seen{}); !strings.HasSuffix(got, "-c "+patches.ContainerMedusa+")") {
		t.Errorf("of one of which nothing is known: %s", got)
	}
}

// A pod that has no sidecar is told of both ways to one.
func TestCheckPodTellsOfAdoption(t *testing.T) {
	pod := adoptedtest.Official(t, "../..").Plain
	pod.Namespace, pod.Name = "db", "cas-0"
	if got := CheckPod(pod); !strings.HasSuffix(got, "check -n db` tells why. Remedy that first; then re-create the pod (kubectl delete pod cas-0), or give it one while it runs (kubectl stategraft adopt pod/cas-0 -n db)") {
		t.Error(got)
	}
}

// deaf is an asker whose Medusas do not answer, though their pods do.
type deaf struct {
	asker
	report node.Report
	err    error
}

func (d deaf) Status(context.Context, *corev1.Pod, string) (sidecar.Phase, error) {
	return "", fmt.Errorf("%w: connection refused", sidecar.ErrUnreachable)
}

func (d deaf) Report(context.Context, *corev1.Pod) (node.Report, error) { return d.report, d.err }

// A Medusa that does not answer may wait, and its pod tells for what.
func TestSilentMedusaWaits(t *testing.T) {
	pod := slim(adoptedtest.Official(t, "../..").Adopted)
	for want, d := range map[string]deaf{
		"its Medusa waits: the node is short of memory": {report: node.Report{Waiting: "the node is short of memory"}},
		"connection refused":                            {err: errors.New("no answer either")},
		": connection refused":                          {},
	} {
		r := &reconciler{ask: d}
		if s := r.observe(t.Context(), &api.Backup{}, pod); s.sight != silentSight || !strings.HasSuffix(s.why, want) {
			t.Errorf("%s: %+v", want, s)
		}
	}
}
