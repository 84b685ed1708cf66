package verify

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agent "github.com/stategraft/stategraft/agent/restore"
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
		"backup is missing": {corev1.PodStatus{InitContainerStatuses: statuses{setup, again(restore, node.Failure("there is no backup b in the storage", node.CauseNoBackup), 5)}}, time.Hour, true, ReasonNotRestored, "there is no backup"},
		"file is missing":   {corev1.PodStatus{InitContainerStatuses: statuses{setup, again(restore, node.Failure("backup b: table ks.t was not restored: file x is missing", node.CauseLost), 5)}}, time.Hour, true, ReasonNotRestored, "file x"},
		"words alone":       {corev1.PodStatus{InitContainerStatuses: statuses{setup, again(restore, "there is no backup b in the storage", 5)}}, time.Hour, true, ReasonStorage, "there is no backup"},
		"no room":           {corev1.PodStatus{InitContainerStatuses: statuses{setup, again(restore, "the data volume has too little room", 5)}}, time.Hour, true, ReasonStorage, "room"},
		"no medusa.ini":     {corev1.PodStatus{InitContainerStatuses: statuses{again(patches.ContainerSetup, node.Failure("there is no backup", node.CauseNoBackup), 5)}}, time.Hour, true, ReasonStorage, "the restore failed"},
		"restored at last":  {corev1.PodStatus{InitContainerStatuses: statuses{setup, ended(restore, 0, "restored", restarts)}, ContainerStatuses: statuses{active(containerVerify)}}, time.Hour, false, "", "looked at"},
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

// TestLookKnowsTheAgent: what the agent leaves as termination message is told from an
// outage, whatever it says in words.
func TestLookKnowsTheAgent(t *testing.T) {
	sound := func() agent.Report {
		return agent.Report{FQDN: "c-0", Nodes: []string{"c-0"}, Complete: true, TokenMap: []string{"c-0"}, Tables: []agent.Table{{Keyspace: "k", Name: "t", Files: map[string]int64{"f": 1}}}}
	}
	for name, c := range map[string]struct {
		change func(*agent.Report)
		free   int64
		reason string
	}{
		"no backup":   {func(r *agent.Report) { r.Nodes = nil }, 9, ReasonNotRestored},
		"no node":     {func(r *agent.Report) { r.FQDN = "c-1" }, 9, ReasonNotRestored},
		"unfinished":  {func(r *agent.Report) { r.Complete = false }, 9, ReasonNotRestored},
		"no token":    {func(r *agent.Report) { r.TokenMap = nil }, 9, ReasonNotRestored},
		"empty":       {func(r *agent.Report) { r.Tables = nil }, 9, ReasonNotRestored},
		"not reached": {func(r *agent.Report) { r.Error = "there is no backup" }, 9, ReasonStorage},
		"no room":     {func(*agent.Report) {}, 0, ReasonStorage},
	} {
		report := sound()
		c.change(&report)
		err := agent.Judge(report, "b", c.free)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: *at(0)}, Status: corev1.PodStatus{
			InitContainerStatuses: []corev1.ContainerStatus{again(patches.ContainerRestore, node.Failure(err.Error(), agent.CauseOf(err)), restarts)}}}
		if got := look(pod, t0.Add(time.Hour)); got.reason != c.reason || strings.Contains(got.message, "cause: ") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	err := agent.Verify(t.TempDir(), []agent.Table{{Keyspace: "k", Name: "t", Files: map[string]int64{"f": 1}}}, false)
	if agent.CauseOf(err) != node.CauseLost {
		t.Errorf("a file is missing: %v", err)
	}
}
