package restore

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// TestAsksBeforeItSaysDanger: a container that runs and has not told how far it is is
// asked again for a while, with the pending list as it is, and nothing deleted.
func TestAsksBeforeItSaysDanger(t *testing.T) {
	for name, c := range map[string]struct {
		again  bool
		phase  string // of the progress; empty for no answer
		id     string
		opened bool
		danger bool
	}{
		"silent, asked again":           {true, "", "r/1", false, false},
		"silent to the last":            {false, "", "r/1", true, true},
		"tells of another, asked again": {true, node.Downloading, "r/0", false, false},
		"tells of another to the last":  {false, node.Downloading, "r/0", true, true},
		"looks up":                      {true, node.LookingUp, "r/1", true, false},
		"downloads":                     {true, node.Downloading, "r/1", true, false},
		"replaces":                      {true, node.Replacing, "r/1", true, true},
		"verifies":                      {true, node.Verifying, "r/1", true, true},
	} {
		r := begun(phaseOf("a", api.PodRestoring), func(r *api.Restore) {
			r.Spec.Cancel = true
			r.Status.Pod("a").Started = new(metav1.NewTime(today.Add(time.Second)))
		})
		w := worldOf(coursePod("a", restores("r/1", runs, 0, nil)))
		w.askAgain = c.again
		if c.phase != "" {
			w.progress["a"] = node.Progress{ID: c.id, Phase: c.phase}
		}
		s := next(r, w, today)
		if opened := len(s.status.Pending) == 0; opened != c.opened || opened != (len(s.remove) > 0) || s.after == 0 {
			t.Errorf("%s: pending %v, does %v, again in %v", name, s.status.Pending, goals(s), s.after)
		}
		if danger := strings.HasPrefix(s.status.Pod("a").Message, "DANGER: "); danger != c.danger {
			t.Errorf("%s: it says %q", name, s.status.Pod("a").Message)
		}
		if !c.opened && !strings.Contains(s.status.Message, "asks a whether") {
			t.Errorf("%s: the message is %q", name, s.status.Message)
		}
	}
	at := newThrottle()
	if !at.askAgain("u", today) || !at.askAgain("u", today.Add(askAgainFor-1)) || at.askAgain("u", today.Add(askAgainFor)) {
		t.Error("it is not asked again for so long")
	}
}

// TestMovedOn: a container that was downloading when it was asked, and began to
// replace data before it was ended, is told of; and that is waited for no longer than
// the pod has to end.
func TestMovedOn(t *testing.T) {
	r := begun(phaseOf("a", api.PodRestoring), func(r *api.Restore) {
		r.Spec.Cancel = true
		r.Status.Pod("a").Started = new(metav1.NewTime(today.Add(time.Second)))
	})
	w := worldOf(coursePod("a", restores("r/1", runs, 0, nil)))
	w.progress["a"] = node.Progress{ID: "r/1", Phase: node.Downloading}
	r.Status = stored(t, next(r, w, today).status)
	if text := r.Status.Pod("a").Message; !strings.Contains(text, "untouched") {
		t.Fatal(text)
	}
	w.pods["a"].DeletionTimestamp = new(metav1.NewTime(today.Add(30 * time.Second)))
	s := next(r, w, today)
	if s.status.Phase.Final() || s.after == 0 {
		t.Fatalf("while it is being ended the Restore is %s", s.status.Phase)
	}
	if s := next(r, w, today.Add(30*time.Second)); s.status.Phase != api.RestoreCancelled || strings.Contains(s.status.Message, "DANGER") {
		t.Errorf("it is %s: %s", s.status.Phase, s.status.Message)
	}
	w.progress["a"] = node.Progress{ID: "r/1", Phase: node.Replacing}
	s = next(r, w, today)
	if at := s.status.Pod("a"); s.status.Phase != api.RestoreCancelled || at.Phase != api.PodCancelled || !strings.HasPrefix(at.Message, "DANGER: ") ||
		!strings.HasPrefix(s.status.Message, "DANGER: pod a may have half-replaced data: ") {
		t.Errorf("it is %s: %s; %+v", s.status.Phase, s.status.Message, at)
	}
}

// TestCancelledUntouched has no progress to show.
func TestCancelledUntouched(t *testing.T) {
	for name, r := range map[string]*api.Restore{"not accepted": fresh(), "accepted": accepted()} {
		r.Spec.Cancel = true
		s := next(r, worldOf(), today)
		if s.status.Phase != api.RestoreCancelled || s.status.Progress != (api.RestoreProgress{}) || s.status.Message != "cancelled before a pod was touched" {
			t.Errorf("%s: it is %s, %+v: %s", name, s.status.Phase, s.status.Progress, s.status.Message)
		}
		for _, at := range s.status.Pods {
			if at.Phase != api.PodCancelled {
				t.Errorf("%s: %+v", name, at)
			}
		}
	}
}

// TestHintOfCancelled: who waits for a suspended Restore that is being cancelled is not
// told to resume it.
func TestHintOfCancelled(t *testing.T) {
	for _, c := range []struct {
		suspend, cancel bool
		want            string
	}{{false, false, ""}, {true, false, "suspended: resume"}, {true, true, "is being cancelled"}, {false, true, "is being cancelled"}} {
		got := hint(&api.Restore{Spec: api.RestoreSpec{Suspend: c.suspend, Cancel: c.cancel}})
		if !strings.Contains(got, c.want) || (got == "") != (c.want == "") || c.cancel && strings.Contains(got, "resume") {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestFirstStart: a pod that was deleted in the midst of its restore has taken since
// the first start; a container's own start counts where that was earlier.
func TestFirstStart(t *testing.T) {
	for _, c := range []struct{ was, want time.Duration }{{-time.Hour, -time.Hour}, {-time.Second, -time.Minute}} {
		r := begun(phaseOf("a", api.PodRestoring), func(r *api.Restore) {
			r.Status.Pod("a").Started = new(metav1.NewTime(today.Add(c.was)))
		})
		s := next(r, worldOf(coursePod("a", ended(0, outcome))), today) // it says that it started a minute ago
		if at := s.status.Pod("a").Started; at == nil || !at.Time.Equal(today.Add(c.want)) {
			t.Errorf("let start at %v: it started %v", c.was, at)
		}
	}
}

func TestRestoringText(t *testing.T) {
	for want, pods := range map[string][]string{
		"no pod runs with the data that are replaced; a restores when it comes back":  {"a"},
		"no pod runs with the data that are replaced; a, b restore as they come back": {"a", "b"},
	} {
		if got := restoringText(pods); got != want {
			t.Errorf("%q", got)
		}
	}
}
