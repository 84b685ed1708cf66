package verify

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

var errCrash = errors.New("the controller has ended")

// sim is an API server with a kubelet, and controllers that end at a write and start
// anew.
type sim struct {
	*testing.T
	client.Client                  // the controllers'
	world         client.WithWatch // what is behind it
	now           time.Time
	pause         time.Duration // between two looks
	start         *starts
	run           *runs
	sweeps        *sweeper

	crashAt    int  // the write that is the last; 0 for none
	afterIt    bool // it is done, but nobody hears of it
	writes     int
	fails      func(client.Object) error // of Create
	created    map[string]int            // pods, by node
	told       []string
	kubelet    func(*corev1.Pod) // sets the status of a pod that is there
	mostAtOnce int
}

func (s *sim) tell(about corev1.ObjectReference, _ *corev1.ObjectReference, _, reason, _ string) {
	s.told = append(s.told, about.Kind+" "+reason)
}

func newSim(t *testing.T, objects ...client.Object) *sim {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), api.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	s := &sim{T: t, now: t0.Add(59 * time.Minute), pause: 10 * time.Second, created: map[string]int{}}
	write := func(do func() error) error {
		s.writes++
		if s.crashAt != s.writes {
			return do()
		}
		if s.afterIt {
			if err := do(); err != nil {
				return err
			}
		}
		return errCrash
	}
	s.world = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&api.Backup{}, &api.BackupSchedule{}).Build()
	s.Client = interceptor.NewClient(s.world, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if s.fails != nil {
				if err := s.fails(o); err != nil {
					return err
				}
			}
			return write(func() error {
				o.SetCreationTimestamp(metav1.NewTime(s.now))
				o.SetUID(types.UID(fmt.Sprint("pod-", s.writes)))
				err := c.Create(ctx, o, options...)
				if err == nil {
					s.created[o.GetAnnotations()[api.LabelVerify]]++
				}
				return err
			})
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			return write(func() error { return c.Delete(ctx, o, options...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, options ...client.SubResourceUpdateOption) error {
			return write(func() error { return c.SubResource(sub).Update(ctx, o, options...) })
		},
	})
	s.kubelet = func(pod *corev1.Pod) {
		if s.now.Sub(pod.CreationTimestamp.Time) >= 30*time.Second {
			s.finish(pod, sound)
		}
	}
	s.restart()
	return s
}

// restart is another process of the controller.
func (s *sim) restart() {
	w := &world{cached: s.Client, known: s.Client, live: s.Client, writer: s.Client}
	clock := func() time.Time { return s.now }
	s.start = &starts{world: w, tell: s, clock: clock, every: usualEvery, log: logr.Discard(), begun: map[types.UID]begun{}}
	s.run = &runs{world: w, tell: s, clock: clock, every: usualEvery, log: logr.Discard()}
	s.sweeps = &sweeper{world: w, clock: clock, log: logr.Discard()}
}

func (s *sim) finish(pod *corev1.Pod, v node.Verified) {
	v.Node = pod.Annotations[api.LabelVerify]
	pod.Status = corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{ended(containerVerify, 0, v.Encode(), 0)}}
}

func (s *sim) pods() []corev1.Pod {
	var list corev1.PodList
	if err := s.List(s.Context(), &list, client.HasLabels{api.LabelVerify}); err != nil {
		s.Fatal(err)
	}
	return list.Items
}

func (s *sim) schedules() []api.BackupSchedule {
	var list api.BackupScheduleList
	if err := s.List(s.Context(), &list); err != nil {
		s.Fatal(err)
	}
	return list.Items
}

func (s *sim) backups() []api.Backup {
	var list api.BackupList
	if err := s.List(s.Context(), &list); err != nil {
		s.Fatal(err)
	}
	return list.Items
}

// tick has everything looked at once, a little later than before.
func (s *sim) tick() {
	s.Helper()
	s.now = s.now.Add(s.pause)
	alive := func(err error) bool {
		if errors.Is(err, errCrash) {
			s.restart()
			return false
		}
		if err != nil {
			s.Fatalf("write %d: %v", s.writes, err)
		}
		return true
	}
	for _, o := range s.schedules() {
		if _, err := s.start.Reconcile(s.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&o)}); !alive(err) {
			return
		}
	}
	n := 0
	for _, b := range s.backups() {
		if running(&b) {
			n++
		}
		if _, err := s.run.Reconcile(s.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&b)}); !alive(err) {
			return
		}
	}
	s.mostAtOnce = max(s.mostAtOnce, n)
	for _, pod := range s.pods() {
		s.kubelet(&pod)
		if err := s.world.Status().Update(s.Context(), &pod); err != nil {
			s.Fatal(err)
		}
	}
	alive(s.sweeps.sweep(s.Context()))
}

func (s *sim) until(limit time.Duration, what string, ok func() bool) {
	s.Helper()
	for end := s.now.Add(limit); !ok(); s.tick() {
		if s.now.After(end) {
			s.Fatalf("%s: not within %v; %+v", what, limit, s.backups()[0].Status.Verified)
		}
	}
}

func (s *sim) over() bool {
	for _, b := range s.backups() {
		if v := b.Status.Verified; v != nil && v.Result != api.VerificationRunning {
			return len(s.pods()) == 0
		}
	}
	return false
}

// objectsOf are the objects of a namespace: the pods of a database, a schedule that is
// verified at four each day, of all nodes, and a Backup.
func objectsOf(t *testing.T, namespace string, spec *api.BackupVerify) []client.Object {
	t.Helper()
	spec.Schedule = "0 4 * * *"
	s := &api.BackupSchedule{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "nightly", UID: types.UID(namespace + "-s")}}
	s.Spec = api.BackupScheduleSpec{Schedule: "0 3 * * *", Verify: spec}
	b := backupOf("cassandra-0", "cassandra-1", "cassandra-2")
	b.Namespace, b.UID = namespace, types.UID(namespace+"-b")
	out := []client.Object{s, b, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}}
	for i := range 3 {
		like := official(t)
		like.Namespace, like.Name = namespace, fmt.Sprintf("cassandra-%d", i)
		out = append(out, like)
	}
	return out
}

var three []client.Object // as objectsOf makes them: the corpus is read once

func threeNodes(t *testing.T) (out []client.Object) {
	t.Helper()
	if three == nil {
		three = objectsOf(t, "ns", &api.BackupVerify{Nodes: new(int32(0))})
	}
	for _, o := range three {
		out = append(out, o.DeepCopyObject().(client.Object))
	}
	return out
}
