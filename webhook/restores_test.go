package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// restoreAt is a Restore of namespace n that was made at a minute, with pods; +name
// is pending, ~name has data from before.
func restoreAt(name string, minute int, pods ...string) *api.Restore {
	r := &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, CreationTimestamp: metav1.NewTime(heldSince.Add(time.Duration(minute) * time.Minute))}}
	r.Status.ID = name + "/1"
	for _, pod := range pods {
		at := api.PodRestore{Name: strings.TrimLeft(pod, "+~")}
		if strings.Contains(pod, "+") {
			r.Status.Pending = append(r.Status.Pending, at.Name)
		}
		at.Previous = strings.Contains(pod, "~")
		r.Status.Pods = append(r.Status.Pods, at)
	}
	return r
}

// watching gives Restores on a cache whose informer the test drives.
func watching(t *testing.T) (*Restores, toolscache.ResourceEventHandler) {
	t.Helper()
	c := &lateCache{informer: &syncedInformer{}}
	c.informer.synced.Store(true)
	r, err := WatchRestores(t.Context(), c, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	return r, c.informer.handler
}

// lateCache fails some times before it has the informer.
type lateCache struct {
	cache.Cache
	informer *syncedInformer
	failures atomic.Int32
	err      error
}

func (c *lateCache) GetInformer(_ context.Context, object client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	if _, ok := object.(*api.Restore); !ok {
		return nil, fmt.Errorf("asked for %T", object)
	}
	if c.failures.Add(-1) >= 0 {
		return nil, c.err
	}
	return c.informer, nil
}

type syncedInformer struct {
	cache.Informer
	handler toolscache.ResourceEventHandler
	synced  atomic.Bool
}

func (i *syncedInformer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.handler = handler
	return registration{i}, nil
}

type registration struct{ informer *syncedInformer }

func (r registration) HasSynced() bool                          { return r.informer.synced.Load() }
func (r registration) HasSyncedChecker() toolscache.DoneChecker { return nil }

// What is pending wins over what is to be tidied up, and of several the oldest.
func TestRestoresFind(t *testing.T) {
	for _, c := range []struct {
		what     string
		restores []*api.Restore
		want     string // of pod a, as its Restore and + or ~
	}{
		{"none", nil, ""},
		{"of others", []*api.Restore{restoreAt("r", 0, "+b")}, ""},
		{"finished", []*api.Restore{restoreAt("r", 0, "a")}, ""},
		{"pending", []*api.Restore{restoreAt("r", 0, "+a")}, "r+"},
		{"with data from before", []*api.Restore{restoreAt("r", 0, "~a", "+b")}, "r~"},
		{"both", []*api.Restore{restoreAt("r", 0, "+~a")}, "r+~"},
		{"pending after a finished one", []*api.Restore{restoreAt("old", 0, "~a"), restoreAt("new", 1, "+a")}, "new+"},
		{"pending before a finished one", []*api.Restore{restoreAt("old", 0, "+a"), restoreAt("new", 1, "~a")}, "old+"},
		{"two pending", []*api.Restore{restoreAt("new", 1, "+a"), restoreAt("old", 0, "+a")}, "old+"},
		{"two pending of one age", []*api.Restore{restoreAt("b", 0, "+a"), restoreAt("a", 0, "+a")}, "a+"},
	} {
		r, events := watching(t)
		for _, restore := range c.restores {
			events.OnAdd(restore, false)
		}
		got := ""
		if order, ok := r.Find("n", "a"); ok {
			got = order.Restore
			if order.Pending {
				got += "+"
			}
			if order.Tidy {
				got += "~"
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
		if _, ok := r.Find("other", "a"); ok {
			t.Errorf("%s: found in another namespace", c.what)
		}
	}
}

// Orders come and go with the objects, and when there are none nothing is kept.
func TestRestoresEvents(t *testing.T) {
	r, events := watching(t)
	pending, done := restoreAt("r", 0, "+a"), restoreAt("r", 0, "a")
	other := restoreAt("s", 1, "+a")
	for i, step := range []struct {
		event func()
		want  string
	}{
		{func() { events.OnAdd(done, true) }, ""},
		{func() { events.OnUpdate(done, pending) }, "r"},
		{func() { events.OnAdd(other, false) }, "r"},
		{func() { events.OnUpdate(pending, pending) }, "r"},
		{func() { events.OnUpdate(pending, done) }, "s"},
		{func() { events.OnDelete(done) }, "s"},
		{func() { events.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "n/s", Obj: other}) }, ""},
		{func() { events.OnDelete(other) }, ""},
		{func() { events.OnAdd("what is this", false) }, ""},
	} {
		step.event()
		order, ok := r.Find("n", "a")
		if order.Restore != step.want || ok != (step.want != "") {
			t.Errorf("step %d: %q, want %q", i, order.Restore, step.want)
		}
		if kept := r.current.Load() != nil; kept != ok {
			t.Errorf("step %d: something is kept: %v", i, kept)
		}
	}
	if n := allocations(func() { r.Find("n", "a") }); n != 0 {
		t.Errorf("%v allocations while there are no orders", n)
	}
}

// A cluster without the kind is one without Restores; it is looked for again. The
// log says so once.
func TestRestoresWithoutKind(t *testing.T) {
	before := crdRetry
	crdRetry = time.Millisecond
	defer func() { crdRetry = before }()
	for _, c := range []struct {
		err   error
		ready bool // while it lasts
	}{
		{&meta.NoKindMatchError{GroupKind: api.GroupVersion.WithKind("Restore").GroupKind()}, true},
		{errors.New("connection refused"), false},
	} {
		var mu sync.Mutex
		logged := 0
		log := funcr.New(func(_, text string) {
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(text, "not watched") {
				logged++
			}
		}, funcr.Options{})
		informers := &lateCache{informer: &syncedInformer{}, err: c.err}
		informers.failures.Store(1 << 30)
		r, err := WatchRestores(t.Context(), informers, log)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Ready(nil); (err == nil) != c.ready {
			t.Errorf("%v: ready says %v", c.err, err)
		}
		if _, ok := r.Find("n", "a"); ok {
			t.Errorf("%v: an order out of nothing", c.err)
		}
		eventually(t, func() bool { return informers.failures.Load() < 1<<30-5 }) // some tries
		informers.failures.Store(0)
		eventually(t, func() bool { return r.state.Load().synced != nil })
		if err := r.Ready(nil); err == nil {
			t.Errorf("%v: ready before the first list", c.err)
		}
		informers.informer.synced.Store(true)
		informers.informer.handler.OnAdd(restoreAt("r", 0, "+a"), true)
		if _, ok := r.Find("n", "a"); !ok || r.Ready(nil) != nil {
			t.Errorf("%v: found %v, ready says %v", c.err, ok, r.Ready(nil))
		}
		mu.Lock()
		if logged != 1 {
			t.Errorf("%v: logged %d times", c.err, logged)
		}
		mu.Unlock()
	}
}

// TestRestoresNeverSeen: a right that is missing, or an API server that never lists
// them, keeps no pod from its backup. Those to be restored are refused by the policy.
func TestRestoresNeverSeen(t *testing.T) {
	for name, informers := range map[string]*lateCache{
		"never lists":  {informer: &syncedInformer{}},
		"never starts": {informer: &syncedInformer{}, err: errors.New("forbidden")},
	} {
		if informers.err != nil {
			informers.failures.Store(1 << 30)
		}
		r, err := WatchRestores(t.Context(), informers, logr.Discard())
		if err != nil {
			t.Fatal(err)
		}
		if r.Ready(nil) == nil {
			t.Errorf("%s: ready at once", name)
		}
		r.began = r.began.Add(-restoresWait)
		if err := r.Ready(nil); err != nil {
			t.Errorf("%s: after a while %v", name, err)
		}
	}
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatal("it never came to hold")
}

// Whoever reads sees a Restore as a whole, before a change or after.
func TestRestoresAtOnce(t *testing.T) {
	r, events := watching(t)
	one, two := restoreAt("r", 0, "+a"), restoreAt("r", 0, "+a")
	two.Status.ID = "r/2"
	for i := range two.Status.Pods {
		two.Status.Pods[i].Node = "x"
	}
	events.OnAdd(one, false)
	stop, readers := make(chan struct{}), sync.WaitGroup{}
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if order, ok := r.Find("n", "a"); !ok || (order.ID == "r/2") != (order.Node == "x") {
					t.Errorf("found %v: %+v", ok, order)
					return
				}
			}
		})
	}
	for i := range 1000 {
		events.OnUpdate(nil, []*api.Restore{one, two}[i%2])
		events.OnAdd(restoreAt(fmt.Sprint("s", i), 1, "+b"), false)
	}
	close(stop)
	readers.Wait()
}

// BenchmarkRestores is a change of one Restore of 1,000 pods among ten, and a look-up
// of its last pod.
func BenchmarkRestores(b *testing.B) {
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf("+cassandra-%d", i)
	}
	r := &Restores{log: logr.Discard()}
	for i := range 10 {
		r.seen(restoreAt(fmt.Sprint("r", i), i, names...))
	}
	changed := restoreAt("r0", 0, names...)
	b.Run("Change", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.seen(changed)
		}
	})
	b.Run("Find", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.Find("n", "cassandra-999")
		}
	})
}
