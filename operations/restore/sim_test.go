package restore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// sim is a cluster in memory: an API server with the policy, a webhook whose
// informer lags, a StatefulSet's controller, kubelets, and containers that restore.
// It has its own time, and everything random in it comes from one seed.
type sim struct {
	rand     *rand.Rand
	now      time.Time
	version  int
	restore_ *api.Restore
	pods_    map[string]*corev1.Pod
	disks    map[string]*disk
	replicas int
	ordered  bool // OrderedReady

	webhookDown bool
	policyKnows []string // pending list as the API server's policy knows it
	policyProbe string
	marked_     bool         // the namespace bears the label
	policyLooks bool         // so far as the policy knows
	space       string       // the namespace's version
	meddled     bool         // somebody has taken the label off
	leaky       bool         // one of the API servers knows the list later than that which was asked
	webhookSees *api.Restore // as the webhook's informer has it

	anna *annaSim // where the pods are nodes of Anna; nil for Cassandra

	crashes  float64 // that the controller ends before or after an effect
	flakes   float64 // that a request fails
	removed  map[types.UID]int
	problems []string
	deleted  int
	log      []string
	recorded []string
}

// disk is a pod's volume.
type disk struct {
	done     []node.Done
	runs     int  // how often a restore was carried through
	half     bool // data are half replaced
	progress int
	began    int // how often data began to be replaced
}

type crashed struct{}

func newSim(seed uint64) *sim {
	s := &sim{rand: rand.New(rand.NewPCG(seed, 1)), now: today, pods_: map[string]*corev1.Pod{}, disks: map[string]*disk{}, removed: map[types.UID]int{}}
	s.replicas = 1 + s.rand.IntN(4)
	s.ordered = s.rand.IntN(2) == 0
	for i := range s.replicas {
		name := "cas-" + strconv.Itoa(i)
		s.disks[name] = &disk{}
		s.create(name, false)
		s.pods_[name].CreationTimestamp = metav1.NewTime(s.now.Add(-time.Hour))
		s.start(s.pods_[name])
	}
	return s
}

func (s *sim) logf(format string, args ...any) {
	s.log = append(s.log, s.now.Format("15:04:05.0 ")+fmt.Sprintf(format, args...))
}

func (s *sim) wrong(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.logf("WRONG: %s", text)
	s.problems = append(s.problems, text)
}

func (s *sim) chance(p float64) bool { return s.rand.Float64() < p }

// effect is where the controller's process may end: before the request is made, or
// after it was heeded and before it is known.
func (s *sim) effect(what string, do func() error) error {
	if s.chance(s.crashes) {
		s.logf("crash before %s", what)
		panic(crashed{})
	}
	if s.chance(s.flakes) {
		return apierrors.NewInternalError(errors.New("a flake"))
	}
	err := do()
	s.logf("controller: %s: %v", what, err)
	if s.chance(s.crashes) {
		s.logf("crash after %s", what)
		panic(crashed{})
	}
	return err
}

func (s *sim) read() error {
	if s.chance(s.flakes) {
		return apierrors.NewInternalError(errors.New("a flake"))
	}
	return nil
}

func (s *sim) bump() string { s.version++; return strconv.Itoa(s.version) }

func notFound(kind, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
}

func conflict(kind, name string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: kind}, name, errors.New("it has changed"))
}

// What follows is what the sidecars tell.

func (s *sim) Report(_ context.Context, pod *corev1.Pod) (node.Report, error) {
	is := s.pods_[pod.Name]
	// Pods are asked all at once, so what is random here hangs on nothing shared.
	own := rand.New(rand.NewPCG(uint64(s.now.UnixNano()), uint64(pod.Name[len(pod.Name)-1])))
	if is == nil || is.UID != pod.UID || is.DeletionTimestamp != nil || hasGate(is) || own.Float64() < s.flakes {
		return node.Report{}, errors.New("no answer")
	}
	d := s.disks[pod.Name]
	report := node.Report{Node: pod.Name, Size: 100 << 30, Free: 50 << 30, Done: slices.Clone(d.done)}
	if s.anna != nil {
		report.Replay = s.anna.told(pod.Name)
	}
	if id := restoreID(is); id != "" && !finished(is) {
		report.Restore = &node.Progress{ID: id, Phase: node.Downloading, Bytes: int64(d.progress), BytesTotal: 3}
		if d.half {
			report.Restore.Phase = node.Replacing
		}
	}
	return report, nil
}

func (s *sim) Backups(_ context.Context, _ *corev1.Pod, _ string) (node.Backups, error) {
	return node.Backups{Prefix: "ns-demo", Backups: []node.Summary{s.backup().Summary}}, s.read()
}

func (s *sim) Backup(context.Context, *corev1.Pod, string, string) (node.Backup, error) {
	return *s.backup(), s.read()
}

func (s *sim) backup() *node.Backup {
	var names []string
	for i := range s.replicas {
		names = append(names, "cas-"+strconv.Itoa(i))
	}
	b := factBackup("nightly", names...)
	if s.anna != nil {
		return s.anna.backup(b)
	}
	return b
}

func (s *sim) tell(about corev1.ObjectReference, _ *corev1.ObjectReference, _, reason, note string) {
	s.recorded = append(s.recorded, about.Kind+" "+about.Name+" "+reason)
	s.logf("event on %s %s: %s: %s", about.Kind, about.Name, reason, note)
}

// controller is a process of it, which knows nothing of the one before.
func (s *sim) controller() *reconciler {
	return &reconciler{cluster: s, nodes: s, replays: s, planner: realPlanner, tell: s, clock: func() time.Time { return s.now }, log: logr.Discard(),
		index: newIndex(), throttle: newThrottle(), checking: make(chan struct{}, checkers)}
}

func (s *sim) sweeper() *sweeper {
	return &sweeper{cluster: s, tell: s, clock: func() time.Time { return s.now }, log: logr.Discard(), candidates: func(context.Context) (names []types.NamespacedName, err error) {
		for name, pod := range s.pods_ {
			if restoreID(pod) != "" && !finished(pod) {
				names = append(names, types.NamespacedName{Namespace: "ns", Name: name})
			}
		}
		slices.SortFunc(names, func(a, b types.NamespacedName) int { return natural(a.Name, b.Name) })
		return names, nil
	}}
}

// sweep sweeps once.
func (s *sim) sweep(sweeps *sweeper) {
	s.survives(func() error { return sweeps.sweep(context.Background()) })
}

// survives does what a process may end in.
func (s *sim) survives(do func() error) {
	defer func() {
		if e := recover(); e != nil {
			if _, is := e.(crashed); !is {
				panic(e)
			}
		}
	}()
	if err := do(); err != nil && !strings.Contains(err.Error(), "a flake") {
		s.wrong("sweeping: %v", err)
	}
}

// reconcile runs it once; ok is false where it ended in the middle.
func (s *sim) reconcile(r *reconciler, name string) (after time.Duration, ok bool) {
	defer func() {
		if e := recover(); e != nil {
			if _, is := e.(crashed); !is {
				panic(e)
			}
			after, ok = 0, false
		}
	}()
	result, err := r.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: name}})
	if err != nil {
		if !strings.Contains(err.Error(), "a flake") {
			s.wrong("%v", err)
		}
		return 200 * time.Millisecond, true
	}
	return result.RequeueAfter, true
}
