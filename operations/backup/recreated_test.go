package backup

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/sidecar/sidecartest"
)

// holds keeps Backups in Checking: the storage does not answer.
type holds struct {
	asker
	down bool
}

func (h *holds) Backup(ctx context.Context, pod *corev1.Pod, prefix, name string) (node.Backup, error) {
	if h.down {
		return node.Backup{}, errors.New("no such host")
	}
	return h.asker.Backup(ctx, pod, prefix, name)
}

// goes takes a pod away, and its sidecar with it.
func (w *whole) goes(p *wholePod) {
	w.Helper()
	p.Both.Close()
	if err := w.client.Delete(context.Background(), p.pod("1")); err != nil && !apierrors.IsNotFound(err) {
		w.Fatal(err)
	}
}

// comes makes a pod anew, none of whose containers runs yet.
func (w *whole) comes(p *wholePod, uid types.UID) {
	w.Helper()
	pod := p.pod(uid)
	pod.Status = corev1.PodStatus{}
	if err := w.client.Create(context.Background(), pod); err != nil {
		w.Fatal(err)
	}
}

// bare makes a pod anew that was admitted without a sidecar.
func (w *whole) bare(p *wholePod, uid types.UID) {
	w.Helper()
	pod := bare(p.name)
	pod.UID = uid
	if err := w.client.Create(context.Background(), pod); err != nil {
		w.Fatal(err)
	}
}

// starts runs the pod's containers, at another address than before.
func (w *whole) starts(p *wholePod, uid types.UID, ip string) {
	w.Helper()
	p.serve(w, ip)
	pod := &corev1.Pod{}
	if err := w.client.Get(context.Background(), types.NamespacedName{Namespace: "ns", Name: p.name}, pod); err != nil {
		w.Fatal(err)
	}
	pod.Spec, pod.Status = p.pod(uid).Spec, p.pod(uid).Status
	before := pod.DeepCopy()
	if err := w.client.Update(context.Background(), pod, client.FieldOwner("kubelet")); err != nil {
		w.Fatal(err)
	}
	pod.Status = before.Status
	if err := w.client.Status().Update(context.Background(), pod, client.FieldOwner("kubelet")); err != nil {
		w.Fatal(err)
	}
}

// goOn has the controller run for so long.
func (w *whole) goOn(d time.Duration) *api.Backup {
	w.Helper()
	end := w.now.Add(d)
	return w.run(func(b *api.Backup) bool { return over_(b) || w.now.After(end) })
}

func podChecks(name string) func(*api.Backup) bool {
	return func(b *api.Backup) bool {
		at := b.Status.Pod(name)
		return at != nil && at.Phase == api.PodBackupChecking
	}
}

// A pod that is created anew is read before its containers run, whatever its Backup is
// about just then. It is asked once they do.
func TestPodReadBeforeItRuns(t *testing.T) {
	for name, c := range map[string]struct {
		pods   int
		of     []string // the Backup's
		course func(w *whole, storage *holds)
		tries  int32 // of cas-0
		phase  api.BackupPhase
	}{
		"checking": {1, nil, func(w *whole, storage *holds) {
			storage.down = true
			w.run(podChecks("cas-0"))
			w.goes(w.pods[0])
			w.comes(w.pods[0], "2")
			storage.down = false
			b := w.goOn(2 * time.Minute)
			if at := b.Status.Pod("cas-0"); !strings.Contains(at.Message, "none of its pods runs") {
				w.Errorf("while it starts: %+v", at)
			}
			w.starts(w.pods[0], "2", sidecartest.Address(300))
		}, 1, api.BackupComplete},
		"checking, never asked in between": {1, nil, func(w *whole, storage *holds) {
			storage.down = true
			w.run(podChecks("cas-0"))
			w.goes(w.pods[0])
			w.comes(w.pods[0], "2")
			w.goOn(time.Second)
			w.starts(w.pods[0], "2", sidecartest.Address(300))
			storage.down = false
		}, 1, api.BackupComplete},
		"checking, and its containers end and start elsewhere": {1, nil, func(w *whole, storage *holds) {
			storage.down = true
			w.run(podChecks("cas-0"))
			w.pods[0].Both.Close() // a new sandbox: the pod is the same
			storage.down = false
			w.goOn(2 * time.Minute)
			w.starts(w.pods[0], "1", sidecartest.Address(300))
		}, 1, api.BackupComplete},
		"checking, of all pods": {4, nil, func(w *whole, storage *holds) {
			storage.down = true
			w.run(podChecks("cas-3"))
			for _, p := range w.pods {
				w.goes(p)
				w.comes(p, "2")
			}
			storage.down = false
			w.goOn(2 * time.Minute)
			w.starts(w.pods[3], "2", sidecartest.Address(300))
		}, 1, api.BackupComplete},
		"checking the last, and those that are complete were re-created": {4, nil, func(w *whole, storage *holds) {
			end := make(chan struct{})
			w.pods[3].set(sidecartest.Work{End: end, Objects: 10})
			w.run(func(b *api.Backup) bool { return phases(b) == "Complete Complete Complete Running" })
			close(end)
			storage.down = true
			w.run(podChecks("cas-3"))
			for i, p := range w.pods[:3] {
				w.goes(p)
				w.comes(p, "2")
				w.starts(p, "2", sidecartest.Address(300+i))
			}
			w.goes(w.pods[3])
			storage.down = false
		}, 1, api.BackupComplete},
		"checking, and another pod of the cluster can be asked": {2, []string{"cas-0"}, func(w *whole, storage *holds) {
			storage.down = true
			w.run(podChecks("cas-0"))
			w.goes(w.pods[0])
			w.comes(w.pods[0], "2")
			storage.down = false
		}, 1, api.BackupComplete},
		"running": {1, nil, func(w *whole, _ *holds) {
			w.pods[0].set(long)
			w.run(podRuns("cas-0"))
			w.goes(w.pods[0])
			w.comes(w.pods[0], "2")
			w.goOn(2 * time.Minute)
			w.pods[0].set(quick)
			w.starts(w.pods[0], "2", sidecartest.Address(300))
		}, 2, api.BackupComplete},
		"waiting, and one without a sidecar is there in between": {1, nil, func(w *whole, _ *holds) {
			w.pods[0].set(long)
			w.run(podRuns("cas-0"))
			w.goes(w.pods[0])
			w.goOn(time.Minute)
			w.bare(w.pods[0], "2")
			b := w.goOn(15 * time.Minute)
			if at := b.Status.Pod("cas-0"); at.Phase != api.PodBackupWaiting || !strings.Contains(at.Message, "no sidecar") {
				w.Errorf("%+v", at)
			}
			w.goes(w.pods[0])
			w.goOn(5 * time.Minute)
			b = w.get()
			if at := b.Status.Pod("cas-0"); at.Phase != api.PodBackupWaiting || !strings.Contains(at.Message, "is not there") {
				w.Errorf("that one is gone: %+v", at)
			}
			w.comes(w.pods[0], "3")
			w.goOn(time.Minute)
			w.pods[0].set(quick)
			w.starts(w.pods[0], "3", sidecartest.Address(300))
		}, 2, api.BackupComplete},
		"waiting, and none of many has a sidecar any more": {5, nil, func(w *whole, _ *holds) {
			for _, p := range w.pods {
				p.set(long)
			}
			w.run(podRuns("cas-4"))
			for _, p := range w.pods {
				w.goes(p)
				w.bare(p, "2")
			}
			b := w.goOn(15 * time.Minute)
			if at := b.Status.Pod("cas-0"); at.Phase != api.PodBackupWaiting || !strings.Contains(at.Message, "no sidecar") {
				w.Errorf("%+v", at)
			}
		}, 1, api.BackupFailed},
		"checking, and no pod is there any more": {1, nil, func(w *whole, storage *holds) {
			storage.down = true
			w.run(podChecks("cas-0"))
			w.goOn(time.Minute)
			w.goes(w.pods[0])
		}, 1, api.BackupFailed},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWhole(t, c.pods)
			storage := &holds{asker: w.r.ask}
			w.r.ask = storage
			w.ask(func(b *api.Backup) {
				if c.of != nil {
					b.Spec.Pods = &api.BackupPods{Names: c.of}
				}
			})
			c.course(w, storage)
			began := w.now
			b := w.run(over_)
			if at := b.Status.Pod("cas-0"); b.Status.Phase != c.phase || at.Tries != c.tries {
				t.Errorf("%s %s: %+v", b.Status.Phase, b.Status.Message, at)
			}
			if took := w.now.Sub(began); c.phase == api.BackupComplete && took > 3*time.Minute || took > time.Hour {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// What is in the way is told as it is now, and not as it was first; neither is each look
// written.
func TestTextsAreRenewed(t *testing.T) {
	w := newWhole(t, 1)
	storage := &changing{asker: w.r.ask, w: w, now: w.clock}
	w.r.ask = storage
	w.ask(func(*api.Backup) {})
	w.run(podChecks("cas-0"))
	writes := w.count()["update status"]
	b := w.goOn(10 * time.Minute)
	if at := b.Status.Pod("cas-0"); !strings.Contains(at.Message, storage.said[len(storage.said)-1]) && !strings.Contains(at.Message, w.now.Add(-2*time.Minute).Format("15:")) {
		t.Errorf("it says %q", at.Message)
	}
	if n := w.count()["update status"] - writes; n < 5 || n > 15 {
		t.Errorf("%d times written in ten minutes", n)
	}
}

// changing says something else each time.
type changing struct {
	asker
	w    *whole
	now  func() time.Time
	said []string
}

func (c *changing) Backup(context.Context, *corev1.Pod, string, string) (node.Backup, error) {
	c.said = append(c.said, c.now().Format("15:04:05"))
	return node.Backup{}, errors.New(c.said[len(c.said)-1])
}
