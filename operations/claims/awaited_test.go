package claims

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func accepted(reason string) func(*api.Backup) {
	return func(b *api.Backup) {
		b.Status.Phase = api.BackupWaiting
		b.Status.Conditions = []metav1.Condition{{Type: api.ConditionAccepted, Status: metav1.ConditionFalse, Reason: reason}}
	}
}

func about(pods api.BackupPods) func(*api.Backup) { return func(b *api.Backup) { b.Spec.Pods = &pods } }

func set(name string) func(*api.Backup) {
	return about(api.BackupPods{Workload: &api.BackupWorkload{Name: name}})
}

// Of two that were queued the older goes first, though the newer's pods answer sooner: for
// as long as nothing but its turn is known to keep it, and never for longer than AskAgain.
func TestTheOlderIsAwaited(t *testing.T) {
	for name, c := range map[string]struct {
		other func(w *world)
		want  string
	}{
		"made before, not looked at":         {func(w *world) { w.backup("prod", "a") }, "Backup prod/a"},
		"made in the same second, by name":   {func(w *world) { w.backup("prod", "a", after(time.Hour)) }, "Backup prod/a"},
		"made in the same second, a later":   {func(w *world) { w.backup("prod", "z", after(time.Hour)) }, ""},
		"made after":                         {func(w *world) { w.backup("prod", "a", after(2*time.Hour)) }, ""},
		"waits in a line that is forgotten":  {func(w *world) { w.backup("prod", "a", accepted(ReasonBusy)) }, "Backup prod/a"},
		"of several the oldest":              {func(w *world) { w.backup("prod", "a", after(time.Minute)); w.backup("prod", "z") }, "Backup prod/z"},
		"waits for its pods":                 {func(w *world) { w.backup("prod", "a", accepted("PodNotFound")) }, ""},
		"is suspended":                       {func(w *world) { w.backup("prod", "a").Spec.Suspend = true }, ""},
		"is cancelled":                       {func(w *world) { w.backup("prod", "a").Spec.Cancel = true }, ""},
		"a dry run":                          {func(w *world) { w.backup("prod", "a").Spec.DryRun = true }, ""},
		"is refused":                         {func(w *world) { w.backup("prod", "a").Status.Phase = api.BackupFailed }, ""},
		"goes":                               {func(w *world) { w.backup("prod", "a").DeletionTimestamp = new(metav1.NewTime(start)) }, ""},
		"was found":                          {func(w *world) { w.backup("prod", "a", found("c")) }, ""},
		"of another namespace":               {func(w *world) { w.backup("test", "a") }, ""},
		"of another StatefulSet":             {func(w *world) { w.backup("prod", "a", set("other")) }, ""},
		"of one of its pods":                 {func(w *world) { w.backup("prod", "a", about(api.BackupPods{Names: []string{"db-2"}})) }, "Backup prod/a"},
		"of another's pod":                   {func(w *world) { w.backup("prod", "a", about(api.BackupPods{Names: []string{"web-2"}})) }, ""},
		"of who knows which pods":            {func(w *world) { w.backup("prod", "a", about(api.BackupPods{Selector: &metav1.LabelSelector{}})) }, "Backup prod/a"},
		"of another rack of the cluster":     {func(w *world) { history(w, "rack2", "c"); w.backup("prod", "a", set("rack2")) }, "Backup prod/a"},
		"of a StatefulSet of another prefix": {func(w *world) { history(w, "rack2", "d"); w.backup("prod", "a", set("rack2")) }, ""},
		"of its pods, of another prefix":     {func(w *world) { history(w, "db", "d"); w.backup("prod", "a") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, now := &world{}, start
			c.other(w)
			me := w.backup("prod", "m", after(time.Hour))
			claims := New(w)
			claims.now = func() time.Time { return now }
			want(t, take(claims, of1("c"), Backup, me), c.want)
			now = now.Add(AskAgain - time.Second)
			want(t, take(claims, of1("c"), Backup, me), c.want)
			now = now.Add(time.Second) // it has not come
			want(t, take(claims, of1("c"), Backup, me), "")
		})
	}
}

// history is an earlier Backup of a StatefulSet.
func history(w *world, name, prefix string) {
	w.backup("prod", "old", after(-time.Hour), over(prefix), set(name), func(b *api.Backup) { b.Status.Pods = []api.PodBackup{{Name: name + "-0"}} })
}

// It comes, and is next; meanwhile the newer is told what it waits for, and a deletion
// waits for nobody that has not come.
func TestTheAwaitedComes(t *testing.T) {
	w := &world{}
	a, b := w.backup("prod", "a"), w.backup("prod", "b", after(time.Second))
	d := w.backup("prod", "d", after(-time.Hour), deleted("c", "Waiting"))
	claims := New(w)
	claims.now = func() time.Time { return start }
	err := take(claims, of1("c"), Backup, b)
	if err == nil || err.Error() != "backup prod/a of the same cluster was asked for before, and goes first" {
		t.Errorf("it is told %v", err)
	}
	claims.Release(of1("c"), b.UID)
	want(t, take(claims, of1("c"), Deletion, d), "")
	claims.Release(of1("c"), d.UID)
	want(t, take(claims, of1("c"), Backup, a), "")
	want(t, take(claims, of1("c"), Backup, b), "Backup prod/a")
	running("c")(a)
	if err = take(claims, of1("c"), Backup, b); err == nil || err.Error() != "backup prod/a of the same cluster runs" {
		t.Errorf("it is told %v", err)
	}
	over("c")(a)
	want(t, take(claims, of1("c"), Backup, b), "")
}

// Who was waited for and did not come keeps none of those who come later.
func TestTheAwaitedIsNotAwaitedAgain(t *testing.T) {
	w, now := &world{}, start
	w.backup("prod", "a")
	b, c := w.backup("prod", "b", after(time.Second)), w.backup("prod", "c", after(2*time.Second))
	claims := New(w)
	claims.now = func() time.Time { return now }
	want(t, take(claims, of1("c"), Backup, b), "Backup prod/a")
	now = now.Add(AskAgain)
	want(t, take(claims, of1("c"), Backup, b), "")
	over("c")(b)
	claims.Release(of1("c"), b.UID)
	want(t, take(claims, of1("c"), Backup, c), "")
	w.backups = w.backups[1:] // a is gone, and is forgotten
	over("c")(c)
	want(t, take(claims, of1("c"), Backup, w.backup("prod", "d", after(3*time.Second))), "")
	claims.Release(of1("c"), "prod/d")
	if len(claims.turns) != 0 {
		t.Errorf("%d clusters are kept", len(claims.turns))
	}
}

// Who came at last, and is done, leaves nothing behind.
func TestWhoCameIsForgotten(t *testing.T) {
	w := &world{}
	a, b := w.backup("prod", "a"), w.backup("prod", "b", after(time.Second))
	claims := New(w)
	claims.now = func() time.Time { return start }
	want(t, take(claims, of1("c"), Backup, b), "Backup prod/a")
	want(t, take(claims, of1("c"), Backup, a), "")
	claims.Release(of1("c"), b.UID)
	claims.Release(of1("c"), a.UID)
	if len(claims.turns) != 0 {
		t.Errorf("%d clusters are kept", len(claims.turns))
	}
}

// Of whom it is not known which pods it is about, and who waits at another cluster for
// hours, keeps nobody here.
func TestWhoAsksElsewhereIsNotAwaited(t *testing.T) {
	w := &world{}
	w.backup("prod", "long", after(-time.Hour), running("d"))
	a := w.backup("prod", "a", about(api.BackupPods{Selector: &metav1.LabelSelector{}}))
	b := w.backup("prod", "b", after(time.Hour))
	claims := New(w)
	claims.now = func() time.Time { return start }
	want(t, take(claims, of1("d"), Backup, a), "Backup prod/long")
	accepted(ReasonBusy)(a)
	want(t, take(claims, of1("c"), Backup, b), "")
}

// Of many that are made at once each looks for those before it; what Backups there were
// is read for the first, and again when some time has passed.
func TestHistoryIsReadOnce(t *testing.T) {
	counted, now := &counting{world: &world{}}, start
	for i := range 4 {
		counted.backup("prod", string(rune('a'+i)), set(string(rune('a'+i))))
	}
	claims := New(counted)
	claims.now = func() time.Time { return now }
	lists := func(i int) int {
		before, b := counted.lists, counted.backups[i]
		want(t, take(claims, of1(b.Name), Backup, b), "")
		return counted.lists - before
	}
	first, second := lists(1), lists(2)
	now = now.Add(knownFor)
	if third := lists(3); second != first-1 || third != first {
		t.Errorf("%d, %d and %d lists of the informers", first, second, third)
	}
}

// In a namespace of many nothing is read twice for a turn.
func TestManyAreAwaited(t *testing.T) {
	w := &world{}
	for i := range 1000 {
		w.backup("prod", string(rune('a'+i%26))+time.Duration(i).String(), set("other"+time.Duration(i).String()))
	}
	me := w.backup("prod", "zz", after(time.Hour))
	counted := &counting{world: w}
	want(t, take(New(counted), of1("c"), Backup, me), "")
	if counted.lists > 5 {
		t.Errorf("%d lists of the informers", counted.lists)
	}
}

// counting counts how often it is read.
type counting struct {
	*world
	lists int
}

func (c *counting) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	c.lists++
	return c.world.List(ctx, list, options...)
}
