package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/test/controlplane/rigged"
)

// Environment variables that the tests look at.
const (
	// LogsEnv names the folder for what is kept of failed scenarios.
	LogsEnv = "STATEGRAFT_BACKUP_LOGS"
	// ScaleEnv is "full" for a thousand pods; a tenth of them otherwise.
	ScaleEnv = "STATEGRAFT_SCALE"
)

// Env is everything that runs: the control plane, the webhook, the controller, and the
// simulated sidecars.
type Env struct {
	*rigged.Rig
	Objects client.WithWatch // the administrator's
	Node    *Node
}

// Start starts everything. The caller has to call Stop.
func Start(ctx context.Context, log io.Writer) (_ *Env, err error) {
	// One controller, which need not wait for a lease after it was killed.
	rig, err := rigged.Start(ctx, rigged.Options{Log: log, Controller: true, ControllerArgs: []string{"--leader-elect=false"}})
	if err != nil {
		return nil, err
	}
	e := &Env{Rig: rig}
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
	config := rig.Config()
	config.QPS, config.Burst = 500, 1000
	if e.Objects, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	e.Node = NewNode(e.Objects)
	return e, nil
}

// Stop ends everything.
func (e *Env) Stop(ctx context.Context) error {
	if e.Node != nil {
		e.Node.Stop()
	}
	return e.Rig.Stop(ctx)
}

// await polls until done answers true. Errors are those of an API server that is
// away, and are waited out; the last one is in the answer.
func await(ctx context.Context, limit time.Duration, what string, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	for {
		ok, err := done(ctx)
		if ok && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx)), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// keep writes what explains a failure into a folder, which it answers.
func (e *Env) keep(ctx context.Context, name, namespace string) string {
	base := os.Getenv(LogsEnv)
	if base == "" {
		base = filepath.Join(os.TempDir(), "stategraft-backup-logs")
	}
	dir := filepath.Join(base, name+time.Now().Format("-20060102-150405.000"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err.Error()
	}
	objects, err := e.Kubectl(ctx, nil, "-n", namespace, "get", "backups,backupschedules,statefulsets,pods,events", "-o", "yaml")
	if err != nil {
		objects += err.Error()
	}
	for file, text := range map[string]string{"objects.yaml": objects, "controller.log": e.Controller.Log()} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			return err.Error()
		}
	}
	return dir
}
