package backup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// facts are those of a Backup of a StatefulSet of three pods that all answer, two
// minutes old.
func factsOf(change func(f *Facts)) Facts {
	b := &api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", UID: "b", Generation: 1, CreationTimestamp: metav1.NewTime(today.Add(-2 * time.Minute))}}
	b.Spec.Pods = &api.BackupPods{Workload: &api.BackupWorkload{Kind: "StatefulSet", Name: "cas"}}
	f := Facts{Backup: b, Now: today, Labelled: true, Reports: map[string]node.Report{}, Silent: map[string]error{},
		Set: &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "cas", UID: "set"}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(3))}}}
	for i := range 3 {
		name := fmt.Sprintf("cas-%d", i)
		f.Pods = append(f.Pods, inject(bare(name)))
		f.Reports[name] = node.Report{Node: name, Prefix: "p"}
	}
	change(&f)
	return f
}

func (f *Facts) silence(name string) {
	delete(f.Reports, name)
	f.Silent[name] = errors.New("no route")
}

func TestAcceptance(t *testing.T) {
	young := func(f *Facts) { f.Backup.CreationTimestamp = metav1.NewTime(today.Add(-time.Second)) }
	for name, c := range map[string]struct {
		change func(f *Facts)
		reason string
		wait   bool
		pods   string // name, phase and what was seen of each
	}{
		"all answer": {func(*Facts) {}, "", false, "cas-0 Waiting idle, cas-1 Waiting idle, cas-2 Waiting idle"},
		"one is not there": {func(f *Facts) { f.Pods = f.Pods[:2]; delete(f.Reports, "cas-2") }, "", false,
			"cas-0 Waiting idle, cas-1 Waiting idle, cas-2 Waiting absent"},
		"one does not answer": {func(f *Facts) { f.silence("cas-1") }, "", false, "cas-0 Waiting idle, cas-1 Waiting silent, cas-2 Waiting idle"},
		"one makes a backup":  {func(f *Facts) { f.Reports["cas-0"] = node.Report{Node: "cas-0", Prefix: "p", BackupRunning: true} }, "", false, "cas-0 Waiting busy, cas-1 Waiting idle, cas-2 Waiting idle"},
		"one is opted out": {func(f *Facts) {
			f.Pods[0].Labels, f.Pods[0].Spec.Containers = map[string]string{api.LabelInject: api.InjectDisabled}, nil
			delete(f.Reports, "cas-0")
		}, "", false, "cas-0 Failed silent, cas-1 Waiting idle, cas-2 Waiting idle"},
		"one has no sidecar": {func(f *Facts) { f.Pods[2].Spec.Containers = nil; delete(f.Reports, "cas-2") }, "", false, "cas-0 Waiting idle, cas-1 Waiting idle, cas-2 Failed silent"},
		"one is of an older Stategraft": {func(f *Facts) { f.Pods[2].Spec.Containers[0].Ports = nil; delete(f.Reports, "cas-2") }, "", false,
			"cas-0 Waiting idle, cas-1 Waiting idle, cas-2 Failed silent"},
		"scaled up, from another number": {func(f *Facts) {
			f.Set.Spec.Replicas, f.Set.Spec.Ordinals = new(int32(2)), &appsv1.StatefulSetOrdinals{Start: 2}
		}, "", false, "cas-0 Waiting idle, cas-1 Waiting idle, cas-2 Waiting idle, cas-3 Waiting absent"},
		"one goes as it is scaled down": {func(f *Facts) {
			f.Set.Spec.Replicas = new(int32(2))
			f.Pods[2].DeletionTimestamp = new(metav1.NewTime(today))
		}, "", false, "cas-0 Waiting idle, cas-1 Waiting idle"},
		"another of the same name's pods": {func(f *Facts) { f.Pods[0].OwnerReferences[0].UID = "before" }, "", false,
			"cas-0 Waiting absent, cas-1 Waiting idle, cas-2 Waiting idle"},
		"a workload of another kind": {func(f *Facts) {
			f.Set = nil
			f.Backup.Spec.Pods.Workload.Kind = "PetSet"
			for _, pod := range f.Pods[:2] {
				pod.OwnerReferences[0].Kind = "PetSet"
			}
		}, "", false, "cas-0 Waiting idle, cas-1 Waiting idle"},
		"by names": {func(f *Facts) {
			f.Set = nil
			f.Backup.Spec.Pods = &api.BackupPods{Names: []string{"cas-10", "cas-1", "cas-0"}}
		}, "", false, "cas-0 Waiting idle, cas-1 Waiting idle, cas-10 Waiting absent"},
		"by labels, with a Job's pod": {func(f *Facts) {
			f.Set = nil
			f.Backup.Spec.Pods = &api.BackupPods{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cas"}}}
			f.Pods[2].Spec.Containers, f.Pods[2].Status.Phase = nil, corev1.PodSucceeded
		}, "", false, "cas-0 Waiting idle, cas-1 Waiting idle"},
		"its node is called otherwise": {func(f *Facts) { f.Reports["cas-0"] = node.Report{Node: "10.0.0.1", Prefix: "p"} }, "", false, "cas-0 (10.0.0.1) Waiting idle, cas-1 Waiting idle, cas-2 Waiting idle"},

		"no label":           {func(f *Facts) { f.Labelled = false }, ReasonNamespaceNotLabelled, false, ""},
		"no label yet":       {func(f *Facts) { f.Labelled = false; young(f) }, ReasonNamespaceNotLabelled, true, ""},
		"the namespace goes": {func(f *Facts) { f.Terminating = true }, ReasonNamespaceGoing, false, ""},
		"the informer has no namespace of it yet": {func(f *Facts) { f.Terminating = true; young(f) }, ReasonNamespaceGoing, true, ""},
		"no pods asked for":                       {func(f *Facts) { f.Backup.Spec.Pods = nil }, ReasonBadSpec, false, ""},
		"an impossible selector": {func(f *Facts) {
			f.Backup.Spec.Pods = &api.BackupPods{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}}
		}, ReasonBadSpec, false, ""},
		"no such workload":     {func(f *Facts) { f.Set = nil; f.Backup.Spec.Pods.Workload.Name = "other" }, ReasonNoPods, false, ""},
		"no such workload yet": {func(f *Facts) { f.Set = nil; f.Backup.Spec.Pods.Workload.Name = "other"; young(f) }, ReasonNoPods, true, ""},
		"scaled to nothing":    {func(f *Facts) { f.Pods = nil; f.Set.Spec.Replicas = new(int32(0)) }, ReasonNoPods, false, ""},
		"all pods are away":    {func(f *Facts) { f.Pods = nil }, ReasonPodNotFound, true, ""},
		"no pod of the names":  {func(f *Facts) { f.Set = nil; f.Backup.Spec.Pods = &api.BackupPods{Names: []string{"x"}} }, ReasonPodNotFound, false, ""},
		"too many":             {func(f *Facts) { f.Set.Spec.Replicas = new(int32(1001)) }, ReasonTooManyPods, false, ""},
		"none has a sidecar": {func(f *Facts) {
			for _, pod := range f.Pods {
				pod.Spec.Containers = nil
			}
		}, ReasonNotInjected, false, ""},
		"of Cloudburst":             {func(f *Facts) { f.Pods[1].Labels[api.LabelInjected] = "cloudburst" }, ReasonNotSupported, false, ""},
		"none answers":              {func(f *Facts) { f.silence("cas-0"); f.silence("cas-1"); f.silence("cas-2") }, ReasonSidecarSilent, true, ""},
		"of two clusters":           {func(f *Facts) { f.Reports["cas-1"] = node.Report{Node: "cas-1", Prefix: "q"} }, ReasonPrefixesDiffer, false, ""},
		"of a cluster and the root": {func(f *Facts) { f.Reports["cas-1"] = node.Report{Node: "cas-1"} }, ReasonPrefixesDiffer, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v := judge(factsOf(c.change))
			if c.reason != "" {
				if v.problem == nil || v.problem.Reason != c.reason || v.problem.Wait != c.wait || v.problem.Message == "" {
					t.Fatalf("%+v, want %s, wait %v", v.problem, c.reason, c.wait)
				}
				return
			}
			if v.problem != nil {
				t.Fatalf("%+v", v.problem)
			}
			var pods []string
			for _, at := range v.pods {
				node := ""
				if at.Node != "" {
					node = " (" + at.Node + ")"
				}
				sight := map[sight]string{absentSight: "absent", silentSight: "silent", idleSight: "idle", busySight: "busy"}[v.seen[at.Name].sight]
				pods = append(pods, fmt.Sprintf("%s%s %s %s", at.Name, node, at.Phase, sight))
				if (at.Phase == api.PodBackupFailed) != (at.Message != "") {
					t.Errorf("%s is %s: %q", at.Name, at.Phase, at.Message)
				}
			}
			if got := strings.Join(pods, ", "); got != c.pods || v.prefix != "p" {
				t.Errorf("%s below %q, want %s", got, v.prefix, c.pods)
			}
		})
	}
}

// What is refused says why, and what to do about it.
func TestRefusalsSayWhy(t *testing.T) {
	for want, change := range map[string]func(f *Facts){
		"StatefulSet cas is scaled to 0":                                 func(f *Facts) { f.Pods = nil; f.Set.Spec.Replicas = new(int32(0)) },
		"then kubectl stategraft adopt gives them theirs while they run": func(f *Facts) { f.Labelled = false },
		"kubectl stategraft check -n ns": func(f *Facts) {
			for _, pod := range f.Pods {
				pod.Spec.Containers = nil
			}
		},
	} {
		if v := judge(factsOf(change)); v.problem == nil || !strings.Contains(v.problem.Message, want) {
			t.Errorf("%+v, want %s", v.problem, want)
		}
	}
}

// What comes of a verdict, and of a spec that asks for nothing to be done.
func TestAccept(t *testing.T) {
	good := func() *verdict { return judge(factsOf(func(*Facts) {})) }
	for name, c := range map[string]struct {
		change  func(b *api.Backup)
		verdict *verdict
		phase   api.BackupPhase
		reason  string // of the condition Accepted
		begin   int
	}{
		"all at once":           {func(*api.Backup) {}, good(), api.BackupRunning, ReasonAccepted, 3},
		"one after another":     {func(b *api.Backup) { b.Spec.Parallel = 1 }, good(), api.BackupRunning, ReasonAccepted, 1},
		"suspended":             {func(b *api.Backup) { b.Spec.Suspend = true }, nil, api.BackupWaiting, ReasonSuspended, 0},
		"cancelled":             {func(b *api.Backup) { b.Spec.Cancel = true }, nil, api.BackupCancelled, ReasonCancelled, 0},
		"too late":              {func(b *api.Backup) { b.Spec.Timeout = &metav1.Duration{Duration: time.Minute} }, good(), api.BackupFailed, ReasonDeadline, 0},
		"waits":                 {func(*api.Backup) {}, &verdict{problem: &Problem{Reason: ReasonBusy, Wait: true, Message: "m"}}, api.BackupWaiting, ReasonBusy, 0},
		"refused":               {func(*api.Backup) {}, &verdict{problem: &Problem{Reason: ReasonNoPods, Message: "m"}}, api.BackupFailed, ReasonNoPods, 0},
		"a dry run":             {func(b *api.Backup) { b.Spec.DryRun = true }, good(), api.BackupPlanned, ReasonPlanned, 0},
		"a dry run that waits":  {func(b *api.Backup) { b.Spec.DryRun = true }, &verdict{problem: &Problem{Reason: ReasonBusy, Wait: true, Message: "m"}}, api.BackupPlanned, ReasonPlanned, 0},
		"a dry run, refused":    {func(b *api.Backup) { b.Spec.DryRun = true }, &verdict{problem: &Problem{Reason: ReasonNoPods, Message: "m"}}, api.BackupPlanned, ReasonPlanned, 0},
		"a dry run, suspended":  {func(b *api.Backup) { b.Spec.DryRun, b.Spec.Suspend = true, true }, nil, api.BackupWaiting, ReasonSuspended, 0},
		"suspended and too old": {func(b *api.Backup) { b.Spec.Suspend, b.Spec.Timeout = true, &metav1.Duration{Duration: time.Minute} }, nil, api.BackupFailed, ReasonDeadline, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := factsOf(func(f *Facts) { c.change(f.Backup) }).Backup
			s := next(b, world{verdict: c.verdict, limit: time.Minute}, today)
			settled := c.reason == ReasonAccepted
			if s.status.Phase != c.phase || reasonOf(&s.status, api.ConditionAccepted) != c.reason || len(s.begin) != c.begin || s.status.Message == "" {
				t.Errorf("%s, %s, begins %v: %s", s.status.Phase, reasonOf(&s.status, api.ConditionAccepted), s.begin, s.status.Message)
			}
			if accepted(&s.status) != settled || (s.status.Name != "") != settled || s.hold != settled || s.status.Origin != api.BackupMade {
				t.Errorf("accepted %v, name %q, held %v", accepted(&s.status), s.status.Name, s.hold)
			}
			for i := range s.status.Pods {
				at := &s.status.Pods[i]
				if slices.Contains(s.begin, at.Name) != (at.Phase == api.PodBackupRunning && at.Tries == 1 && at.UID != "" && at.Started != nil) {
					t.Errorf("begins %v, and %+v", s.begin, at)
				}
			}
			if s.status.Phase.Final() && s.status.Finished == nil {
				t.Errorf("%s without an end", s.status.Phase)
			}
		})
	}
}
