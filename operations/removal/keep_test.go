package removal

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/sidecar"
	"github.com/stategraft/stategraft/operations/sidecar/sidecartest"
)

// began is one of a schedule that was begun at an hour.
func began(name string, hour int, pods ...string) *api.Backup {
	b := made(name, pods...)
	b.Labels = map[string]string{api.LabelSchedule: "nightly"}
	b.Status.Started = new(metav1.NewTime(now.Add(time.Duration(hour-24) * time.Hour)))
	return b
}

// What retention decided for the sake of a newer one is not done when that has gone.
func TestNothingNewer(t *testing.T) {
	for name, c := range map[string]struct {
		other func(b *api.Backup)
		me    func(b *api.Backup)
		there bool
		keeps bool
	}{
		"a newer one is there":                 {there: true},
		"a newer one that the storage has not": {keeps: true},
		"an older one":                         {other: func(b *api.Backup) { b.Status.Started = new(metav1.NewTime(now.Add(-30 * time.Hour))) }, there: true, keeps: true},
		"an older one, and this is not whole": {
			other: func(b *api.Backup) { b.Status.Started = new(metav1.NewTime(now.Add(-30 * time.Hour))) },
			me:    func(b *api.Backup) { b.Status.Pods[0].Phase = api.PodBackupFailed }, there: true,
		},
		"one that is missing":           {other: func(b *api.Backup) { b.Status.Phase = api.BackupMissing }, there: true, keeps: true},
		"one that is partial":           {other: func(b *api.Backup) { b.Status.Phase = api.BackupPartial }, there: true, keeps: true},
		"one that goes itself":          {other: func(b *api.Backup) { b.DeletionTimestamp = new(metav1.NewTime(now)) }, there: true, keeps: true},
		"one of which a part has gone":  {other: func(b *api.Backup) { b.Status.Pods = append(b.Status.Pods, api.PodBackup{Name: "b"}) }, there: true, keeps: true},
		"another schedule's":            {other: func(b *api.Backup) { b.Labels = nil }, there: true, keeps: true},
		"another namespace's":           {other: func(b *api.Backup) { b.Namespace = "test" }, there: true, keeps: true},
		"a person deletes it, the last": {me: func(b *api.Backup) { b.Annotations = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "a")
			me, other := began(one, 3, "a"), began(two, 4, "a")
			me.Annotations = map[string]string{api.AnnotationExpiring: "Count"}
			if c.me != nil {
				c.me(me)
			}
			if c.other != nil {
				c.other(other)
			}
			me.Status.Prefix, other.Status.Prefix = "", ""
			r.Cached = &cached{all: []*api.Backup{me, other}}
			r.put(one, "a")
			left := []string{}
			if c.there {
				r.put(two, "a")
				left = append(left, two)
			}
			err := r.Remove(context.Background(), me, r.pods)
			if kept := (*Kept)(nil); errors.As(err, &kept) != c.keeps || !c.keeps && err != nil {
				t.Errorf("%v", err)
			}
			if c.keeps {
				left = append(left, one)
			}
			r.left(left...)
		})
	}
}

// Another object of the same data may be pinned.
func TestPinnedByAnother(t *testing.T) {
	r := newRig(t, "a")
	me, other := found(one), made(one, "a")
	other.Spec.Pinned = true
	r.Cached = &cached{all: []*api.Backup{me, other}}
	r.put(one, "a")
	err := r.Remove(context.Background(), me, r.pods)
	if kept := (*Kept)(nil); !errors.As(err, &kept) || !strings.Contains(kept.Message, "pinned") {
		t.Errorf("%v", err)
	}
	r.left(one)
	other.Spec.Pinned = false
	r.want(me, "")
	r.left()
}

// A deletion whose end nobody has heard may go on, also when another sidecar has deleted
// the rest.
func TestUnanswered(t *testing.T) {
	for name, c := range map[string]struct {
		lost []string
		want Reason
		left []string
	}{
		"one of two": {[]string{"a"}, SidecarUnreachable, nil},
		"both":       {[]string{"a", "b"}, SidecarUnreachable, []string{one}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "a", "b")
			for i, n := range c.lost {
				r.both[i].Close()
				b, err := sidecartest.StartBoth(sidecartest.Address(10+i), sidecartest.Pair{}, sidecartest.Node{Name: n, Storage: r.storage, Lost: func(string) bool { return true }})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(b.Close)
				r.pods[i] = *b.Pod("prod", n)
			}
			r.put(one, "a", "b")
			err := r.Remove(context.Background(), made(one, "a", "b"), r.pods)
			wait := (*Wait)(nil)
			if !errors.As(err, &wait) || !wait.Going || wait.Reason != c.want || !errors.Is(err, sidecar.ErrUnanswered) {
				t.Errorf("%v", err)
			}
			r.left(c.left...)
		})
	}
}
