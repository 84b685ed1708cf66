package backup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/claims"
	"github.com/stategraft/stategraft/operations/removal"
)

// told is a cluster whose API server says of namespaces and CustomResourceDefinitions
// what its informers do not know yet.
type told struct {
	cluster
	ends bool
	err  error
}

func (t *told) going(context.Context, string) (bool, error) { return t.ends, t.err }

// Where all Backups go, as their namespace does or their CustomResourceDefinition, their
// data stay, also when the informer of namespaces is the last to hear of it.
func TestAllGo(t *testing.T) {
	w := newWhole(t, 1)
	w.ask(func(b *api.Backup) { b.Spec.DeletionPolicy = api.DeletionDelete })
	b := w.run(over_)
	at := &told{cluster: w.r.cluster, err: errors.New("no answer")}
	w.r.cluster = at
	if err := w.client.Delete(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Minute)
	if _, err := w.reconcile(); err == nil || len(w.removed) > 0 {
		t.Errorf("%v, removed %v", err, w.removed)
	}
	at.err, at.ends = nil, true
	w.pass(time.Minute)
	w.gone()
	if len(w.removed) > 0 || !slices.Contains(w.told, "Backup "+eventKept) {
		t.Errorf("removed %v, told %v", w.removed, w.told)
	}
}

func TestGoing(t *testing.T) {
	verbs := func(verbs ...string) func(string) (*metav1.APIResourceList, error) {
		return func(string) (*metav1.APIResourceList, error) {
			return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "restores", Verbs: []string{"create"}}, {Name: "backups", Verbs: verbs}}}, nil
		}
	}
	for name, c := range map[string]struct {
		namespace string
		served    func(string) (*metav1.APIResourceList, error)
		want      bool
		fails     bool
	}{
		"neither":                      {"ns", verbs("create", "get"), false, false},
		"the namespace":                {"ends", verbs("create", "get"), true, false},
		"the namespace has gone":       {"none", verbs("create", "get"), true, false},
		"the CustomResourceDefinition": {"ns", verbs("delete", "deletecollection", "get", "list", "watch"), true, false},
		"it has gone, and others are":  {"ns", func(string) (*metav1.APIResourceList, error) { return &metav1.APIResourceList{}, nil }, true, false},
		"all CustomResourceDefinitions": {"ns", func(string) (*metav1.APIResourceList, error) {
			return nil, apierrors.NewNotFound(schema.GroupResource{}, "")
		}, true, false},
		"the API server does not answer": {"ns", func(string) (*metav1.APIResourceList, error) { return nil, errors.New("no answer") }, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWhole(t, 0)
			ends := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ends", Finalizers: []string{"kubernetes/x"}}}
			if err := errors.Join(w.client.Create(context.Background(), ends), w.client.Delete(context.Background(), ends)); err != nil {
				t.Fatal(err)
			}
			l := w.r.cluster.(*live)
			l.served = c.served
			going, err := l.going(context.Background(), c.namespace)
			if going != c.want || (err != nil) != c.fails {
				t.Errorf("%v, %v", going, err)
			}
		})
	}
}

// answers is a Remover that gives one answer after another, the last for ever.
type answers []error

func (a *answers) Remove(context.Context, *api.Backup, []corev1.Pod) error {
	err := (*a)[0]
	if len(*a) > 1 {
		*a = (*a)[1:]
	}
	return err
}

func (w *whole) reconcile() (time.Duration, error) {
	result, err := w.r.Reconcile(context.Background(), requestOf("b"))
	return result.RequeueAfter, err
}

// stranger asks for the turn of the cluster as another Backup.
func (w *whole) stranger() bool {
	of := claims.Cluster{Prefix: w.get().Status.Prefix, Namespace: "ns"}
	err := w.r.turns.Take(context.Background(), of, claims.Backup, types.NamespacedName{Namespace: "ns", Name: "other"}, "other")
	w.r.turns.Release(of, "other")
	return err == nil
}

// A deletion that nobody waits for any more may go on: until it cannot, no backup of the
// cluster begins.
func TestDeletionThatGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		answers answers
		before  func(w *whole)
		keeps   bool
	}{
		"a sidecar did not answer, and all is gone": {answers{&removal.Wait{Reason: removal.SidecarUnreachable, Message: "no answer", Going: true}, nil}, func(*whole) {}, true},
		"nor is anything known of the rest": {answers{&removal.Wait{Reason: removal.SidecarUnreachable, Message: "no answer", Going: true},
			&removal.Wait{Reason: removal.NotDeleted, Message: "more"}, nil}, func(*whole) {}, true},
		"another process had begun": {answers{nil}, func(w *whole) {
			b := w.get()
			b.Status = deleting(b, reasonDeleting, "deletes", w.now).status
			if err := w.client.Status().Update(context.Background(), b); err != nil {
				w.Fatal(err)
			}
			w.start()
		}, true},
		"it was answered":    {answers{&removal.Wait{Reason: removal.NotDeleted, Message: "more"}}, func(*whole) {}, false},
		"nobody was reached": {answers{&removal.Wait{Reason: removal.NoSidecar, Message: "none"}}, func(*whole) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWhole(t, 1)
			w.ask(func(b *api.Backup) { b.Spec.DeletionPolicy = api.DeletionDelete })
			b := w.run(over_)
			if err := w.client.Delete(context.Background(), b); err != nil {
				t.Fatal(err)
			}
			c.before(w)
			w.r.remover = &c.answers
			began := w.now.Add(time.Minute)
			for w.now = began; w.now.Before(began.Add(lasting)); w.pass(20 * time.Second) {
				if _, err := w.reconcile(); err != nil {
					t.Fatal(err)
				}
				if w.stranger() == c.keeps {
					t.Fatalf("after %v another may begin: %v; %s", w.now.Sub(began), !c.keeps, w.get().Status.Message)
				}
			}
			if !c.keeps {
				return
			}
			w.gone()
			if took := w.now.Sub(began); took > lasting+removeLate+time.Minute {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// What its Remover will not delete goes without its data, and says so before it goes.
func TestNotToBeDeleted(t *testing.T) {
	w := newWhole(t, 1)
	w.ask(func(b *api.Backup) {
		b.Spec.DeletionPolicy = api.DeletionDelete
		b.Annotations = map[string]string{api.AnnotationExpiring: "Count"}
		b.Finalizers = []string{"a.test/last"}
	})
	b := w.run(over_)
	w.r.remover = &answers{&removal.Kept{Message: "nothing newer"}}
	if err := w.client.Delete(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Minute)
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	b = w.get()
	if held(b) || !b.Keeps() || b.Annotations[api.AnnotationExpiring] != "" || !slices.Contains(w.told, "Backup "+eventKept) || !w.stranger() {
		t.Errorf("%+v, told %v", b.ObjectMeta, w.told)
	}
}

// A Backup that had its turn and could not write that it begins, and is suspended then,
// does not keep others waiting.
func TestSuspendedWithItsTurn(t *testing.T) {
	w := newWhole(t, 1)
	w.ask(func(*api.Backup) {})
	at := &refusesStatus{cluster: w.r.cluster}
	w.r.cluster = at
	if _, err := w.reconcile(); err == nil {
		t.Fatal("it was written")
	}
	b := w.get()
	b.Spec.Suspend = true
	b.Generation++
	if err := w.client.Update(context.Background(), b, client.FieldOwner("a-person")); err != nil {
		t.Fatal(err)
	}
	w.r.cluster = at.cluster
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	of := claims.Cluster{Prefix: "", Namespace: "ns"}
	if err := w.r.turns.Take(context.Background(), of, claims.Backup, types.NamespacedName{Namespace: "ns", Name: "other"}, "other"); err != nil {
		t.Errorf("%v; %s", err, w.get().Status.Message)
	}
}

type refusesStatus struct{ cluster }

func (*refusesStatus) writeStatus(context.Context, *api.Backup) error { return errors.New("refused") }

// Of Backups that are over nothing is kept in memory, however many there are.
func TestNothingIsKeptOfWhatIsOver(t *testing.T) {
	w := newWhole(t, 1)
	w.ask(func(*api.Backup) {})
	w.run(over_)
	for range 3 {
		w.pass(time.Minute)
		if _, err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.r.book.all) > 0 {
		t.Errorf("%d are kept", len(w.r.book.all))
	}
	w.start()
	if _, err := w.reconcile(); err != nil || len(w.r.book.all) > 0 {
		t.Errorf("%v, %d are kept by the next process", err, len(w.r.book.all))
	}
}

// Two pods whose nodes have one name in backups are not both complete by one's part.
func TestTwoNodesOfOneName(t *testing.T) {
	b := &api.Backup{Status: api.BackupStatus{Name: "n", Phase: api.BackupRunning}}
	b.Spec.Retries = new(int32(0))
	for _, name := range []string{"a", "b", "c"} {
		b.Status.Pods = append(b.Status.Pods, api.PodBackup{Name: name, Node: "host", Phase: api.PodBackupChecking, Tries: 1})
	}
	b.Status.Pods[2].Node = ""
	stored := &node.Backup{Members: []node.Member{{Node: "host", Complete: true, Objects: 1}, {Node: "c", Complete: true, Objects: 1}}}
	c := &course{step: start(b), b: b, w: world{stored: stored, pods: map[string]seen{}}, now: today}
	c.advance()
	if got := phases(&api.Backup{Status: c.status}); got != "Failed Failed Complete" || c.status.Phase != api.BackupPartial || !strings.Contains(c.status.Pods[0].Message, "pod b") {
		t.Errorf("%s: %+v", got, c.status)
	}
}
