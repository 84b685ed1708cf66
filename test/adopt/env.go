package adopt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/stategraft/stategraft/test/adopt/simulated"
	"github.com/stategraft/stategraft/test/adopt/witness"
	"github.com/stategraft/stategraft/test/controlplane/rigged"
)

// Environment variables that the tests look at.
const (
	// ScaleEnv is "full" for two hundred pods and many kills; a part of them otherwise.
	ScaleEnv = "STATEGRAFT_SCALE"
	// SeedEnv is the seed of what is left to chance; a new one each time where it is not
	// set.
	SeedEnv = "STATEGRAFT_SEED"
	// LogsEnv names the folder for what is kept of failed scenarios.
	LogsEnv = "STATEGRAFT_ADOPT_LOGS"
	// TimesEnv is for the command that runs several packages' tests.
	TimesEnv = "STATEGRAFT_ADOPT_TIMES"
)

// full tells whether all is asked for.
func full() bool { return os.Getenv(ScaleEnv) == "full" }

// Env is everything that runs: the control plane, the webhook, the controller, and the
// simulated nodes.
type Env struct {
	*rigged.Rig
	Kubelet *simulated.Kubelet
}

// Start starts everything. The caller has to call Stop.
func Start(ctx context.Context, log io.Writer) (*Env, error) {
	logf.SetLogger(logr.Discard()) // what clients log of themselves
	// One controller, which need not wait for a lease after it was killed.
	rig, err := rigged.Start(ctx, rigged.Options{Log: log, Controller: true, ControllerArgs: []string{"--leader-elect=false"}})
	if err != nil {
		return nil, err
	}
	e := &Env{Rig: rig, Kubelet: simulated.Start(ctx, rig.Client)}
	for i := range nodes {
		if err := e.Kubelet.AddNode(ctx, simulated.Node{Name: node(i)}); err != nil {
			return nil, errors.Join(err, e.Stop(context.WithoutCancel(ctx)))
		}
	}
	return e, nil
}

// nodes is how many there are that are as nodes should be.
const nodes = 20

func node(i int) string { return fmt.Sprintf("node-%02d", i%nodes) }

// Stop ends everything.
func (e *Env) Stop(ctx context.Context) error {
	e.Kubelet.Stop()
	return e.Rig.Stop(ctx)
}

// Witness has one look on at the pods of namespaces whose names begin so. clock is the
// controller's, nil for the usual one.
func (e *Env) Witness(ctx context.Context, prefix string, limits witness.Limits, clock simulated.Clock, allows func(*corev1.Pod) string) (w *witness.Witness, stop func(), err error) {
	w = witness.New(limits, allows)
	mine := func(pod *corev1.Pod) bool { return strings.HasPrefix(pod.Namespace, prefix) }
	stop, err = w.Follow(ctx, e.Client, mine, clock.Now)
	return w, stop, err
}

// AsController is a configuration for clients with the rights of the controller's account,
// which the policies of the chart go by.
func (e *Env) AsController(ctx context.Context) (*rest.Config, error) {
	const namespace, account = "stategraft", "stategraft-controller"
	token, err := e.Client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(24 * 60 * 60))}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("making a token for the controller's account: %w", err)
	}
	config := rest.AnonymousClientConfig(e.Config())
	config.BearerToken = token.Status.Token
	config.QPS, config.Burst = 500, 1000
	return config, nil
}

// await polls until done answers true. Errors are waited out; the last one is in the
// answer.
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
func (e *Env) keep(ctx context.Context, name string, namespaces ...string) string {
	base := os.Getenv(LogsEnv)
	if base == "" {
		base = filepath.Join(os.TempDir(), "stategraft-adopt-logs")
	}
	dir := filepath.Join(base, name+time.Now().Format("-20060102-150405.000"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err.Error()
	}
	files := map[string]string{"controller.log": e.Controller.Log()}
	for _, namespace := range namespaces {
		objects, err := e.Kubectl(ctx, nil, "-n", namespace, "get", "statefulsets,pods,events", "-o", "yaml")
		if err != nil {
			objects += err.Error()
		}
		files[namespace+".yaml"] = objects
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			return err.Error()
		}
	}
	return dir
}
