package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/test/cluster"
	"github.com/stategraft/stategraft/test/controlplane/rigged"
	"github.com/stategraft/stategraft/test/restore/simulated"
)

// Environment variables that the tests look at.
const (
	// InterruptionsEnv is how many interruptions there are to be.
	InterruptionsEnv = "STATEGRAFT_RESTORE_INTERRUPTIONS"
	// SeedEnv is the seed of their choice; a new one each time where it is not set.
	SeedEnv = "STATEGRAFT_SEED"
	// LogsEnv names the folder for what is kept of failed scenarios.
	LogsEnv = "STATEGRAFT_RESTORE_LOGS"
	// TimesEnv is for the command that runs several packages' tests.
	TimesEnv = "STATEGRAFT_RESTORE_TIMES"
)

// patience is how long is waited for what takes moments on an idle machine.
const patience = 3 * time.Minute

// Env is everything that runs: the control plane, two replicas of the webhook behind
// something that shares the calls out, the controller, and the simulated node.
type Env struct {
	*rigged.Rig
	Objects  client.WithWatch // the administrator's
	Node     *simulated.Node
	Witness  *simulated.Witness
	Timeline *simulated.Timeline

	second   *rigged.Webhook // its watch can be held back
	holder   *holder
	balancer *balancer
	cancel   context.CancelFunc
	running  sync.WaitGroup

	faults, holding sync.Mutex // one fault of processes at a time, and one of the watch
}

// Start starts everything. The caller has to call Stop.
func Start(ctx context.Context, log io.Writer, seed uint64) (_ *Env, err error) {
	// One controller, which need not wait for a lease after it was killed; what
	// two of them do, a test of its own shows.
	rig, err := rigged.Start(ctx, rigged.Options{Log: log, Controller: true, ControllerArgs: []string{"--leader-elect=false"}})
	if err != nil {
		return nil, err
	}
	e := &Env{Rig: rig, Timeline: &simulated.Timeline{}, cancel: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Stop(context.WithoutCancel(ctx)))
		}
	}()
	logf.SetLogger(logr.Discard()) // what clients log of themselves
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), api.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	if e.Objects, err = client.NewWithWatch(rig.Config(), client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	if err := e.addWebhook(ctx); err != nil {
		return nil, err
	}
	e.Witness = simulated.NewWitness(e.Timeline, e.restores)
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e.cancel = cancel
	e.running.Go(func() { e.watch(background) })
	e.Node, err = simulated.Start(ctx, rig.Client, e.Witness, e.Timeline, seed)
	return e, err
}

// addWebhook starts the second webhook, behind what can hold its watch back, and has
// both called.
func (e *Env) addWebhook(ctx context.Context) (err error) {
	server, err := url.Parse(e.Config().Host)
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	if e.holder, err = newHolder(server.Host); err != nil {
		return err
	}
	if e.balancer, err = newBalancer(); err != nil {
		return err
	}
	if e.second, err = e.AddWebhook(ctx, e.holder.url()); err != nil {
		return err
	}
	e.balancer.to(e.Webhook.Port(), e.second.Port())
	return e.Direct(ctx, e.balancer.port())
}

// Stop ends everything.
func (e *Env) Stop(ctx context.Context) error {
	e.cancel()
	if e.Node != nil {
		e.Node.Stop()
	}
	e.running.Wait()
	if e.holder != nil {
		e.holder.stop()
	}
	err := e.Rig.Stop(ctx)
	if e.balancer != nil {
		e.balancer.stop()
	}
	return err
}

// restores reads the Restores of a namespace.
func (e *Env) restores(ctx context.Context, namespace string) ([]api.Restore, error) {
	var list api.RestoreList
	for tries := 600; ; tries-- { // another scenario may restart the API server
		err := e.Objects.List(ctx, &list, client.InNamespace(namespace))
		if err == nil || tries == 0 || ctx.Err() != nil {
			return list.Items, err
		}
		pause(ctx, 300*time.Millisecond)
	}
}

// watch shows every version of every Restore to the witness.
func (e *Env) watch(ctx context.Context) {
	for ctx.Err() == nil {
		var list api.RestoreList
		if err := e.Objects.List(ctx, &list); err != nil {
			pause(ctx, 100*time.Millisecond)
			continue
		}
		for i := range list.Items {
			e.Witness.Restore(&list.Items[i], false)
		}
		w, err := e.Objects.Watch(ctx, &api.RestoreList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
		if err != nil {
			continue
		}
		for event := range w.ResultChan() {
			if r, ok := event.Object.(*api.Restore); ok {
				e.Witness.Restore(r, event.Type == "DELETED")
			}
		}
		w.Stop()
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// await polls until done answers true. Errors are those of an API server that is
// away, and are waited out; the last one is in the answer.
func (e *Env) await(ctx context.Context, limit time.Duration, what string, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, 60*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		ok, err := done(ctx)
		if err != nil {
			last = err
			return false, nil
		}
		last = nil
		return ok, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx)), last)
	}
	return nil
}

// try does something until it succeeds, as with an API server that is away.
func (e *Env) try(ctx context.Context, what string, do func(context.Context) error) error {
	return e.await(ctx, patience, what, func(ctx context.Context) (bool, error) {
		err := do(ctx)
		return err == nil, err
	})
}

// keep writes what explains a failure into a folder, which it answers.
func (e *Env) keep(ctx context.Context, name, namespace string) string {
	base := os.Getenv(LogsEnv)
	if base == "" {
		base = filepath.Join(os.TempDir(), "stategraft-restore-logs")
	}
	dir := filepath.Join(base, name+time.Now().Format("-20060102-150405.000"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err.Error()
	}
	write := func(file, text string) { _ = os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644) }
	write("timeline.txt", e.Timeline.Of(namespace))
	write("controller.log", e.Controller.Log())
	write("webhook-1.log", e.Webhook.Log())
	write("webhook-2.log", e.second.Log())
	for _, component := range []string{cluster.APIServer, cluster.ControllerManager, cluster.Scheduler} {
		if text, err := os.ReadFile(e.LogFile(component)); err == nil {
			write(component+".log", string(text))
		}
	}
	for file, args := range map[string][]string{
		"objects.yaml": {"-n", namespace, "get", "restores,statefulsets,pods", "-o", "yaml"},
		"events.txt":   {"-n", namespace, "get", "events", "--sort-by=.lastTimestamp", "-o", "wide"},
	} {
		out, err := e.Kubectl(ctx, nil, args...)
		if err != nil {
			out += "\n" + err.Error()
		}
		write(file, out)
	}
	return dir
}
