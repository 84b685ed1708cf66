package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// sim is a cluster with one schedule, nightly in namespace prod: an API server, the
// storage, and a controller of Backups that is simulated. Time is its own.
type sim struct {
	t   *testing.T
	r   *rand.Rand
	now time.Time

	server *memory // the API server
	cached *memory // what the informers have
	it     *reconciler
	due    time.Time // when it looks again of itself

	storage map[string]*node.Summary
	failing string // why the storage cannot be listed
	hidden  bool   // the storage shows nothing
	ends    map[types.UID]time.Time
	fate    func(b *api.Backup) (lasts time.Duration, phase api.BackupPhase)
	busy    time.Duration // how long a deletion lasts
	slow    func() bool   // whether the informers are behind

	writes       map[string]int
	made         map[string]int // Backups by name
	gone         []string       // that retention deleted
	told         []string
	killAt       int // the write at which the process ends; 0 for none
	after        bool
	killOn       string // or the kind of write after which it does
	onKill       func() // what happens while there is no process
	wrote        int
	listings     int
	whileListing func() // once, before a listing is answered
	uid          int
}

type killed struct{}

var monday = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func newSim(t *testing.T, seed uint64, at time.Time, change ...func(*api.BackupScheduleSpec)) *sim {
	t.Helper()
	s := &sim{t: t, r: rand.New(rand.NewPCG(6, seed)), now: at, storage: map[string]*node.Summary{}, ends: map[types.UID]time.Time{}, writes: map[string]int{}, made: map[string]int{},
		busy: time.Minute, slow: func() bool { return false },
		fate: func(*api.Backup) (time.Duration, api.BackupPhase) { return 10 * time.Minute, api.BackupComplete }}
	s.server = newMemory()
	spec := api.BackupScheduleSpec{Schedule: "0 3 * * *", Template: api.BackupTemplate{Spec: api.BackupSpec{DeletionPolicy: api.DeletionKeep, Pods: &api.BackupPods{Workload: &api.BackupWorkload{Kind: "StatefulSet", Name: "c"}}}},
		Retention: &api.BackupRetention{KeepLast: new(int32(3)), Incomplete: "2d"}}
	for _, f := range change {
		f(&spec)
	}
	s.must(s.create(&api.BackupSchedule{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "nightly"}, Spec: spec}))
	s.restart()
	return s
}

func (s *sim) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// restart is a new process: it knows what the API server tells it.
func (s *sim) restart() {
	s.sync()
	s.it = newReconciler(reader{s}, s.server, s, s, Options{Clock: func() time.Time { return s.now }, Catalogue: CatalogueFunc(s.list), Claims: ClaimsFunc(s.holder)})
	s.due = s.now
}

// reader reads what the informers have.
type reader struct{ s *sim }

func (r reader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return r.s.cached.Get(ctx, key, o, opts...)
}

func (r reader) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	return r.s.cached.List(ctx, l, opts...)
}

// sync has the informers hear of everything.
func (s *sim) sync() { s.cached = s.server.copy() }

func (s *sim) tell(about corev1.ObjectReference, b *api.Backup, kind, reason, note string) {
	s.told = append(s.told, kind+" "+reason+": "+note)
}

// write is a write of the controller, before or after which it may end.
func (s *sim) write(verb string, do func() error) error {
	s.wrote++
	if s.wrote == s.killAt && !s.after {
		panic(killed{})
	}
	err := do()
	if err == nil {
		s.writes[verb]++
	}
	if s.wrote == s.killAt || verb == s.killOn {
		panic(killed{})
	}
	return err
}

func (s *sim) createBackup(_ context.Context, b *api.Backup) error {
	return s.write("create", func() error { return s.create(b) })
}

func (s *sim) patchBackup(ctx context.Context, _, is *api.Backup) error {
	return s.write("patch", func() error { return s.server.Update(ctx, is) })
}

func (s *sim) deleteBackup(ctx context.Context, b *api.Backup) error {
	return s.write("delete", func() error {
		why := s.judge(b)
		err := s.server.deleteVersion(b, b.ResourceVersion)
		if err == nil && why != "" {
			s.t.Fatalf("%s: deleting %s: %s", s.now, b.Name, why)
		}
		if err == nil {
			s.gone = append(s.gone, b.Name)
		}
		return err
	})
}

func (s *sim) writeStatus(ctx context.Context, b *api.BackupSchedule) error {
	return s.write("status", func() error { return s.server.Status().Update(ctx, b) })
}

func (s *sim) create(o client.Object) error {
	s.uid++
	o.SetUID(types.UID(fmt.Sprintf("uid-%d", s.uid)))
	o.SetCreationTimestamp(metav1.NewTime(s.now.Truncate(time.Second)))
	err := s.server.Create(context.Background(), o)
	if _, ok := o.(*api.Backup); ok && err == nil {
		if s.made[o.GetName()]++; s.made[o.GetName()] > 1 {
			s.t.Fatalf("%s: Backup %s is made twice", s.now, o.GetName())
		}
	}
	return err
}

func (s *sim) backups() []api.Backup {
	var list api.BackupList
	s.must(s.server.List(context.Background(), &list))
	return list.Items
}

func (s *sim) schedules() []api.BackupSchedule {
	var list api.BackupScheduleList
	s.must(s.server.List(context.Background(), &list))
	return list.Items
}

func (s *sim) restores() []api.Restore {
	var list api.RestoreList
	s.must(s.server.List(context.Background(), &list))
	return list.Items
}

func (s *sim) schedule() *api.BackupSchedule {
	s.t.Helper()
	var b api.BackupSchedule
	s.must(s.server.Get(context.Background(), types.NamespacedName{Namespace: "prod", Name: "nightly"}, &b))
	return &b
}

// edit changes the schedule, as a person would.
func (s *sim) edit(change func(*api.BackupScheduleSpec)) {
	b := s.schedule()
	change(&b.Spec)
	b.Generation++
	s.must(s.server.Update(context.Background(), b))
	s.due = s.now
}

// list is what the catalogue says.
func (s *sim) list(_ context.Context, namespace, prefix string, _ time.Duration) Listing {
	s.listings++
	l := Listing{Namespace: namespace, Prefix: prefix, Listed: s.now, Failed: s.failing}
	if s.failing == "" && !s.hidden {
		for _, b := range s.storage {
			l.Backups = append(l.Backups, *b)
		}
	}
	if happens := s.whileListing; happens != nil {
		s.whileListing = nil
		happens()
	}
	return l
}

// holder is what claims say: what has begun.
func (s *sim) holder(_, _ string) (string, types.NamespacedName, bool) {
	for _, b := range s.backups() {
		who := client.ObjectKeyFromObject(&b)
		switch c := meta.FindStatusCondition(b.Status.Conditions, api.ConditionDeleted); {
		case b.Status.Phase == api.BackupDeleting && c != nil && c.Reason == reasonDeleting:
			return HolderDeletion, who, true
		case b.Status.Name != "" && !b.Status.Phase.Final() && b.Status.Phase != api.BackupDeleting:
			return HolderBackup, who, true
		}
	}
	return "", types.NamespacedName{}, false
}

// judge says what speaks against a deletion, by what is really there.
func (s *sim) judge(o client.Object) string {
	var x api.Backup
	if err := s.server.Get(context.Background(), client.ObjectKeyFromObject(o), &x); err != nil {
		return ""
	}
	stored := s.storage[x.Status.Name] != nil
	if x.Keeps() {
		if stored {
			return "only the object, though the storage has it"
		}
		return ""
	}
	schedule, newer := s.schedule(), 0
	if schedule.Spec.Suspend || schedule.Spec.Retention == nil || schedule.Spec.Retention.DryRun {
		return "nobody asked for it"
	}
	for _, b := range s.backups() {
		switch {
		case b.UID == x.UID:
		case b.DeletionTimestamp != nil && !b.Keeps():
			return "while " + b.Name + " is being deleted"
		case b.Status.Name != "" && !b.Status.Phase.Final():
			return "while " + b.Name + " is being made"
		case b.Labels[api.LabelSchedule] == "nightly" && b.Status.Phase == api.BackupComplete && s.storage[b.Status.Name] != nil && b.Status.Started.After(x.Status.Started.Time):
			newer++
		}
	}
	for _, r := range s.restores() {
		if !r.Status.Phase.Final() && r.Status.Backup == x.Status.Name {
			return "while restore " + r.Name + " reads it"
		}
	}
	switch limit := int(*schedule.Spec.Retention.KeepLast); {
	case x.Labels[api.LabelSchedule] != "nightly":
		return "it is another's"
	case x.Spec.Pinned:
		return "it is pinned"
	case s.failing != "" || s.hidden:
		return "the storage cannot be seen"
	case x.Status.Phase == api.BackupComplete && newer < limit:
		return fmt.Sprintf("only %d are newer", newer)
	case x.Status.Phase != api.BackupComplete && (newer == 0 || s.now.Sub(x.Status.Started.Time) <= 48*time.Hour):
		return "incomplete, but not for long"
	}
	return ""
}

// reconcile looks at the schedule once, and at its end as often as is asked for at
// once.
func (s *sim) reconcile() {
	s.t.Helper()
	if !s.slow() {
		s.sync()
	}
	if s.ended() {
		s.killAt, s.killOn = 0, ""
		if s.onKill != nil {
			s.onKill()
		}
		s.restart()
	}
}

func (s *sim) ended() (ended bool) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case killed{}:
			ended = true
		default:
			panic(p)
		}
	}()
	result, err := s.it.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "prod", Name: "nightly"}})
	if err != nil && !errors.Is(err, errOutage) {
		s.t.Fatalf("%s: %v", s.now, err)
	}
	s.due = time.Time{}
	if result.RequeueAfter > 0 {
		s.due = s.now.Add(result.RequeueAfter)
	}
	return false
}

var errOutage = errors.New("the API server is gone")

// advance has time go on to the next thing that happens, and has it happen.
func (s *sim) advance(until time.Time) bool {
	next := until
	for _, at := range s.ends {
		if at.Before(next) {
			next = at
		}
	}
	if !s.due.IsZero() && s.due.Before(next) {
		next = s.due
	}
	if next.After(s.now) {
		s.now = next
	}
	for n := 0; s.operate() || !s.due.IsZero() && !s.now.Before(s.due); n++ {
		if s.reconcile(); n > 100 {
			s.t.Fatalf("%s: it does not come to rest", s.now)
		}
	}
	return s.now.Before(until)
}

// run has time go on until then.
func (s *sim) run(until time.Time) {
	s.t.Helper()
	for n := 0; s.advance(until); n++ {
		if n > 30000 {
			st := s.schedule().Status
			s.t.Fatalf("%s: it is looked at far too often, next at %s: %s; %+v", s.now, s.due, st.Message, st.Conditions)
		}
	}
	s.sync()
}

func (s *sim) find(name string) *api.Backup {
	all := s.backups()
	if i := slices.IndexFunc(all, func(b api.Backup) bool { return b.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}
