package claims

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

var start = time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)

// world is an informer of what the test puts into it.
type world struct {
	client.Reader
	backups  []*api.Backup
	restores []*api.Restore
	err      error
}

func (w *world) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *api.BackupList:
		for _, b := range w.backups {
			list.Items = append(list.Items, *b)
		}
	case *api.RestoreList:
		for _, r := range w.restores {
			list.Items = append(list.Items, *r)
		}
	}
	return w.err
}

func (w *world) backup(namespace, name string, change ...func(*api.Backup)) *api.Backup {
	b := &api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), CreationTimestamp: metav1.NewTime(start)}}
	b.Spec.Pods = &api.BackupPods{Workload: &api.BackupWorkload{Name: "db"}}
	for _, c := range change {
		c(b)
	}
	w.backups = append(w.backups, b)
	return b
}

func after(d time.Duration) func(*api.Backup) {
	return func(b *api.Backup) { b.CreationTimestamp = metav1.NewTime(start.Add(d)) }
}

func running(prefix string) func(*api.Backup) {
	return func(b *api.Backup) {
		b.Status.Name, b.Status.Prefix, b.Status.Phase = b.StorageName(), prefix, api.BackupRunning
		b.Status.Pods = []api.PodBackup{{Name: "db-0"}}
	}
}

func over(prefix string) func(*api.Backup) {
	return func(b *api.Backup) { running(prefix)(b); b.Status.Phase = api.BackupComplete }
}

func found(prefix string) func(*api.Backup) {
	return func(b *api.Backup) {
		b.Spec.Pods, b.Spec.Existing = nil, &api.ExistingBackup{Name: b.Name, Prefix: prefix}
	}
}

// deleted is one that is being deleted, and for what reason it has not gone.
func deleted(prefix, reason string) func(*api.Backup) {
	return func(b *api.Backup) {
		over(prefix)(b)
		b.Finalizers = []string{api.FinalizerBackup}
		b.DeletionTimestamp, b.Status.Phase = new(metav1.NewTime(start.Add(time.Hour))), api.BackupDeleting
		b.Status.Conditions = []metav1.Condition{{Type: api.ConditionDeleted, Status: metav1.ConditionFalse, Reason: reason}}
	}
}

func (w *world) restore(namespace, name string, phase api.RestorePhase, pods ...string) *api.Restore {
	r := &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	r.Status.Phase = phase
	r.Status.Conditions = []metav1.Condition{{Type: api.ConditionAccepted, Status: metav1.ConditionTrue}}
	for _, p := range pods {
		r.Status.Pods = append(r.Status.Pods, api.PodRestore{Name: p})
	}
	w.restores = append(w.restores, r)
	return r
}

func of1(prefix string) Cluster { return Cluster{prefix, "prod"} }

// want is who is in the way, as KIND NAMESPACE/NAME; "" for nobody.
func want(t *testing.T, err error, who string) {
	t.Helper()
	got := ""
	if busy, ok := IsBusy(err); ok {
		got = string(busy.Kind) + " " + busy.Who.String()
	} else if err != nil {
		got = err.Error()
	}
	if got != who {
		t.Errorf("in the way is %q, want %q", got, who)
	}
}

func take(c *Claims, of Cluster, kind Kind, b *api.Backup) error {
	return c.Take(context.Background(), of, kind, types.NamespacedName{Namespace: b.Namespace, Name: b.Name}, b.UID)
}

// What the objects say of what went on before this process.
func TestObjectsImplyTurns(t *testing.T) {
	for name, c := range map[string]struct {
		others func(w *world)
		kind   Kind
		of     Cluster
		want   string
	}{
		"nobody":                               {func(*world) {}, Backup, of1("c"), ""},
		"a backup that runs":                   {func(w *world) { w.backup("prod", "a", running("c")) }, Backup, of1("c"), "Backup prod/a"},
		"a deletion during a backup":           {func(w *world) { w.backup("prod", "a", running("c")) }, Deletion, of1("c"), "Backup prod/a"},
		"a purge during a backup":              {func(w *world) { w.backup("prod", "a", running("c")) }, Purge, of1("c"), "Backup prod/a"},
		"a restore during a backup":            {func(w *world) { w.backup("prod", "a", running("c")) }, Restore, of1("c"), "Backup prod/a"},
		"another cluster's":                    {func(w *world) { w.backup("prod", "a", running("d")) }, Backup, of1("c"), ""},
		"another namespace's, one prefix":      {func(w *world) { w.backup("test", "a", running("c")) }, Backup, of1("c"), "Backup test/a"},
		"another namespace's, without prefix":  {func(w *world) { w.backup("test", "a", running("")) }, Backup, of1(""), ""},
		"the same namespace's, without prefix": {func(w *world) { w.backup("prod", "a", running("")) }, Backup, of1(""), "Backup prod/a"},
		"a prefix that is a namespace":         {func(w *world) { w.backup("prod", "a", running("prod")) }, Backup, of1(""), ""},
		"one that is over":                     {func(w *world) { w.backup("prod", "a", over("c")) }, Backup, of1("c"), ""},
		"one that is suspended, none settled":  {func(w *world) { w.backup("prod", "a").Spec.Suspend = true }, Backup, of1("c"), ""},
		"a dry run":                            {func(w *world) { w.backup("prod", "a", running("c")).Spec.DryRun = true }, Backup, of1("c"), ""},
		"one that was found, not looked into":  {func(w *world) { w.backup("prod", "a", found("c")) }, Backup, of1("c"), ""},
		"a deletion that has begun":            {func(w *world) { w.backup("prod", "a", deleted("c", ReasonDeleting)) }, Backup, of1("c"), "Deletion prod/a"},
		"of one that was found": {func(w *world) {
			b := w.backup("prod", "a", deleted("c", ReasonDeleting), found("c"))
			b.Status.Name = ""
		}, Backup, of1("c"), "Deletion prod/a"},
		"a deletion that is done, and another's finalizer holds the object": {func(w *world) { w.backup("prod", "a", deleted("c", ReasonDeleting)).Finalizers = []string{"a.test/x"} }, Backup, of1("c"), ""},
		"a deletion that waits": {func(w *world) { w.backup("prod", "a", deleted("c", "NoSidecar")) }, Backup, of1("c"), ""},
		"a run that is deleted in its midst": {func(w *world) {
			w.backup("prod", "a", running("c"), func(b *api.Backup) { b.DeletionTimestamp = new(metav1.NewTime(start)) })
		}, Backup, of1("c"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{}
			c.others(w)
			me := w.backup("prod", "me", after(time.Hour))
			if c.kind == Deletion {
				me.DeletionTimestamp, me.Finalizers = new(metav1.NewTime(start.Add(2*time.Hour))), []string{api.FinalizerBackup}
			}
			claims := New(w)
			want(t, take(claims, c.of, c.kind, me), c.want)
			kind, who, ok := claims.Holder(c.of)
			if c.want != "" && (!ok || string(kind)+" "+who.String() != c.want) {
				t.Errorf("the holder is %s %s, %v", kind, who, ok)
			}
			if c.want == "" && c.kind != Restore && (!ok || who.Name != "me" || kind != c.kind) {
				t.Errorf("mine is not told: %s %s, %v", kind, who, ok)
			}
		})
	}
}

func TestRestoresKeepOthersAway(t *testing.T) {
	for name, c := range map[string]struct {
		restore func(w *world)
		me      func(b *api.Backup)
		kind    Kind
		want    string
	}{
		"of the Backup's pods":                           {func(w *world) { w.restore("prod", "r", api.RestoreRestoring, "db-1") }, nil, Backup, "Restore prod/r"},
		"it is over":                                     {func(w *world) { w.restore("prod", "r", api.RestoreCompleted, "db-1") }, nil, Backup, ""},
		"it is not accepted":                             {func(w *world) { w.restore("prod", "r", api.RestoreWaiting, "db-1").Status.Conditions = nil }, nil, Backup, ""},
		"of other pods":                                  {func(w *world) { w.restore("prod", "r", api.RestoreRestoring, "web-1") }, nil, Backup, ""},
		"of another namespace's":                         {func(w *world) { w.restore("test", "r", api.RestoreRestoring, "db-1") }, nil, Backup, ""},
		"that reads from the prefix elsewhere":           {func(w *world) { w.restore("test", "r", api.RestoreRestoring, "x-1").Status.Prefix = "c" }, nil, Deletion, "Restore test/r"},
		"that reads from another prefix":                 {func(w *world) { w.restore("test", "r", api.RestoreRestoring, "db-1").Status.Prefix = "d" }, nil, Deletion, ""},
		"that reads from the prefix elsewhere, a backup": {func(w *world) { w.restore("test", "r", api.RestoreRestoring, "x-1").Status.Prefix = "c" }, nil, Backup, ""},
		"that reads from the prefix here, into others":   {func(w *world) { w.restore("prod", "r", api.RestoreRestoring, "x-1").Status.Prefix = "c" }, nil, Backup, ""},
		"that reads from the prefix into pods of the same cluster": {func(w *world) {
			w.backup("test", "old", over("c"))
			w.restore("test", "r", api.RestoreRestoring, "db-0").Status.Prefix = "d"
		}, nil, Backup, "Restore test/r"},
		"that is to read from the prefix elsewhere, and has not looked yet": {func(w *world) {
			w.restore("test", "r", api.RestoreChecking, "x-1").Spec.Source = &api.RestoreSource{Prefix: new("c")}
		}, nil, Deletion, "Restore test/r"},
		"that is to read another cluster's, and has not looked yet": {func(w *world) {
			w.restore("test", "r", api.RestoreChecking, "x-1").Spec.Source = &api.RestoreSource{Cluster: "c"}
		}, nil, Deletion, "Restore test/r"},
		"that failed, and reads from the prefix elsewhere": {func(w *world) {
			r := w.restore("test", "r", api.RestoreFailed, "x-1")
			r.Status.Prefix, r.Status.Pending, r.Status.Backup = "c", []string{"x-1"}, "me"
		}, found("c"), Deletion, "Restore test/r"},
		"of the pods, from another prefix": {func(w *world) { w.restore("prod", "r", api.RestoreRestoring, "db-1").Status.Prefix = "d" }, nil, Backup, "Restore prod/r"},
		"of the same cluster in another namespace, as its Backups tell": {func(w *world) {
			w.backup("test", "old", over("c"))
			w.restore("test", "r", api.RestoreRestoring, "db-0")
		}, nil, Deletion, "Restore test/r"},
		"a selector, of which nobody can tell": {func(w *world) { w.restore("prod", "r", api.RestoreRestoring, "web-1") },
			func(b *api.Backup) { b.Spec.Pods = &api.BackupPods{Selector: &metav1.LabelSelector{}} }, Backup, "Restore prod/r"},
		"a selector, and the pods are another cluster's": {func(w *world) {
			w.backup("prod", "old", over("d"))
			w.restore("prod", "r", api.RestoreRestoring, "db-0")
		}, func(b *api.Backup) { b.Spec.Pods = &api.BackupPods{Selector: &metav1.LabelSelector{}} }, Backup, ""},
		"names, and one is restored":  {func(w *world) { w.restore("prod", "r", api.RestoreRestoring, "x", "y") }, func(b *api.Backup) { b.Spec.Pods = &api.BackupPods{Names: []string{"y"}} }, Backup, "Restore prod/r"},
		"names, and none is restored": {func(w *world) { w.restore("prod", "r", api.RestoreRestoring, "x", "y") }, func(b *api.Backup) { b.Spec.Pods = &api.BackupPods{Names: []string{"z"}} }, Backup, ""},
		"one that failed, whose pods go on trying with what is to be deleted": {func(w *world) {
			r := w.restore("prod", "r", api.RestoreFailed, "db-0")
			r.Status.Pending, r.Status.Backup = []string{"db-0"}, "me"
		}, found("c"), Deletion, "Restore prod/r"},
		"one that failed, with another backup": {func(w *world) {
			r := w.restore("prod", "r", api.RestoreFailed, "db-0")
			r.Status.Pending, r.Status.Backup = []string{"db-0"}, "other"
		}, found("c"), Deletion, ""},
		"restored on trial":                {func(*world) {}, func(b *api.Backup) { b.Status.Verified = &api.Verification{Result: api.VerificationRunning} }, Deletion, "Verify prod/me"},
		"was verified":                     {func(*world) {}, func(b *api.Backup) { b.Status.Verified = &api.Verification{Result: api.VerificationPassed} }, Deletion, ""},
		"a restore on trial takes no turn": {func(w *world) { w.restore("prod", "r", api.RestoreRestoring, "db-1") }, nil, Verify, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{}
			c.restore(w)
			me := w.backup("prod", "me", after(time.Hour))
			if c.kind == Deletion {
				me.DeletionTimestamp, me.Finalizers = new(metav1.NewTime(start.Add(2*time.Hour))), []string{api.FinalizerBackup}
			}
			if c.me != nil {
				c.me(me)
			}
			want(t, take(New(w), of1("c"), c.kind, me), c.want)
		})
	}
}

// A restore on trial goes on beside all but the deletion of what it reads.
func TestRestoresOnTrial(t *testing.T) {
	w := &world{}
	w.backup("prod", "a", running("c"))
	claims := New(w)
	me := w.backup("prod", "me", over("c"))
	want(t, take(claims, of1("c"), Verify, me), "")
	if _, who, _ := claims.Holder(of1("c")); who.Name != "a" {
		t.Errorf("%s has the turn", who)
	}
	deleted("c", ReasonDeleting)(me)
	w.backups = w.backups[1:]
	want(t, take(claims, of1("c"), Verify, me), "Deletion prod/me")
	want(t, take(claims, of1("c"), Deletion, me), "")
	me.Status.Conditions = nil // not in the informer yet
	want(t, take(claims, of1("c"), Verify, me), "Deletion prod/me")
	other := w.backup("prod", "other", over("c"))
	want(t, take(claims, of1("c"), Verify, other), "")
}

// Two that both say to have the turn do not wait for each other.
func TestTwoThatSayToHaveIt(t *testing.T) {
	w := &world{}
	b, a := w.backup("prod", "b", running("c"), after(time.Second)), w.backup("prod", "a", running("c"))
	claims := New(w)
	want(t, take(claims, of1("c"), Backup, b), "Backup prod/a")
	want(t, take(claims, of1("c"), Backup, a), "")
	want(t, take(claims, of1("c"), Backup, b), "Backup prod/a")
	a.Status.Phase = api.BackupPartial
	want(t, take(claims, of1("c"), Backup, b), "")
}

func TestUnreadableObjectsGiveNoTurn(t *testing.T) {
	w := &world{err: errors.New("gone")}
	me := w.backup("prod", "me")
	err := take(New(w), of1("c"), Backup, me)
	if _, busy := IsBusy(err); err == nil || busy || !errors.Is(err, w.err) {
		t.Errorf("%v", err)
	}
}

// One that reads below the root of the bucket says so with a dot.
func TestRestoreFromTheRoot(t *testing.T) {
	w := &world{}
	w.restore("test", "r", api.RestoreRestoring, "x-1").Status.Prefix = "."
	me := w.backup("prod", "me", deleted("", "Waiting"))
	want(t, take(New(w), of1(""), Deletion, me), "Restore test/r")
	other := w.backup("prod", "other")
	want(t, take(New(w), of1(""), Backup, other), "")
}

// indexed is an informer with indexes, of which it tells how many objects it gave.
type indexed struct {
	world
	by    map[string]client.IndexerFunc
	given int
}

func (x *indexed) IndexField(_ context.Context, _ client.Object, name string, of client.IndexerFunc) error {
	x.by[name] = of
	return nil
}

func (x *indexed) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	backups, ok := list.(*api.BackupList)
	if !ok {
		return x.world.List(ctx, list)
	}
	o := (&client.ListOptions{}).ApplyOptions(options)
	for _, b := range x.backups {
		if o.Namespace != "" && b.Namespace != o.Namespace {
			continue
		}
		if o.FieldSelector != nil {
			asked := o.FieldSelector.Requirements()[0]
			if !slices.Contains(x.by[asked.Field](b), asked.Value) {
				continue
			}
		}
		backups.Items = append(backups.Items, *b)
	}
	x.given += len(backups.Items)
	return x.err
}

// However many Backups there are, only those are read that have to do with the turn.
func TestFewAreRead(t *testing.T) {
	x := &indexed{by: map[string]client.IndexerFunc{}}
	for i := range 1000 {
		x.backup("prod", fmt.Sprintf("old-%d", i), over("c"))
	}
	a := x.backup("prod", "a", running("c"))
	d := x.backup("prod", "d", deleted("c", ReasonDeleting))
	me := x.backup("prod", "me", after(time.Hour))
	claims := New(x)
	for range 10 {
		want(t, take(claims, of1("c"), Backup, me), "Backup prod/a")
		if kind, who, ok := claims.Holder(of1("c")); !ok || kind != Backup || who.Name != "a" {
			t.Errorf("the holder is %s %s", kind, who)
		}
	}
	want(t, take(claims, of1("d"), Backup, me), "")
	a.Status.Phase = api.BackupComplete
	want(t, take(claims, of1("c"), Backup, me), "Deletion prod/d")
	want(t, take(claims, of1("c"), Deletion, d), "")
	if x.given > 200 {
		t.Errorf("%d Backups were read", x.given)
	}
}
