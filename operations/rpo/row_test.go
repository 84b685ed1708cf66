package rpo

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) // a Monday

func at(ago time.Duration) *metav1.Time { return new(metav1.NewTime(now.Add(-ago))) }

// one is pod db-0 of StatefulSet db, a month old.
func one(change ...func(*Pod)) Pod {
	p := Pod{Namespace: "prod", Name: "db-0", Owner: Owner{"apps/v1", "StatefulSet", "db", "u-db"}, Created: now.AddDate(0, -1, 0),
		Kind: workload.KindCassandra, Sidecar: SidecarInjected}
	for _, c := range change {
		c(&p)
	}
	return p
}

// backup is a complete one of db-0 that was begun an hour before it was finished, so
// long ago.
func backup(name string, ago time.Duration, change ...func(*api.Backup)) api.Backup {
	b := api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, CreationTimestamp: *at(ago + 2*time.Hour)}}
	b.Status = api.BackupStatus{Name: "s-" + name, Prefix: "prod-c", Origin: api.BackupMade, Phase: api.BackupComplete, Started: at(ago + 2*time.Hour), Finished: at(ago - time.Hour),
		Pods: []api.PodBackup{{Name: "db-0", Phase: api.PodBackupComplete, Started: at(ago), Finished: at(ago - time.Hour), Objects: 9, Bytes: 1234}}}
	for _, c := range change {
		c(&b)
	}
	return b
}

func phase(p api.BackupPhase, pod api.PodBackupPhase) func(*api.Backup) {
	return func(b *api.Backup) { b.Status.Phase, b.Status.Pods[0].Phase = p, pod }
}

func of(schedule string) func(*api.Backup) {
	return func(b *api.Backup) { b.Labels = map[string]string{api.LabelSchedule: schedule} }
}

func below(prefix string, origin api.BackupOrigin) func(*api.Backup) {
	return func(b *api.Backup) { b.Status.Prefix, b.Status.Origin = prefix, origin }
}

func scheduled(name, cron string, change ...func(*api.BackupSchedule)) api.BackupSchedule {
	s := api.BackupSchedule{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, CreationTimestamp: *at(20 * 24 * time.Hour)}}
	s.Spec.Schedule = cron
	s.Spec.Template.Spec.Pods = &api.BackupPods{Workload: &api.BackupWorkload{Name: "db"}}
	s.Status.Next = at(-15 * time.Hour)
	for _, c := range change {
		c(&s)
	}
	return s
}

func rpoOf(text string) func(*Pod) { return func(p *Pod) { p.RPO, p.HasRPO = text, true } }

func young(age time.Duration) func(*Pod) { return func(p *Pod) { p.Created = now.Add(-age) } }

func missing(p *Pod) { p.Sidecar, p.Reason = SidecarMissing, "webhook-was-down" }

func anna(p *Pod) { p.Kind = workload.KindAnna }

const day = 24 * time.Hour

func TestRows(t *testing.T) {
	nightly := scheduled("nightly", "0 3 * * *")
	suspended := scheduled("nightly", "0 3 * * *", func(s *api.BackupSchedule) { s.Spec.Suspend = true })
	fresh := scheduled("nightly", "0 3 * * *", func(s *api.BackupSchedule) { s.CreationTimestamp = *at(time.Hour) })
	yearsOld := func(s *api.BackupSchedule) { s.CreationTimestamp = *at(800 * day) }
	for name, c := range map[string]struct {
		pod       Pod
		namespace string // its RPO
		backups   []api.Backup
		schedules []api.BackupSchedule

		last   string
		rpo    time.Duration
		behind bool
		reason Reason
		why    string // a part
	}{
		"nothing at all":             {pod: one(), reason: ReasonNoRPO, why: "no BackupSchedule backs it up"},
		"within":                     {pod: one(), backups: []api.Backup{backup("b1", 9*time.Hour)}, schedules: []api.BackupSchedule{nightly}, last: "b1", rpo: 2 * day, reason: ReasonWithin},
		"one missed":                 {pod: one(), backups: []api.Backup{backup("b1", 2*day)}, schedules: []api.BackupSchedule{nightly}, last: "b1", rpo: 2 * day, reason: ReasonWithin},
		"too old":                    {pod: one(), backups: []api.Backup{backup("b1", 2*day+time.Minute)}, schedules: []api.BackupSchedule{nightly}, last: "b1", rpo: 2 * day, behind: true, reason: ReasonTooOld, why: "b1, is 2d"},
		"too old, by hand":           {pod: one(rpoOf("3h")), backups: []api.Backup{backup("b1", 4*time.Hour)}, last: "b1", rpo: 3 * time.Hour, behind: true, reason: ReasonTooOld, why: "the pod allows 3h"},
		"pod's before namespace's":   {pod: one(rpoOf("5h")), namespace: "3h", backups: []api.Backup{backup("b1", 4*time.Hour)}, last: "b1", rpo: 5 * time.Hour, reason: ReasonWithin},
		"namespace's before cron's":  {pod: one(), namespace: "3h", backups: []api.Backup{backup("b1", 4*time.Hour)}, schedules: []api.BackupSchedule{nightly}, last: "b1", rpo: 3 * time.Hour, behind: true, reason: ReasonTooOld, why: "the namespace allows"},
		"bad one is told":            {pod: one(rpoOf("soon")), backups: []api.Backup{backup("b1", time.Hour)}, schedules: []api.BackupSchedule{nightly}, last: "b1", rpo: 2 * day, reason: ReasonWithin, why: `of the pod is "soon": it takes a time`},
		"the tightest of two":        {pod: one(), schedules: []api.BackupSchedule{nightly, scheduled("often", "@hourly")}, backups: []api.Backup{backup("b1", 3*time.Hour)}, last: "b1", rpo: 2 * time.Hour, behind: true, reason: ReasonTooOld, why: "BackupSchedule often"},
		"working days":               {pod: one(), schedules: []api.BackupSchedule{scheduled("w", "0 3 * * 1-5")}, rpo: 6 * day, behind: true, reason: ReasonNoBackup},
		"monthly":                    {pod: one(), schedules: []api.BackupSchedule{scheduled("m", "@monthly")}, rpo: 62 * day, reason: ReasonAwaited},
		"yearly":                     {pod: one(young(800 * day)), schedules: []api.BackupSchedule{scheduled("y", "@yearly", yearsOld)}, rpo: 730 * day, behind: true, reason: ReasonNoBackup},
		"cannot be read":             {pod: one(), schedules: []api.BackupSchedule{scheduled("x", "never")}, reason: ReasonAwaited},
		"suspended and forgotten":    {pod: one(), backups: []api.Backup{backup("b1", 9*day)}, schedules: []api.BackupSchedule{suspended}, last: "b1", rpo: 2 * day, behind: true, reason: ReasonTooOld, why: "nightly is suspended"},
		"never, young pod":           {pod: one(young(day)), schedules: []api.BackupSchedule{nightly}, rpo: 2 * day, reason: ReasonAwaited, why: "awaited"},
		"never, young schedule":      {pod: one(), schedules: []api.BackupSchedule{fresh}, rpo: 2 * day, reason: ReasonAwaited},
		"old data, young schedule":   {pod: one(), schedules: []api.BackupSchedule{fresh}, backups: []api.Backup{backup("b1", 40*day)}, last: "b1", rpo: 2 * day, reason: ReasonWithin},
		"never":                      {pod: one(), schedules: []api.BackupSchedule{nightly}, rpo: 2 * day, behind: true, reason: ReasonNoBackup, why: "for 20d, and the BackupSchedule nightly asks for one in 2d"},
		"never, and made anew daily": {pod: one(young(time.Hour), rpoOf("1d")), backups: []api.Backup{backup("b1", 5*day, phase(api.BackupFailed, api.PodBackupFailed))}, rpo: day, behind: true, reason: ReasonNoBackup},
		"no sidecar":                 {pod: one(missing), schedules: []api.BackupSchedule{nightly}, backups: []api.Backup{backup("b1", 9*day)}, last: "b1", rpo: 2 * day, behind: true, reason: ReasonNoSidecar, why: "webhook-was-down"},
		"no sidecar, not for long":   {pod: one(missing), schedules: []api.BackupSchedule{nightly}, backups: []api.Backup{backup("b1", time.Hour)}, last: "b1", rpo: 2 * day, reason: ReasonNoSidecar},
		"degraded":                   {pod: one(func(p *Pod) { p.Sidecar, p.Reason = SidecarDegraded, "ImagePull" }), namespace: "1h", reason: ReasonNoBackup, rpo: time.Hour, behind: true, why: "degraded (ImagePull)"},
		"anna":                       {pod: one(anna), schedules: []api.BackupSchedule{nightly}, rpo: 2 * day, behind: true, reason: ReasonNoBackup},
		"anna, and asked for":        {pod: one(anna), namespace: "1d", rpo: day, behind: true, reason: ReasonNoBackup},

		"partial does not count":    {pod: one(), namespace: "1d", backups: []api.Backup{backup("b1", 2*day), backup("b2", day, phase(api.BackupPartial, api.PodBackupComplete))}, last: "b1", rpo: day, behind: true, reason: ReasonTooOld, why: "it is in the Backup b2, which is Partial"},
		"cancelled, failed":         {pod: one(), backups: []api.Backup{backup("b1", day, phase(api.BackupCancelled, api.PodBackupComplete)), backup("b2", day, phase(api.BackupFailed, api.PodBackupFailed))}, reason: ReasonNoRPO},
		"running":                   {pod: one(), backups: []api.Backup{backup("b1", day, phase(api.BackupRunning, api.PodBackupComplete))}, reason: ReasonNoRPO},
		"gone from the storage":     {pod: one(), backups: []api.Backup{backup("b1", day, phase(api.BackupMissing, api.PodBackupComplete))}, reason: ReasonNoRPO},
		"planned":                   {pod: one(), backups: []api.Backup{backup("b1", day, func(b *api.Backup) { b.Status.Name = "" }, phase(api.BackupPlanned, api.PodBackupWaiting))}, reason: ReasonNoRPO},
		"of other pods":             {pod: one(), backups: []api.Backup{backup("b1", day, func(b *api.Backup) { b.Status.Pods[0].Name = "db-1" })}, reason: ReasonNoRPO},
		"of another namespace":      {pod: one(), backups: []api.Backup{backup("b1", day, func(b *api.Backup) { b.Namespace = "test" })}, reason: ReasonNoRPO},
		"newest of several":         {pod: one(), backups: []api.Backup{backup("b3", 3*day), backup("b1", day), backup("b2", 2*day)}, last: "b1", reason: ReasonNoRPO},
		"found in the storage":      {pod: one(), backups: []api.Backup{backup("b1", day, below("prod-c", api.BackupFound))}, last: "b1", reason: ReasonNoRPO},
		"another cluster's":         {pod: one(), backups: []api.Backup{backup("b1", 2*day), backup("theirs", day, below("other", api.BackupFound))}, last: "b1", reason: ReasonNoRPO},
		"never ours, but another's": {pod: one(), namespace: "1d", backups: []api.Backup{backup("b1", 3*day, phase(api.BackupFailed, api.PodBackupFailed)), backup("theirs", time.Hour, below("other", api.BackupFound))}, rpo: day, behind: true, reason: ReasonNoBackup},
		"being deleted": {pod: one(), backups: []api.Backup{backup("b1", day, func(b *api.Backup) {
			b.DeletionTimestamp, b.Spec.DeletionPolicy = at(0), api.DeletionDelete
		})}, reason: ReasonNoRPO},
		"being deleted, data kept": {pod: one(), backups: []api.Backup{backup("b1", day, func(b *api.Backup) { b.DeletionTimestamp = at(0) })}, last: "b1", reason: ReasonNoRPO},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Pods: []Pod{c.pod}, Backups: c.backups, Schedules: c.schedules, Now: now}
			if c.namespace != "" {
				in.Namespaces = map[string]map[string]string{"prod": {api.AnnotationRPO: c.namespace}}
			}
			r := Rows(in)[0]
			last := ""
			if r.Last != nil {
				last = r.Last.Name
			}
			if last != c.last || r.RPO != c.rpo || r.Behind != c.behind || r.Reason != c.reason {
				t.Errorf("last %q, RPO %v of %s, behind %v, %s: %s", last, r.RPO, r.RPOFrom, r.Behind, r.Reason, r.Why)
			}
			if !strings.Contains(r.Why, c.why) || c.behind && r.Why == "" {
				t.Errorf("%q does not say %q", r.Why, c.why)
			}
		})
	}
}

// What is not told by the reason.
func TestRow(t *testing.T) {
	verified := func(finished *metav1.Time, result api.VerificationResult, nodes ...string) func(*api.Backup) {
		return func(b *api.Backup) {
			b.Status.Verified = &api.Verification{Result: result, Finished: finished, Nodes: nodes}
		}
	}
	in := Input{Now: now, Pods: []Pod{one()},
		Schedules: []api.BackupSchedule{scheduled("weekly", "@weekly"), scheduled("daily", "@daily", func(s *api.BackupSchedule) { s.Status.Next = at(-2 * time.Hour) }),
			scheduled("off", "@hourly", func(s *api.BackupSchedule) { s.Spec.Suspend, s.Status.Next = true, at(-time.Minute) }),
			scheduled("others", "@hourly", func(s *api.BackupSchedule) { s.Spec.Template.Spec.Pods.Workload.Name = "db2" })},
		Backups: []api.Backup{
			backup("b1", 3*day, verified(at(2*day), api.VerificationFailed, "db-0")),
			backup("b2", 2*day, verified(at(day), api.VerificationPassed, "db-1")), // another node's data
			backup("b3", day, below("other", api.BackupFound), verified(at(time.Hour), api.VerificationPassed)),
		}}
	r := Rows(in)[0]
	if !slices.Equal(r.Schedules, []string{"daily", "off", "weekly"}) || !r.Next.Equal(now.Add(2*time.Hour)) {
		t.Errorf("schedules %v, next %s", r.Schedules, r.Next)
	}
	if r.Verified == nil || !r.Verified.Equal(now.Add(-2*day)) || r.VerifiedResult != api.VerificationFailed {
		t.Errorf("verified %v: %s", r.Verified, r.VerifiedResult)
	}
	if r.Age != 2*day || !r.LastFinished.Equal(now.Add(-2*day+time.Hour)) || r.Bytes != 1234 || r.Workload != "db" || r.WorkloadKind != "StatefulSet" {
		t.Errorf("%+v", r)
	}
}

// A pod is in a schedule by its workload, its labels, its name, or, where its labels
// are not known, by what the schedule selected.
func TestCovers(t *testing.T) {
	labelled := func(p *Pod) { p.Labels = map[string]string{"app": "db", "tier": "a"} }
	by := func(pods *api.BackupPods) api.BackupSchedule {
		return scheduled("s", "@daily", func(s *api.BackupSchedule) { s.Spec.Template.Spec.Pods = pods })
	}
	app := &api.BackupPods{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}
	key := types.NamespacedName{Namespace: "prod", Name: "s"}
	for name, c := range map[string]struct {
		pod      Pod
		pods     *api.BackupPods
		backups  []api.Backup
		selected map[types.NamespacedName][]string
		want     bool
	}{
		"workload":               {pod: one(), pods: &api.BackupPods{Workload: &api.BackupWorkload{Kind: "StatefulSet", Name: "db"}}, want: true},
		"workload of another":    {pod: one(), pods: &api.BackupPods{Workload: &api.BackupWorkload{Name: "db2"}}},
		"other kind":             {pod: one(), pods: &api.BackupPods{Workload: &api.BackupWorkload{Kind: "CassandraSet", Name: "db"}}},
		"labels":                 {pod: one(labelled), pods: app, want: true},
		"other labels":           {pod: one(func(p *Pod) { p.Labels = map[string]string{"app": "x"} }), pods: app},
		"labels not known":       {pod: one(), pods: app},
		"selected":               {pod: one(), pods: app, selected: map[types.NamespacedName][]string{key: {"db-0"}}, want: true},
		"others selected":        {pod: one(), pods: app, selected: map[types.NamespacedName][]string{key: {"db-1"}}, backups: []api.Backup{backup("b1", day, of("s"))}},
		"by what it made":        {pod: one(), pods: app, backups: []api.Backup{backup("b1", day, of("s"))}, want: true},
		"by what another made":   {pod: one(), pods: app, backups: []api.Backup{backup("b1", day, of("t"))}},
		"by what it made before": {pod: one(), pods: app, backups: []api.Backup{backup("b1", 2*day, of("s")), backup("b2", day, of("s"), func(b *api.Backup) { b.Status.Pods[0].Name = "db-7" })}},
		"names":                  {pod: one(), pods: &api.BackupPods{Names: []string{"a", "db-0"}}, want: true},
		"other names":            {pod: one(), pods: &api.BackupPods{Names: []string{"a"}}},
		"none":                   {pod: one()},
	} {
		r := Rows(Input{Pods: []Pod{c.pod}, Schedules: []api.BackupSchedule{by(c.pods)}, Backups: c.backups, Selected: c.selected, Now: now})[0]
		if got := len(r.Schedules) == 1; got != c.want {
			t.Errorf("%s: schedules %v", name, r.Schedules)
		}
	}
}

func TestOrderOfRows(t *testing.T) {
	named := func(namespace, name string) Pod {
		return one(func(p *Pod) { p.Namespace, p.Name = namespace, name })
	}
	var got []string
	for _, r := range Rows(Input{Now: now, Pods: []Pod{named("b", "db-1"), named("a", "db-10"), named("a", "db-2")}}) {
		got = append(got, r.Namespace+"/"+r.Pod)
	}
	if want := []string{"a/db-2", "a/db-10", "b/db-1"}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// The longest gap is found whenever in the week it is looked for, and across a change
// of clocks.
func TestLongest(t *testing.T) {
	for cron, want := range map[string]time.Duration{
		"0 3 * * *": day, "0 3 * * 1-5": 3 * day, "*/5 * * * *": 5 * time.Minute, "* * * * *": time.Minute, "* 9-17 * * 1-5": 63*time.Hour + time.Minute,
		"0 0,1 * * *": 23 * time.Hour, "@weekly": 7 * day,
	} {
		for i := range 7 * 4 {
			if got := longest(cron, "", now.Add(time.Duration(i)*6*time.Hour+time.Second)); got != want {
				t.Errorf("%s, %d: %v, want %v", cron, i, got, want)
			}
		}
	}
	if got := longest("30 4 * * *", "Europe/Berlin", time.Date(2026, 10, 22, 0, 0, 0, 0, time.UTC)); got != 25*time.Hour {
		t.Errorf("%v as clocks go back", got)
	}
}

// TestClockWasAhead: a backup of next year hides neither the last one that is dated, nor
// that it is too old.
func TestClockWasAhead(t *testing.T) {
	rows := Rows(Input{Now: now, Pods: []Pod{one(rpoOf("1d"))}, Backups: []api.Backup{backup("next", -365*24*time.Hour), backup("old", 50*time.Hour)}})
	if r := rows[0]; r.Last == nil || r.Last.Name != "old" || !r.Behind || r.Reason != ReasonTooOld {
		t.Errorf("%+v", r)
	}
}
