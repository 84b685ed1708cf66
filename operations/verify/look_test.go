package verify

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/patches"
)

func waiting(name, reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "m"}}}
}

func ended(name string, code int32, message string, restarted int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, RestartCount: restarted, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message, FinishedAt: *at(10 * time.Minute)}}}
}

func active(name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func again(name, said string, restarted int32) corev1.ContainerStatus {
	s := waiting(name, "CrashLoopBackOff")
	s.RestartCount = restarted
	s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Message: said}
	return s
}

var sound = node.Verified{Node: "cassandra-0", Method: node.CountedByScan, Tables: 3, SSTables: 4, Rows: 5, Compared: 3, Recorded: true}

func TestLook(t *testing.T) {
	const restore = patches.ContainerRestore
	setup := ended(patches.ContainerSetup, 0, "", 0)
	restored := ended(restore, 0, "restored", 0)
	type statuses = []corev1.ContainerStatus
	for name, c := range map[string]struct {
		status corev1.PodStatus
		after  time.Duration
		over   bool
		reason string
		says   string
	}{
		"new":           {corev1.PodStatus{}, time.Minute, false, "", "do not run yet"},
		"unschedulable": {corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes"}}}, time.Minute, false, "", "0/3 nodes"},
		"never":         {corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes"}}}, 16 * time.Minute, true, ReasonNotStarted, "0/3 nodes"},
		"no image":      {corev1.PodStatus{InitContainerStatuses: statuses{waiting(patches.ContainerSetup, "ImagePullBackOff")}}, 16 * time.Minute, true, ReasonNotStarted, "ImagePullBackOff"},
		"restores":      {corev1.PodStatus{InitContainerStatuses: statuses{setup, active(restore)}, ContainerStatuses: statuses{waiting(containerVerify, "PodInitializing")}}, 5 * time.Hour, false, "", "is restored"},
		// The database's image is pulled only then.
		"then pulls":        {corev1.PodStatus{InitContainerStatuses: statuses{setup, restored}, ContainerStatuses: statuses{waiting(containerVerify, "ErrImagePull")}}, 20 * time.Minute, false, "", "ErrImagePull"},
		"then pulls long":   {corev1.PodStatus{InitContainerStatuses: statuses{setup, restored}, ContainerStatuses: statuses{waiting(containerVerify, "ErrImagePull")}}, 26 * time.Minute, true, ReasonNotStarted, "ErrImagePull"},
		"tries again":       {corev1.PodStatus{InitContainerStatuses: statuses{setup, again(restore, "no answer from the storage", 2)}}, 5 * time.Hour, false, "", "no answer from the storage"},
		"storage down":      {corev1.PodStatus{InitContainerStatuses: statuses{setup, again(restore, "no answer from the storage", 5)}}, time.Hour, true, ReasonStorage, "no answer"},
		"backup is missing": {corev1.PodStatus{InitContainerStatuses: statuses{setup, again(restore, "there is no backup b in the storage", 5)}}, time.Hour, true, ReasonNotRestored, "there is no backup"},
		"file is missing":   {corev1.PodStatus{InitContainerStatuses: statuses{setup, again(restore, "backup b: table ks.t was not restored: file x is missing", 5)}}, time.Hour, true, ReasonNotRestored, "file x"},
		"no room":           {corev1.PodStatus{InitContainerStatuses: statuses{setup, again(restore, "the data volume has too little room", 5)}}, time.Hour, true, ReasonStorage, "room"},
		"no medusa.ini":     {corev1.PodStatus{InitContainerStatuses: statuses{again(patches.ContainerSetup, "there is no backup", 5)}}, time.Hour, true, ReasonStorage, "the restore failed"},
		"looks":             {corev1.PodStatus{InitContainerStatuses: statuses{setup, restored}, ContainerStatuses: statuses{active(containerVerify)}}, 5 * time.Hour, false, "", "looked at"},
		"cannot look":       {corev1.PodStatus{InitContainerStatuses: statuses{setup, restored}, ContainerStatuses: statuses{again(containerVerify, "boom", 5)}}, 5 * time.Hour, true, ReasonNoResult, "boom"},
		"sound":             {corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: statuses{ended(containerVerify, 0, sound.Encode(), 0)}}, 5 * time.Hour, true, "", ""},
		"sound in time":     {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded", ContainerStatuses: statuses{ended(containerVerify, 0, sound.Encode(), 0)}}, 5 * time.Hour, true, "", ""},
		"says nothing":      {corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: statuses{ended(containerVerify, 0, "", 0)}}, 5 * time.Hour, true, ReasonNoResult, "did not say"},
		"deadline":          {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"}, 5 * time.Hour, true, ReasonTimedOut, "in time"},
		"evicted":           {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "disk"}, 5 * time.Hour, true, ReasonNoResult, "Evicted"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: *at(0)}, Status: c.status}
		got := look(pod, t0.Add(c.after))
		if got.over != c.over || got.reason != c.reason || !strings.Contains(got.message, c.says) || (got.result != nil) != (c.over && c.reason == "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
