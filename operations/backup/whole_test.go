package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/sidecar"
	"github.com/stategraft/stategraft/operations/sidecar/sidecartest"
)

func TestThreePods(t *testing.T) {
	w := newWhole(t, 3)
	w.ask(func(*api.Backup) {})
	b := w.run(over_)
	if b.Status.Phase != api.BackupComplete || phases(b) != "Complete Complete Complete" || b.Status.Progress.Pods != "3/3" || b.Status.Objects != 30 ||
		b.Status.Bytes != 3<<20 || b.Status.Progress.Size != "3.0MiB" || b.Status.Database != "4.1.10" || b.Status.Type != api.BackupDifferential ||
		b.Status.Listed == nil || b.Status.Name != b.StorageName() || !held(b) {
		t.Errorf("%+v", b.Status)
	}
	for i := range b.Status.Pods {
		if at := &b.Status.Pods[i]; at.Datacenter != "dc1" || at.Rack != "r1" || at.Tokens != 1 || at.Tries != 1 || at.UID != "1" || at.Message != "" {
			t.Errorf("%+v", at)
		}
	}
	parts := w.storage.Parts(b.Status.Name)
	if len(parts) != 3 || len(w.storage.Overlaps()) > 0 || w.storage.Most() == 0 {
		t.Errorf("the storage has %v, overlaps %v", parts, w.storage.Overlaps())
	}
	if !slices.Equal(w.told, []string{"Backup BackupCompleted"}) {
		t.Errorf("told %v", w.told)
	}
}

// A Medusa that is started anew in the midst is asked again, after what it has left is
// removed; the controller, too, is started anew.
func TestSidecarStartedAnew(t *testing.T) {
	w := newWhole(t, 3)
	w.pods[0].set(long)
	w.ask(func(b *api.Backup) { b.Spec.Parallel = 1 })
	w.run(podRuns("cas-0"))
	w.pods[0].set(quick)
	if err := w.pods[0].Restart(); err != nil {
		t.Fatal(err)
	}
	w.start()
	b := w.run(over_)
	if b.Status.Phase != api.BackupComplete || b.Status.Pod("cas-0").Tries != 2 || b.Status.Pod("cas-1").Tries != 1 || len(w.storage.Overlaps()) > 0 {
		t.Errorf("%s: %+v", b.Status.Message, b.Status.Pods)
	}
	if most := w.storage.Most(); most != 1 {
		t.Errorf("%d at once", most)
	}
}

// starting is a Medusa that does not listen yet, though its pod answers.
type starting struct {
	Sidecars
	w     *whole
	until time.Time
}

func (s *starting) Medusa(ctx context.Context, pod *corev1.Pod) (*sidecar.Medusa, error) {
	if pod.Name == "cas-0" && s.w.clock().Before(s.until) {
		return nil, fmt.Errorf("%w: connection refused", sidecar.ErrUnreachable)
	}
	return s.Sidecars.Medusa(ctx, pod)
}

// A Medusa that has just been started, as of a pod that was adopted a moment ago, costs no
// try.
func TestMedusaStartsUp(t *testing.T) {
	w := newWhole(t, 2)
	begin := w.r.ask.(*talks)
	begin.sidecars = &starting{begin.sidecars, w, w.now.Add(25 * time.Second)}
	w.ask(func(b *api.Backup) { b.Spec.Retries = new(int32(0)) })
	b := w.run(over_)
	if b.Status.Phase != api.BackupComplete || b.Status.Pod("cas-0").Tries != 1 || len(w.storage.Overlaps()) > 0 {
		t.Errorf("%s: %+v", b.Status.Message, b.Status.Pods)
	}
	if took := b.Status.Finished.Sub(b.Status.Started.Time); took > 90*time.Second {
		t.Errorf("took %v", took)
	}
}

// A pod that vanishes makes it Partial, after the others are done and a while more.
func TestPodVanishes(t *testing.T) {
	w := newWhole(t, 3)
	w.pods[2].set(long)
	w.ask(func(*api.Backup) {})
	w.run(podRuns("cas-2"))
	w.pods[2].Kill()
	if err := w.client.Delete(context.Background(), w.pods[2].pod("1")); err != nil {
		t.Fatal(err)
	}
	b := w.run(over_)
	if b.Status.Phase != api.BackupPartial || phases(b) != "Complete Complete Gone" {
		t.Errorf("%s %s: %s", b.Status.Phase, phases(b), b.Status.Message)
	}
	if took := w.now.Sub(today); took < defaultAbsentLimit || took > 2*defaultAbsentLimit {
		t.Errorf("it took %v", took)
	}
	if !slices.Contains(w.told, "StatefulSet BackupFailed") {
		t.Errorf("its workload is not told: %v", w.told)
	}
}

// One that comes back is tried again.
func TestPodComesBack(t *testing.T) {
	w := newWhole(t, 2)
	w.pods[1].set(long)
	w.ask(func(b *api.Backup) { b.Spec.Pods = &api.BackupPods{Names: []string{"cas-1"}} })
	w.run(podRuns("cas-1"))
	w.pods[1].Kill()
	if err := w.client.Delete(context.Background(), w.pods[1].pod("1")); err != nil {
		t.Fatal(err)
	}
	w.run(func(b *api.Backup) bool { return b.Status.Phase == api.BackupWaiting })
	w.pods[1].set(quick)
	if err := errors.Join(w.pods[1].Run(), w.client.Create(context.Background(), w.pods[1].pod("2"))); err != nil {
		t.Fatal(err)
	}
	b := w.run(over_)
	if at := b.Status.Pod("cas-1"); b.Status.Phase != api.BackupComplete || at.Tries != 2 || at.UID != "2" || !strings.Contains(b.Status.Message, "the cluster also has cas-0") {
		t.Errorf("%s: %+v", b.Status.Message, at)
	}
}

// What Medusa calls a success and has nothing in it is none.
func TestNothingInIt(t *testing.T) {
	w := newWhole(t, 1)
	w.pods[0].set(sidecartest.Work{})
	w.ask(func(*api.Backup) {})
	b := w.run(over_)
	if at := b.Status.Pod("cas-0"); b.Status.Phase != api.BackupFailed || at.Phase != api.PodBackupFailed || at.Tries != 3 || !strings.Contains(at.Message, "nothing is in it") {
		t.Errorf("%s %s: %+v", b.Status.Phase, b.Status.Message, at)
	}
}

// Whatever does not answer, the Backup is over in time.
func TestTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		pods    int
		trouble func(w *whole)
		want    string
		phase   api.BackupPhase
	}{
		"a Medusa that is never done":         {2, func(w *whole) { w.pods[0].set(long) }, "Failed Complete", api.BackupPartial},
		"a Medusa that gives up, and says so": {1, func(w *whole) { w.pods[0].set(sidecartest.Work{Fails: true}) }, "Failed", api.BackupFailed},
		"one that gives up and does not":      {1, func(w *whole) { w.pods[0].set(sidecartest.Work{NeverBegins: true}) }, "Failed", api.BackupFailed},
		"one that is not there":               {2, func(w *whole) { w.pods[1].Kill() }, "Complete Failed", api.BackupPartial},
		"a storage that is down":              {2, func(w *whole) { w.storage.SetTrouble(errors.New("no such host")) }, "Failed Failed", api.BackupFailed},
		"nobody at all": {2, func(w *whole) {
			for _, p := range w.pods {
				p.Both.Close()
			}
		}, "", api.BackupFailed},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWhole(t, c.pods)
			c.trouble(w)
			w.ask(func(b *api.Backup) { b.Spec.Timeout = &metav1.Duration{Duration: 30 * time.Minute} })
			b := w.run(over_)
			if b.Status.Phase != c.phase || phases(b) != c.want {
				t.Errorf("%s %q, want %s %q: %s", b.Status.Phase, phases(b), c.phase, c.want, b.Status.Message)
			}
			if took := w.now.Sub(today); took > 31*time.Minute {
				t.Errorf("it took %v", took)
			}
			if len(w.storage.Overlaps()) > 0 {
				t.Errorf("overlaps %v", w.storage.Overlaps())
			}
		})
	}
}

// A storage that is down while it is asked what it has is waited for.
func TestStorageComesBack(t *testing.T) {
	w := newWhole(t, 1)
	w.ask(func(*api.Backup) {})
	down := &checksFail{asker: w.r.ask, times: 5}
	w.r.ask = down
	b := w.run(over_)
	if b.Status.Phase != api.BackupComplete || b.Status.Pod("cas-0").Tries != 1 || down.times != 0 {
		t.Errorf("%s: %+v, %d", b.Status.Message, b.Status.Pods, down.times)
	}
}

type checksFail struct {
	asker
	times int
}

func (c *checksFail) Backup(ctx context.Context, pod *corev1.Pod, prefix, name string) (node.Backup, error) {
	if c.times > 0 {
		c.times--
		return node.Backup{}, errors.New("no such host")
	}
	return c.asker.Backup(ctx, pod, prefix, name)
}

// TestRequests counts what a Backup of fifty pods asks of the API server.
func TestRequests(t *testing.T) {
	const pods = 50
	w := newWhole(t, pods)
	w.ask(func(*api.Backup) {})
	b := w.run(over_)
	total := len(w.told)
	requests := w.count()
	for _, n := range requests {
		total += n
	}
	t.Logf("%d pods, %d requests (%.2f for a pod), with %d events: %v", pods, total, float64(total)/pods, len(w.told), requests)
	if b.Status.Phase != api.BackupComplete || total > pods {
		t.Errorf("%s after %d requests", b.Status.Phase, total)
	}
	// One after another, each pod is written down before it begins and when it is done.
	w = newWhole(t, 10)
	w.ask(func(b *api.Backup) { b.Spec.Parallel = 1 })
	w.run(over_)
	total = len(w.told)
	for _, n := range w.count() {
		total += n
	}
	t.Logf("10 pods one after another: %d requests", total)
	if total > 30 {
		t.Errorf("%d requests, %v", total, w.count())
	}
}
