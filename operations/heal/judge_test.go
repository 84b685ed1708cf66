package heal

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

const (
	cassandra = "plain-official-41"
	anna      = "anna-ebs"

	agent    = patches.ContainerAgent
	snapshot = patches.ContainerSnapshot
	medusa   = patches.ContainerMedusa
	setup    = patches.ContainerSetup
	restore  = patches.ContainerRestore

	deadline = 3 * time.Minute
)

// judgement is what is wanted of judge.
type judgement struct {
	action action
	again  time.Duration // when, after start; 0 for never
	reason string        // of the condition, for mark
	cures  string        // "container=image of container", for heal
}

var (
	nothing = judgement{action: actNothing}
	release = judgement{action: actRelease}
)

func wait(until time.Duration) judgement { return judgement{action: actNothing, again: until} }

func mark(reason string, until time.Duration) judgement {
	return judgement{action: actMark, again: until, reason: reason}
}

func heals(cures string) judgement { return judgement{action: actHeal, cures: cures} }

func TestJudge(t *testing.T) {
	const minute, pull, loop = time.Minute, api.DegradedImagePull, api.DegradedCrashLoop
	for _, c := range []struct {
		name    string
		pod     string
		changes []change
		now     time.Duration
		want    judgement
	}{
		{"all is well", cassandra, nil, minute, release},
		{"the database starts", cassandra, []change{starting("cassandra")}, time.Hour, nothing},
		{"an image is being pulled", cassandra, []change{waiting(medusa, "ContainerCreating")}, time.Hour, nothing},

		// Images.
		{"seen first", cassandra, []change{waiting(medusa, "ErrImagePull")}, minute, mark(pull, 4*minute)},
		{"seen first, database not ready", cassandra, []change{waiting(medusa, "ErrImagePull"), starting("cassandra")}, minute, mark(pull, 4*minute)},
		{"counted", cassandra, []change{waiting(medusa, "ImagePullBackOff"), marked(pull, minute)}, 2 * minute, wait(4 * minute)},
		{"almost", cassandra, []change{waiting(medusa, "ImagePullBackOff"), marked(pull, minute)}, 4*minute - 1, wait(4 * minute)},
		{"too long", cassandra, []change{waiting(medusa, "ImagePullBackOff"), marked(pull, minute)}, 4 * minute, heals("stategraft-medusa=cassandra")},
		{"too long, database not ready", cassandra, []change{waiting(medusa, "ImagePullBackOff"), marked(pull, minute), starting("cassandra")}, 9 * minute, nothing},
		{"too long, database ends", cassandra, []change{waiting(medusa, "ImagePullBackOff"), marked(pull, minute), ends("cassandra", "Error", 1, 5)}, 9 * minute, nothing},
		{"too long, database not pulled either", cassandra, []change{waiting(medusa, "ImagePullBackOff"), marked(pull, minute), waiting("cassandra", "ErrImagePull")}, 9 * minute, nothing},
		{"two images", cassandra, []change{waiting(medusa, "ErrImageNeverPull"), waiting(agent, "InvalidImageName"), marked(pull, minute)}, 9 * minute,
			heals("stategraft-agent=cassandra stategraft-medusa=cassandra")},
		{"no such container can be made", cassandra, []change{waiting(agent, "CreateContainerError"), marked(pull, minute)}, 9 * minute, heals("stategraft-agent=cassandra")},
		{"no such user", cassandra, []change{waiting(agent, "CreateContainerConfigError"), marked(pull, minute)}, 9 * minute, heals("stategraft-agent=cassandra")},
		{"no shell", cassandra, []change{ends(agent, "StartError", 128, 2), marked(pull, minute)}, 9 * minute, heals("stategraft-agent=cassandra")},
		{"pulled at last", cassandra, []change{marked(pull, minute)}, 2 * minute, judgement{action: actClear}},
		{"pulled at last, of another one not yet", cassandra, []change{marked(pull, minute), waiting(agent, "ContainerCreating")}, 2 * minute, nothing},
		{"pulled at last, while another one runs for a short time", cassandra, []change{marked(pull, minute), restarted(agent, minute, 1)}, 2 * minute, judgement{action: actClear}},
		{"recovered before", cassandra, []change{recovered, waiting(medusa, "ErrImagePull")}, minute, mark(pull, 4*minute)},

		// Crashes.
		{"ended once", cassandra, []change{endedNow(medusa, 1)}, minute, nothing},
		{"ended twice", cassandra, []change{ends(medusa, "Error", 1, 2)}, minute, mark(loop, 4*minute)},
		{"ended thrice, counted", cassandra, []change{ends(medusa, "Error", 1, 3), marked(loop, minute)}, 2 * minute, wait(4 * minute)},
		{"ended twice in a long time", cassandra, []change{ends(medusa, "Error", 1, 2), marked(loop, minute)}, 9 * minute, judgement{action: actNothing}},
		{"ended again and again", cassandra, []change{ends(medusa, "Error", 1, 4), marked(loop, minute)}, 4 * minute, heals("stategraft-medusa=cassandra")},
		{"ended just now", cassandra, []change{endedNow(medusa, 4), marked(loop, minute)}, 4 * minute, heals("stategraft-medusa=cassandra")},
		{"ended well again and again", cassandra, []change{ends(agent, "Completed", 0, 4), marked(loop, minute)}, 4 * minute, heals("stategraft-agent=cassandra")},
		{"out of memory", cassandra, []change{ends(medusa, "OOMKilled", 137, 2)}, minute, mark(api.DegradedOutOfMemory, 4*minute)},
		{"out of memory again and again", cassandra, []change{ends(medusa, "OOMKilled", 137, 4), marked(api.DegradedOutOfMemory, minute)}, 4 * minute,
			heals("stategraft-medusa=cassandra")},
		{"runs between two ends", cassandra, []change{restarted(medusa, 3*minute, 4), marked(loop, minute)}, 4 * minute, wait(13 * minute)},
		{"runs for long", cassandra, []change{restarted(medusa, 3*minute, 4), marked(loop, minute)}, 13 * minute, judgement{action: actClear}},
		{"restarted once, never marked", cassandra, []change{restarted(medusa, 3*minute, 1)}, 4 * minute, release},

		// The snapshot server's image is the database's.
		{"the snapshot server ends", cassandra, []change{ends(snapshot, "OOMKilled", 137, 4), marked(api.DegradedOutOfMemory, minute)}, 4 * minute,
			heals("stategraft-snapshot=stategraft-agent")},
		{"the snapshot server ends, and there is no agent", cassandra, []change{ends(snapshot, "Error", 1, 4), inImageOf(agent, "cassandra"), marked(loop, minute)}, 4 * minute,
			judgement{action: actGiveUp}},
		{"the snapshot server ends, and the agent does not run", cassandra, []change{ends(snapshot, "Error", 1, 4), waiting(agent, "ContainerCreating"), marked(loop, minute)}, 4 * minute,
			judgement{action: actGiveUp}},
		{"the snapshot server was healed and ends", cassandra, []change{ends(snapshot, "Error", 1, 5), inImageOf(snapshot, agent), marked(api.DegradedHealed, minute)}, 4 * minute,
			judgement{action: actGiveUp}},

		// After healing.
		{"healed", cassandra, []change{inImageOf(medusa, "cassandra"), marked(api.DegradedHealed, minute)}, 9 * minute, nothing},
		{"healed, not started yet", cassandra, []change{inImageOf(medusa, "cassandra"), waiting(medusa, "ImagePullBackOff"), marked(api.DegradedHealed, minute)}, 2 * minute, wait(4 * minute)},
		{"healed in vain", cassandra, []change{inImageOf(medusa, "cassandra"), ends(medusa, "StartError", 128, 4), marked(api.DegradedHealed, minute)}, 4 * minute, judgement{action: actGiveUp}},
		{"given up", cassandra, []change{inImageOf(medusa, "cassandra"), ends(medusa, "StartError", 128, 4), marked(api.DegradedNotHealed, minute)}, time.Hour, nothing},
		{"refused", cassandra, []change{waiting(medusa, "ErrImagePull"), marked(api.DegradedRefused, minute)}, time.Hour, nothing},
		{"refused, and all is well since", cassandra, []change{marked(api.DegradedRefused, minute)}, time.Hour, judgement{action: actClear}},
		{"counted from a time to come", cassandra, []change{waiting(medusa, "ErrImagePull"), marked(pull, 365*24*time.Hour)}, time.Hour, mark(pull, time.Hour+deadline)},
		{"given up, and another one fails", cassandra, []change{ends(snapshot, "StartError", 128, 4), inImageOf(agent, "cassandra"), waiting(medusa, "ErrImagePull"), marked(api.DegradedNotHealed, minute)},
			9 * minute, mark(pull, 12*minute)},
		{"healed, and another one fails", cassandra, []change{inImageOf(medusa, "cassandra"), waiting(agent, "ErrImagePull"), marked(api.DegradedHealed, minute)}, 9 * minute, mark(pull, 12*minute)},
		{"healed, and not noted", cassandra, []change{inImageOf(medusa, "cassandra"), marked(pull, minute)}, 9 * minute, judgement{action: actNote}},
		{"healed, not noted, not started yet", cassandra, []change{inImageOf(medusa, "cassandra"), waiting(medusa, "ImagePullBackOff"), marked(pull, minute)}, 9 * minute, judgement{action: actNote}},

		// What is not ours to touch.
		{"going", cassandra, []change{waiting(medusa, "ErrImagePull"), marked(pull, minute), going}, 9 * minute, nothing},
		{"failed", cassandra, []change{waiting(medusa, "ErrImagePull"), marked(pull, minute), phase(corev1.PodFailed)}, 9 * minute, nothing},
		{"a user's container fails", cassandra, []change{also(corev1.Container{Name: "exporter", Image: "exporter"}), waiting("exporter", "ErrImagePull")}, 9 * minute, nothing},
		{"a user's container fails too", cassandra, []change{also(corev1.Container{Name: "exporter", Image: "exporter"}), waiting("exporter", "ErrImagePull"), waiting(medusa, "ErrImagePull"), marked(pull, minute)}, 9 * minute, nothing},
		{"only the name is ours", cassandra, []change{command(medusa, "sleep", "1d"), waiting(medusa, "ErrImagePull")}, 9 * minute, nothing},
		{"nothing is ours but the label", cassandra, []change{nothingOfOurs}, 9 * minute, nothing},
		{"a restore is asked for", cassandra, []change{waiting(medusa, "ErrImagePull"), marked(pull, minute), annotated(api.AnnotationRestore, "nightly")}, 9 * minute, nothing},

		// Anna: ours are init containers.
		{"anna is well", anna, nil, minute, release},
		{"anna's sidecar is missing", anna, []change{blocked(agent, "ImagePullBackOff"), marked(pull, minute)}, 9 * minute, heals("stategraft-agent=ebs-container")},
		{"anna's sidecar ends, anna runs", anna, []change{ends(agent, "Error", 1, 5), marked(loop, minute)}, 9 * minute, heals("stategraft-agent=ebs-container")},
		{"anna's sidecar ends, anna is not ready", anna, []change{ends(agent, "Error", 1, 5), marked(loop, minute), starting("ebs-container")}, 9 * minute, nothing},
		{"anna's setup is missing", anna, []change{blocked(setup, "ErrImagePull")}, minute, mark(pull, 4*minute)},
		{"anna's setup is missing for too long", anna, []change{blocked(setup, "ErrImagePull"), marked(pull, minute)}, 4 * minute, judgement{action: actReplace}},
		{"anna's setup is missing after anna ran", anna, []change{blocked(setup, "ErrImagePull"), marked(pull, minute), hasEnded("ebs-container")}, 4 * minute, nothing},
		{"anna's setup fails", anna, []change{blocked(setup, "CrashLoopBackOff"), hasEnded(setup)}, 9 * minute, nothing},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := admitted(t, c.pod, nil)
			apply(t, pod, c.changes...)
			got := summary(judge(pod, start.Add(c.now), deadline))
			if want := withImages(t, pod, c.want); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

// summary is a verdict as the tables write it.
func summary(v verdict) judgement {
	got := judgement{action: v.action}
	if !v.at.IsZero() {
		got.again = v.at.Sub(start)
	}
	if v.action == actMark {
		got.reason = v.reason
	}
	if v.action == actHeal {
		var cures []string
		for _, c := range v.cures {
			cures = append(cures, c.Name+"="+c.image)
		}
		got.cures = strings.Join(cures, " ")
	}
	return got
}

// withImages puts images in place of the names of the containers that have them.
// Of the database's container judge leaves the image open.
func withImages(t *testing.T, pod *corev1.Pod, want judgement) judgement {
	cures := strings.Fields(want.cures)
	for i, c := range cures {
		name, of, _ := strings.Cut(c, "=")
		if strings.HasPrefix(of, "stategraft-") {
			cures[i] = name + "=" + containerOf(t, pod, of).Image
		} else {
			cures[i] = name + "="
		}
	}
	want.cures = strings.Join(cures, " ")
	return want
}

func going(_ testing.TB, pod *corev1.Pod) {
	now := at(time.Minute)
	pod.DeletionTimestamp = &now
}

func phase(phase corev1.PodPhase) change {
	return func(_ testing.TB, pod *corev1.Pod) { pod.Status.Phase = phase }
}

func also(c corev1.Container) change {
	return func(_ testing.TB, pod *corev1.Pod) {
		pod.Spec.Containers = append(pod.Spec.Containers, c)
		run(pod)
	}
}

func command(name string, command ...string) change {
	return func(t testing.TB, pod *corev1.Pod) { containerOf(t, pod, name).Command = command }
}

func nothingOfOurs(_ testing.TB, pod *corev1.Pod) {
	pod.Spec.Containers = slices.DeleteFunc(pod.Spec.Containers, func(c corev1.Container) bool { return ours(&c) })
	run(pod)
}

func hasEnded(name string) change {
	return func(t testing.TB, pod *corev1.Pod) {
		s := statusOf(t, pod, name)
		s.RestartCount = 4
		s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1}
	}
}

// A pod that is to be restored is not touched, whatever else is wrong with it.
func TestRestorePending(t *testing.T) {
	for _, c := range []struct {
		name    string
		asked   string // at admission
		changes []change
		pending bool
	}{
		{"not asked", "", nil, false},
		{"restored", "nightly", nil, false},
		{"waits for its image", "nightly", []change{blocked(setup, "ErrImagePull")}, true},
		{"is restored", "nightly", []change{runsNow(restore)}, true},
		{"failed", "nightly", []change{failedNow(restore)}, true},
		{"no status yet", "nightly", []change{func(_ testing.TB, pod *corev1.Pod) { pod.Status = corev1.PodStatus{} }}, true},
		{"asked on the live pod", "", []change{annotated(api.AnnotationRestore, "nightly")}, true},
		{"another one is asked on the live pod", "nightly", []change{annotated(api.AnnotationRestore, "weekly")}, true},
		{"asked on the live pod, and answered", "", []change{annotated(api.AnnotationRestore, "nightly"), annotated(api.AnnotationRestoreAnswer, "nightly: refused: there is no such backup")}, false},
		{"asked on the live pod, and another was answered", "", []change{annotated(api.AnnotationRestore, "nightly"), annotated(api.AnnotationRestoreAnswer, "nightly-2: Restore nightly-2")}, true},
		{"asked badly on the live pod", "", []change{annotated(api.AnnotationRestore, "a/b")}, true},
		{"asked badly on the live pod, and answered", "", []change{annotated(api.AnnotationRestore, "a/b"), annotated(api.AnnotationRestoreAnswer, "a/b c14cddc0: refused")}, false},
		{"another one is asked on the live pod, and answered", "nightly", []change{annotated(api.AnnotationRestore, "weekly"), annotated(api.AnnotationRestoreAnswer, "weekly: refused")}, false},
		{"is restored, and was answered", "nightly", []change{runsNow(restore), annotated(api.AnnotationRestoreAnswer, "nightly: Restore x")}, true},
		{"gated", "", []change{gated(api.GateRestore)}, true},
		{"gated, and answered", "", []change{gated(api.GateRestore), annotated(api.AnnotationRestoreAnswer, "nightly: Restore x")}, true},
		{"gated by another", "", []change{gated("other.io/gate")}, false},
		{"asked by the namespace, and restored", "nightly", []change{func(_ testing.TB, pod *corev1.Pod) { delete(pod.Annotations, api.AnnotationRestore) }}, false},
		{"asked by the namespace", "nightly", []change{func(_ testing.TB, pod *corev1.Pod) { delete(pod.Annotations, api.AnnotationRestore) }, runsNow(restore)}, true},
	} {
		for _, kind := range []string{cassandra, anna} {
			t.Run(c.name+", "+kind, func(t *testing.T) {
				var annotations map[string]string
				if c.asked != "" {
					annotations = map[string]string{api.AnnotationRestore: c.asked}
				}
				pod := admitted(t, kind, annotations)
				apply(t, pod, c.changes...)
				if got := restorePending(pod, parts(pod)); got != c.pending {
					t.Errorf("pending is %v", got)
				}
			})
		}
	}
}

func gated(name string) change {
	return func(_ testing.TB, pod *corev1.Pod) {
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: name})
	}
}

// A pod that a Restore has an order for is not touched until its container is done.
func TestOrderPending(t *testing.T) {
	order := api.Order{Restore: "r", ID: "r/1", Pending: true, Action: api.ActionEmpty}
	for _, c := range []struct {
		name    string
		changes []change
		pending bool
	}{
		{"done", nil, false},
		{"runs", []change{runsNow(restore)}, true},
		{"failed", []change{failedNow(restore)}, true},
		{"at its gate", []change{gated(api.GateRestore)}, true},
		{"done, and asked for another", []change{annotated(api.AnnotationRestore, "weekly")}, true},
		{"done, and asked for another that was refused", []change{annotated(api.AnnotationRestore, "weekly"), annotated(api.AnnotationRestoreAnswer, "weekly: refused")}, false},
	} {
		pod := ordered(t, cassandra, nil, order)
		pod.Spec.SchedulingGates = nil // lifted
		run(pod)
		apply(t, pod, c.changes...)
		if got := restorePending(pod, parts(pod)); got != c.pending {
			t.Errorf("%s: pending is %v", c.name, got)
		}
	}
}

func runsNow(name string) change {
	return func(t testing.TB, pod *corev1.Pod) {
		statusOf(t, pod, name).State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	}
}

func failedNow(name string) change {
	return func(t testing.TB, pod *corev1.Pod) {
		statusOf(t, pod, name).State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
	}
}

// The names here are those of patches, and what it injects is recognised as ours.
func TestOwnNames(t *testing.T) {
	for _, pair := range [][2]string{
		{containerAgent, patches.ContainerAgent}, {containerSnapshot, patches.ContainerSnapshot}, {containerMedusa, patches.ContainerMedusa},
		{containerSetup, patches.ContainerSetup}, {containerRestore, patches.ContainerRestore}, {envBackup, patches.EnvBackup}, {volumeConfig, patches.VolumeConfig},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %s in patches", pair[0], pair[1])
		}
	}
	for name, want := range map[string][]string{
		cassandra: {setup, restore, agent, snapshot, medusa}, "cass-operator": {setup, restore, agent, medusa}, anna: {setup, restore, agent},
	} {
		var got []string
		for _, p := range parts(admitted(t, name, map[string]string{api.AnnotationRestore: "nightly"})) {
			if p.own {
				got = append(got, p.Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: ours are %q, want %q", name, got, want)
		}
	}
}
