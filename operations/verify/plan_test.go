package verify

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/schedule"
)

func TestDue(t *testing.T) {
	cron, err := schedule.Parse("0 5 * * *", "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	five := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC) // in Berlin it is five
	for name, c := range map[string]struct {
		noted *metav1.Time
		now   time.Time
		want  time.Time
	}{
		"first":              {nil, t0, five},
		"noted":              {&metav1.Time{Time: five}, t0, five},
		"due":                {&metav1.Time{Time: five}, five.Add(time.Minute), five},
		"due since a week":   {&metav1.Time{Time: five}, five.Add(7 * 24 * time.Hour), five},
		"another expression": {&metav1.Time{Time: five.Add(-time.Hour)}, t0, five},
	} {
		s := &api.BackupSchedule{Status: api.BackupScheduleStatus{NextVerification: c.noted}}
		if got := due(s, cron, c.now); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestPick(t *testing.T) {
	made := func(name string, began time.Duration, change func(*api.Backup)) *api.Backup {
		b := backupOf("c-0")
		b.Name, b.UID, b.Status.Started = name, types.UID(name), at(began)
		if change != nil {
			change(b)
		}
		return b
	}
	old, recent := made("old", 0, nil), made("recent", time.Hour, nil)
	for name, c := range map[string]struct {
		own  []*api.Backup
		want string
	}{
		"none":     {nil, ""},
		"newest":   {[]*api.Backup{recent, old}, "recent"},
		"partial":  {[]*api.Backup{old, made("p", 2*time.Hour, func(b *api.Backup) { b.Status.Phase = api.BackupPartial })}, "old"},
		"deleting": {[]*api.Backup{old, made("d", 2*time.Hour, func(b *api.Backup) { b.DeletionTimestamp = at(0) })}, "old"},
		"gone": {[]*api.Backup{old, made("g", 2*time.Hour, func(b *api.Backup) {
			b.Status.Conditions = []metav1.Condition{{Type: api.ConditionStored, Status: metav1.ConditionFalse}}
		})}, "old"},
		"same time": {[]*api.Backup{made("a", 0, nil), made("b", 0, nil)}, "b"},
	} {
		got := ""
		if b := pick(c.own); b != nil {
			got = b.Name
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestRotation: verification by verification every node has its turn, whichever Backup
// is the newest, and as nodes come and go.
func TestRotation(t *testing.T) {
	var seen []string
	var before *api.Backup
	for i, nodes := range [][]string{{"c-0", "c-1", "c-2"}, {"c-0", "c-1", "c-2"}, {"c-0", "c-2"}, {"c-0", "c-1", "c-2"}, {"c-0", "c-1", "c-2", "c-3"}} {
		b := backupOf(nodes...)
		own := []*api.Backup{b}
		if before != nil && i != 1 { // the second is of the first one's Backup
			own = append(own, before)
		} else if before != nil {
			b.Status.Verified = before.Status.Verified
		}
		node := first(b, own)
		seen = append(seen, node)
		b.Status.Verified = begin(node, t0.Add(time.Duration(i)*time.Hour))
		before = b
	}
	if want := []string{"c-0", "c-1", "c-2", "c-0", "c-1"}; !slices.Equal(seen, want) {
		t.Errorf("%v, want %v", seen, want)
	}
}

func TestWanted(t *testing.T) {
	for _, c := range []struct {
		nodes *int32
		of    int
		want  int
	}{{nil, 3, 1}, {new(int32(0)), 3, 3}, {new(int32(2)), 3, 2}, {new(int32(9)), 3, 3}} {
		if got := wanted(&api.BackupVerify{Nodes: c.nodes}, c.of); got != c.want {
			t.Errorf("%v of %d: %d, want %d", c.nodes, c.of, got, c.want)
		}
	}
}

// TestPodName: it follows from the status, and no two verifications have one.
func TestPodName(t *testing.T) {
	seen := map[string]bool{}
	for _, uid := range []types.UID{"a", "b"} {
		for _, node := range []string{"c-0", "c-1"} {
			for _, when := range []time.Duration{0, time.Hour} {
				b := backupOf("c-0", "c-1")
				b.UID = uid
				b.Status.Verified = begin(node, t0.Add(when))
				name := podName(b)
				if seen[name] || !strings.HasPrefix(name, NamePrefix) || len(name) > 40 || podName(b.DeepCopy()) != name {
					t.Errorf("%s %s %v: %s", uid, node, when, name)
				}
				b.Status.Verified.Message, b.Status.Verified.Rows = "anything", 5
				if podName(b) != name {
					t.Error("it changes as it goes on")
				}
				seen[name] = true
			}
		}
	}
}
