package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/sidecar/sidecartest"
)

// fault is a Backup and what happens to it, beside that the controller is killed all the
// time.
type fault struct {
	name    string
	spec    api.BackupSpec
	work    func(pod string) func(name string, full bool) sidecartest.Work
	absent  []string
	happens func(ctx context.Context, r *Ring, backup string) error
	ends    []api.BackupPhase
	timeout time.Duration // 10 min where it is 0
}

const size = 3

// takes is a backup that lasts.
func takes(d time.Duration) func(string) func(string, bool) sidecartest.Work {
	return func(string) func(string, bool) sidecartest.Work {
		return func(string, bool) sidecartest.Work {
			return sidecartest.Work{Before: 200 * time.Millisecond, Takes: d, Objects: 12, Bytes: 4096}
		}
	}
}

// of has one pod do something else.
func of(pod string, w sidecartest.Work) func(string) func(string, bool) sidecartest.Work {
	others := takes(time.Second)
	return func(name string) func(string, bool) sidecartest.Work {
		if name == pod {
			return func(string, bool) sidecartest.Work { return w }
		}
		return others(name)
	}
}

// running waits until the backup of the first pod runs.
func running(ctx context.Context, r *Ring, backup string) error {
	_, err := r.Until(ctx, backup, 3*time.Minute, "running", func(b *api.Backup) bool {
		return len(b.Status.Pods) > 0 && b.Status.Pods[0].Phase == api.PodBackupRunning || b.Status.Phase.Final()
	})
	return err
}

// again ends a pod while its backup runs, and runs the next of its name.
func again(ctx context.Context, r *Ring, backup, pod string) error {
	return errors.Join(running(ctx, r, backup), r.Node.End(ctx, r.Namespace, pod), r.Run(ctx, pod))
}

var (
	complete = []api.BackupPhase{api.BackupComplete}
	partial  = []api.BackupPhase{api.BackupPartial}
	failed   = []api.BackupPhase{api.BackupFailed}
)

var faults = []fault{
	{name: "nothing", work: takes(3 * time.Second), ends: complete},
	{name: "one at a time", spec: api.BackupSpec{Parallel: 1}, work: takes(time.Second), ends: complete},
	{name: "sidecar restarted", work: takes(5 * time.Second), ends: complete, happens: func(ctx context.Context, r *Ring, backup string) error {
		return errors.Join(running(ctx, r, backup), r.Node.Pod(r.Namespace, setName+"-0").Medusa.Restart())
	}},
	{name: "sidecar away", work: takes(5 * time.Second), ends: complete, happens: func(ctx context.Context, r *Ring, backup string) error {
		err := running(ctx, r, backup)
		m := r.Node.Pod(r.Namespace, setName+"-0").Medusa
		m.Kill()
		time.Sleep(15 * time.Second)
		return errors.Join(err, m.Run())
	}},
	{name: "storage down", work: takes(2 * time.Second), ends: complete, happens: func(ctx context.Context, r *Ring, backup string) error {
		err := running(ctx, r, backup)
		r.Storage.SetTrouble(errors.New("the bucket does not answer"))
		time.Sleep(time.Minute)
		r.Storage.SetTrouble(nil)
		return err
	}},
	{name: "pod made anew", work: takes(5 * time.Second), ends: complete, happens: func(ctx context.Context, r *Ring, backup string) error {
		return again(ctx, r, backup, setName+"-1")
	}},
	{name: "pod never comes", work: takes(time.Second), absent: []string{setName + "-2"}, timeout: 2 * time.Minute, ends: partial},
	{name: "pod vanishes", work: takes(20 * time.Second), timeout: 2 * time.Minute, ends: partial, happens: func(ctx context.Context, r *Ring, backup string) error {
		return errors.Join(running(ctx, r, backup), r.Node.End(ctx, r.Namespace, setName+"-1"))
	}},
	{name: "nothing in it", work: of(setName+"-1", sidecartest.Work{Takes: time.Second}), ends: partial},
	{name: "fails always", work: of(setName+"-1", sidecartest.Work{Takes: time.Second, Objects: 1, Bytes: 1, Fails: true}), ends: partial},
	{name: "never begins", work: of(setName+"-1", sidecartest.Work{Before: time.Second, NeverBegins: true}), ends: partial},
	{name: "all fail", work: func(string) func(string, bool) sidecartest.Work {
		return func(string, bool) sidecartest.Work { return sidecartest.Work{Takes: time.Second, Fails: true} }
	}, ends: failed},
	{name: "too slow", work: of(setName+"-1", sidecartest.Work{Takes: time.Hour, Objects: 1, Bytes: 1}), timeout: 2 * time.Minute, ends: partial},
	{name: "nobody there", work: takes(time.Second), absent: []string{setName + "-0", setName + "-1", setName + "-2"}, timeout: 20 * time.Second, ends: failed},
	{name: "cancelled", spec: api.BackupSpec{Parallel: 1}, work: takes(10 * time.Second), ends: []api.BackupPhase{api.BackupCancelled}, happens: func(ctx context.Context, r *Ring, backup string) error {
		err := running(ctx, r, backup)
		_, patched := r.Kubectl(ctx, nil, "-n", r.Namespace, "patch", "backup", backup, "--type=merge", "-p", `{"spec":{"cancel":true}}`)
		return errors.Join(err, patched)
	}},
}

// Whatever happens to a Backup, and with the controller killed after each of its steps
// and at random, it ends within its timeout, as what the storage has.
func TestFaults(t *testing.T) {
	ctx, e := start(t, 25*time.Minute)
	stop, killed := e.killing(ctx, t)
	var mutex sync.Mutex
	said := map[api.BackupPhase]int{}
	var all sync.WaitGroup
	for i, f := range faults {
		// As subtests they would be two at a time on two processors.
		all.Go(func() {
			namespace := fmt.Sprintf("fault-%02d", i)
			began := time.Now()
			b, err := e.play(ctx, namespace, f)
			if err != nil {
				t.Errorf("%s: %v; all of it is in %s", f.name, err, e.keep(context.WithoutCancel(ctx), namespace, namespace))
				return
			}
			t.Logf("%s: %s after %s: %s", f.name, b.Status.Phase, time.Since(began).Round(time.Second), b.Status.Message)
			mutex.Lock()
			defer mutex.Unlock()
			said[b.Status.Phase]++
		})
	}
	all.Wait()
	stop()
	if err := e.quiet(ctx); err != nil {
		t.Error(err)
	}
	figure(t, "%d Backups ended as what the storage has, each within its timeout: %v; the controller was killed %d times meanwhile; then no call in half a minute", len(faults), said, killed.Load())
}

// play has a fault happen.
func (e *Env) play(ctx context.Context, namespace string, f fault) (*api.Backup, error) {
	r, err := e.NewRing(ctx, namespace, size, f.work, f.absent...)
	if err != nil {
		return nil, err
	}
	if f.timeout == 0 {
		f.timeout = 10 * time.Minute
	}
	f.spec.Timeout = &metav1.Duration{Duration: f.timeout}
	if err := await(ctx, 3*time.Minute, "the Backup to be made", func(ctx context.Context) (bool, error) {
		err := client.IgnoreAlreadyExists(r.Ask(ctx, "b", f.spec))
		return err == nil, err
	}); err != nil {
		return nil, err
	}
	began := time.Now()
	if f.happens != nil {
		if err := f.happens(ctx, r, "b"); err != nil {
			return nil, err
		}
	}
	// Beyond it only as far as the controller is away.
	b, err := r.Ends(ctx, "b", time.Until(began.Add(f.timeout+2*time.Minute)))
	if err != nil {
		return b, err
	}
	return b, r.Judge(b, f.ends...)
}

// killing kills the controller each time that a Backup is as none has been seen before,
// and every few seconds; not so often that it could do nothing in between, as on a machine
// on which it takes long to start.
func (e *Env) killing(ctx context.Context, t *testing.T) (stop func(), killed *atomic.Int32) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	killed = &atomic.Int32{}
	var done sync.WaitGroup
	done.Go(func() {
		seen := map[string]bool{}
		last, starts := time.Now(), time.Duration(0)
		for ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond)
			fresh := false
			var list api.BackupList
			if err := e.Objects.List(ctx, &list); err != nil {
				continue
			}
			for i := range list.Items {
				state := stateOf(&list.Items[i])
				fresh = fresh || !seen[state]
				seen[state] = true
			}
			since := time.Since(last)
			if !fresh && since < max(4*time.Second, 2*starts) || since < max(1500*time.Millisecond, starts/2) {
				continue
			}
			began := time.Now()
			if err := errors.Join(e.Controller.Kill(), e.Controller.Start(context.WithoutCancel(ctx))); err != nil {
				t.Errorf("killing the controller: %v", err)
				return
			}
			killed.Add(1)
			last = time.Now()
			starts = last.Sub(began)
		}
	})
	return func() { cancel(); done.Wait() }, killed
}

// stateOf is how far a Backup is, without whose it is.
func stateOf(b *api.Backup) string {
	said := []string{string(b.Status.Phase)}
	for _, p := range b.Status.Pods {
		said = append(said, fmt.Sprintf("%s/%d", p.Phase, p.Tries))
	}
	slices.Sort(said[1:])
	return strings.Join(said, " ")
}

// quiet is an error where a sidecar is asked about a Backup that has ended.
func (e *Env) quiet(ctx context.Context) error {
	count := func() map[string]int {
		now := map[string]int{}
		for i := range faults {
			for p := range size {
				if pod := e.Node.Pod(fmt.Sprintf("fault-%02d", i), fmt.Sprintf("%s-%d", setName, p)); pod != nil {
					for method, n := range pod.Medusa.Calls() {
						now[method] += n
					}
				}
			}
		}
		return now
	}
	if count()["BackupStatus"] == 0 {
		return errors.New("no sidecar was ever asked")
	}
	var err error
	for range 3 { // what was under way comes to its end, and what goes on would go on
		asked := count()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(30 * time.Second):
		}
		err = nil
		now := count()
		for _, method := range []string{"AsyncBackup", "BackupStatus", "GetBackup"} {
			if now[method] != asked[method] {
				err = fmt.Errorf("%s was called %d times in half a minute after all had ended", method, now[method]-asked[method])
			}
		}
		if err == nil {
			return nil
		}
	}
	return err
}
