package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// TestCrashes ends the controller at each write, before and after that is done. What
// comes of it is the same always.
func TestCrashes(t *testing.T) {
	crashed := 0
	for at := 0; ; at++ {
		hit := false
		for _, after := range []bool{false, true} {
			s := newSim(t, threeNodes(t)...)
			s.crashAt, s.afterIt = at, after
			s.until(2*time.Hour, fmt.Sprint("write ", at), s.over)
			hit = hit || s.writes >= at && at > 0
			b, schedule := s.backups()[0], s.schedules()[0]
			v := b.Status.Verified
			if v.Result != api.VerificationPassed || !slices.Equal(v.Nodes, []string{"cassandra-0", "cassandra-1", "cassandra-2"}) || v.Rows != 15 || v.SSTables != 12 {
				t.Errorf("write %d, done %v: %+v", at, after, v)
			}
			for _, name := range v.Nodes {
				if s.created[name] != 1 {
					t.Errorf("write %d, done %v: %d pods for %s", at, after, s.created[name], name)
				}
			}
			s.tick() // the schedule is told
			s.tick()
			schedule = s.schedules()[0]
			next := schedule.Status.NextVerification
			if next == nil || !next.Time.Equal(t0.Add(25*time.Hour)) || schedule.Status.LastVerified == nil || schedule.Status.LastVerified.Backup != b.Name {
				t.Errorf("write %d, done %v: next %v, last %+v", at, after, next, schedule.Status.LastVerified)
			}
			if n := len(s.backups()); n != 1 || s.backups()[0].Status.Verified.Started.After(t0.Add(90*time.Minute)) {
				t.Errorf("write %d, done %v: it began again", at, after)
			}
			crashed++
		}
		if at > 0 && !hit {
			break
		}
	}
	if crashed < 20 {
		t.Errorf("only %d courses: the writes are not those that were meant", crashed)
	}
}

// TestNextDay: the next one begins with the node that follows.
func TestNextDay(t *testing.T) {
	objects := threeNodes(t)
	objects[0].(*api.BackupSchedule).Spec.Verify.Nodes = nil
	s := newSim(t, objects...)
	var seen []string
	for day := range 4 {
		s.now = t0.Add(time.Duration(day)*24*time.Hour + 59*time.Minute)
		s.until(time.Hour, "verified", func() bool {
			v := s.backups()[0].Status.Verified
			return v != nil && v.Result == api.VerificationPassed && v.Started.After(t0.Add(time.Duration(day)*24*time.Hour)) && len(s.pods()) == 0
		})
		seen = append(seen, s.backups()[0].Status.Verified.Nodes...)
	}
	if want := []string{"cassandra-0", "cassandra-1", "cassandra-2", "cassandra-0"}; !slices.Equal(seen, want) {
		t.Errorf("%v", seen)
	}
	if n := slices.Index(s.told, "Backup VerificationPassed"); n < 0 || !slices.Contains(s.told, "BackupSchedule VerificationStarted") {
		t.Errorf("told %v", s.told)
	}
}

// TestRoom: one of a namespace, two in all; every one has its turn.
func TestRoom(t *testing.T) {
	var objects []client.Object
	for i := range 5 {
		objects = append(objects, objectsOf(t, fmt.Sprint("ns", i), &api.BackupVerify{})...)
	}
	second := objects[0].DeepCopyObject().(*api.BackupSchedule)
	second.Name, second.UID = "second", "second"
	b := objects[1].DeepCopyObject().(*api.Backup)
	b.Name, b.UID, b.Labels[api.LabelSchedule] = "second-1", "second-b", "second"
	s := newSim(t, append(objects, second, b)...)
	s.until(3*time.Hour, "all", func() bool {
		of := map[string]int{}
		for _, b := range s.backups() {
			if running(&b) {
				of[b.Namespace]++
			}
		}
		for namespace, n := range of {
			if n > 1 {
				t.Fatalf("%d in %s", n, namespace)
			}
		}
		return len(of) == 0 && !slices.ContainsFunc(s.backups(), func(b api.Backup) bool { return b.Status.Verified == nil })
	})
	if s.mostAtOnce != mostInAll {
		t.Errorf("%d at once", s.mostAtOnce)
	}
}

// TestEnds has what ends a verification early, and finds its pod gone.
func TestEnds(t *testing.T) {
	forbidden := func(o client.Object) error {
		if _, ok := o.(*corev1.Pod); ok {
			return forbiddenPod(o.GetName())
		}
		return nil
	}
	for name, c := range map[string]struct {
		objects func([]client.Object) []client.Object
		during  func(*sim)
		result  api.VerificationResult
		reason  string
		within  time.Duration
	}{
		"nobody to make it after": {objects: func(o []client.Object) []client.Object { return o[:3] }, result: api.VerificationUnknown, reason: ReasonNoPod, within: 20 * time.Minute},
		"forbidden":               {during: func(s *sim) { s.fails = forbidden }, result: api.VerificationUnknown, reason: ReasonNotStarted, within: 20 * time.Minute},
		"hangs":                   {during: func(s *sim) { s.kubelet, s.pause = hang, 5*time.Minute }, result: api.VerificationUnknown, reason: ReasonTimedOut, within: 7 * time.Hour},
		"schedule is deleted": {during: func(s *sim) {
			s.kubelet = hang
			o := s.schedules()[0]
			if err := s.world.Delete(s.Context(), &o); err != nil {
				s.Fatal(err)
			}
		}, result: api.VerificationUnknown, reason: ReasonNotWanted, within: time.Minute},
		"not verified any more": {during: func(s *sim) {
			o := s.schedules()[0]
			o.Spec.Verify = nil
			if err := s.world.Update(s.Context(), &o); err != nil {
				s.Fatal(err)
			}
		}, result: api.VerificationUnknown, reason: ReasonNotWanted, within: time.Minute},
		"damaged": {during: func(s *sim) {
			s.kubelet = func(pod *corev1.Pod) {
				v := sound
				v.Problems = []string{"x"}
				s.finish(pod, v)
			}
		}, result: api.VerificationFailed, reason: ReasonDamaged, within: time.Minute},
	} {
		objects := threeNodes(t)
		if c.objects != nil {
			objects = c.objects(objects)
		}
		s := newSim(t, objects...)
		if c.during != nil && c.reason == ReasonNotStarted {
			c.during(s)
		}
		s.until(2*time.Hour, name, func() bool { b := s.backups()[0]; return running(&b) })
		if c.during != nil && c.reason != ReasonNotStarted {
			c.during(s)
		}
		s.until(c.within, name, s.over)
		b := s.backups()[0]
		if v := b.Status.Verified; v.Result != c.result || b.Status.Conditions[0].Reason != c.reason || v.Message == "" {
			t.Errorf("%s: %+v, %+v", name, v, b.Status.Conditions)
		}
	}
}

func hang(pod *corev1.Pod) {
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{active("stategraft-restore")}
}

// TestSweep: pods of no verification go; others' stay.
func TestSweep(t *testing.T) {
	b := running1()
	left, other, foreign, mine := podOf(b, nil), podOf(b, nil), podOf(b, nil), podOf(b, nil)
	left.Name, other.Name, foreign.Name = "stategraft-verify-1", "stategraft-verify-2", "web"
	other.OwnerReferences[0].Name = "gone"
	foreign.OwnerReferences = nil
	for i, p := range []*corev1.Pod{left, other, foreign, mine} {
		p.Labels, p.UID = map[string]string{api.LabelVerify: "x"}, types.UID(fmt.Sprint(i))
	}
	s := newSim(t, b, left, other, foreign, mine)
	s.now = t0.Add(30 * time.Second)
	if err := s.sweeps.sweep(t.Context()); err != nil || len(s.pods()) != 4 {
		t.Errorf("young ones: %d, %v", len(s.pods()), err)
	}
	s.now = t0.Add(2 * time.Minute)
	if err := s.sweeps.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range s.pods() {
		names = append(names, p.Name)
	}
	if len(names) != 2 || !slices.Contains(names, "web") || !slices.ContainsFunc(names, func(n string) bool { return n == mine.Name && strings.HasPrefix(n, NamePrefix) }) {
		t.Errorf("%v are left", names)
	}
}

func forbiddenPod(name string) error {
	return apierrors.NewForbidden(corev1.Resource("pods"), name, errors.New("exceeded quota"))
}

// TestConflicts: whoever else writes meanwhile, what comes of it is the same, told once.
func TestConflicts(t *testing.T) {
	s := newSim(t, threeNodes(t)...)
	real, seen := s.Client, map[string]bool{}
	s.Client = interceptor.NewClient(s.world, interceptor.Funcs{
		Create: func(ctx context.Context, _ client.WithWatch, o client.Object, options ...client.CreateOption) error {
			return real.Create(ctx, o, options...)
		},
		SubResourceUpdate: func(ctx context.Context, _ client.Client, _ string, o client.Object, options ...client.SubResourceUpdateOption) error {
			if key := fmt.Sprintf("%T %s", o, o.GetResourceVersion()); !seen[key] {
				seen[key] = true
				return apierrors.NewConflict(api.GroupVersion.WithResource("x").GroupResource(), o.GetName(), errors.New("the object has been modified"))
			}
			return real.Status().Update(ctx, o, options...)
		},
	})
	s.restart()
	s.until(time.Hour, "verified", s.over)
	s.tick()
	s.tick()
	if v := s.backups()[0].Status.Verified; v.Result != api.VerificationPassed || v.Rows != 15 || len(seen) < 6 {
		t.Errorf("%+v after %d conflicts", v, len(seen))
	}
	for _, event := range []string{"Backup VerificationStarted", "Backup VerificationPassed"} {
		if n := len(slices.DeleteFunc(slices.Clone(s.told), func(told string) bool { return told != event })); n != 1 {
			t.Errorf("%s: told %d times", event, n)
		}
	}
	for node, n := range s.created {
		if n != 1 {
			t.Errorf("%d pods for %s", n, node)
		}
	}
}

// old is a cache that shows objects as they were.
type old struct {
	client.Reader
	b *api.Backup
}

func (o old) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if b, ok := into.(*api.Backup); ok {
		o.b.DeepCopyInto(b)
		return nil
	}
	return o.Reader.Get(ctx, key, into, options...)
}

// TestCacheLags: what is over, or about the next node, has no pod made anew for it by
// somebody who has not heard.
func TestCacheLags(t *testing.T) {
	s := newSim(t, threeNodes(t)...)
	s.until(time.Hour, "begins", func() bool { b := s.backups()[0]; return running(&b) })
	before := s.backups()[0]
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&before)}
	s.until(time.Hour, "goes on", func() bool { return len(s.backups()[0].Status.Verified.Nodes) == 2 })
	s.run.cached = old{s.Client, &before}
	for range 3 {
		if _, err := s.run.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	if s.created["cassandra-0"] != 1 {
		t.Errorf("%d pods for the first node", s.created["cassandra-0"])
	}
}
