package backup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/claims"
	"github.com/stategraft/stategraft/operations/removal"
)

var today = time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)

// sim is a cluster in memory: an API server, an informer that lags, a StatefulSet's
// controller, and pods whose Medusas upload. It has its own time, and everything random
// in it comes from one seed.
type sim struct {
	rand    *rand.Rand
	now     time.Time
	version int
	object  *api.Backup
	lagging *api.Backup // as the informer has it
	nodes   []*simNode

	crashes float64   // that the controller ends before or after an effect
	flakes  float64   // that a request fails
	breaks  float64   // that a Medusa does what it should not
	down    time.Time // the storage, until then
	deaf    time.Time // it does not tell what it has
	rolls   int       // how often pods are still to be created anew while it is to tell
	checked int       // how often they were
	comes   bool      // pods that were deleted come back
	ending  bool      // the namespace
	goes    bool      // the Backup is going to be deleted

	turn     types.UID // whose it is
	other    time.Time // another has the turn until then
	deleted  bool      // the data
	problems []string
	crashed  int
	requests int
	begun    int
	log      []string
	events   []string
}

// simNode is a pod with its volume, and its part in the storage.
type simNode struct {
	name   string
	uid    types.UID // empty where there is no pod
	silent time.Time // it does not answer until then
	up     time.Time // its containers run from then on
	runs   int       // how often they were started; each has an address of its own
	hidden bool      // from the informer
	heard  glimpse   // as the informer has it
	asked  int
	job    *simJob
	part   *simPart
	empty  int // how many of its backups have nothing in them
}

type simJob struct{ begins, ends time.Time }

type simPart struct {
	done, failed bool
	objects      int
}

type crash struct{}

func newSim(seed uint64) *sim {
	s := &sim{rand: rand.New(rand.NewPCG(seed, 1)), now: today, comes: true}
	for i := range 1 + s.rand.IntN(4) {
		n := &simNode{name: "cas-" + strconv.Itoa(i), uid: s.uid()}
		n.heard = s.glimpsed(n)
		s.nodes = append(s.nodes, n)
	}
	b := &api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", UID: "b", Generation: 1, ResourceVersion: s.bump(), CreationTimestamp: metav1.NewTime(today)}}
	b.Spec.Pods = &api.BackupPods{Workload: &api.BackupWorkload{Name: "cas"}}
	b.Spec.Parallel = int32(s.rand.IntN(3))
	b.Spec.Retries = new(int32(s.rand.IntN(4)))
	b.Spec.Timeout = &metav1.Duration{Duration: time.Hour}
	s.object, s.lagging = b, b.DeepCopy()
	return s
}

func (s *sim) uid() types.UID { return types.UID("uid-" + s.bump()) }
func (s *sim) bump() string   { s.version++; return strconv.Itoa(s.version) }

func (s *sim) logf(format string, args ...any) {
	s.log = append(s.log, s.now.Format("15:04:05.0 ")+fmt.Sprintf(format, args...))
}

func (s *sim) wrong(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.logf("WRONG: %s", text)
	s.problems = append(s.problems, text)
}

func (s *sim) chance(p float64) bool { return s.rand.Float64() < p }

func (s *sim) node(name string) *simNode {
	for _, n := range s.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// effect is where the controller's process may end: before the request is made, or
// after it was heeded and before it is known.
func (s *sim) effect(what string, do func() error) error {
	if s.chance(s.crashes) {
		s.logf("crash before %s", what)
		panic(crash{})
	}
	if s.chance(s.flakes) {
		return apierrors.NewInternalError(errors.New("a flake"))
	}
	err := do()
	s.logf("controller: %s: %v", what, err)
	if s.chance(s.crashes) {
		s.logf("crash after %s", what)
		panic(crash{})
	}
	return err
}

func (s *sim) read() error {
	s.requests++
	if s.chance(s.flakes) {
		return apierrors.NewInternalError(errors.New("a flake"))
	}
	return nil
}

func notFound(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "backups"}, name)
}

func (s *sim) tell(_ corev1.ObjectReference, _ *corev1.ObjectReference, _, reason, note string) {
	s.events = append(s.events, reason)
	s.logf("event %s: %s", reason, note)
}

// Take implements Turns.
func (s *sim) Take(_ context.Context, _ claims.Cluster, _ claims.Kind, _ types.NamespacedName, uid types.UID) error {
	if s.now.Before(s.other) && s.turn != uid {
		return &claims.Busy{Kind: claims.Purge, Who: types.NamespacedName{Namespace: "ns", Name: "other"}}
	}
	s.turn = uid
	return nil
}

// Release implements Turns.
func (s *sim) Release(_ claims.Cluster, uid types.UID) {
	if s.turn == uid {
		s.turn = ""
	}
}

// Remove implements Remover.
func (s *sim) Remove(_ context.Context, b *api.Backup, _ []corev1.Pod) error {
	return s.effect("remove", func() error {
		switch {
		case s.object == nil || s.object.Status.Phase != api.BackupDeleting || reasonOf(&s.object.Status, api.ConditionDeleted) != claims.ReasonDeleting:
			s.wrong("data are deleted, and nothing says so")
		case s.object.Keeps():
			s.wrong("data are deleted that are to be kept")
		case s.turn != b.UID:
			s.wrong("data are deleted in the turn of %q", s.turn)
		}
		for _, n := range s.nodes {
			if s.settle(n); n.job != nil {
				return &removal.Wait{Reason: removal.BackupRuns, Message: n.name + " uploads"}
			}
		}
		if s.now.Before(s.down) {
			return &removal.Wait{Reason: removal.StorageUnreachable, Message: "the storage is down"}
		}
		for _, n := range s.nodes {
			n.part = nil
		}
		s.deleted = true
		return nil
	})
}

// controller is a process of it, which knows nothing of the one before.
func (s *sim) controller() *reconciler {
	s.turn = ""
	r := newReconciler(s, s, s, s, Options{Remover: s, AbsentLimit: 10 * time.Minute, Clock: func() time.Time { return s.now }})
	r.log = logr.Discard()
	r.each = func(n int, do func(int)) {
		for i := range n {
			do(i)
		}
	}
	return r
}

// reconcile runs it once; ok is false where it ended in the middle.
func (s *sim) reconcile(r *reconciler) (after time.Duration, ok bool) {
	defer func() {
		if e := recover(); e != nil {
			if _, is := e.(crash); !is {
				panic(e)
			}
			s.crashed++
			after, ok = 0, false
		}
	}()
	result, err := r.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "b"}})
	if err != nil {
		if !strings.Contains(err.Error(), "a flake") {
			s.wrong("%v", err)
		}
		return 200 * time.Millisecond, true
	}
	return result.RequeueAfter, true
}
