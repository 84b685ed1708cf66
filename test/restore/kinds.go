package restore

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/test/restore/simulated"
)

// kind is a scenario that is interrupted.
type kind struct {
	name   string
	size   int
	policy appsv1.PodManagementPolicyType
	play   func(ctx context.Context, p *play) (faulty []string)
}

var kinds = []kind{
	{"one pod of three by name", 3, appsv1.OrderedReadyPodManagement, onePod},
	{"all by selector, OrderedReady", 3, appsv1.OrderedReadyPodManagement, group(func(*api.RestoreSpec) {})},
	{"all by selector, Parallel", 3, appsv1.ParallelPodManagement, group(func(*api.RestoreSpec) {})},
	{"one at a time", 3, appsv1.ParallelPodManagement, group(func(s *api.RestoreSpec) { s.Parallel = 1 })},
	{"the latest complete backup", 2, appsv1.ParallelPodManagement, group(func(s *api.RestoreSpec) { s.Backup = api.BackupLatest })},
	{"annotation on a live pod", 2, appsv1.OrderedReadyPodManagement, annotated(1)},
	{"annotation on three live pods", 3, appsv1.ParallelPodManagement, annotated(3)},
	{"cancelled in the middle", 3, appsv1.ParallelPodManagement, cancelled},
	{"deleted in the middle, applied again", 2, appsv1.ParallelPodManagement, reapplied},
	{"undone", 2, appsv1.ParallelPodManagement, undone},
	{"scaled up since the backup", 3, appsv1.ParallelPodManagement, scaledUp},
}

// completes interrupts a Restore, judges it, and applies it again.
func (p *play) completes(ctx context.Context, o *api.Restore, data map[string]string) []string {
	if err := p.ask(ctx, o); err != nil {
		return []string{err.Error()}
	}
	p.interrupt(ctx, o.Name)
	p.wait.Wait()
	if faulty := p.judge(ctx, o.Name, data); len(faulty) > 0 {
		return faulty
	}
	// Without its sidecar a volume could not say what it remembers.
	if err := p.ready(ctx, true); err != nil {
		return []string{err.Error()}
	}
	touched, faulty := p.again(ctx, o, data)
	p.touched = touched
	return faulty
}

func restored(pod string) string { return simulated.Restored(nightly, pod) }

func onePod(ctx context.Context, p *play) []string {
	pod := p.pods()[p.random.IntN(p.size)]
	return p.completes(ctx, p.restore("one", nightly, pod), map[string]string{pod: restored(pod)})
}

func group(edit func(*api.RestoreSpec)) func(context.Context, *play) []string {
	return func(ctx context.Context, p *play) []string {
		o := p.restore("group", nightly)
		edit(&o.Spec)
		return p.completes(ctx, o, all(p.pods(), restored))
	}
}

// annotated asks on live pods, for all of them at about the same time.
func annotated(number int) func(context.Context, *play) []string {
	return func(ctx context.Context, p *play) []string {
		asked := p.pods()[:number]
		for _, name := range asked {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: name}}
			if err := p.patch(ctx, pod, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationRestore, nightly)); err != nil {
				return []string{err.Error()}
			}
		}
		var made []api.Restore
		if err := p.await(ctx, patience, "the annotation to become a Restore", func(ctx context.Context) (bool, error) {
			var err error
			made, err = p.restores(ctx, p.ns)
			return len(made) > 0, err
		}); err != nil {
			return []string{err.Error()}
		}
		name := made[0].Name
		p.interrupt(ctx, name)
		p.wait.Wait()
		data := map[string]string{}
		for _, pod := range asked {
			data[pod] = restored(pod)
		}
		faulty := p.judge(ctx, name, data)
		if made, err := p.restores(ctx, p.ns); err != nil || len(made) != 1 {
			faulty = append(faulty, fmt.Sprintf("%d Restores were made of %d annotations: %v", len(made), number, err))
		}
		return faulty
	}
}

// cancelled cancels at a moment of chance. Afterwards the databases run, with what is
// on their volumes.
func cancelled(ctx context.Context, p *play) []string {
	o := p.restore("cancelled", nightly)
	if err := p.ask(ctx, o); err != nil {
		return []string{err.Error()}
	}
	p.interrupt(ctx, o.Name)
	pause(ctx, time.Duration(p.random.IntN(5000))*time.Millisecond)
	if err := p.patch(ctx, o.DeepCopy(), `{"spec":{"cancel":true}}`); err != nil {
		return []string{err.Error()}
	}
	p.wait.Wait()
	got, err := p.final(ctx, settleLimit, o.Name)
	if err != nil {
		return []string{err.Error()}
	}
	var faulty []string
	if phase := got.Status.Phase; phase != api.RestoreCancelled && phase != api.RestoreCompleted || len(got.Status.Pending) > 0 {
		faulty = append(faulty, fmt.Sprintf("cancelled, it is %s, pending %v: %s", phase, got.Status.Pending, got.Status.Message))
	}
	if err := p.ready(ctx, false); err != nil {
		faulty = append(faulty, err.Error())
	}
	for _, pod := range p.pods() {
		if times := p.volume(pod).Replaced[got.Status.ID]; times > 1 {
			faulty = append(faulty, fmt.Sprintf("the data of %s were replaced %d times", pod, times))
		}
	}
	return append(faulty, p.Witness.Violations(p.ns)...)
}

// reapplied deletes the Restore at a moment of chance and applies the same again.
func reapplied(ctx context.Context, p *play) []string {
	o := p.restore("again", nightly)
	if err := p.ask(ctx, o); err != nil {
		return []string{err.Error()}
	}
	pause(ctx, time.Duration(p.random.IntN(4000))*time.Millisecond)
	if err := p.remove(ctx, o.Name); err != nil {
		return []string{err.Error()}
	}
	// What the webhook is away for comes back without a sidecar.
	if err := p.ready(ctx, true); err != nil {
		return []string{err.Error()}
	}
	return p.completes(ctx, o, all(p.pods(), restored))
}

func undone(ctx context.Context, p *play) []string {
	o := p.restore("done", nightly)
	if faulty := p.completes(ctx, o, all(p.pods(), restored)); len(faulty) > 0 {
		return faulty
	}
	undo := &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "undo"}, Spec: api.RestoreSpec{Undo: o.Name}}
	return p.completes(ctx, undo, all(p.pods(), func(string) string { return "new" }))
}

// scaledUp has a pod more than the backup.
func scaledUp(ctx context.Context, p *play) []string {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: setName}}
	if err := p.patch(ctx, set, fmt.Sprintf(`{"spec":{"replicas":%d}}`, p.size+1)); err != nil {
		return []string{err.Error()}
	}
	data := all(p.pods(), restored)
	p.size++
	data[p.pods()[p.size-1]] = simulated.Emptied
	if err := p.ready(ctx, true); err != nil {
		return []string{err.Error()}
	}
	o := p.restore("grown", nightly)
	o.Spec.WhenNoBackup = api.NoBackupEmpty
	return p.completes(ctx, o, data)
}
