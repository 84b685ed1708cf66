package backup

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// running is an accepted Backup of pods in these phases, of which those that are not
// waiting for their first turn were asked a minute ago.
func running(phases ...api.PodBackupPhase) *api.Backup {
	b := factsOf(func(*Facts) {}).Backup
	s := start(b)
	s.set(api.ConditionAccepted, true, ReasonAccepted, "m", 1, today)
	b.Status = s.status
	b.Status.Name, b.Status.Prefix, b.Status.Phase, b.Status.Started = b.StorageName(), "p", api.BackupRunning, stamp(today.Add(-time.Minute))
	b.Finalizers = []string{api.FinalizerBackup}
	for i, phase := range phases {
		at := api.PodBackup{Name: fmt.Sprintf("cas-%d", i), Phase: phase}
		if phase != api.PodBackupWaiting {
			at.Tries, at.UID, at.Started = 1, types.UID(at.Name), stamp(today.Add(-time.Minute))
		}
		if phase == api.PodBackupComplete {
			at.Objects, at.Bytes, at.Finished = 1, 1, stamp(today.Add(-time.Second))
		}
		b.Status.Pods = append(b.Status.Pods, at)
	}
	return b
}

// stored is a storage with parts of so many objects.
func stored(objects ...int) *node.Backup {
	b := &node.Backup{Ring: map[string]node.Ring{}}
	for i, n := range objects {
		name := fmt.Sprintf("cas-%d", i)
		b.Members = append(b.Members, node.Member{Node: name, Complete: n >= 0, Objects: max(n, 0), Finished: today.Add(time.Hour)})
		b.Ring[name] = node.Ring{}
	}
	return b
}

const (
	waiting   = api.PodBackupWaiting
	uploading = api.PodBackupRunning
	looked    = api.PodBackupChecking
	complete  = api.PodBackupComplete
	failed    = api.PodBackupFailed
	gone      = api.PodBackupGone
)

func TestSteps(t *testing.T) {
	see := func(s sight, change ...func(*seen)) seen {
		is := seen{sight: s, uid: "cas-0", asked: true, reported: s == idleSight, node: "cas-0", prefix: "p"}
		for _, c := range change {
			c(&is)
		}
		return is
	}
	since := func(ago time.Duration) func(*seen) { return func(s *seen) { s.since = today.Add(-ago) } }
	cancel := func(b *api.Backup) { b.Spec.Cancel = true }
	for name, c := range map[string]struct {
		pods   []api.PodBackupPhase
		change func(b *api.Backup)
		seen   seen // cas-0
		stored *node.Backup
		down   string
		want   string // phases of the pods, and of the Backup
		begin  int
		remove int
	}{
		"it uploads":                         {[]api.PodBackupPhase{uploading}, nil, see(runningSight), nil, "", "Running: Running", 0, 0},
		"it is not asked":                    {[]api.PodBackupPhase{uploading}, nil, seen{}, nil, "", "Running: Running", 0, 0},
		"it is done, and looked at":          {[]api.PodBackupPhase{uploading}, nil, see(succeededSight), stored(7), "", "Complete: Complete", 0, 0},
		"it is done, the storage is down":    {[]api.PodBackupPhase{uploading}, nil, see(succeededSight), nil, "no host", "Checking: Running", 0, 0},
		"nothing is in it":                   {[]api.PodBackupPhase{looked}, nil, seen{}, stored(0), "", "Waiting: Waiting", 0, 1},
		"nothing is in it, for the last":     {[]api.PodBackupPhase{looked}, func(b *api.Backup) { b.Status.Pods[0].Tries = 3 }, seen{}, stored(0), "", "Failed: Failed", 0, 0},
		"it is not complete":                 {[]api.PodBackupPhase{looked}, nil, seen{}, stored(-1), "", "Waiting: Waiting", 0, 1},
		"the storage has nothing":            {[]api.PodBackupPhase{looked}, nil, seen{}, stored(), "", "Waiting: Waiting", 0, 1},
		"it failed":                          {[]api.PodBackupPhase{uploading}, nil, see(failedSight), nil, "", "Waiting: Waiting", 0, 0},
		"it failed, for the last":            {[]api.PodBackupPhase{uploading}, func(b *api.Backup) { b.Spec.Retries = new(int32(0)) }, see(failedSight), nil, "", "Failed: Failed", 0, 0},
		"it failed, another is complete":     {[]api.PodBackupPhase{uploading, complete}, func(b *api.Backup) { b.Spec.Retries = new(int32(0)) }, see(failedSight), nil, "", "Failed Complete: Partial", 0, 0},
		"it gave up before it began":         {[]api.PodBackupPhase{uploading}, nil, see(idleSight), nil, "", "Waiting: Waiting", 0, 0},
		"it was asked a moment ago":          {[]api.PodBackupPhase{uploading}, func(b *api.Backup) { b.Status.Pods[0].Started = stamp(today.Add(-time.Second)) }, see(idleSight), nil, "", "Running: Running", 0, 0},
		"whoever was to ask it has ended":    {[]api.PodBackupPhase{uploading}, nil, see(idleSight, func(s *seen) { s.asked = false }), nil, "", "Running: Running", 1, 0},
		"it prepares":                        {[]api.PodBackupPhase{uploading}, nil, see(busySight), nil, "", "Running: Running", 0, 0},
		"it makes another instead":           {[]api.PodBackupPhase{uploading}, nil, see(busySight, func(s *seen) { s.busyWith = "other" }), nil, "", "Waiting: Waiting", 0, 0},
		"it was created anew":                {[]api.PodBackupPhase{uploading}, nil, see(idleSight, func(s *seen) { s.uid = "2" }), nil, "", "Waiting: Waiting", 0, 0},
		"it went":                            {[]api.PodBackupPhase{uploading}, nil, see(absentSight, since(0)), nil, "", "Waiting: Waiting", 0, 0},
		"it went long ago":                   {[]api.PodBackupPhase{uploading}, nil, see(absentSight, since(time.Hour)), nil, "", "Gone: Failed", 0, 0},
		"it went, another was just done":     {[]api.PodBackupPhase{uploading, complete}, nil, see(absentSight, since(time.Hour)), nil, "", "Waiting Complete: Waiting", 0, 0},
		"it went, another uploads":           {[]api.PodBackupPhase{waiting, uploading}, nil, see(absentSight, since(time.Hour)), nil, "", "Waiting Running: Running", 0, 0},
		"it is silent":                       {[]api.PodBackupPhase{uploading}, nil, see(silentSight, since(time.Minute)), nil, "", "Running: Running", 0, 0},
		"it is silent for long":              {[]api.PodBackupPhase{uploading}, nil, see(silentSight, since(11*time.Minute)), nil, "", "Waiting: Waiting", 0, 0},
		"it is silent for very long":         {[]api.PodBackupPhase{uploading}, nil, see(silentSight, since(31*time.Minute)), nil, "", "Failed: Failed", 0, 0},
		"it does not get at the storage":     {[]api.PodBackupPhase{uploading}, nil, see(troubledSight), nil, "", "Running: Running", 0, 0},
		"its turn":                           {[]api.PodBackupPhase{waiting}, nil, see(idleSight), nil, "", "Running: Running", 1, 0},
		"not its turn":                       {[]api.PodBackupPhase{waiting, uploading}, func(b *api.Backup) { b.Spec.Parallel = 1 }, see(idleSight), nil, "", "Waiting Running: Running", 0, 0},
		"its turn, and it goes":              {[]api.PodBackupPhase{waiting}, nil, see(idleSight, func(s *seen) { s.leaving = true }), nil, "", "Waiting: Waiting", 0, 0},
		"its turn, with another prefix":      {[]api.PodBackupPhase{waiting}, nil, see(idleSight, func(s *seen) { s.prefix = "q" }), nil, "", "Failed: Failed", 0, 0},
		"its turn, and it makes another":     {[]api.PodBackupPhase{waiting}, nil, see(busySight), nil, "", "Waiting: Waiting", 0, 0},
		"its turn, and it makes this":        {[]api.PodBackupPhase{waiting}, func(b *api.Backup) { b.Status.Pods[0].Tries = 1 }, see(runningSight), nil, "", "Running: Running", 0, 0},
		"its turn, with a part that is done": {[]api.PodBackupPhase{waiting}, func(b *api.Backup) { b.Status.Pods[0].Tries = 1 }, see(succeededSight), stored(3), "", "Complete: Complete", 0, 0},
		"its turn, with a part that failed":  {[]api.PodBackupPhase{waiting}, func(b *api.Backup) { b.Status.Pods[0].Tries = 1 }, see(failedSight), nil, "", "Waiting: Waiting", 0, 1},
		"a part that cannot be removed":      {[]api.PodBackupPhase{waiting}, nil, see(failedSight, func(s *seen) { s.stuck = "no" }), nil, "", "Failed: Failed", 0, 0},
		"too soon for another try": {[]api.PodBackupPhase{waiting}, func(b *api.Backup) {
			b.Status.Pods[0].Tries, b.Status.Pods[0].Finished = 2, stamp(today.Add(-20*time.Second))
		}, see(idleSight), nil, "", "Waiting: Waiting", 0, 0},
		"another try": {[]api.PodBackupPhase{waiting}, func(b *api.Backup) {
			b.Status.Pods[0].Tries, b.Status.Pods[0].Finished = 2, stamp(today.Add(-40*time.Second))
		}, see(idleSight), nil, "", "Running: Running", 1, 0},
		"no further try":                {[]api.PodBackupPhase{waiting}, func(b *api.Backup) { b.Status.Pods[0].Tries = 3 }, see(idleSight), nil, "", "Failed: Failed", 0, 0},
		"suspended":                     {[]api.PodBackupPhase{waiting, uploading}, func(b *api.Backup) { b.Spec.Suspend = true }, see(idleSight), nil, "", "Waiting Running: Running", 0, 0},
		"cancelled, one uploads":        {[]api.PodBackupPhase{uploading, waiting}, cancel, see(runningSight), nil, "", "Running Failed: Running", 0, 0},
		"cancelled, and it has ended":   {[]api.PodBackupPhase{uploading, failed}, cancel, see(succeededSight), stored(1), "", "Complete Failed: Cancelled", 0, 0},
		"cancelled, and all is done":    {[]api.PodBackupPhase{uploading}, cancel, see(succeededSight), stored(1), "", "Complete: Complete", 0, 0},
		"cancelled, and it failed":      {[]api.PodBackupPhase{uploading}, cancel, see(failedSight), nil, "", "Failed: Cancelled", 0, 0},
		"cancelled, and it went":        {[]api.PodBackupPhase{uploading}, cancel, see(absentSight), nil, "", "Gone: Cancelled", 0, 0},
		"cancelled, silent for a bit":   {[]api.PodBackupPhase{uploading}, cancel, see(silentSight, since(time.Second)), nil, "", "Running: Running", 0, 0},
		"cancelled, silent":             {[]api.PodBackupPhase{uploading}, cancel, see(silentSight, since(2*time.Minute)), nil, "", "Failed: Cancelled", 0, 0},
		"cancelled, the storage down":   {[]api.PodBackupPhase{looked}, cancel, seen{}, nil, "no host", "Failed: Cancelled", 0, 0},
		"its time is over":              {[]api.PodBackupPhase{uploading, complete}, func(b *api.Backup) { b.Spec.Timeout = &metav1.Duration{Duration: time.Minute} }, see(runningSight), nil, "", "Failed Complete: Partial", 0, 0},
		"its time is over, nobody done": {[]api.PodBackupPhase{uploading}, func(b *api.Backup) { b.Spec.Timeout = &metav1.Duration{Duration: time.Minute} }, see(runningSight), nil, "", "Failed: Failed", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := running(c.pods...)
			if c.change != nil {
				c.change(b)
			}
			s := next(b, world{pods: map[string]seen{"cas-0": c.seen}, stored: c.stored, doubt: doubt{unknown: c.down}, limit: 10 * time.Minute}, today)
			var all []string
			for _, at := range s.status.Pods {
				all = append(all, string(at.Phase))
			}
			if got := strings.Join(all, " ") + ": " + string(s.status.Phase); got != c.want {
				t.Errorf("%s, want %s: %s", got, c.want, s.status.Message)
			}
			if len(s.begin) != c.begin || len(s.discard) != c.remove {
				t.Errorf("begins %v, removes %v", s.begin, s.discard)
			}
			// Looked at again with the same eyes, nothing is written.
			b.Status = s.status
			for i := range b.Status.Pods {
				if b.Status.Pods[i].Finished != nil && b.Status.Pods[i].Finished.After(today) {
					t.Errorf("it ends in the future: %v", b.Status.Pods[i])
				}
			}
			again := next(b, world{pods: map[string]seen{"cas-0": {sight: c.seen.sight, since: c.seen.since, uid: c.seen.uid, busyWith: c.seen.busyWith, why: "another word", asked: true, node: c.seen.node, prefix: c.seen.prefix, leaving: c.seen.leaving}}, doubt: doubt{unknown: c.down}, limit: 10 * time.Minute}, today)
			if c.seen.sight == silentSight && again.changes(b) {
				t.Errorf("written again: %s", again.status.Message)
			}
		})
	}
}

func TestOlderVersion(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{"4.1.10", "4.1.9", false}, {"4.1.9", "4.1.10", true}, {"4.1", "4.1.1", true}, {"4.1.1", "4.1", false}, {"4.1", "4.1", false}, {"3.11.19", "4.0", true}, {"5.0-rc1", "5.0", false}} {
		if got := olderVersion(c.a, c.b); got != c.want {
			t.Errorf("%s before %s: %v", c.a, c.b, got)
		}
	}
}

// What was written a moment ago is known, though the informer has not heard of it; what
// others wrote since is.
func TestNewest(t *testing.T) {
	version := func(v string, phase api.BackupPhase) *api.Backup {
		return &api.Backup{ObjectMeta: metav1.ObjectMeta{ResourceVersion: v}, Status: api.BackupStatus{Phase: phase}}
	}
	n := &notes{past: map[string]bool{}}
	n.written("1", version("2", api.BackupWaiting))
	n.written("2", version("3", api.BackupRunning))
	for _, v := range []string{"1", "2"} {
		if b := n.newest(version(v, "")); b.ResourceVersion != "3" || b.Status.Phase != api.BackupRunning {
			t.Errorf("of %s it has %s", v, b.ResourceVersion)
		}
	}
	if b := n.newest(version("4", api.BackupComplete)); b.ResourceVersion != "4" || n.latest != nil {
		t.Errorf("it has %s", b.ResourceVersion)
	}
}
